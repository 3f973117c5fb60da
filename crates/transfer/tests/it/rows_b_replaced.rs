//! Rows B3 and B4: replacing existing files, their permissions, links, directories, and partial files that were swapped.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use haul_lab::{Origin, OriginResource, RequestMatcher, faults};
use haul_transfer::{ErrorClass, ExistingFilePolicy, GetError, JobOutput, LocalError};

use crate::harness::{JobCase, content, serve};

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o7777
}

fn case_with_overwrite() -> JobCase {
    let mut case = JobCase::new();
    case.options.existing_file = ExistingFilePolicy::Overwrite;
    case
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b4_a_replaced_file_keeps_its_permissions_and_partial_files_are_private() {
    for (old, new) in [
        (0o600, 0o600),
        (0o664, 0o664),
        (0o400, 0o400),
        (0o4755, 0o755),
    ] {
        for existing in [ExistingFilePolicy::Overwrite, ExistingFilePolicy::Update] {
            for single_stream in [false, true] {
                let mut case = JobCase::new();
                case.options.existing_file = existing;
                let path = case.write_file("f.bin", "old");
                std::fs::set_permissions(&path, std::fs::Permissions::from_mode(old)).unwrap();
                let part = case.dir.path().join("f.bin.haul-part");
                let resource = OriginResource::new(content())
                    .last_modified("Fri, 01 Jan 2100 00:00:00 GMT")
                    .rule(
                        RequestMatcher::matching(move |_| single_stream),
                        faults::ignore_range,
                    )
                    .rule(RequestMatcher::after_first(1), move |_, _| {
                        assert_eq!(mode(&part), 0o600)
                    });
                let (run, _origin) = case.run(resource).await;
                run.outcome();
                assert_eq!(mode(&path), new, "{existing:?}");
                case.assert_file(&content());
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b4_the_target_of_a_link_is_replaced_or_created() {
    for target_exists in [true, false] {
        let case = case_with_overwrite();
        let target_directory = case.dir.path().join("far");
        std::fs::create_dir(&target_directory).unwrap();
        if target_exists {
            std::fs::write(target_directory.join("target"), "old").unwrap();
        }
        symlink("far/target", case.path()).unwrap();
        let (run, _origin) = case.run(OriginResource::new(content())).await;
        assert_eq!(
            run.outcome().path.as_deref(),
            Some(&*target_directory.join("target"))
        );
        assert!(case.path().is_symlink());
        assert!(std::fs::read(target_directory.join("target")).unwrap() == content().to_vec());
        let names: Vec<_> = std::fs::read_dir(&target_directory).unwrap().collect();
        assert_eq!(names.len(), 1, "{names:?}");
        assert_eq!(case.listing(), ["f.bin", "far"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b4_a_link_with_the_name_is_an_error_without_overwrite() {
    let case = JobCase::new();
    symlink("nowhere", case.path()).unwrap();
    let (run, _origin) = case.run(OriginResource::new(content())).await;
    assert!(
        matches!(
            run.error(),
            GetError::Local {
                error: LocalError::AlreadyExists,
                ..
            }
        ),
        "{:?}",
        run.error()
    );
    assert_eq!(case.listing(), ["f.bin"]);
}

/// The first response names the file, so the conflict is reported then and not after the last byte.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b4_a_directory_with_the_origins_name_is_reported_before_anything_is_fetched() {
    let mut case = case_with_overwrite();
    case.output = Some(JobOutput::Directory(case.dir.path().to_owned()));
    std::fs::create_dir(case.dir.path().join("named")).unwrap();
    let resource = OriginResource::new(content()).rule(
        RequestMatcher::always(),
        faults::content_disposition("named"),
    );
    let (run, origin) = case.run(resource).await;
    assert!(
        matches!(
            run.error(),
            GetError::Local {
                error: LocalError::IsDirectory,
                ..
            }
        ),
        "{:?}",
        run.error()
    );
    assert_eq!(origin.requests().len(), 1);
    assert_eq!(case.listing(), ["named"]);
}

/// Another process moves the partial file away and creates another file with its name. That file is neither published nor removed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b3_a_swapped_partial_file_is_not_published() {
    for single_stream in [false, true] {
        let case = case_with_overwrite();
        let origin = Origin::builder()
            .resource(
                "/f.bin",
                OriginResource::new(content()).rule(
                    RequestMatcher::matching(move |_| single_stream),
                    faults::ignore_range,
                ),
            )
            .rate_per_connection(2 << 20)
            .start()
            .await;
        let part = case.dir.path().join("f.bin.haul-part");
        let swap_partial_file = async {
            while !part.exists() || origin.bytes_sent() < 100_000 {
                tokio::task::yield_now().await;
            }
            std::fs::rename(&part, case.dir.path().join("away")).unwrap();
            std::fs::write(&part, "theirs").unwrap();
        };
        let url = origin.url("/f.bin");
        let (run, ()) = tokio::join!(case.get(&url), swap_partial_file);
        assert_eq!(
            run.error().class(),
            ErrorClass::LocalIo,
            "{:?}",
            run.error()
        );
        assert!(!case.path().exists());
        assert_eq!(std::fs::read(&part).unwrap(), b"theirs");
    }
}

/// A `/dev/fd` path is written through the open descriptor, even if that is a regular file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b4_a_descriptor_of_a_regular_file_is_written_at_its_end() {
    use std::os::fd::AsRawFd;
    let mut case = case_with_overwrite();
    let mut log = std::fs::File::create(case.dir.path().join("log")).unwrap();
    std::io::Write::write_all(&mut log, b"before").unwrap();
    case.output = Some(JobOutput::File(
        format!("/dev/fd/{}", log.as_raw_fd()).into(),
    ));
    let origin = serve(OriginResource::new(content())).await;
    case.get(&origin.url("/f.bin")).await.outcome();
    let mut expected = b"before".to_vec();
    expected.extend(content().to_vec());
    assert!(std::fs::read(case.dir.path().join("log")).unwrap() == expected);
    assert_eq!(case.listing(), ["log"]);
}
