//! Row C4: two URLs with the same file name are two files, the same ones on every run.

use std::collections::{HashMap, HashSet};

use super::super::tests::{assert_safe, hostile_url};
use super::super::{PathLayout, PathLayoutInput};
use super::*;
use proptest::prelude::*;

fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

/// Assigns a derived path.
fn assign_derived(paths: &mut AssignedPaths, wanted: &str, from: &str) -> PathAssignment {
    paths.assign(wanted.into(), &url(from), false, |_| false)
}

fn assign_explicit(paths: &mut AssignedPaths, wanted: &str, from: &str) -> PathAssignment {
    paths.assign(wanted.into(), &url(from), true, |_| false)
}

fn duplicate(path: &str) -> PathAssignment {
    PathAssignment::Duplicate(path.into())
}

fn assigned(path: &str) -> PathAssignment {
    PathAssignment::Assigned(path.into())
}

/// Digits of a URL's digest, as a suffix has them.
fn tag(from: &str, length: usize) -> String {
    hex(&path_digest::digest_url(&url(from)))[..length].to_owned()
}

#[test]
fn c4_the_second_url_of_a_name_gets_a_suffix_of_its_own() {
    for _run in 0..2 {
        let mut paths = AssignedPaths::new();
        let (a, b, c) = (
            "http://h.test/1/photo.jpg",
            "http://h.test/2/photo.jpg",
            "http://h.test/3/PHOTO.JPG",
        );
        assert_eq!(
            assign_derived(&mut paths, "photo.jpg", a),
            assigned("photo.jpg")
        );
        let second = format!("photo.{}.jpg", tag(b, 8));
        assert_eq!(
            assign_derived(&mut paths, "photo.jpg", b),
            assigned(&second)
        );
        assert_eq!(
            assign_derived(&mut paths, "PHOTO.JPG", c),
            assigned(&format!("PHOTO.{}.JPG", tag(c, 8)))
        );
        assert_eq!(
            assign_derived(&mut paths, "other.jpg", b),
            assigned("other.jpg")
        );
        // The same URLs, with another login and fragment.
        assert_eq!(
            assign_derived(&mut paths, "photo.jpg", a),
            duplicate("photo.jpg")
        );
        assert_eq!(
            assign_derived(&mut paths, "photo.jpg", "http://me:pw@h.test/2/photo.jpg#x"),
            duplicate(&second)
        );
    }
}

#[test]
fn c4_a_name_whose_file_belongs_to_another_url_is_left_to_it() {
    let (a, b) = ("http://h.test/1/photo.jpg", "http://h.test/2/photo.jpg");
    let suffixed = format!("photo.{}.jpg", tag(b, 8));
    let mut paths = AssignedPaths::new();
    // The second URL of an earlier list comes first in this one.
    let mut place = |from: &str| {
        paths.assign("photo.jpg".into(), &url(from), false, |candidate| {
            let theirs = from == b && candidate.path() == Path::new("photo.jpg");
            if theirs {
                assert_eq!(candidate.alternative(), Some(suffixed.clone().into()));
            }
            theirs
        })
    };
    assert_eq!(place(b), assigned(&suffixed));
    assert_eq!(place(b), duplicate(&suffixed));
    assert_eq!(place(a), assigned("photo.jpg"));
    let longer = format!("photo.{}.jpg", tag(b, 16));
    let mut paths = AssignedPaths::new();
    let both = paths.assign("photo.jpg".into(), &url(b), false, |candidate| {
        candidate.path() != Path::new(&longer)
    });
    assert_eq!(both, assigned(&longer));
}

#[test]
fn c4_a_suffix_that_is_taken_grows() {
    let mut paths = AssignedPaths::new();
    let b = "http://h.test/b";
    assert_eq!(
        assign_derived(&mut paths, "f", "http://h.test/a"),
        assigned("f")
    );
    for length in [8, 16, 32] {
        let path = format!("f.{}", tag(b, length));
        assert_eq!(
            assign_explicit(&mut paths, &path, "http://h.test/c"),
            assigned(&path)
        );
    }
    assert_eq!(
        assign_derived(&mut paths, "f", b),
        assigned(&format!("f.{}", tag(b, 64)))
    );
}

