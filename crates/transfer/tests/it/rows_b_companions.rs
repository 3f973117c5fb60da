//! Rows B3 and B4: files of others with the temporary names of a download stay as they are.

use std::path::Path;

use haul_lab::{Origin, OriginResource, RequestMatcher, ResourceContent, faults};
use haul_transfer::{ErrorClass, ExistingFilePolicy, GetError, JobOutput};

use crate::harness::{JobCase, content, serve};

const PART: &str = "f.bin.haul-part";
const JOURNAL: &str = "f.bin.haul-journal";

/// Downloads, and expects an error that names this file before any request.
async fn assert_in_the_way(case: &JobCase, name: &str) {
    let (ran, origin) = case.run(OriginResource::new(content())).await;
    let GetError::PathOccupied { path, .. } = ran.error() else {
        panic!("{name}: {:?}", ran.error())
    };
    assert_eq!(path.file_name().unwrap(), name);
    assert_eq!(ran.error().class(), ErrorClass::LocalIo);
    assert!(ran.error().hint().is_some());
    assert!(origin.requests().is_empty());
    assert!(!case.path().exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b3_a_partial_file_without_a_journal_belongs_to_somebody_else() {
    for resume in [true, false] {
        let mut case = JobCase::new();
        case.options.resume = resume;
        case.options.existing_file = ExistingFilePolicy::Overwrite;
        let part = case.lay(PART, "mine");
        assert_in_the_way(&case, PART).await;
        assert_eq!(std::fs::read(part).unwrap(), b"mine");
        assert_eq!(case.listing(), [PART]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b3_an_empty_partial_file_without_a_journal_is_used() {
    // What a kill leaves between the creation of the part and the first line of its journal.
    let case = JobCase::new();
    case.lay(PART, "");
    let (ran, _origin) = case.run(OriginResource::new(content())).await;
    ran.outcome();
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b3_a_file_that_was_never_a_journal_belongs_to_somebody_else() {
    for with_part in [true, false] {
        for diary in ["Dear diary,\n", "{\"header\":{}}\n", "\0\0\0x"] {
            let case = JobCase::new();
            let journal = case.lay(JOURNAL, diary);
            if with_part {
                case.lay(PART, "mine");
            }
            assert_in_the_way(&case, JOURNAL).await;
            assert_eq!(std::fs::read(journal).unwrap(), diary.as_bytes());
            assert_eq!(case.dir.path().join(PART).exists(), with_part);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b3_a_journal_that_a_power_cut_emptied_is_still_ours() {
    for left in [&b""[..], &[0; 300]] {
        let case = JobCase::new();
        case.lay(JOURNAL, left);
        case.lay(PART, "half of it");
        let (ran, _origin) = case.run(OriginResource::new(content())).await;
        assert_eq!(ran.outcome().resumed, 0);
        assert!(ran.warned("damaged"));
        case.assert_file(&content());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b3_the_journal_identifies_the_url_before_the_partial_file_has_bytes() {
    for (road, resume) in [
        ("segments", true),
        ("one stream", true),
        ("segments", false),
    ] {
        let mut case = JobCase::new();
        case.options.resume = resume;
        case.client.stall_timeout = crate::harness::LIMIT;
        let mut resource = OriginResource::new(content());
        if road == "one stream" {
            resource = resource
                .rule(RequestMatcher::always(), faults::ignore_range)
                .rule(RequestMatcher::always(), faults::chunked);
        }
        let origin =
            serve(resource.rule(RequestMatcher::always(), faults::stall_after(100_000))).await;
        // What a kill at the first moment with bytes would leave.
        let part = case.dir.path().join(PART);
        let kill = async {
            while !std::fs::metadata(&part).is_ok_and(|part| part.len() > 0) {
                tokio::task::yield_now().await;
            }
            case.as_if_killed()
        };
        let url = origin.url("/f.bin");
        let killed = tokio::select! {
            ran = case.get(&url) => panic!("it ended: {:?}", ran.result),
            killed = kill => killed,
        };
        assert!(case.listing().is_empty(), "{road}: {:?}", case.listing());
        let (ran, _origin) = killed.run(OriginResource::new(content())).await;
        ran.outcome();
        killed.assert_file(&content());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b4_directories_links_and_fifos_under_the_temporary_names_are_left_alone() {
    type Lay = fn(&Path, &Path);
    let things: [(&str, Lay); 4] = [
        ("directory", |path, _| std::fs::create_dir(path).unwrap()),
        ("link", |path, victim| {
            std::os::unix::fs::symlink(victim, path).unwrap()
        }),
        ("dangling link", |path, _| {
            std::os::unix::fs::symlink("nowhere", path).unwrap()
        }),
        ("fifo", |path, _| {
            let made = std::process::Command::new("mkfifo").arg(path).status();
            assert!(made.unwrap().success());
        }),
    ];
    for (thing, lay) in things {
        for name in [PART, JOURNAL] {
            let case = JobCase::new();
            let victim = case.lay("victim", "precious");
            lay(&case.dir.path().join(name), &victim);
            assert_in_the_way(&case, name).await;
            assert_eq!(case.listing(), [name, "victim"], "{thing}");
            assert_eq!(std::fs::read(&victim).unwrap(), b"precious", "{thing}");
            assert!(!case.dir.path().join("nowhere").exists(), "{thing}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b4_a_final_name_that_looks_like_a_temporary_one_is_refused() {
    for name in ["x.haul-part", "x.HAUL-JOURNAL", "x.haul-bad-checksum"] {
        let mut case = JobCase::new();
        case.output = Some(JobOutput::File(case.dir.path().join(name)));
        let (ran, origin) = case.run(OriginResource::new(content())).await;
        assert!(matches!(ran.error(), GetError::ReservedName { .. }));
        assert_eq!(ran.error().class(), ErrorClass::LocalIo);
        assert!(ran.error().hint().is_some() && origin.requests().is_empty());
        assert!(case.listing().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a25_an_origin_cannot_choose_the_name_of_another_downloads_journal() {
    for disposition in [
        Some("attachment; filename=\"f.bin.haul-part\""),
        Some("attachment; filename*=UTF-8''f.bin.HAUL-part."),
        None,
    ] {
        let mut case = JobCase::new();
        case.output = Some(JobOutput::Directory(case.dir.path().to_owned()));
        let first = ResourceContent::random(9, 5000);
        let mut resource = OriginResource::new(first.clone());
        if let Some(disposition) = disposition {
            resource = resource.header("Content-Disposition", disposition);
        }
        let origin = Origin::builder()
            .resource("/f.bin.haul-part", resource)
            .resource("/f.bin", OriginResource::new(content()))
            .start()
            .await;
        let ran = case.get(&origin.url("/f.bin.haul-part")).await;
        let named = ran.outcome().path.clone().unwrap();
        case.get(&origin.url("/f.bin")).await.outcome();
        assert!(std::fs::read(case.path()).unwrap() == content().to_vec());
        assert!(std::fs::read(named).unwrap() == first.to_vec());
        assert_eq!(case.listing().len(), 2, "{:?}", case.listing());
    }
}
