//! Where a sequential body goes: perhaps a decoder, perhaps digests, then a file or a stream.

use std::io::{self, Write};
use std::sync::Arc;

use bytes::Bytes;
use flate2::write::{MultiGzDecoder, ZlibDecoder};
use haul_plan::ContentCoding;

use crate::checksum::{ComputedDigest, DigestSet};
use crate::disk::{PartialStorage, StreamSink, blocking};

/// Where bytes end.
#[derive(Debug)]
pub(super) enum PipeOutput {
    /// In a file, which can be begun again.
    File(Arc<dyn PartialStorage>),
    /// In a stream, which cannot.
    Stream(StreamSink),
    /// Nowhere any more: what a discarded decoder still holds must not reach the file.
    Detached,
}

/// A body's way to its end.
#[derive(Debug)]
pub(super) struct DecodePipe {
    /// What undoes the coding, if any.
    decoder: BodyDecoder,
    /// Which coding that is, to begin again.
    coding: Option<ContentCoding>,
    /// Bytes taken from bodies.
    received: u64,
}

/// The decoder's place. Decoders write through as they go, so a small body that swells to gigabytes swells on the disk and
/// not in memory.
#[derive(Debug)]
enum BodyDecoder {
    Plain(HashingWriter),
    Gzip(Box<MultiGzDecoder<HashingWriter>>),
    Deflate(Box<ZlibDecoder<HashingWriter>>),
}

/// Counts and hashes what reaches the end.
#[derive(Debug)]
struct HashingWriter {
    output: PipeOutput,
    digests: DigestSet,
    written: u64,
}

impl HashingWriter {
    /// Takes a piece as it came.
    fn write_chunk(&mut self, piece: Bytes) -> io::Result<()> {
        match &mut self.output {
            PipeOutput::File(storage) => {
                storage.write_at(self.written, std::slice::from_ref(&piece))?
            }
            PipeOutput::Stream(sink) => sink.write(&piece)?,
            PipeOutput::Detached => return Err(io::ErrorKind::BrokenPipe.into()),
        }
        self.digests.update(&piece);
        self.written += piece.len() as u64;
        Ok(())
    }
}

impl Write for HashingWriter {
    /// What a decoder made, in a buffer of its own.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_chunk(Bytes::copy_from_slice(bytes))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.output {
            PipeOutput::File(_) | PipeOutput::Detached => Ok(()),
            PipeOutput::Stream(sink) => sink.flush(),
        }
    }
}

impl DecodePipe {
    /// A pipe that undoes `coding`, if one is named.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] for a coding that is not known.
    pub(super) fn new(
        end: PipeOutput,
        coding: Option<&ContentCoding>,
        hashers: DigestSet,
    ) -> io::Result<Self> {
        let tap = HashingWriter {
            output: end,
            digests: hashers,
            written: 0,
        };
        Ok(Self {
            decoder: BodyDecoder::new(tap, coding)?,
            coding: coding.cloned(),
            received: 0,
        })
    }

    /// Bytes taken from bodies so far.
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// Bytes that reached the end so far.
    pub(super) fn written(&self) -> u64 {
        self.writer().written
    }

    /// Takes the next bytes of a body, without stalling the reactor.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] or `InvalidInput` when they are not what the coding says; else what the system says.
    pub(super) fn push(&mut self, bytes: Bytes) -> io::Result<()> {
        let count = bytes.len() as u64;
        blocking(|| match &mut self.decoder {
            BodyDecoder::Plain(tap) => tap.write_chunk(bytes),
            BodyDecoder::Gzip(decoder) => decoder.write_all(&bytes).map_err(as_invalid_data),
            BodyDecoder::Deflate(decoder) => decoder.write_all(&bytes).map_err(as_invalid_data),
        })?;
        self.received += count;
        Ok(())
    }

    /// Hands on what a decoder or a stream holds back.
    ///
    /// # Errors
    /// As [`DecodePipe::push`]; a coding that ends in the middle is [`io::ErrorKind::InvalidData`].
    pub(super) fn flush_all(&mut self) -> io::Result<()> {
        blocking(|| match &mut self.decoder {
            BodyDecoder::Plain(tap) => tap.flush(),
            BodyDecoder::Gzip(decoder) => decoder
                .try_finish()
                .map_err(as_invalid_data)
                .and_then(|()| decoder.get_mut().flush()),
            BodyDecoder::Deflate(decoder) => decoder
                .try_finish()
                .map_err(as_invalid_data)
                .and_then(|()| decoder.get_mut().flush()),
        })
    }

