//! Row C2 as properties: arbitrary bytes, and lists of every format as a simple writer makes them.

use std::fmt::Write as _;
use std::io::Cursor;

use haul_plan::{Checksum, DigestAlgorithm};
use proptest::prelude::*;
use url::Url;

use super::open;
use crate::list::*;

/// Fragments of lists, good and bad, of any format.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"http://h/f".to_vec()),
        Just(b"https://me:s3cret@h/f?token=s3cret".to_vec()),
        Just(b"url,path,size\n".to_vec()),
        Just(b"url\tsha256\n".to_vec()),
        Just(b"{\"url\":\"http://h/\"".to_vec()),
        Just(b"\"headers\":{\"Cookie\":\"s3cret\"}}".to_vec()),
        Just(b"  out=../x\n".to_vec()),
        Just(b"  header=A: s3cret\n".to_vec()),
        Just(b"\xef\xbb\xbf".to_vec()),
        Just(b"\xff\xfe".to_vec()),
        Just(b"\x1f\x8b\x08".to_vec()),
        Just(b"\x28\xb5\x2f\xfd".to_vec()),
        "[\n\r\t ,\"#={}\u{0}]{1,3}".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..8),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

const FORMATS: [ListFormat; 6] = [
    ListFormat::Plain,
    ListFormat::Aria2,
    ListFormat::Csv,
    ListFormat::Tsv,
    ListFormat::JsonLines,
    ListFormat::Metalink,
];

fn format() -> impl Strategy<Value = Option<ListFormat>> {
    prop_oneof![
        Just(None),
        prop::sample::select(FORMATS.to_vec()).prop_map(Some)
    ]
}

/// A safe path that every format can write.
fn path() -> impl Strategy<Value = std::path::PathBuf> {
    "[a-zä][a-z ,\"']{0,5}[a-z](/[a-z]{1,4}){0,2}".prop_map(Into::into)
}

fn checksum() -> impl Strategy<Value = Checksum> {
    (0..DigestAlgorithm::ALL.len(), any::<[u8; 64]>()).prop_map(|(which, seed)| {
        let algorithm = DigestAlgorithm::ALL[which];
        let digest = Some(seed[..algorithm.digest_len()].to_vec());
        Checksum { algorithm, digest }
    })
}

fn url() -> impl Strategy<Value = Url> {
    "https?://(me:pw@)?h[a-z]{0,3}(:8[0-9])?/[a-zA-Z0-9,;=&'%20]{0,8}(\\?[a-z]=[0-9,]{1,3})?"
        .prop_filter_map("no URL", |text| Url::parse(&text).ok())
}

/// An entry with fields that all formats have. The writer sets its line.
fn entry() -> impl Strategy<Value = ListEntry> {
    let beside = (prop::option::of(path()), prop::option::of(any::<u64>()));
    (
        url(),
        prop::collection::vec(url(), 0..3),
        beside,
        prop::option::of(checksum()),
    )
        .prop_map(|(url, mirrors, (path, size), checksum)| ListEntry {
            mirrors,
            path,
            size,
            checksums: checksum.into_iter().collect(),
            ..ListEntry::new(0, url)
        })
}

fn text_of(checksum: &Checksum) -> String {
    let digest = checksum.digest.iter().flatten();
    let hex = digest.map(|byte| format!("{byte:02x}")).collect::<String>();
    format!("{}:{hex}", checksum.algorithm)
}

/// Writes an entry in aria2's format, which has no size.
fn aria2(entry: &mut ListEntry, text: &mut String) {
    entry.size = None;
    let urls: Vec<&str> = std::iter::once(&entry.url)
        .chain(&entry.mirrors)
        .map(Url::as_str)
        .collect();
    writeln!(text, "{}", urls.join("\t")).unwrap();
    if let Some(path) = &entry.path {
        writeln!(text, "  out={}", path.display()).unwrap();
    }
    for checksum in &entry.checksums {
        writeln!(text, "\tchecksum={}", text_of(checksum)).unwrap();
    }
}

/// Writes an entry as CSV, which has no mirrors.
fn table(entry: &mut ListEntry, delimiter: char, text: &mut String) {
    entry.mirrors.clear();
    let path = entry
        .path
        .as_deref()
        .map_or_else(String::new, |path| path.display().to_string());
    let size = entry.size.map_or_else(String::new, |size| size.to_string());
    let checksum = entry.checksums.first().map(text_of).unwrap_or_default();
    let fields = [
        size,
        entry.url.to_string(),
        "two\nlines".to_owned(),
        path,
        checksum,
    ];
    let quoted = fields.map(|field| format!("\"{}\"", field.replace('"', "\"\"")));
    writeln!(text, "{}", quoted.join(&delimiter.to_string())).unwrap();
}

