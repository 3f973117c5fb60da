//! A folder for programs: a page as one JSON object, or all entries as one object each on a line.
//!
//! `name` is for display if it is not UTF-8; `href` is always exact: the escaped path from the
//! server's root. Files also have a `url`, so that the lines are a list for `haul get -i`.

use std::io;

use bytes::Bytes;
use serde::Serialize;

use super::FolderListing;
use super::display::DisplayUtc;
use super::text_chunks::text_chunks;
use crate::ObjectKey;
use crate::key::escaped_name;
use crate::store::{EntryKind, FolderEntries, FolderEntry};

/// Bytes after which a chunk is sent.
const CHUNK_BYTES: usize = 64 * 1024;

/// An entry of the listing.
#[derive(Serialize)]
struct JsonRow<'a> {
    /// With replacement characters for bytes that are not UTF-8.
    name: &'a str,
    /// The path to request.
    href: String,
    /// The absolute URL of a file, with the host that the client requested.
    url: Option<String>,
    #[serde(rename = "type")]
    kind: &'static str,
    /// Bytes; of files only.
    size: Option<u64>,
    /// RFC 3339, UTC, to the second.
    modified: String,
}

/// The rows of a page and what surrounds them.
enum JsonPageLine {
    Head,
    Row { entry: FolderEntry, is_first: bool },
    Tail,
}

/// The folder of the rows.
#[derive(Debug)]
struct FolderUrl {
    /// The path in a URL, with a slash at its end.
    path: String,
    /// The scheme and host of absolute URLs, if known.
    origin: Option<String>,
}

/// Renders a page as one object: `{"path", "total", "entries": [...], "next", "previous"}`.
/// `origin` is the scheme and host of absolute URLs, if known.
pub fn render(
    listing: FolderListing,
    origin: Option<String>,
) -> impl Iterator<Item = Bytes> + Send {
    let FolderListing { key, mut page, .. } = listing;
    let rows = std::mem::take(&mut page.entries)
        .into_iter()
        .enumerate()
        .map(|(index, entry)| JsonPageLine::Row {
            entry,
            is_first: index == 0,
        });
    let lines = std::iter::once(JsonPageLine::Head).chain(rows);
    let folder = FolderUrl {
        path: folder_path(&key),
        origin,
    };
    text_chunks(
        lines.chain([JsonPageLine::Tail]),
        move |out, line| match line {
            JsonPageLine::Head => {
                *out += "{\"path\":";
                *out += &json_string(
                    &String::from_utf8_lossy(&[b"/", key.as_bytes()].concat()),
                    !key.is_root(),
                );
                *out += ",\"href\":";
                *out += &json_string(&folder.path, false);
                *out += ",\"total\":";
                *out += &page.total.to_string();
                *out += ",\"entries\":[";
            }
            JsonPageLine::Row { entry, is_first } => {
                *out += if is_first { "\n" } else { ",\n" };
                *out += &json_row(&folder, &entry);
            }
            JsonPageLine::Tail => {
                let place = |cursor: Option<&crate::store::ListingCursor>| match cursor {
                    Some(cursor) => format!("\"{cursor}\""),
                    None => "null".to_owned(),
                };
                *out += "\n],\"next\":";
                *out += &place(page.next.as_ref());
                *out += ",\"previous\":";
                *out += &place(page.previous.as_ref());
                *out += "}\n";
            }
        },
    )
}

/// All entries of a folder, one object on each line, in chunks. Each step may wait for a disk.
///
/// An error ends it. The lines before it are complete, but some are missing, so the connection must
/// be closed early.
#[derive(Debug)]
pub struct JsonLines {
    entries: FolderEntries,
    folder: FolderUrl,
    /// Set by the end or an error.
    is_finished: bool,
}

impl JsonLines {
    /// Renders these entries. `origin` is the scheme and host of absolute URLs, if known.
    #[must_use]
    pub fn new(entries: FolderEntries, origin: Option<String>) -> Self {
        Self {
            folder: FolderUrl {
                path: folder_path(entries.key()),
                origin,
            },
            entries,
            is_finished: false,
        }
    }
}

impl Iterator for JsonLines {
    type Item = io::Result<Bytes>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut out = String::new();
        while !self.is_finished && out.len() < CHUNK_BYTES {
            match self.entries.next() {
                Some(Ok(entry)) => {
                    out += &json_row(&self.folder, &entry);
                    out.push('\n');
                }
                Some(Err(error)) => {
                    self.is_finished = true;
                    return Some(Err(error));
                }
                None => self.is_finished = true,
            }
        }
        (!out.is_empty()).then(|| Ok(Bytes::from(out)))
    }
}

/// The path of a folder in a URL, with a slash at its end.
fn folder_path(key: &ObjectKey) -> String {
    let mut path = key.escaped();
    if !path.ends_with('/') {
        path.push('/');
    }
    path
}

