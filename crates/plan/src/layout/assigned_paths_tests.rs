//! Row C4: two URLs with the same file name are two files, the same ones on every run.

use std::collections::{HashMap, HashSet};

use super::super::tests::{assert_safe, hostile_url};
use super::super::{PathLayout, PathLayoutInput};
use super::*;
use proptest::prelude::*;

fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

/// Places made paths, each for a URL.
fn made(taken: &mut AssignedPaths, wanted: &str, from: &str) -> PathAssignment {
    taken.assign(wanted.into(), &url(from), false, |_| false)
}

fn named(taken: &mut AssignedPaths, wanted: &str, from: &str) -> PathAssignment {
    taken.assign(wanted.into(), &url(from), true, |_| false)
}

fn free(path: &str) -> PathAssignment {
    PathAssignment::Assigned(path.into())
}

/// What a suffix shows of a URL's digest.
fn tag(from: &str, length: usize) -> String {
    path_digest::hex(&path_digest::digest_url(&url(from)))[..length].to_owned()
}

#[test]
fn c4_the_second_of_a_name_gets_a_suffix_that_is_its_own() {
    for _run in 0..2 {
        let mut taken = AssignedPaths::new();
        let (a, b, c) = (
            "http://h.test/1/photo.jpg",
            "http://h.test/2/photo.jpg",
            "http://h.test/3/PHOTO.JPG",
        );
        assert_eq!(made(&mut taken, "photo.jpg", a), free("photo.jpg"));
        let second = format!("photo.{}.jpg", tag(b, 8));
        assert_eq!(made(&mut taken, "photo.jpg", b), free(&second));
        assert_eq!(
            made(&mut taken, "PHOTO.JPG", c),
            free(&format!("PHOTO.{}.JPG", tag(c, 8)))
        );
        assert_eq!(made(&mut taken, "other.jpg", b), free("other.jpg"));
        // Again, with another login and fragment.
        assert_eq!(made(&mut taken, "photo.jpg", a), PathAssignment::Duplicate);
        assert_eq!(
            made(&mut taken, "photo.jpg", "http://me:pw@h.test/2/photo.jpg#x"),
            PathAssignment::Duplicate
        );
    }
}

#[test]
fn c4_a_name_that_is_another_urls_on_the_disk_is_left_to_it() {
    let (a, b) = ("http://h.test/1/photo.jpg", "http://h.test/2/photo.jpg");
    let suffixed = format!("photo.{}.jpg", tag(b, 8));
    let mut taken = AssignedPaths::new();
    // The second of an earlier list comes first in this one.
    let mut place = |from: &str| {
        taken.assign("photo.jpg".into(), &url(from), false, |candidate| {
            let theirs = from == b && candidate.path() == Path::new("photo.jpg");
            if theirs {
                assert_eq!(candidate.alternative(), Some(suffixed.clone().into()));
            }
            theirs
        })
    };
    assert_eq!(place(b), free(&suffixed));
    assert_eq!(place(b), PathAssignment::Duplicate);
    assert_eq!(place(a), free("photo.jpg"));
    let longer = format!("photo.{}.jpg", tag(b, 16));
    let mut taken = AssignedPaths::new();
    let both = taken.assign("photo.jpg".into(), &url(b), false, |candidate| {
        candidate.path() != Path::new(&longer)
    });
    assert_eq!(both, free(&longer));
}

#[test]
fn c4_a_suffix_that_is_taken_grows() {
    let mut taken = AssignedPaths::new();
    let b = "http://h.test/b";
    assert_eq!(made(&mut taken, "f", "http://h.test/a"), free("f"));
    for length in [8, 16, 32] {
        let path = format!("f.{}", tag(b, length));
        assert_eq!(named(&mut taken, &path, "http://h.test/c"), free(&path));
    }
    assert_eq!(made(&mut taken, "f", b), free(&format!("f.{}", tag(b, 64))));
}

#[test]
fn c4_long_names_keep_suffix_and_ending() {
    let mut taken = AssignedPaths::new();
    let name = format!("{}é.jpeg", "n".repeat(193));
    made(&mut taken, &name, "http://h.test/a");
    let PathAssignment::Assigned(path) = made(&mut taken, &name, "http://h.test/b") else {
        panic!("not placed");
    };
    let text = path.to_str().unwrap();
    assert!(
        text.len() <= 200 && text.ends_with(&format!("n.{}.jpeg", tag("http://h.test/b", 8))),
        "{text}"
    );
}

#[test]
fn c4_paths_of_the_list_are_kept_or_refused() {
    let mut taken = AssignedPaths::new();
    assert_eq!(
        named(&mut taken, "d/Ab.jpg", "http://h.test/1"),
        free("d/Ab.jpg")
    );
    assert_eq!(
        named(&mut taken, "d/aB.jpg", "http://h.test/2"),
        free("d/aB.jpg")
    );
    assert_eq!(
        named(&mut taken, "d/Ab.jpg", "http://h.test/3"),
        PathAssignment::Conflict
    );
    assert_eq!(
        named(&mut taken, "d/Ab.jpg", "http://h.test/1#x"),
        PathAssignment::Duplicate
    );
    // The two kinds against each other.
    let other = free(&format!("d/Ab.{}.jpg", tag("http://h.test/4", 8)));
    assert_eq!(made(&mut taken, "d/Ab.jpg", "http://h.test/4"), other);
    assert_eq!(
        made(&mut taken, "d/Ab.jpg", "http://h.test/1"),
        PathAssignment::Duplicate
    );
    assert_eq!(
        made(&mut taken, "d/x.jpg", "http://h.test/5"),
        free("d/x.jpg")
    );
    assert_eq!(
        named(&mut taken, "d/X.jpg", "http://h.test/6"),
        PathAssignment::Conflict
    );
    assert_eq!(
        named(&mut taken, "d/x.jpg", "http://h.test/5"),
        PathAssignment::Duplicate
    );
}

