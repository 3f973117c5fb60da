//! Where a sequential body goes: perhaps a decoder, perhaps digests, then a file or a stream.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::content_decoder::{ContentDecoder, DecoderStage};
use crate::body_channel::ChannelSink;
use crate::checksum::{ComputedDigest, DigestSet};
use crate::disk::{PartialStorage, StreamSink, blocking};
use crate::response::ContentCoding;

/// Where bytes end.
#[derive(Debug)]
pub(super) enum PipeOutput {
    /// In a file, which can be begun again.
    File(Arc<dyn PartialStorage>),
    /// In a stream, which cannot.
    Stream(StreamSink),
    /// In a channel, which cannot either.
    Channel(ChannelSink),
    /// Nowhere any more: what a discarded decoder still holds must not reach the file.
    Detached,
}

impl PipeOutput {
    /// The path of a stream that has one.
    pub(super) fn path(&self) -> Option<&Path> {
        match self {
            Self::Stream(sink) => sink.path(),
            Self::File(_) | Self::Channel(_) | Self::Detached => None,
        }
    }
}

/// Decodes a body, hashes it and writes it to its output.
#[derive(Debug)]
pub(super) struct DecodePipe {
    /// Decodes the body, if it has a coding.
    decoder: BodyDecoder,
    /// The coding, for a new decoder when the body begins again.
    coding: Option<ContentCoding>,
    /// Bytes taken from bodies.
    received: u64,
}

#[derive(Debug)]
enum BodyDecoder {
    Plain(HashingWriter),
    Decoding(ContentDecoder<HashingWriter>),
}

/// Counts and hashes what is written to the output.
#[derive(Debug)]
struct HashingWriter {
    output: PipeOutput,
    digests: DigestSet,
    written: u64,
    /// Whether the output failed. If not, an error of the decoder is about the body.
    has_failed: bool,
}

impl HashingWriter {
    fn new(output: PipeOutput, digests: DigestSet) -> Self {
        Self {
            output,
            digests,
            written: 0,
            has_failed: false,
        }
    }

    /// Takes a piece as it arrived.
    fn write_chunk(&mut self, piece: Bytes) -> io::Result<()> {
        let done = self.write_to_output(piece);
        self.has_failed |= done.is_err();
        done
    }

    fn write_to_output(&mut self, piece: Bytes) -> io::Result<()> {
        match &mut self.output {
            PipeOutput::File(storage) => {
                storage.write_at(self.written, std::slice::from_ref(&piece))?
            }
            PipeOutput::Stream(sink) => sink.write(&piece)?,
            PipeOutput::Channel(sink) => sink.send(piece.clone())?,
            PipeOutput::Detached => return Err(io::ErrorKind::BrokenPipe.into()),
        }
        self.digests.update(&piece);
        self.written += piece.len() as u64;
        Ok(())
    }

    /// Everything is written: what is behind it in a file is of an earlier attempt.
    fn truncate(&mut self) -> io::Result<()> {
        match &self.output {
            PipeOutput::File(storage) if storage.length()? > self.written => {
                storage.set_len(self.written)
            }
            _ => Ok(()),
        }
    }
}

impl Write for HashingWriter {
    /// What a decoder made, in a buffer of its own.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_chunk(Bytes::copy_from_slice(bytes))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let done = match &mut self.output {
            PipeOutput::File(_) | PipeOutput::Channel(_) | PipeOutput::Detached => Ok(()),
            PipeOutput::Stream(sink) => sink.flush(),
        };
        self.has_failed |= done.is_err();
        done
    }
}

impl DecoderStage<Self> for HashingWriter {
    fn finish(&mut self) -> io::Result<()> {
        self.flush()
    }

    fn output(&self) -> &Self {
        self
    }

    fn output_mut(&mut self) -> &mut Self {
        self
    }
}

