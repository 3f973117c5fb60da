//! Listings of real directories, compared with a model.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::Path;

use std::time::Duration;

use proptest::prelude::*;
use rustix::fs::Mode;

use super::*;

/// Opens a folder beneath `top`, the root.
fn folder(top: &Path, path: &str) -> OpenFolder {
    let root = Arc::new(StoreRoot::open(top).expect("a root"));
    let key = ObjectKey::parse(path).expect("a key").key;
    OpenFolder::open(&root, key).expect("a folder")
}

fn names(page: &FolderPage) -> Vec<String> {
    let names = page.entries.iter().map(|entry| &entry.name);
    names.map(|name| name.escape_ascii().to_string()).collect()
}

fn touch(path: &Path, len: u64, modified: u64) {
    let file = fs::File::create(path).expect("a file");
    file.set_len(len).expect("its length");
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(modified);
    file.set_modified(time).expect("its time");
}

/// Files and folders whose sizes and times are often equal.
fn arb_entries() -> impl Strategy<Value = Vec<(Vec<u8>, bool, u64, u64)>> {
    // Many names hold numbers, some of them equal but for zeros.
    let byte = prop_oneof![any::<u8>(), prop::sample::select(b"0012aA".to_vec())];
    let name = prop::collection::vec(byte, 1..6);
    let entry = (name, any::<bool>(), 0..3_u64, 1..4_u64);
    prop::collection::vec(entry, 0..24).prop_map(|entries| {
        let mut entries = entries;
        entries.retain(|(name, ..)| {
            !name.iter().any(|byte| matches!(byte, 0 | b'/')) && !matches!(&name[..], b"." | b"..")
        });
        entries.sort();
        entries.dedup_by(|a, b| a.0 == b.0);
        entries
    })
}

/// All pages, forwards and then backwards.
fn walk(folder: &OpenFolder, mut request: PageRequest) -> (Vec<FolderPage>, Vec<FolderPage>) {
    let (mut there, mut back) = (Vec::new(), Vec::new());
    loop {
        let page = folder.page(&request).expect("a page");
        let next = page.next.clone();
        there.push(page);
        match next {
            Some(cursor) => {
                request.start = PageStart::After(cursor.to_string().parse().expect("a cursor"))
            }
            None => break,
        }
    }
    let mut previous = there.last().and_then(|page| page.previous.clone());
    while let Some(cursor) = previous {
        request.start = PageStart::Before(cursor);
        let page = folder.page(&request).expect("a page");
        previous = page.previous.clone();
        back.push(page);
    }
    (there, back)
}

fn sorted(mut all: Vec<FolderEntry>, sort: SortKey, descending: bool) -> Vec<FolderEntry> {
    // Stable sorts, the least important first.
    all.sort_by(|a, b| order::compare_names(&a.name, &b.name));
    let compare = |a: &FolderEntry, b: &FolderEntry| match sort {
        SortKey::Name => order::compare_names(&a.name, &b.name),
        SortKey::Size => a.len.cmp(&b.len),
        SortKey::Modified => a.modified.cmp(&b.modified),
    };
    all.sort_by(|a, b| {
        if descending {
            compare(b, a)
        } else {
            compare(a, b)
        }
    });
    all.sort_by_key(|entry| entry.kind != EntryKind::Folder);
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn d12_pages_show_every_entry_once_and_in_order(
        entries in arb_entries(),
        limit in 1..9_usize,
        sort in prop::sample::select(vec![SortKey::Name, SortKey::Size, SortKey::Modified]),
        descending: bool,
    ) {
        let top = tempfile::tempdir().expect("a directory");
        for (name, is_folder, len, modified) in &entries {
            let path = top.path().join(std::ffi::OsStr::from_bytes(name));
            if *is_folder {
                fs::create_dir(path).expect("a folder");
            } else {
                touch(&path, *len, *modified);
            }
        }
        let all: Vec<FolderEntry> = folder(top.path(), "/").into_entries().expect("entries").map(|entry| entry.expect("an entry")).collect();
        prop_assert_eq!(all.len(), entries.len());
        let model = sorted(all, sort, descending);

        let request = PageRequest { sort, descending, start: PageStart::First, limit };
        let (there, back) = walk(&folder(top.path(), "/"), request);
        let record: Vec<FolderEntry> = there.iter().flat_map(|page| page.entries.clone()).collect();
        prop_assert_eq!(&record, &model);
        let mut ahead = 0;
        for page in &there {
            prop_assert_eq!((page.total, page.preceding), (model.len() as u64, ahead));
            prop_assert!(page.entries.len() == limit || page.next.is_none());
            ahead += page.entries.len() as u64;
        }
        // Backwards from the last page: the same entries without that page, and each page knows its
        // position.
        let before: Vec<FolderEntry> = back.iter().rev().flat_map(|page| page.entries.clone()).collect();
        let last = there.last().map_or(0, |page| page.entries.len());
        prop_assert_eq!(&before[..], &model[..model.len() - last]);
        let mut ahead = before.len() as u64;
        for page in &back {
            ahead -= page.entries.len() as u64;
            prop_assert_eq!(page.preceding, ahead);
            prop_assert!(page.next.is_some());
        }
    }
}

