//! Decompresses gzip and zstd lists while they are read. The first bytes tell the compression; sizes that the data
//! claim are not believed.

use std::io::{BufReader, Read};

use flate2::bufread::MultiGzDecoder;

use super::peek::PeekedReader;

/// Compressed bytes that are read at a time.
const BUFFER: usize = 64 << 10;

/// The largest window that a zstd list may need, as a power of two: 8 MiB, which RFC 8878 3.1.1.1.2 wants every decoder
/// to have and `zstd -19` keeps within. It bounds the memory that a hostile list can make haul use.
const MAX_WINDOW_LOG: u32 = 23;

/// The decompressed source and the name of its compression. Several members or frames in a row are one text.
pub(super) fn decompressed(
    source: Box<dyn Read + Send>,
) -> (Box<dyn Read + Send>, Option<&'static str>) {
    let front = PeekedReader::peek(source, 4, |bytes| {
        bytes.len() >= 4 || !may_be_compressed(bytes)
    });
    let is_gzip = is_gzip(front.peeked());
    let is_zstd = is_zstd(front.peeked());
    let buffered = BufReader::with_capacity(BUFFER, front);
    if is_gzip {
        (Box::new(MultiGzDecoder::new(buffered)), Some("gzip"))
    } else if is_zstd {
        (zstd_decoder(buffered), Some("zstd"))
    } else {
        (Box::new(buffered.into_inner()), None)
    }
}

/// Whether more bytes could turn this into the beginning of a compressed list. If not, nothing more is waited for: the
/// list may be typed.
fn may_be_compressed(bytes: &[u8]) -> bool {
    matches!(bytes.first(), None | Some(0x1f | 0x28 | 0x50..=0x5f))
}

/// RFC 1952 2.3.1.
fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b])
}

/// RFC 8878 3.1.1, or a skippable frame (3.1.2), which parallel compressors put in front.
fn is_zstd(bytes: &[u8]) -> bool {
    matches!(
        bytes,
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..]
    )
}

fn zstd_decoder(source: BufReader<PeekedReader>) -> Box<dyn Read + Send> {
    let decoder = zstd::Decoder::with_buffer(source).and_then(|mut decoder| {
        decoder.window_log_max(MAX_WINDOW_LOG)?;
        Ok(decoder)
    });
    match decoder {
        Ok(decoder) => Box::new(decoder),
        // The first read returns the error.
        Err(error) => Box::new(FailsOnce(Some(error))),
    }
}

/// A reader that fails once.
struct FailsOnce(Option<std::io::Error>);

impl Read for FailsOnce {
    fn read(&mut self, _buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}
