//! Rows B3 and B4: other files that have the names of a partial file or journal are not touched.

use std::path::Path;

use haul_lab::{Origin, OriginResource, RequestMatcher, ResourceContent, faults};
use haul_transfer::{ErrorClass, ExistingFilePolicy, GetError, JobOutput, LocalError};

use crate::harness::{JobCase, content, serve};

const PART: &str = "f.bin.haul-part";
const JOURNAL: &str = "f.bin.haul-journal";

/// Asserts that a download fails before any request with an error that names this file.
async fn assert_path_occupied(case: &JobCase, name: &str) {
    let (run, origin) = case.run(OriginResource::new(content())).await;
    let GetError::Local {
        path,
        error: LocalError::Occupied { .. },
        ..
    } = run.error()
    else {
        panic!("{name}: {:?}", run.error())
    };
    assert_eq!(path.file_name().unwrap(), name);
    assert_eq!(run.error().class(), ErrorClass::LocalIo);
    assert!(!run.error().remedies().is_empty());
    assert!(origin.requests().is_empty());
    assert!(!case.path().exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b3_a_partial_file_without_a_journal_is_not_touched() {
    for resume in [true, false] {
        let mut case = JobCase::new();
        case.options.resume = resume;
        case.options.existing_file = ExistingFilePolicy::Overwrite;
        let part = case.write_file(PART, "mine");
        assert_path_occupied(&case, PART).await;
        assert_eq!(std::fs::read(part).unwrap(), b"mine");
        assert_eq!(case.listing(), [PART]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b3_an_empty_partial_file_without_a_journal_is_used() {
    // A kill between the creation of the partial file and the first journal line leaves this.
    let case = JobCase::new();
    case.write_file(PART, "");
    let (run, _origin) = case.run(OriginResource::new(content())).await;
    run.outcome();
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b3_a_file_with_the_journals_name_that_is_not_a_journal_is_not_touched() {
    for with_part in [true, false] {
        for text in ["Dear diary,\n", "{\"header\":{}}\n", "\0\0\0x"] {
            let case = JobCase::new();
            let journal = case.write_file(JOURNAL, text);
            if with_part {
                case.write_file(PART, "mine");
            }
            assert_path_occupied(&case, JOURNAL).await;
            assert_eq!(std::fs::read(journal).unwrap(), text.as_bytes());
            assert_eq!(case.dir.path().join(PART).exists(), with_part);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b3_an_empty_or_zeroed_journal_after_a_power_cut_is_replaced() {
    for journal in [&b""[..], &[0; 300]] {
        let case = JobCase::new();
        case.write_file(JOURNAL, journal);
        case.write_file(PART, "half of it");
        let (run, _origin) = case.run(OriginResource::new(content())).await;
        assert_eq!(run.outcome().resumed, 0);
        assert!(run.has_warning("damaged"));
        case.assert_file(&content());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b3_the_journal_identifies_the_url_before_the_partial_file_has_bytes() {
    for (strategy, resume) in [
        ("segments", true),
        ("one stream", true),
        ("segments", false),
    ] {
        let mut case = JobCase::new();
        case.options.resume = resume;
        case.client.stall_timeout = crate::harness::LIMIT;
        case.client.response_timeout = case.client.stall_timeout;
        let mut resource = OriginResource::new(content());
        if strategy == "one stream" {
            resource = resource
                .rule(RequestMatcher::always(), faults::ignore_range)
                .rule(RequestMatcher::always(), faults::chunked);
        }
        let origin =
            serve(resource.rule(RequestMatcher::always(), faults::stall_after(100_000))).await;
        // Copies the files when the partial file has its first bytes, as if haul had been killed then.
        let part = case.dir.path().join(PART);
        let kill = async {
            while !std::fs::metadata(&part).is_ok_and(|part| part.len() > 0) {
                tokio::task::yield_now().await;
            }
            case.copy_as_if_killed()
        };
        let url = origin.url("/f.bin");
        let killed = tokio::select! {
            run = case.get(&url) => panic!("it ended: {:?}", run.result),
            killed = kill => killed,
        };
        assert!(
            case.listing().is_empty(),
            "{strategy}: {:?}",
            case.listing()
        );
        let (run, _origin) = killed.run(OriginResource::new(content())).await;
        run.outcome();
        killed.assert_file(&content());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b4_directories_links_and_fifos_with_temporary_names_are_not_touched() {
    type Create = fn(&Path, &Path);
    let file_types: [(&str, Create); 4] = [
        ("directory", |path, _| std::fs::create_dir(path).unwrap()),
        ("link", |path, victim| {
            std::os::unix::fs::symlink(victim, path).unwrap()
        }),
        ("dangling link", |path, _| {
            std::os::unix::fs::symlink("nowhere", path).unwrap()
        }),
        ("fifo", |path, _| {
            let status = std::process::Command::new("mkfifo").arg(path).status();
            assert!(status.unwrap().success());
        }),
    ];
    for (file_type, create) in file_types {
        for name in [PART, JOURNAL] {
            let case = JobCase::new();
            let victim = case.write_file("victim", "precious");
            create(&case.dir.path().join(name), &victim);
            assert_path_occupied(&case, name).await;
            assert_eq!(case.listing(), [name, "victim"], "{file_type}");
            assert_eq!(std::fs::read(&victim).unwrap(), b"precious", "{file_type}");
            assert!(!case.dir.path().join("nowhere").exists(), "{file_type}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b4_an_output_with_the_suffix_of_a_temporary_name_is_refused() {
    for name in ["x.haul-part", "x.HAUL-JOURNAL", "x.haul-bad-checksum"] {
        let mut case = JobCase::new();
        case.output = Some(JobOutput::File(case.dir.path().join(name)));
        let (run, origin) = case.run(OriginResource::new(content())).await;
        assert!(matches!(
            run.error(),
            GetError::Local {
                error: LocalError::ReservedName,
                ..
            }
        ));
        assert_eq!(run.error().class(), ErrorClass::LocalIo);
        assert!(!run.error().remedies().is_empty() && origin.requests().is_empty());
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
        let run = case.get(&origin.url("/f.bin.haul-part")).await;
        let path = run.outcome().path.clone().unwrap();
        case.get(&origin.url("/f.bin")).await.outcome();
        assert!(std::fs::read(case.path()).unwrap() == content().to_vec());
        assert!(std::fs::read(path).unwrap() == first.to_vec());
        assert_eq!(case.listing().len(), 2, "{:?}", case.listing());
    }
}