fn json_row(folder: &FolderUrl, entry: &FolderEntry) -> String {
    let (kind, slash) = match entry.kind {
        EntryKind::Folder => ("folder", "/"),
        EntryKind::File => ("file", ""),
        EntryKind::Other => ("other", ""),
    };
    let href = format!("{}{}{slash}", folder.path, escaped_name(&entry.name));
    let origin = folder
        .origin
        .as_deref()
        .filter(|_| entry.kind == EntryKind::File);
    let row = JsonRow {
        name: &String::from_utf8_lossy(&entry.name),
        url: origin.map(|origin| format!("{origin}{href}")),
        href,
        kind,
        size: (entry.kind == EntryKind::File).then_some(entry.len),
        modified: DisplayUtc(entry.modified).to_string(),
    };
    // Strings and numbers cannot fail to serialize.
    serde_json::to_string(&row).unwrap_or_default()
}

fn json_string(text: &str, with_slash: bool) -> String {
    let slash = if with_slash { "/" } else { "" };
    serde_json::Value::from(format!("{text}{slash}")).to_string()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, SystemTime};

    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::store::{FolderPage, OpenFolder, PageRequest, StoreRoot};

    fn listing(path: &str, entries: Vec<FolderEntry>) -> FolderListing {
        FolderListing {
            key: ObjectKey::parse(path).expect("a key").key,
            request: PageRequest::first(10),
            page: FolderPage {
                total: entries.len() as u64,
                entries,
                preceding: 0,
                next: None,
                previous: None,
            },
        }
    }

    fn object(listing: FolderListing) -> Value {
        let bytes: Vec<Bytes> = render(listing, Some("http://h".to_owned())).collect();
        serde_json::from_slice(&bytes.concat()).expect("JSON")
    }

    fn entry(name: &[u8], kind: EntryKind) -> FolderEntry {
        FolderEntry {
            name: name.to_vec(),
            kind,
            len: 3,
            modified: SystemTime::UNIX_EPOCH + Duration::from_secs(1),
        }
    }

    #[test]
    fn a_json_page_is_one_object() {
        let entries = vec![
            entry(b"sub dir", EntryKind::Folder),
            entry(b"f\xff\"", EntryKind::File),
        ];
        let mut page = listing("/a%20b/", entries);
        page.page.next = "AAEAAAAAAAAAAAAAAAAAAAAAYQ".parse().ok();
        let expected = serde_json::json!({
            "path": "/a b/",
            "href": "/a%20b/",
            "total": 2,
            "entries": [
                {"name": "sub dir", "href": "/a%20b/sub%20dir/", "url": null, "type": "folder", "size": null, "modified": "1970-01-01T00:00:01Z"},
                {"name": "f\u{fffd}\"", "href": "/a%20b/f%FF%22", "url": "http://h/a%20b/f%FF%22", "type": "file", "size": 3, "modified": "1970-01-01T00:00:01Z"},
            ],
            "next": "AAEAAAAAAAAAAAAAAAAAAAAAYQ",
            "previous": null,
        });
        assert_eq!(object(page), expected);
        let empty = object(listing("/", Vec::new()));
        assert_eq!(
            (&empty["path"], &empty["entries"]),
            (&"/".into(), &Value::Array(Vec::new()))
        );
    }

    #[test]
    fn json_lines_have_every_entry() {
        let top = tempfile::tempdir().expect("a directory");
        let mut expected: Vec<String> =
            (0..1000).map(|number| format!("file <{number}>")).collect();
        for name in &expected {
            std::fs::write(top.path().join(name), name).expect("a file");
        }
        let root = Arc::new(StoreRoot::open(top.path()).expect("a root"));
        let entries = OpenFolder::open(&root, ObjectKey::root())
            .and_then(|folder| Ok(folder.into_entries()?));
        let chunks: Vec<Bytes> = JsonLines::new(entries.expect("entries"), None)
            .map(|chunk| chunk.expect("a piece"))
            .collect();
        assert!(chunks.len() > 1 && chunks.iter().all(|chunk| chunk.ends_with(b"}\n")));
        let all = chunks.concat();
        let rows = all
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_slice::<Value>(line).expect("JSON"));
        let mut names: Vec<String> = rows
            .map(|row| row["name"].as_str().expect("a name").to_owned())
            .collect();
        names.sort();
        expected.sort();
        assert_eq!(names, expected);
    }

    proptest! {
        #[test]
        fn d1_hrefs_lead_back_to_the_key(name in prop::collection::vec(any::<u8>(), 1..30), is_folder: bool) {
            let folder = ObjectKey::parse("/x%3F/y").expect("a key").key;
            prop_assume!(folder.child(&name).is_ok());
            let kind = if is_folder { EntryKind::Folder } else { EntryKind::File };
            let page = object(listing("/x%3F/y", vec![entry(&name, kind)]));
            let href = page["entries"][0]["href"].as_str().expect("a path");
            let path = ObjectKey::parse(href).expect("a key");
            prop_assert_eq!((Ok(path.key), path.is_folder), (folder.child(&name), is_folder));
        }
    }
}
