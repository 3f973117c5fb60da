//! What files say: lists, checksum lists, manifests, journals, netrc.

use std::io::Cursor;

use haul_digest::crc32c;
use haul_net::Netrc;
use haul_plan::Checksum;
use haul_transfer::list::{ChecksumList, DownloadList, ListFormat};
use haul_transfer::put::{PartPlan, kept_parts};
use haul_transfer::{fuzzing, metalink as metalinks};
use url::Url;

use crate::input;
use crate::names::assert_safe_path;

const LIST_FORMATS: [ListFormat; 6] = [
    ListFormat::Plain,
    ListFormat::Aria2,
    ListFormat::Csv,
    ListFormat::Tsv,
    ListFormat::JsonLines,
    ListFormat::Metalink,
];

/// A list. The first byte says in which format it is read: a digit selects one, anything else leaves it to the list.
pub(crate) fn list(data: &[u8]) {
    let Some((selector, bytes)) = data.split_first() else {
        return;
    };
    let format = LIST_FORMATS
        .get(usize::from(selector.wrapping_sub(b'0')))
        .copied();
    let source = Box::new(Cursor::new(bytes.to_vec()));
    for item in DownloadList::open(source, format, "the list") {
        match item {
            Ok(entry) => {
                for url in entry.mirrors.iter().chain([&entry.url]) {
                    assert!(matches!(url.scheme(), "http" | "https" | "s3"));
                }
                entry.path.iter().for_each(|path| assert_safe_path(path));
                entry
                    .directory
                    .iter()
                    .for_each(|path| assert_safe_path(path));
                entry.checksums.iter().for_each(assert_whole);
                assert!(entry.line >= 1 && entry.mirrors.len() <= 1000);
            }
            Err(bad) => {
                assert!(bad.line >= 1 && bad.excerpt.chars().count() <= 81, "{bad}");
                assert!(!bad.excerpt.contains(char::is_control), "{bad:?}");
            }
        }
    }
}

fn assert_whole(checksum: &Checksum) {
    let length = checksum.digest.as_ref().map(Vec::len);
    assert_eq!(length, Some(checksum.algorithm.digest_len()));
}

pub(crate) fn metalink(data: &[u8]) {
    let _ = metalinks::is_metalink(data);
    let Ok(document) = metalinks::parse(data) else {
        return;
    };
    assert!(document.files.len() <= metalinks::MAX_FILES);
    for file in document.files.into_iter().flatten() {
        assert_safe_path(&file.path);
        file.checksums.iter().for_each(assert_whole);
        assert!(file.mirrors.len() <= metalinks::MAX_URLS);
        assert!(file.mirrors.is_sorted_by_key(|mirror| mirror.priority));
        for mirror in &file.mirrors {
            assert!(matches!(mirror.url.scheme(), "http" | "https"));
            assert!((1..=999_999).contains(&mirror.priority));
        }
        let Some(pieces) = file.pieces else {
            continue;
        };
        let size = file.size.unwrap_or(u64::MAX);
        let (first, last) = (
            pieces.range(0, size),
            pieces.range(pieces.count() - 1, size),
        );
        assert!(first.start == 0 && first.end <= size && last.end <= size);
        assert!(
            pieces.digest(pieces.count() - 1).is_some() && pieces.digest(pieces.count()).is_none()
        );
    }
}

/// A list of digests: what is found of a file is found again in a list that is written anew.
pub(crate) fn checksum_list(data: &[u8]) {
    let list = ChecksumList::parse(data).expect("it is not too long");
    let Ok(found) = list.find(&["pub", "v1", "file.bin"]) else {
        return;
    };
    assert!((1..=8).contains(&found.len()));
    let mut printed = String::new();
    for checksum in &found {
        assert_whole(checksum);
        let digest = haul_digest::hex(checksum.digest.as_deref().unwrap_or_default());
        printed.extend([
            checksum.algorithm.name(),
            " (v1/file.bin) = ",
            &digest,
            "\n",
        ]);
    }
    let again = ChecksumList::parse(printed.as_bytes()).expect("it is not too long");
    assert_eq!(again.find(&["pub", "v1", "file.bin"]).as_ref(), Ok(&found));
}