#[test]
fn c4_long_names_keep_suffix_and_extension() {
    let mut paths = AssignedPaths::new();
    let name = format!("{}é.jpeg", "n".repeat(193));
    assign_derived(&mut paths, &name, "http://h.test/a");
    let PathAssignment::Assigned(path) = assign_derived(&mut paths, &name, "http://h.test/b")
    else {
        panic!("not placed");
    };
    let text = path.to_str().unwrap();
    assert!(
        text.len() <= 200 && text.ends_with(&format!("n.{}.jpeg", tag("http://h.test/b", 8))),
        "{text}"
    );
}

#[test]
fn c4_explicit_paths_are_kept_or_refused() {
    let mut paths = AssignedPaths::new();
    assert_eq!(
        assign_explicit(&mut paths, "d/Ab.jpg", "http://h.test/1"),
        assigned("d/Ab.jpg")
    );
    assert_eq!(
        assign_explicit(&mut paths, "d/aB.jpg", "http://h.test/2"),
        PathAssignment::AssignedUnlessFolded("d/aB.jpg".into())
    );
    assert_eq!(
        assign_explicit(&mut paths, "d/Ab.jpg", "http://h.test/3"),
        PathAssignment::Conflict
    );
    assert_eq!(
        assign_explicit(&mut paths, "d/Ab.jpg", "http://h.test/1#x"),
        duplicate("d/Ab.jpg")
    );
    // Explicit and derived paths collide.
    let other = assigned(&format!("d/Ab.{}.jpg", tag("http://h.test/4", 8)));
    assert_eq!(
        assign_derived(&mut paths, "d/Ab.jpg", "http://h.test/4"),
        other
    );
    assert_eq!(
        assign_derived(&mut paths, "d/Ab.jpg", "http://h.test/1"),
        duplicate("d/Ab.jpg")
    );
    assert_eq!(
        assign_derived(&mut paths, "d/x.jpg", "http://h.test/5"),
        assigned("d/x.jpg")
    );
    assert_eq!(
        assign_explicit(&mut paths, "d/X.jpg", "http://h.test/6"),
        PathAssignment::Conflict
    );
    assert_eq!(
        assign_explicit(&mut paths, "d/x.jpg", "http://h.test/5"),
        duplicate("d/x.jpg")
    );
}

#[test]
fn b10_explicit_paths_that_a_disk_may_take_for_one_are_named() {
    let forms = ["d/e\u{301}.txt", "d/é.txt", "d/É.txt", "D/é.TXT"];
    for first in forms {
        for second in forms.into_iter().filter(|second| *second != first) {
            let mut paths = AssignedPaths::new();
            let others = ["d/x.txt", "D/X2.txt", "é", "É/y"];
            for other in others {
                let placed = assign_explicit(&mut paths, other, "http://h.test/0");
                assert_eq!(placed, assigned(other), "{first} {second}");
            }
            let mut place = |path, url| assign_explicit(&mut paths, path, url);
            assert_eq!(place(first, "http://h.test/1"), assigned(first));
            let twin = PathAssignment::AssignedUnlessFolded(second.into());
            // Whichever URL it is: one URL may have two names.
            assert_eq!(place(second, "http://h.test/1"), twin, "{first} {second}");
            assert_eq!(place(first, "http://h.test/1"), duplicate(first));
            assert_eq!(place(second, "http://h.test/2"), PathAssignment::Conflict);
        }
    }
}