#[test]
fn d12_fifty_thousand_entries_are_listed_in_pages() {
    // Files with one inode, as creating many is slow.
    let top = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let first = top.path().join("00000");
    touch(&first, 3, 3);
    for number in 1..50_000 {
        fs::hard_link(&first, top.path().join(format!("{number:05}"))).expect("a link");
    }
    let folder = folder(top.path(), "/");
    for sort in [SortKey::Name, SortKey::Size] {
        let mut request = PageRequest {
            sort,
            ..PageRequest::first(20_000)
        };
        let mut next = 0;
        while let Some(page) = (next < 50_000).then(|| folder.page(&request).expect("a page")) {
            assert_eq!((page.total, page.preceding), (50_000, next));
            for entry in &page.entries {
                assert_eq!(entry.name, format!("{next:05}").into_bytes());
                next += 1;
            }
            request.start = page.next.map_or(PageStart::First, PageStart::After);
        }
        assert_eq!((next, &request.start), (50_000, &PageStart::First));
    }
    assert_eq!(folder.into_entries().expect("entries").count(), 50_000);
}

#[test]
fn the_next_page_continues_after_a_deleted_entry() {
    let top = tempfile::tempdir().expect("a directory");
    for name in ["a", "b", "c", "d"] {
        touch(&top.path().join(name), 1, 1);
    }
    let folder = folder(top.path(), "/");
    let mut request = PageRequest::first(2);
    let page = folder.page(&request).expect("a page");
    assert_eq!(names(&page), ["a", "b"]);
    fs::remove_file(top.path().join("b")).expect("removed");
    touch(&top.path().join("bb"), 1, 1);
    request.start = PageStart::After(page.next.expect("more"));
    assert_eq!(names(&folder.page(&request).expect("a page")), ["bb", "c"]);
}

#[test]
fn d2_links_are_listed_as_their_targets_beneath_the_root() {
    let all = tempfile::tempdir().expect("a directory");
    let top = all.path().join("root");
    fs::create_dir_all(top.join("in/side")).expect("folders");
    touch(&all.path().join("secret"), 99, 1);
    touch(&top.join("file"), 5, 7);
    symlink("../file", top.join("in/good")).expect("a link");
    symlink("side", top.join("in/folder")).expect("a link");
    symlink("../../secret", top.join("in/out")).expect("a link");
    symlink(all.path().join("secret"), top.join("in/absolute")).expect("a link");
    symlink("gone", top.join("in/gone")).expect("a link");
    symlink("loop", top.join("in/loop")).expect("a link");
    let folder = folder(&top, "/in/");
    for sort in [SortKey::Name, SortKey::Size, SortKey::Modified] {
        let request = PageRequest {
            sort,
            ..PageRequest::first(9)
        };
        let page = folder.page(&request).expect("a page");
        assert_eq!(page.total, 3, "{sort:?}");
        let kind = |name: &str| {
            page.entries
                .iter()
                .find(|entry| entry.name == name.as_bytes())
                .map(|entry| entry.kind)
        };
        assert_eq!(kind("folder"), Some(EntryKind::Folder));
        assert_eq!(kind("side"), Some(EntryKind::Folder));
        let good = page.entries.last().expect("the file");
        assert_eq!(
            (&good.name[..], good.kind, good.len),
            (&b"good"[..], EntryKind::File, 5)
        );
        assert_eq!(
            good.modified,
            SystemTime::UNIX_EPOCH + Duration::from_secs(7)
        );
    }
    assert_eq!(folder.into_entries().expect("entries").count(), 3);
}

#[test]
fn reserved_names_are_not_listed() {
    let top = tempfile::tempdir().expect("a directory");
    for path in ["", "sub"] {
        let at = top.path().join(path);
        fs::create_dir_all(at.join(".haul")).expect("a folder");
        touch(&at.join(".haul-put-1"), 1, 1);
        touch(&at.join(".haul-x"), 1, 1);
        touch(&at.join(".haulage"), 1, 1);
        touch(&at.join(".hidden"), 1, 1);
    }
    let listed = |path| {
        names(
            &folder(top.path(), path)
                .page(&PageRequest::first(99))
                .expect("a page"),
        )
    };
    assert_eq!(listed("/"), ["sub", ".haul-x", ".haulage", ".hidden"]);
    // Deeper down, only the temporary files of uploads are reserved.
    assert_eq!(listed("/sub"), [".haul", ".haul-x", ".haulage", ".hidden"]);
}

#[test]
fn pipes_are_neither_files_nor_folders() {
    let top = tempfile::tempdir().expect("a directory");
    let pipe = top.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, Mode::RUSR).expect("a pipe");
    let page = folder(top.path(), "/")
        .page(&PageRequest::first(9))
        .expect("a page");
    assert_eq!(page.entries[0].kind, EntryKind::Other);
}

#[test]
fn times_before_the_epoch_sort_before_it() {
    let before = SystemTime::UNIX_EPOCH - Duration::from_millis(1);
    let top = tempfile::tempdir().expect("a directory");
    for (name, time) in [("old", before), ("epoch", SystemTime::UNIX_EPOCH)] {
        let file = fs::File::create(top.path().join(name)).expect("a file");
        file.set_modified(time).expect("its time");
    }
    let request = PageRequest {
        sort: SortKey::Modified,
        ..PageRequest::first(9)
    };
    let page = folder(top.path(), "/").page(&request).expect("a page");
    assert_eq!(names(&page), ["old", "epoch"]);
    assert_eq!(page.entries[0].modified, before);
}
