//! Decoders of content codings, stacked where a body has several of them.
//!
//! Decoders write through as they go, so a small body that swells to gigabytes swells on the disk and not in memory.

use std::fmt;
use std::io::{self, Write};

use brotli_decompressor::DecompressorWriter;
use flate2::write::MultiGzDecoder;
use flate2::{Decompress, FlushDecompress, Status};
use zstd::stream::raw::{DParameter, Decoder as ZstdDecoder};
use zstd::stream::zio::Writer as ZstdWriter;

use crate::response::ContentCoding;

/// Bytes that a decoder hands on at once.
const BUFFER_BYTES: usize = 32 * 1024;

/// The largest window of zstd as a content coding: 8 MiB (RFC 9659).
const ZSTD_WINDOW_LOG: u32 = 23;

/// A decoder, or the output `W` below all of them.
pub(super) trait DecoderStage<W>: Write + Send {
    /// Hands on everything, and checks that the coding ends here.
    fn finish(&mut self) -> io::Result<()>;

    fn output(&self) -> &W;

    fn output_mut(&mut self) -> &mut W;
}

type BoxedStage<W> = Box<dyn DecoderStage<W>>;

/// The decoders of a body.
pub(super) struct ContentDecoder<W>(BoxedStage<W>);

impl<W: DecoderStage<W> + 'static> ContentDecoder<W> {
    /// Decoders that write to `output`.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] for an unknown coding.
    pub(super) fn new(coding: &ContentCoding, output: W) -> io::Result<Self> {
        let mut stage: BoxedStage<W> = Box::new(output);
        // The first coding was applied first, and is decoded last.
        for step in coding.steps() {
            stage = match step {
                ContentCoding::Gzip => Box::new(MultiGzDecoder::new(stage)),
                ContentCoding::Deflate => Box::new(DeflateStage::new(stage)),
                ContentCoding::Brotli => Box::new(DecompressorWriter::new(stage, BUFFER_BYTES)),
                ContentCoding::Zstd => {
                    let mut decoder = ZstdDecoder::new()?;
                    decoder.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG))?;
                    Box::new(ZstdWriter::new(stage, decoder))
                }
                ContentCoding::Several(_) | ContentCoding::Other(_) => {
                    return Err(io::Error::new(
                        io::ErrorKind::Unsupported,
                        format!("{coding} is not known here"),
                    ));
                }
            };
        }
        Ok(Self(stage))
    }
}

impl<W> ContentDecoder<W> {
    pub(super) fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.0.finish()
    }

    pub(super) fn output(&self) -> &W {
        self.0.output()
    }

    pub(super) fn output_mut(&mut self) -> &mut W {
        self.0.output_mut()
    }
}

impl<W> fmt::Debug for ContentDecoder<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContentDecoder").finish_non_exhaustive()
    }
}

impl<W> DecoderStage<W> for MultiGzDecoder<BoxedStage<W>> {
    fn finish(&mut self) -> io::Result<()> {
        self.try_finish()?;
        self.get_mut().finish()
    }

    fn output(&self) -> &W {
        self.get_ref().output()
    }

    fn output_mut(&mut self) -> &mut W {
        self.get_mut().output_mut()
    }
}

impl<W> DecoderStage<W> for DecompressorWriter<BoxedStage<W>> {
    fn finish(&mut self) -> io::Result<()> {
        self.close()?;
        self.get_mut().finish()
    }

    fn output(&self) -> &W {
        self.get_ref().output()
    }

    fn output_mut(&mut self) -> &mut W {
        self.get_mut().output_mut()
    }
}

impl<W> DecoderStage<W> for ZstdWriter<BoxedStage<W>, ZstdDecoder<'static>> {
    fn finish(&mut self) -> io::Result<()> {
        Self::finish(self)?;
        self.writer_mut().finish()
    }

    fn output(&self) -> &W {
        self.writer().output()
    }

    fn output_mut(&mut self) -> &mut W {
        self.writer_mut().output_mut()
    }
}

/// `deflate`. By RFC 9110 that is the zlib format (RFC 1950); some servers send the bare format (RFC 1951), and clients have always
/// accepted both.
struct DeflateStage<W> {
    /// The first bytes, until there are enough of them to tell the formats apart.
    start: Vec<u8>,
    /// `None` until the format is known.
    decompress: Option<Decompress>,
    has_ended: bool,
    buffer: Vec<u8>,
    next: BoxedStage<W>,
}

impl<W> DeflateStage<W> {
    fn new(next: BoxedStage<W>) -> Self {
        Self {
            start: Vec::new(),
            decompress: None,
            has_ended: false,
            buffer: Vec::with_capacity(BUFFER_BYTES),
            next,
        }
    }

    fn decompress(&mut self, mut input: &[u8]) -> io::Result<()> {
        let Some(decompress) = &mut self.decompress else {
            return Ok(());
        };
        while !self.has_ended {
            let (taken, made) = (decompress.total_in(), decompress.total_out());
            self.buffer.clear();
            let status =
                decompress.decompress_vec(input, &mut self.buffer, FlushDecompress::None)?;
            self.next.write_all(&self.buffer)?;
            let taken = usize::try_from(decompress.total_in() - taken).unwrap_or(usize::MAX);
            input = input.get(taken..).unwrap_or_default();
            self.has_ended = status == Status::StreamEnd;
            let is_stuck = taken == 0 && decompress.total_out() == made;
            if is_stuck {
                return Ok(());
            }
        }
        Ok(())
    }
}

impl<W> Write for DeflateStage<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.decompress.is_some() {
            self.decompress(bytes)?;
            return Ok(bytes.len());
        }
        self.start.extend_from_slice(bytes);
        if let [first, second, ..] = self.start[..] {
            self.decompress = Some(Decompress::new(is_zlib_header(first, second)));
            let start = std::mem::take(&mut self.start);
            self.decompress(&start)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.next.flush()
    }
}

impl<W> DecoderStage<W> for DeflateStage<W> {
    fn finish(&mut self) -> io::Result<()> {
        if !self.has_ended {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.next.finish()
    }

    fn output(&self) -> &W {
        self.next.output()
    }

    fn output_mut(&mut self) -> &mut W {
        self.next.output_mut()
    }
}

/// RFC 1950 2.2: method 8, and a check. A bare deflate stream that begins like this would be a stored block with padding that no
/// program writes.
fn is_zlib_header(first: u8, second: u8) -> bool {
    first & 0x0f == 8 && first >> 4 <= 7 && u16::from_be_bytes([first, second]).is_multiple_of(31)
}
