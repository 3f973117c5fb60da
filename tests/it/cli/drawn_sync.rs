//! `haul sync` with stores that are drawn from a seed: exit code 0 means that everything is there and current, and nothing that has a source is
//! ever deleted or mixed.

use std::collections::BTreeMap;
use std::path::Path;

use haul_lab::{Draw, DrawnStore, ObjectStore, assert_seeds, seeds};

use super::s3::directory;

const NAMES: [&str; 7] = ["a", "b c", "d/e", "d/f+g", "d/é", "h%20i", "j/k/l"];

/// The prefix in the bucket, and what the keys of objects begin with.
const PREFIX: &str = "p/";

/// Names and contents.
type Files = BTreeMap<String, Vec<u8>>;

fn draw_files(draw: &mut Draw) -> Files {
    let mut files = Files::new();
    for name in NAMES {
        if draw.percent(60) {
            let length = usize::try_from(draw.one_of(&[0, 1, 1000, 70_000])).unwrap();
            let byte = u8::try_from(draw.below(200)).unwrap();
            files.insert(name.to_owned(), vec![byte; length]);
        }
    }
    files
}

fn write_files(folder: &Path, files: &Files) {
    std::fs::create_dir_all(folder).unwrap();
    for (name, bytes) in files {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
}

/// The files in a folder, without those that a later run goes on with.
fn read_files(folder: &Path) -> Files {
    let mut files = Files::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(folder).unwrap().to_str().unwrap();
            if !name.ends_with(".haul-part") && !name.ends_with(".haul-journal") {
                files.insert(name.to_owned(), std::fs::read(&path).unwrap());
            }
        }
    }
    files
}

fn read_objects(store: &ObjectStore) -> Files {
    let keys = store.keys().into_iter();
    keys.map(|key| {
        let bytes = store.object(&key).map(|object| object.bytes);
        (key.replacen(PREFIX, "", 1), bytes.unwrap_or_default())
    })
    .collect()
}

/// What is wrong at the target, if something is.
fn check_target(
    found: &Files,
    source: &Files,
    before: &Files,
    deletes: bool,
) -> Result<(), String> {
    for (name, bytes) in found {
        if source.get(name) != Some(bytes) && before.get(name) != Some(bytes) {
            return Err(format!("{name} is neither the source nor what was there"));
        }
    }
    for name in before.keys() {
        let may_be_gone = deletes && !source.contains_key(name);
        if !found.contains_key(name) && !may_be_gone {
            return Err(format!("{name} was deleted"));
        }
    }
    Ok(())
}

/// The same after a success: everything is there and current, and nothing else where `deletes` asks for that.
fn check_success(
    found: &Files,
    source: &Files,
    before: &Files,
    deletes: bool,
) -> Result<(), String> {
    check_target(found, source, before, deletes)?;
    for (name, bytes) in source {
        if found.get(name) != Some(bytes) {
            return Err(format!("{name} is not current in spite of a success"));
        }
    }
    let extra = found.keys().find(|name| !source.contains_key(*name));
    match extra.filter(|_| deletes) {
        Some(name) => Err(format!("{name} was not deleted")),
        None => Ok(()),
    }
}

async fn check(seed: u64) -> Result<(), String> {
    let mut draw = Draw::new(seed, 1 << 40);
    let (source, before) = (draw_files(&mut draw), draw_files(&mut draw));
    let (is_upload, deletes) = (draw.percent(50), draw.percent(50) && !source.is_empty());
    let store = DrawnStore::new(seed).start().await;
    let dir = directory(&store);
    let folder = dir.path("folder");
    let (at_folder, in_store) = if is_upload {
        (&source, &before)
    } else {
        (&before, &source)
    };
    write_files(&folder, at_folder);
    for (name, bytes) in in_store {
        store.insert(&format!("{PREFIX}{name}"), bytes);
    }
    let mut args = if is_upload {
        vec!["sync", "folder", "s3://bucket/p/"]
    } else {
        vec!["sync", "s3://bucket/p/", "folder"]
    };
    args.extend(["--checksum", "--retries", "1"]);
    args.extend(deletes.then_some("--delete"));
    let found = || {
        if is_upload {
            read_objects(&store)
        } else {
            read_files(&folder)
        }
    };
    let first = dir.run(&args).await;
    let checked = match first.code {
        0 => check_success(&found(), &source, &before, deletes),
        _ => check_target(&found(), &source, &before, deletes),
    };
    checked.map_err(|text| format!("{text}: {args:?} {first:#?}"))?;
    // The store recovers.
    store.set_rule(|_| None);
    let second = dir.run(&args).await;
    let checked = match second.code {
        0 => check_success(&found(), &source, &before, deletes),
        _ => Err("the second run failed".to_owned()),
    };
    checked.map_err(|text| format!("{text}: {args:?} {second:#?} (first: {first:#?})"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sync_that_succeeds_is_current_whatever_a_store_does() {
    let check = |seed| async move {
        let checked = Box::pin(check(seed)).await.err();
        let text = checked.map(|text| format!("{seed}: {:?}: {text}", DrawnStore::new(seed)));
        text.into_iter().collect()
    };
    assert_seeds(seeds(0..24), check).await;
}