/// A manifest, a table if the first byte is `c`: its rows are the same when they are written and read again, and what is behind the last
/// complete line does not count.
pub(crate) fn manifest(data: &[u8]) {
    let Some((selector, bytes)) = data.split_first() else {
        return;
    };
    let name = if *selector == b'c' {
        "m.csv"
    } else {
        "m.jsonl"
    };
    let Some((previous_runs, valid_bytes, rows)) = fuzzing::manifest(bytes, name) else {
        return;
    };
    let valid = usize::try_from(valid_bytes)
        .ok()
        .and_then(|valid| bytes.get(..valid))
        .expect("no more bytes than the file has");
    assert!(valid.is_empty() || valid.ends_with(b"\n"));
    if let Some((_, _, again)) = fuzzing::manifest(valid, name) {
        assert_eq!(again, rows);
    }
    for row in rows.iter().take(8) {
        if let Some(done) = previous_runs.done_row(&row.url, row.path.as_deref()) {
            assert_eq!((&done.url, &done.path), (&row.url, &row.path));
        }
    }
    let written = fuzzing::manifest_with(&rows, name);
    let (_, _, again) = fuzzing::manifest(&written, name).expect("a manifest");
    assert_eq!(again.len(), rows.len());
    for (row, again) in rows.iter().zip(&again) {
        let key = |row: &haul_transfer::manifest::ManifestRow| {
            (row.url.clone(), row.path.clone(), row.state, row.bytes)
        };
        assert_eq!(key(row), key(again));
    }
    assert_eq!(fuzzing::manifest_with(&again, name), written);
}

/// The lines of a journal with their right checksums, which a mutation has spoiled.
fn with_checksums(data: &[u8]) -> Vec<u8> {
    let mut journal = Vec::new();
    for line in data.split_inclusive(|byte| *byte == b'\n') {
        let (text, end) = match line.strip_suffix(b"\n") {
            Some(text) => (text, &b"\n"[..]),
            None => (line, &b""[..]),
        };
        let begin = text.iter().position(|byte| *byte == b'{').unwrap_or(0);
        let json = &text[begin..];
        journal.extend_from_slice(format!("{:08x} ", crc32c(json)).as_bytes());
        journal.extend_from_slice(json);
        journal.extend_from_slice(end);
    }
    journal
}

/// The journal of a download, as it is and with right checksums: claims lie within the file, and come from its complete records alone.
pub(crate) fn journal(data: &[u8]) {
    let url = Url::parse("http://h.example/file.bin").expect("a URL");
    for bytes in [data, &with_checksums(data)] {
        let Some(claims) = fuzzing::journal(bytes, &url) else {
            continue;
        };
        for range in &claims.ranges {
            assert!(!range.is_empty() && range.end <= claims.length, "{range:?}");
        }
        let records = usize::try_from(claims.journal_bytes)
            .ok()
            .and_then(|length| bytes.get(..length))
            .expect("no more bytes than the journal has");
        assert!(records.ends_with(b"\n"));
        assert_eq!(fuzzing::journal(records, &url), Some(claims));
    }
}

/// The journal of an upload, as it is and with right checksums: the parts that count are those of the file.
pub(crate) fn upload_journal(data: &[u8]) {
    for bytes in [data, &with_checksums(data)] {
        let Some((size, part_bytes, parts)) = fuzzing::upload_journal(bytes) else {
            continue;
        };
        let first_line = bytes.split_inclusive(|byte| *byte == b'\n').take(1);
        let lines = parts.iter().map(fuzzing::upload_line);
        let written: Vec<u8> = first_line
            .map(<[u8]>::to_vec)
            .chain(lines)
            .flatten()
            .collect();
        assert_eq!(
            fuzzing::upload_journal(&written),
            Some((size, part_bytes, parts.clone()))
        );
        let Ok(plan) = PartPlan::new(size, Some(part_bytes)) else {
            continue;
        };
        let kept = kept_parts(&plan, parts.clone(), &parts);
        let total: u64 = kept.values().map(|part| part.size).sum();
        assert!(
            total <= size
                && kept
                    .keys()
                    .all(|number| (1..=plan.count()).contains(number))
        );
    }
}

/// A netrc file: a host that is named has the login of its entry, whatever else the file has.
pub(crate) fn netrc(data: &[u8]) {
    let text = input::text(data);
    let Ok(netrc) = Netrc::parse(&text) else {
        return;
    };
    let login = netrc.login_by_name("h.example");
    if let Some(login) = &login {
        // Of the default, if that comes first.
        assert!(netrc.login("h.example").is_some());
        assert!(text.to_ascii_lowercase().contains("machine"));
        drop(netrc.password("h.example", &login.user));
    }
    let more = format!("{text}\nmachine h.example login other password other\n");
    if let (Some(login), Ok(more)) = (login, Netrc::parse(&more)) {
        assert_eq!(more.login_by_name("h.example"), Some(login));
    }
}