impl DecodePipe {
    /// A pipe that undoes `coding`, if one is named.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] for a coding that is not known.
    pub(super) fn new(
        output: PipeOutput,
        coding: Option<&ContentCoding>,
        hashers: DigestSet,
    ) -> io::Result<Self> {
        let writer = HashingWriter::new(output, hashers);
        Ok(Self {
            decoder: BodyDecoder::new(writer, coding)?,
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

    /// Takes the next bytes of a body, without stalling the reactor. The output has room for them ([`DecodePipe::is_full`]).
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] when the bytes are not valid in the coding; else the error of the system.
    pub(super) fn push(&mut self, bytes: Bytes) -> io::Result<()> {
        let count = bytes.len() as u64;
        match &mut self.decoder {
            // Nothing here may block, so it needs no thread.
            BodyDecoder::Plain(writer) if matches!(writer.output, PipeOutput::Channel(_)) => {
                writer.write_chunk(bytes)
            }
            BodyDecoder::Plain(writer) => blocking(|| writer.write_chunk(bytes)),
            BodyDecoder::Decoding(decoder) => {
                let done = blocking(|| decoder.write_all(&bytes));
                done.map_err(|error| body_error(decoder, error))
            }
        }?;
        self.received += count;
        Ok(())
    }

    /// Whether the output has no room for more: [`DecodePipe::wait_for_room`] waits for it.
    pub(super) fn is_full(&self) -> bool {
        matches!(&self.writer().output, PipeOutput::Channel(sink) if sink.is_full())
    }

    /// Waits until the output has room. Cancel safe.
    ///
    /// # Errors
    /// [`io::ErrorKind::BrokenPipe`] when a reader has closed it.
    pub(super) async fn wait_for_room(&mut self) -> io::Result<()> {
        match &mut self.decoder.writer_mut().output {
            PipeOutput::Channel(sink) => sink.wait_for_room().await,
            _ => Ok(()),
        }
    }

    /// Flushes what the decoder or the stream buffers, and cuts a file off behind it.
    ///
    /// # Errors
    /// As [`DecodePipe::push`]; a coding that ends in the middle is [`io::ErrorKind::InvalidData`].
    pub(super) fn flush_all(&mut self) -> io::Result<()> {
        blocking(|| match &mut self.decoder {
            BodyDecoder::Plain(writer) => writer.flush(),
            BodyDecoder::Decoding(decoder) => {
                let done = decoder.finish();
                done.map_err(|error| body_error(decoder, error))
            }
        })?;
        blocking(|| self.decoder.writer_mut().truncate())
    }

    /// Starts from the beginning again. Returns false if the output cannot.
    pub(super) fn rewind(&mut self) -> bool {
        if self.written() == 0 && self.received == 0 {
            return true;
        }
        let writer = self.decoder.writer_mut();
        if !matches!(writer.output, PipeOutput::File(_)) {
            return false;
        }
        // The state of a decoder cannot be reset, and a dropped decoder writes what it buffers: it is detached from the file before
        // another takes its place.
        let output = std::mem::replace(&mut writer.output, PipeOutput::Detached);
        let writer = HashingWriter::new(output, DigestSet::new(writer.digests.algorithms()));
        let Ok(decoder) = BodyDecoder::new(writer, self.coding.as_ref()) else {
            return false;
        };
        self.decoder = decoder;
        self.received = 0;
        true
    }

    /// The digests of what was written to the output.
    pub(super) fn into_digests(mut self) -> Vec<ComputedDigest> {
        let writer = self.decoder.writer_mut();
        std::mem::replace(&mut writer.digests, DigestSet::new([])).finish()
    }

    fn writer(&self) -> &HashingWriter {
        match &self.decoder {
            BodyDecoder::Plain(writer) => writer,
            BodyDecoder::Decoding(decoder) => decoder.output(),
        }
    }
}

impl BodyDecoder {
    fn new(writer: HashingWriter, coding: Option<&ContentCoding>) -> io::Result<Self> {
        Ok(match coding {
            None => Self::Plain(writer),
            Some(coding) => Self::Decoding(ContentDecoder::new(coding, writer)?),
        })
    }

    fn writer_mut(&mut self) -> &mut HashingWriter {
        match self {
            Self::Plain(writer) => writer,
            Self::Decoding(decoder) => decoder.output_mut(),
        }
    }
}

/// The error of a decoder as one about the body, unless the output failed. Decoders use several kinds for a wrong body.
fn body_error(decoder: &ContentDecoder<HashingWriter>, error: io::Error) -> io::Error {
    if decoder.output().has_failed {
        error
    } else {
        io::Error::new(io::ErrorKind::InvalidData, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::PartialFile;
    use flate2::Compression;
    use flate2::write::{GzEncoder, ZlibEncoder};

    fn encoded(coding: &ContentCoding, text: &[u8]) -> Vec<u8> {
        coding.steps().iter().fold(text.to_vec(), encoded_once)
    }

    fn encoded_once(text: Vec<u8>, coding: &ContentCoding) -> Vec<u8> {
        match coding {
            ContentCoding::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
                encoder.write_all(&text).unwrap();
                encoder.finish().unwrap()
            }
            ContentCoding::Deflate => {
                let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
                encoder.write_all(&text).unwrap();
                encoder.finish().unwrap()
            }
            ContentCoding::Zstd => zstd::encode_all(&text[..], 1).unwrap(),
            ContentCoding::Brotli => brotli_stored(&text),
            other => panic!("{other}"),
        }
    }

    /// A brotli stream of stored blocks (RFC 7932 9.2): there is no encoder here.
    fn brotli_stored(text: &[u8]) -> Vec<u8> {
        // A window of 22 bits is four bits, and the header of a stored block of up to 64 KiB is 20 bits: together three bytes, and
        // from the second block on four bits fewer.
        let mut stream = Vec::new();
        for (index, block) in text.chunks(1 << 16).enumerate() {
            let length = u32::try_from(block.len() - 1).unwrap();
            let header = length << 3 | 1 << 19;
            let header = match index {
                0 => header << 4 | 0b1011,
                _ => header,
            };
            stream.extend_from_slice(&header.to_le_bytes()[..3]);
            stream.extend_from_slice(block);
        }
        stream.push(0b11);
        stream
    }

    const CODINGS: [ContentCoding; 4] = [
        ContentCoding::Gzip,
        ContentCoding::Deflate,
        ContentCoding::Zstd,
        ContentCoding::Brotli,
    ];

    /// What a pipe makes of a body that arrives in chunks of `chunk_length`.
    fn decoded(coding: &ContentCoding, body: &[u8], chunk_length: usize) -> io::Result<Vec<u8>> {
        let dir = tempfile::tempdir().unwrap();
        let file = Arc::new(PartialFile::open(&dir.path().join("f")).unwrap());
        let mut pipe = DecodePipe::new(PipeOutput::File(file), Some(coding), DigestSet::new([]))?;
        for chunk in body.chunks(chunk_length) {
            pipe.push(Bytes::copy_from_slice(chunk))?;
        }
        pipe.flush_all()?;
        Ok(std::fs::read(dir.path().join("f")).unwrap())
    }

    #[test]
    fn a13_every_coding_is_decoded_in_any_pieces_and_in_rows() {
        let text = b"the same line again and again\n".repeat(10_000);
        let rows = [
            vec![ContentCoding::Deflate, ContentCoding::Gzip],
            vec![ContentCoding::Brotli, ContentCoding::Zstd],
            CODINGS.to_vec(),
        ]
        .map(ContentCoding::Several);
        for coding in CODINGS.iter().chain(&rows) {
            let body = encoded(coding, &text);
            for chunk_length in [1, 1_000, body.len()] {
                let found = decoded(coding, &body, chunk_length).unwrap();
                assert!(found == text, "{coding} in chunks of {chunk_length}");
            }
        }
    }

    #[test]
    fn a13_deflate_without_the_zlib_format_is_decoded() {
        let text = b"the same line again and again\n".repeat(10_000);
        for level in [
            Compression::none(),
            Compression::fast(),
            Compression::best(),
        ] {
            let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), level);
            encoder.write_all(&text).unwrap();
            let body = encoder.finish().unwrap();
            for chunk_length in [1, body.len()] {
                let found = decoded(&ContentCoding::Deflate, &body, chunk_length).unwrap();
                assert!(found == text);
            }
        }
    }

    #[test]
    fn a13_a_coding_that_ends_early_or_is_garbage_is_an_error_about_the_data() {
        let text = b"the same line again and again\n".repeat(10_000);
        for coding in &CODINGS {
            let body = encoded(coding, &text);
            let garbage = vec![0xff; body.len()];
            for wrong in [&body[..body.len() - 1], &body[..body.len() / 2], &garbage] {
                let error = decoded(coding, wrong, 1_000).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{coding}");
            }
        }
    }

    /// A decoder that is discarded has some of its output yet to write: none of it reaches the file that is begun again.
    #[test]
    fn a13_a_pipe_that_was_rewound_holds_only_what_came_since() {
        let text = b"the same line again and again\n".repeat(20_000);
        for coding in CODINGS {
            let dir = tempfile::tempdir().unwrap();
            let file = Arc::new(PartialFile::open(&dir.path().join("f")).unwrap());
            let mut pipe =
                DecodePipe::new(PipeOutput::File(file), Some(&coding), DigestSet::new([])).unwrap();
            let mut long = encoded(&coding, &text);
            long.pop();
            pipe.push(long.into()).unwrap();
            assert!(pipe.written() > 0);
            assert!(pipe.rewind());
            assert_eq!((pipe.written(), pipe.received()), (0, 0));
            pipe.push(encoded(&coding, b"short").into()).unwrap();
            pipe.flush_all().unwrap();
            assert_eq!(std::fs::read(dir.path().join("f")).unwrap(), b"short");
        }
    }
}
