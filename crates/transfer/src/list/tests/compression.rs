//! Row C1: long and compressed lists are read while they come. Sources and compressions that break off are errors.

use std::error::Error as _;
use std::fmt::Write as _;
use std::io::{self, Cursor, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::open;
use crate::list::*;

pub(super) fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

pub(super) fn zstd(text: &[u8]) -> Vec<u8> {
    zstd::encode_all(text, 1).unwrap()
}

/// A URL for each number, a line each, with text that does not compress.
fn numbered(range: std::ops::Range<u64>) -> Vec<u8> {
    let mut text = String::new();
    for n in range {
        let noise = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        writeln!(text, "http://h{}.test/{n}?{noise:x}", n % 100).unwrap();
    }
    text.into_bytes()
}

struct CountingReader<R>(R, Arc<AtomicU64>);

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.0.read(buffer)?;
        self.1.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

#[test]
fn c1_a_list_is_read_while_it_comes_compressed_or_not() {
    const LINES: u64 = 40_000;
    let text = numbered(0..LINES);
    let skippable = [
        &[0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 1, 2][..],
        &zstd(&text),
    ]
    .concat();
    let sources = [
        text.clone(),
        gzip(&text),
        // Several members and frames, cut within a line.
        [gzip(&text[..1_000_003]), gzip(&text[1_000_003..])].concat(),
        zstd(&text),
        [zstd(&text[..1_000_003]), zstd(&text[1_000_003..])].concat(),
        skippable,
    ];
    for source in sources {
        let (whole, read) = (source.len() as u64, Arc::new(AtomicU64::new(0)));
        let counted = CountingReader(Cursor::new(source), Arc::clone(&read));
        let mut list = DownloadList::open(Box::new(counted), None, "list");
        assert_eq!(list.next().unwrap().unwrap().line, 1);
        let begun = read.load(Ordering::Relaxed);
        assert!(begun <= 300_000 && begun < whole, "{begun} of {whole}");
        for n in 1..LINES {
            let entry = list.next().unwrap().unwrap();
            assert_eq!(entry.line, n + 1);
            assert!(n % 1000 != 0 || entry.url.path() == format!("/{n}"));
        }
        assert!(list.next().is_none());
    }
}

#[test]
fn c1_a_typed_line_is_an_entry_at_once() {
    /// Returns one typed line a call, and fails when more is read than was typed.
    struct TypedReader(Vec<&'static str>);
    impl Read for TypedReader {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let no_more = || io::Error::other("asked for more");
            let line = self.0.pop().ok_or_else(no_more)?;
            let (now, later) = line.split_at(line.len().min(buffer.len()));
            self.0.extend(Some(later).filter(|later| !later.is_empty()));
            buffer[..now.len()].copy_from_slice(now.as_bytes());
            Ok(now.len())
        }
    }
    let mut list = DownloadList::open(
        Box::new(TypedReader(vec!["http://h/1\n"])),
        Some(ListFormat::Plain),
        "-",
    );
    assert!(list.next().unwrap().is_ok());
    assert!(matches!(
        list.next().unwrap().unwrap_err().problem,
        BadLineProblem::Read(_)
    ));
    assert!(list.next().is_none());
    let mut list = DownloadList::open(
        Box::new(TypedReader(vec!["http://h/2\n", "http://h/1\n"])),
        None,
        "-",
    );
    assert_eq!(list.next().unwrap().unwrap().line, 1);
    // Options may follow the second entry, but the error hides them.
    let cut = list.next().unwrap().unwrap_err();
    assert!(cut.line == 2 && matches!(cut.problem, BadLineProblem::Truncated));
    let bad = list.next().unwrap().unwrap_err();
    assert!(bad.line == 3 && matches!(bad.problem, BadLineProblem::Read(_)));
    assert!(list.next().is_none());
}

#[test]
fn c2_a_compressed_list_that_breaks_off_is_an_error_and_no_half_line_an_entry() {
    let text = numbered(0..20_000);
    let lines: Vec<&str> = str::from_utf8(&text).unwrap().lines().collect();
    for (compression, whole) in [("gzip", gzip(&text)), ("zstd", zstd(&text))] {
        let mut damaged = whole.clone();
        let middle = damaged.len() / 2;
        damaged[middle..middle + 32].fill(0xaa);
        let garbage = [&whole[..], b"http://h/appended\n"].concat();
        let cut = |at: usize| whole[..at].to_vec();
        for (which, source) in [cut(middle), cut(whole.len() - 1), damaged, garbage]
            .into_iter()
            .enumerate()
        {
            let mut items: Vec<_> = open(source, Some(ListFormat::Plain)).collect();
            let bad = items.pop().unwrap().unwrap_err();
            let problem = bad.source().unwrap().to_string();
            assert_eq!(
                problem,
                format!("the list's {compression} data are damaged or incomplete")
            );
            // Damage may change lines before the decoder's checksum finds it. A cut may not.
            if which == 2 {
                continue;
            }
            assert_eq!(bad.line, items.len() as u64 + 1, "{compression} {which}");
            assert!(!items.is_empty());
            for item in items {
                let entry = item.unwrap();
                let line = usize::try_from(entry.line).unwrap();
                assert_eq!(entry.url.as_str(), lines[line - 1]);
            }
        }
    }
}

#[test]
fn c2_a_read_error_is_not_taken_for_damaged_compression() {
    struct FailingReader;
    impl Read for FailingReader {
        fn read(&mut self, _buffer: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::from_raw_os_error(5))
        }
    }
    let source = Cursor::new("http://h/1\n\n  ou").chain(FailingReader);
    let items = DownloadList::open(Box::new(source), None, "list");
    let lines: Vec<u64> = items.map(|item| item.unwrap_err().line).collect();
    assert_eq!(lines, [1, 3]);
    let text = gzip(&numbered(0..20_000));
    let source = Cursor::new(text[..text.len() / 2].to_vec()).chain(FailingReader);
    let bad = DownloadList::open(Box::new(source), None, "list")
        .last()
        .unwrap()
        .unwrap_err();
    assert!(matches!(bad.problem, BadLineProblem::Read(_)), "{bad:?}");
    let bad = DownloadList::open(Box::new(FailingReader), None, "list")
        .next()
        .unwrap()
        .unwrap_err();
    assert!(bad.line == 1 && matches!(bad.problem, BadLineProblem::Read(_)));
}

#[test]
fn c1_a_compression_bomb_is_read_in_bounded_memory() {
    // A line of 8 MiB and as many blank lines, in a few kilobytes.
    let mut bomb = b"http://h/1\n".to_vec();
    bomb.resize(8 << 20, b'x');
    bomb.push(b'\n');
    bomb.resize(16 << 20, b'\n');
    bomb.extend(b"http://h/2\n");
    for packed in [gzip(&bomb), zstd(&bomb)] {
        assert!(packed.len() < 1 << 20);
        let items: Vec<_> = open(packed, None).collect();
        assert_eq!(items.len(), 3);
        assert!(matches!(
            items[1].as_ref().unwrap_err().problem,
            BadLineProblem::LineTooLong { .. }
        ));
        assert_eq!(items[2].as_ref().unwrap().url.path(), "/2");
    }
    // A large window is refused before its memory is reserved.
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(27).unwrap();
    encoder.write_all(&vec![b'\n'; 1 << 20]).unwrap();
    let wide = encoder.finish().unwrap();
    let bad = open(wide, None).next().unwrap().unwrap_err();
    assert!(matches!(
        bad.problem,
        BadLineProblem::DamagedCompression { .. }
    ));
}