#[test]
fn c4_no_file_takes_the_path_of_a_directory_nor_the_reverse() {
    let mut taken = AssignedPaths::new();
    assert_eq!(made(&mut taken, "h/a", "http://h/a"), free("h/a"));
    let directory = format!(
        "h/a.{}",
        &path_digest::hex(&path_digest::digest_text(b'd', "h/a"))[..8]
    );
    assert_eq!(
        made(&mut taken, "h/a/b", "http://h/a/b"),
        free(&format!("{directory}/b"))
    );
    assert_eq!(
        made(&mut taken, "h/a/c", "http://h/a/c"),
        free(&format!("{directory}/c"))
    );
    assert_eq!(
        made(&mut taken, "h/a/b", "http://h/a/b"),
        PathAssignment::Duplicate
    );
    assert_eq!(made(&mut taken, "x/y/z", "http://h/x/y/z"), free("x/y/z"));
    assert_eq!(
        made(&mut taken, "x/Y", "http://h/x/Y"),
        free(&format!("x/Y.{}", tag("http://h/x/Y", 8)))
    );

    let mut taken = AssignedPaths::new();
    assert_eq!(named(&mut taken, "a", "http://h/1"), free("a"));
    assert_eq!(
        named(&mut taken, "a/b", "http://h/2"),
        PathAssignment::Conflict
    );
    assert_eq!(named(&mut taken, "c/d", "http://h/3"), free("c/d"));
    assert_eq!(
        named(&mut taken, "c", "http://h/4"),
        PathAssignment::Conflict
    );
    assert_eq!(
        made(&mut taken, "c", "http://h/5"),
        free(&format!("c.{}", tag("http://h/5", 8)))
    );
}

#[test]
fn absolute_directories_are_paths_like_others() {
    let mut taken = AssignedPaths::new();
    assert_eq!(made(&mut taken, "/data/f", "http://h/1"), free("/data/f"));
    assert_eq!(
        named(&mut taken, "/data/f", "http://h/2"),
        PathAssignment::Conflict
    );
    assert_eq!(named(&mut taken, "/data/g", "http://h/2"), free("/data/g"));
}

/// Layouts over few URLs, so that much collides.
fn lists() -> impl Strategy<Value = Vec<(Url, usize)>> {
    let near = "http://h\\.test/([abA]{1,2}/){0,2}[abA]{1,2}(\\?[12])?".prop_map(|text| url(&text));
    prop::collection::vec(
        (prop_oneof![3 => near, 1 => hostile_url()], 0_usize..4),
        1..40,
    )
}

fn wanted(url: &Url, layout: usize) -> PathBuf {
    let layouts = [
        PathLayout::Name,
        PathLayout::Path,
        PathLayout::Hash,
        PathLayout::Template("{name}/{dir}/x".parse().unwrap()),
    ];
    let subject = PathLayoutInput {
        url,
        index: 0,
        line: 0,
    };
    layouts[layout].path(subject)
}

proptest! {
    #[test]
    fn c4_paths_are_unique_safe_and_the_same_again(list in lists()) {
        let run = || {
            let mut taken = AssignedPaths::new();
            list.iter().map(|(url, layout)| taken.assign(wanted(url, *layout), url, false, |_| false)).collect::<Vec<_>>()
        };
        let placed = run();
        prop_assert_eq!(&placed, &run());
        let (mut files, mut directories) = (HashSet::new(), HashSet::new());
        let mut wants: HashMap<(String, PathBuf), usize> = HashMap::new();
        for ((url, layout), placed) in list.iter().zip(&placed) {
            let want = (path_digest::hex(&path_digest::digest_url(url)), wanted(url, *layout));
            match placed {
                PathAssignment::Assigned(path) => {
                    assert_safe(path)?;
                    let folded = filename::case_folded(path.to_str().unwrap());
                    prop_assert!(files.insert(folded.clone()), "twice: {folded}");
                    directories.extend(Path::new(&folded).ancestors().skip(1).map(Path::to_owned));
                    *wants.entry(want).or_default() += 1;
                }
                // Folding may make two wanted paths of one URL the same, so the reverse need not hold.
                PathAssignment::Duplicate => prop_assert!(wants.keys().any(|(sum, _)| *sum == want.0)),
                PathAssignment::Conflict => prop_assert!(false, "a made path in conflict"),
            }
        }
        prop_assert!(wants.values().all(|times| *times == 1));
        prop_assert!(files.iter().all(|file| !directories.contains(Path::new(file))));
    }

    #[test]
    fn c4_a_million_like_names_need_few_bytes(names in prop::collection::hash_set("[a-z]{1,3}", 2..200)) {
        let mut taken = AssignedPaths::new();
        for name in &names {
            let placed = made(&mut taken, "same", &format!("http://h.test/{name}"));
            prop_assert!(matches!(placed, PathAssignment::Assigned(_)));
        }
        prop_assert_eq!(taken.assigned.len(), names.len());
        prop_assert!(size_of::<AssignedPathKey>() + size_of::<AssignedUrlKey>() <= 13);
    }
}
