use std::fs;
use std::io::Read as _;
use std::os::unix::fs::symlink;
use std::sync::Arc;

use super::super::created_folders::FolderCreator;
use super::*;

fn key(path: &str) -> ObjectKey {
    ObjectKey::parse(path).expect("a key").key
}

fn read(root: &StoreRoot, path: &str) -> Result<String, StoreError> {
    let mut text = String::new();
    fs::File::from(root.open_any(&key(path))?)
        .read_to_string(&mut text)
        .map_err(StoreError::from)?;
    Ok(text)
}

/// A root with links of all kinds, and files that they must not reach.
fn tree() -> tempfile::TempDir {
    let all = tempfile::tempdir().expect("a directory");
    let root = all.path().join("root");
    fs::create_dir_all(root.join("a/b")).expect("folders");
    fs::write(root.join("a/b/f"), "inside").expect("a file");
    fs::write(all.path().join("secret"), "outside").expect("a file");
    symlink("../../secret", root.join("a/up")).expect("a link");
    symlink(all.path().join("secret"), root.join("absolute")).expect("a link");
    symlink(root.join("a/b/f"), root.join("within")).expect("a link");
    symlink(all.path(), root.join("out")).expect("a link");
    symlink("b/f", root.join("a/in")).expect("a link");
    symlink("loop", root.join("loop")).expect("a link");
    symlink("/proc/self/root", root.join("magic")).expect("a link");
    all
}

#[test]
fn no_other_name_of_the_stores_own_folder_leads_there() {
    let all = tree();
    let path = all.path().join("root");
    for name in [".haul", ".Haul"] {
        fs::create_dir(path.join(name)).expect("a folder");
        fs::write(path.join(name).join("f"), name).expect("a file");
    }
    // As a file system that folds case has it.
    symlink(".haul", path.join(".HAUL")).expect("a link");
    let open = || StoreRoot::open(&path).expect("a root");
    for root in [open(), open().segment_by_segment()] {
        assert_eq!(read(&root, "/.Haul/f").expect("another folder"), ".Haul");
        let found = read(&root, "/.HAUL/f");
        assert!(
            matches!(found, Err(StoreError::PermissionDenied)),
            "{found:?}"
        );
        let folders = Arc::new(FolderCreator::new(Arc::new(root), false));
        let made = folders.open_or_create(&key("/.HAUL/new"), OpenScope::Anywhere);
        assert!(made.is_err() && !path.join(".haul/new").exists());
    }
}

#[test]
fn d2_links_that_lead_out_are_not_followed() {
    let all = tree();
    let open = || StoreRoot::open(&all.path().join("root")).expect("a root");
    for root in [open(), open().segment_by_segment()] {
        assert_eq!(read(&root, "/a/b/f").expect("inside"), "inside");
        for path in [
            "/a/up",
            "/absolute",
            "/within",
            "/out/secret",
            "/loop",
            "/magic/etc/passwd",
        ] {
            let found = read(&root, path);
            let refused = matches!(found, Err(StoreError::NotFound | StoreError::Conflict));
            assert!(refused, "{path}: {found:?}");
        }
        let folders = Arc::new(FolderCreator::new(Arc::new(root), false));
        let made = folders.open_or_create(&key("/out/new"), OpenScope::Anywhere);
        assert!(made.is_err() && !all.path().join("new").exists());
    }
    assert_eq!(read(&open(), "/a/in").expect("a link inside"), "inside");
    let strict = open().without_links();
    assert!(matches!(read(&strict, "/a/in"), Err(StoreError::NotFound)));
    assert_eq!(read(&strict, "/a/b/f").expect("inside"), "inside");
}

#[test]
fn d2_a_link_swapped_in_while_files_are_opened_is_not_followed() {
    let all = tree();
    let base = all.path().join("root");
    let root = StoreRoot::open(&base).expect("a root");
    let (file, link, at) = (base.join("file"), base.join("link"), base.join("swap"));
    fs::write(&file, "inside").expect("a file");
    symlink("../secret", &link).expect("a link");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for from in [&file, &link] {
                    let aside = base.join("aside");
                    // Created again each time: renaming one hard link over another does nothing.
                    if *from == file {
                        fs::write(&aside, "inside").expect("a file");
                    } else {
                        symlink("../secret", &aside).expect("a link");
                    }
                    fs::rename(&aside, &at).expect("a swap");
                }
            }
        });
        let mut record = [0, 0];
        while record.contains(&0) {
            match read(&root, "/swap") {
                Ok(text) => {
                    assert_eq!(text, "inside");
                    record[0] += 1;
                }
                Err(StoreError::NotFound) => record[1] += 1,
                Err(other) => panic!("{other}"),
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_recently_opened_file_is_opened_without_waiting() {
    let all = tree();
    let root = StoreRoot::open(&all.path().join("root")).expect("a root");
    read(&root, "/a/b/f").expect("it warms the caches");
    if root.has_openat2 {
        assert!(matches!(
            root.try_open(&key("/a/b/f")),
            CachedLookup::Ready(Ok(_))
        ));
    }
    assert!(matches!(
        root.segment_by_segment().try_open(&key("/a/b/f")),
        CachedLookup::WouldBlock
    ));
}

#[test]
fn unknown_file_systems_may_block() {
    let proc = fs::File::open("/proc/self/status").expect("this process");
    assert_eq!(FilesystemKind::of_file(&proc), FilesystemKind::Remote);
    let shm = fs::File::open("/dev/shm").expect("shared memory");
    assert_eq!(FilesystemKind::of_file(&shm), FilesystemKind::Memory);
}