#[test]
fn c4_no_file_takes_the_path_of_a_directory_nor_the_reverse() {
    let mut paths = AssignedPaths::new();
    assert_eq!(
        assign_derived(&mut paths, "h/a", "http://h/a"),
        assigned("h/a")
    );
    let directory = format!("h/a.{}", &hex(&path_digest::digest_text(b'd', "h/a"))[..8]);
    assert_eq!(
        assign_derived(&mut paths, "h/a/b", "http://h/a/b"),
        assigned(&format!("{directory}/b"))
    );
    assert_eq!(
        assign_derived(&mut paths, "h/a/c", "http://h/a/c"),
        assigned(&format!("{directory}/c"))
    );
    assert_eq!(
        assign_derived(&mut paths, "h/a/b", "http://h/a/b"),
        duplicate(&format!("{directory}/b"))
    );
    assert_eq!(
        assign_derived(&mut paths, "x/y/z", "http://h/x/y/z"),
        assigned("x/y/z")
    );
    assert_eq!(
        assign_derived(&mut paths, "x/Y", "http://h/x/Y"),
        assigned(&format!("x/Y.{}", tag("http://h/x/Y", 8)))
    );

    let mut paths = AssignedPaths::new();
    assert_eq!(
        assign_explicit(&mut paths, "a", "http://h/1"),
        assigned("a")
    );
    assert_eq!(
        assign_explicit(&mut paths, "a/b", "http://h/2"),
        PathAssignment::Conflict
    );
    assert_eq!(
        assign_explicit(&mut paths, "c/d", "http://h/3"),
        assigned("c/d")
    );
    assert_eq!(
        assign_explicit(&mut paths, "c", "http://h/4"),
        PathAssignment::Conflict
    );
    assert_eq!(
        assign_derived(&mut paths, "c", "http://h/5"),
        assigned(&format!("c.{}", tag("http://h/5", 8)))
    );
}

#[test]
fn absolute_directories_are_assigned_like_others() {
    let mut paths = AssignedPaths::new();
    assert_eq!(
        assign_derived(&mut paths, "/data/f", "http://h/1"),
        assigned("/data/f")
    );
    assert_eq!(
        assign_explicit(&mut paths, "/data/f", "http://h/2"),
        PathAssignment::Conflict
    );
    assert_eq!(
        assign_explicit(&mut paths, "/data/g", "http://h/2"),
        assigned("/data/g")
    );
}

/// Layouts over few URLs, so that many paths collide.
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
    fn c4_paths_are_unique_safe_and_the_same_on_every_run(list in lists()) {
        let run = || {
            let mut paths = AssignedPaths::new();
            list.iter().map(|(url, layout)| paths.assign(wanted(url, *layout), url, false, |_| false)).collect::<Vec<_>>()
        };
        let placed = run();
        prop_assert_eq!(&placed, &run());
        let (mut files, mut directories) = (HashSet::new(), HashSet::new());
        let mut wants: HashMap<(String, PathBuf), usize> = HashMap::new();
        for ((url, layout), placed) in list.iter().zip(&placed) {
            let want = (hex(&path_digest::digest_url(url)), wanted(url, *layout));
            match placed {
                PathAssignment::Assigned(path) => {
                    assert_safe(path)?;
                    let folded = filename::folded(path.to_str().unwrap()).into_owned();
                    prop_assert!(files.insert(folded.clone()), "twice: {folded}");
                    directories.extend(Path::new(&folded).ancestors().skip(1).map(Path::to_owned));
                    *wants.entry(want).or_default() += 1;
                }
                // Folding may make two wanted paths of one URL the same, so the reverse need not hold.
                PathAssignment::Duplicate(_) => prop_assert!(wants.keys().any(|(sum, _)| *sum == want.0)),
                other => prop_assert!(false, "a derived path: {other:?}"),
            }
        }
        prop_assert!(wants.values().all(|times| *times == 1));
        prop_assert!(files.iter().all(|file| !directories.contains(Path::new(file))));
    }

    #[test]
    fn c4_a_million_names_alike_need_few_bytes(names in prop::collection::hash_set("[a-z]{1,3}", 2..200)) {
        let mut paths = AssignedPaths::new();
        for name in &names {
            let placed = assign_derived(&mut paths, "same", &format!("http://h.test/{name}"));
            prop_assert!(matches!(placed, PathAssignment::Assigned(_)));
        }
        prop_assert_eq!(paths.assigned.len(), names.len());
        prop_assert!(size_of::<AssignedPathKey>() + size_of::<AssignedUrlKey>() <= 13);
    }
}