    /// Goes back to the beginning; false where the end cannot.
    pub(super) fn rewind(&mut self) -> bool {
        if self.written() == 0 && self.received == 0 {
            return true;
        }
        let tap = self.decoder.writer_mut();
        let PipeOutput::File(storage) = &tap.output else {
            return false;
        };
        if blocking(|| storage.set_len(0)).is_err() {
            return false;
        }
        // A decoder holds state that cannot be wound back, and hands on the rest of it when it is dropped: it is cut off
        // from the file before a fresh one takes its place.
        let fresh = HashingWriter {
            output: std::mem::replace(&mut tap.output, PipeOutput::Detached),
            digests: DigestSet::new(tap.digests.algorithms()),
            written: 0,
        };
        let Ok(stage) = BodyDecoder::new(fresh, self.coding.as_ref()) else {
            return false;
        };
        self.decoder = stage;
        self.received = 0;
        true
    }

    /// The digests of what reached the end.
    pub(super) fn into_digests(self) -> Vec<ComputedDigest> {
        let tap = match self.decoder {
            BodyDecoder::Plain(tap) => Some(tap),
            BodyDecoder::Gzip(decoder) => decoder.finish().ok(),
            BodyDecoder::Deflate(decoder) => decoder.finish().ok(),
        };
        tap.map_or_else(Vec::new, |tap| tap.digests.finish())
    }

    fn writer(&self) -> &HashingWriter {
        match &self.decoder {
            BodyDecoder::Plain(tap) => tap,
            BodyDecoder::Gzip(decoder) => decoder.get_ref(),
            BodyDecoder::Deflate(decoder) => decoder.get_ref(),
        }
    }
}

impl BodyDecoder {
    fn new(tap: HashingWriter, coding: Option<&ContentCoding>) -> io::Result<Self> {
        Ok(match coding {
            None => Self::Plain(tap),
            Some(ContentCoding::Gzip) => Self::Gzip(Box::new(MultiGzDecoder::new(tap))),
            Some(ContentCoding::Deflate) => Self::Deflate(Box::new(ZlibDecoder::new(tap))),
            Some(other) => {
                return Err(io::Error::new(
                    io::ErrorKind::Unsupported,
                    format!("{other} is not known here"),
                ));
            }
        })
    }

    fn writer_mut(&mut self) -> &mut HashingWriter {
        match self {
            Self::Plain(tap) => tap,
            Self::Gzip(decoder) => decoder.get_mut(),
            Self::Deflate(decoder) => decoder.get_mut(),
        }
    }
}

/// The decoders say `InvalidInput` for what a peer sent; here that is bad data, not a bad call.
fn as_invalid_data(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::InvalidInput | io::ErrorKind::UnexpectedEof => {
            io::Error::new(io::ErrorKind::InvalidData, error)
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::PartialFile;
    use flate2::Compression;
    use flate2::write::{GzEncoder, ZlibEncoder};

    fn encoded(coding: &ContentCoding, text: &[u8]) -> Vec<u8> {
        if *coding == ContentCoding::Gzip {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(text).unwrap();
            return encoder.finish().unwrap();
        }
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    /// A decoder that is discarded has some of its output yet to write: none of it reaches the file that is begun again.
    #[test]
    fn a13_a_pipe_that_was_rewound_holds_only_what_came_since() {
        let text = b"the same line again and again\n".repeat(20_000);
        for coding in [ContentCoding::Gzip, ContentCoding::Deflate] {
            let dir = tempfile::tempdir().unwrap();
            let file = Arc::new(PartialFile::open(&dir.path().join("f")).unwrap());
            let end = PipeOutput::File(Arc::<PartialFile>::clone(&file));
            let mut pipe = DecodePipe::new(end, Some(&coding), DigestSet::new([])).unwrap();
            let mut long = encoded(&coding, &text);
            long.truncate(long.len() / 2);
            pipe.push(long.into()).unwrap();
            assert!(pipe.written() > 0);
            assert!(pipe.rewind());
            assert_eq!((file.length().unwrap(), pipe.received()), (0, 0));
            pipe.push(encoded(&coding, b"short").into()).unwrap();
            pipe.flush_all().unwrap();
            assert_eq!(std::fs::read(dir.path().join("f")).unwrap(), b"short");
        }
    }
}
