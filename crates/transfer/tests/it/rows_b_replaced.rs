//! What is replaced, and what is not: rights, links, directories, and a partial file that is ours no more.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use haul_lab::{Origin, OriginResource, RequestMatcher, faults};
use haul_transfer::{ErrorClass, ExistingFilePolicy, GetError, JobOutput};

use crate::harness::{JobCase, content, serve};

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o7777
}

fn overwriting() -> JobCase {
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
            for whole in [false, true] {
                let mut case = JobCase::new();
                case.options.existing_file = existing;
                let path = case.lay("f.bin", "old");
                std::fs::set_permissions(&path, std::fs::Permissions::from_mode(old)).unwrap();
                let part = case.dir.path().join("f.bin.haul-part");
                let resource = OriginResource::new(content())
                    .last_modified("Fri, 01 Jan 2100 00:00:00 GMT")
                    .rule(
                        RequestMatcher::matching(move |_| whole),
                        faults::ignore_range,
                    )
                    .rule(RequestMatcher::after_first(1), move |_, _| {
                        assert_eq!(mode(&part), 0o600)
                    });
                let (ran, _origin) = case.run(resource).await;
                ran.outcome();
                assert_eq!(mode(&path), new, "{existing:?}");
                case.assert_file(&content());
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b4_the_target_of_a_link_is_replaced_and_a_link_to_nothing_makes_its_file() {
    for there in [true, false] {
        let case = overwriting();
        let far = case.dir.path().join("far");
        std::fs::create_dir(&far).unwrap();
        if there {
            std::fs::write(far.join("target"), "old").unwrap();
        }
        symlink("far/target", case.path()).unwrap();
        let (ran, _origin) = case.run(OriginResource::new(content())).await;
        assert_eq!(ran.outcome().path.as_deref(), Some(&*far.join("target")));
        assert!(case.path().is_symlink());
        assert!(std::fs::read(far.join("target")).unwrap() == content().to_vec());
        let names: Vec<_> = std::fs::read_dir(&far).unwrap().collect();
        assert_eq!(names.len(), 1, "{names:?}");
        assert_eq!(case.listing(), ["f.bin", "far"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b4_a_link_with_the_name_is_an_error_without_overwrite() {
    let case = JobCase::new();
    symlink("nowhere", case.path()).unwrap();
    let (ran, _origin) = case.run(OriginResource::new(content())).await;
    assert!(
        matches!(ran.error(), GetError::AlreadyExists { .. }),
        "{:?}",
        ran.error()
    );
    assert_eq!(case.listing(), ["f.bin"]);
}

/// A directory under the name that the origin gives is found out by the first answer, not after the last byte.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b4_a_directory_with_the_origins_name_is_reported_before_anything_is_fetched() {
    let mut case = overwriting();
    case.output = Some(JobOutput::Directory(case.dir.path().to_owned()));
    std::fs::create_dir(case.dir.path().join("named")).unwrap();
    let resource = OriginResource::new(content()).rule(
        RequestMatcher::always(),
        faults::content_disposition("named"),
    );
    let (ran, origin) = case.run(resource).await;
    assert!(
        matches!(ran.error(), GetError::IsDirectory { .. }),
        "{:?}",
        ran.error()
    );
    assert_eq!(origin.requests().len(), 1);
    assert_eq!(case.listing(), ["named"]);
}

/// Somebody moves the partial file away and lays another under its name: that one is neither published nor removed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b3_a_partial_file_that_was_swapped_is_not_published() {
    for whole in [false, true] {
        let case = overwriting();
        let origin = Origin::builder()
            .resource(
                "/f.bin",
                OriginResource::new(content()).rule(
                    RequestMatcher::matching(move |_| whole),
                    faults::ignore_range,
                ),
            )
            .rate_per_connection(2 << 20)
            .start()
            .await;
        let part = case.dir.path().join("f.bin.haul-part");
        let swap = async {
            while !part.exists() || origin.bytes_sent() < 100_000 {
                tokio::task::yield_now().await;
            }
            std::fs::rename(&part, case.dir.path().join("away")).unwrap();
            std::fs::write(&part, "theirs").unwrap();
        };
        let url = origin.url("/f.bin");
        let (ran, ()) = tokio::join!(case.get(&url), swap);
        assert_eq!(
            ran.error().class(),
            ErrorClass::LocalIo,
            "{:?}",
            ran.error()
        );
        assert!(!case.path().exists());
        assert_eq!(std::fs::read(&part).unwrap(), b"theirs");
    }
}

/// Another name of an open descriptor is written as it is, also where a regular file is behind it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b4_a_descriptor_of_a_regular_file_is_written_at_its_end() {
    use std::os::fd::AsRawFd;
    let mut case = overwriting();
    let mut log = std::fs::File::create(case.dir.path().join("log")).unwrap();
    std::io::Write::write_all(&mut log, b"before").unwrap();
    case.output = Some(JobOutput::File(
        format!("/dev/fd/{}", log.as_raw_fd()).into(),
    ));
    let origin = serve(OriginResource::new(content())).await;
    case.get(&origin.url("/f.bin")).await.outcome();
    let mut all = b"before".to_vec();
    all.extend(content().to_vec());
    assert!(std::fs::read(case.dir.path().join("log")).unwrap() == all);
    assert_eq!(case.listing(), ["log"]);
}