fn json(entry: &ListEntry, text: &mut String) {
    let mirrors: Vec<&str> = entry.mirrors.iter().map(Url::as_str).collect();
    let checksum = entry.checksums.first().map(text_of);
    let line = serde_json::json!({
        "url": entry.url.as_str(), "mirrors": mirrors, "path": entry.path, "size": entry.size, "checksum": checksum,
    });
    writeln!(text, "{line}").unwrap();
}

/// Writes a list. Changes each entry to what the format keeps of it, and sets its line.
fn write(entries: &mut [ListEntry], format: ListFormat) -> String {
    let mut text = match format {
        ListFormat::Csv => "size,url,caption,path,checksum\n".to_owned(),
        ListFormat::Tsv => "size\turl\tcaption\tpath\tchecksum\n".to_owned(),
        _ => String::new(),
    };
    for entry in entries {
        text.push('\n');
        entry.line = text.matches('\n').count() as u64 + 1;
        match format {
            ListFormat::Plain => {
                *entry = ListEntry::new(entry.line, entry.url.clone());
                writeln!(text, "{}", entry.url).unwrap();
            }
            ListFormat::Aria2 => aria2(entry, &mut text),
            ListFormat::Csv => table(entry, ',', &mut text),
            ListFormat::Tsv => table(entry, '\t', &mut text),
            ListFormat::JsonLines => json(entry, &mut text),
            ListFormat::Metalink => unreachable!("it has no lines"),
        }
    }
    text
}

/// Returns a few bytes at a time.
struct TrickleReader(Cursor<Vec<u8>>, usize);

impl Read for TrickleReader {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let most = buffer.len().min(self.1);
        self.0.read(&mut buffer[..most])
    }
}

proptest! {
    #[test]
    fn c2_written_lists_are_read_back(
        mut entries in prop::collection::vec(entry(), 0..8),
        which in 0_usize..5,
        is_given: bool,
        step in 1_usize..40,
    ) {
        let format = FORMATS[which];
        let text = write(&mut entries, format);
        // The format of an empty list cannot be detected, nor that tabs have no meaning.
        let detected = !is_given && format != ListFormat::Plain && !entries.is_empty();
        let source = TrickleReader(Cursor::new(text.clone().into_bytes()), step);
        let list = DownloadList::open(Box::new(source), (!detected).then_some(format), "list");
        prop_assert_eq!(list.format(), format);
        let read: Vec<ListEntry> = list.map(|item| item.unwrap()).collect();
        prop_assert_eq!(read, entries, "{}", text);
    }

    #[test]
    fn c2_any_bytes_are_read_in_order_and_to_their_end(bytes in hostile(), format in format(), compressed: bool) {
        let lines = bytes.iter().filter(|&&byte| byte == b'\n').count() as u64 + 1;
        let source = if compressed { zstd::encode_all(&bytes[..], 1).unwrap() } else { bytes.clone() };
        let items: Vec<_> = open(source, format).take(bytes.len() + 2).collect();
        prop_assert!(items.len() <= bytes.len() + 1);
        let mut last = 0;
        for item in &items {
            let line = match item {
                Ok(entry) => {
                    prop_assert!(matches!(entry.url.scheme(), "http" | "https"));
                    prop_assert!(entry.checksums.iter().all(|checksum| checksum.digest.is_some()));
                    entry.line
                }
                Err(bad) => {
                    prop_assert!(bad.excerpt.chars().count() <= 81);
                    prop_assert!(!bad.excerpt.contains(char::is_control));
                    bad.line
                }
            };
            // A compressed list that could not be read has no lines to count.
            let is_unreadable = !compressed && items.len() == 1;
            prop_assert!(line > last && (line <= lines || is_unreadable), "line {line} behind {last} of {lines}");
            last = line;
        }
    }

    #[test]
    fn c2_line_numbers_are_those_of_a_text_editor(lines in prop::collection::vec((0_usize..6, any::<bool>()), 0..30)) {
        let (mut text, mut good, mut bad) = (String::new(), Vec::new(), Vec::new());
        for (at, (kind, crlf)) in lines.iter().enumerate() {
            let number = at as u64 + 1;
            match kind {
                0 => good.push(number),
                1 => bad.push(number),
                _ => {}
            }
            text += ["http://h/f", "nonsense", "", "# http://h/f", " \t ", "#"][*kind];
            text += if *crlf { "\r\n" } else { "\n" };
        }
        let read = |format| -> (Vec<u64>, Vec<u64>) {
            let items = open(text.as_str(), format).partition::<Vec<_>, _>(Result::is_ok);
            let good = items.0.into_iter().map(|item| item.unwrap().line).collect();
            (good, items.1.into_iter().map(|item| item.unwrap_err().line).collect())
        };
        prop_assert_eq!(read(Some(ListFormat::Plain)), (good.clone(), bad.clone()));
        prop_assert_eq!(read(Some(ListFormat::Aria2)), (good, bad));
    }
}
