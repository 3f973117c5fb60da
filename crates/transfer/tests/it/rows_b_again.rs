//! Row B6: the same command again, when the file is complete.

use haul_lab::{Origin, OriginResource, RequestMatcher, ResourceContent, faults};
use haul_plan::Checksum;
use haul_transfer::GetError;

use crate::harness::{JobCase, content, serve};

/// A file that haul has downloaded. `None` where the file system has no attributes, so that nothing says whose file it is.
async fn downloaded(resource: OriginResource) -> Option<(JobCase, Origin)> {
    let case = JobCase::new();
    let (ran, origin) = case.run(resource).await;
    ran.outcome();
    let file = std::fs::File::open(case.path()).unwrap();
    let mark = rustix::fs::fgetxattr(&file, "user.haul.from", &mut [0; 4096][..]);
    mark.is_ok().then_some((case, origin))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b6_a_complete_file_that_is_unchanged_needs_one_request_and_no_byte() {
    let with_date_alone =
        OriginResource::without_validator(content()).last_modified("Sun, 06 Nov 1994 08:49:37 GMT");
    for resource in [OriginResource::new(content()), with_date_alone] {
        let Some((case, origin)) = downloaded(resource).await else {
            return;
        };
        let before = (origin.requests().len(), origin.bytes_sent());
        let again = case.get(&origin.url("/f.bin")).await;
        assert!(again.outcome().not_modified);
        assert_eq!(again.outcome().path, Some(case.path()));
        assert_eq!(origin.requests().len(), before.0 + 1);
        assert_eq!(origin.bytes_sent(), before.1);
        case.assert_file(&content());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b6_a_304_need_not_repeat_the_date_unless_the_file_was_edited() {
    let resource =
        OriginResource::without_validator(content()).last_modified("Sun, 06 Nov 1994 08:49:37 GMT");
    let Some((case, origin)) = downloaded(resource).await else {
        return;
    };
    let not_modified = |fields: &'static str| {
        OriginResource::new(content()).rule(RequestMatcher::always(), move |_, reply| {
            let response = format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n");
            reply.raw_bytes = Some(response.into_bytes());
        })
    };
    origin.replace("/f.bin", not_modified(""));
    let again = case.get(&origin.url("/f.bin")).await;
    assert!(again.outcome().not_modified);
    // The origin went back to an older file.
    let older = not_modified("Last-Modified: Sat, 05 Nov 1994 08:49:37 GMT\r\n");
    origin.replace("/f.bin", older);
    let again = case.get(&origin.url("/f.bin")).await;
    assert!(matches!(again.error(), GetError::AlreadyExists { .. }));
    origin.replace("/f.bin", not_modified(""));
    let file = std::fs::OpenOptions::new().write(true).open(case.path());
    file.unwrap().set_len(5).unwrap();
    let again = case.get(&origin.url("/f.bin")).await;
    assert!(matches!(again.error(), GetError::AlreadyExists { .. }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b6_a_kill_between_the_rename_and_the_end_is_no_error_for_the_next_run() {
    let Some((case, origin)) = downloaded(OriginResource::new(content())).await else {
        return;
    };
    // The journal of the same URL, of a run that is killed before its file is whole.
    let mut other = JobCase::new();
    other.options.retry.retries = 0;
    let origin_resource = OriginResource::new(content());
    origin.replace(
        "/f.bin",
        origin_resource
            .clone()
            .rule(RequestMatcher::always(), faults::stall_after(0))
            .rule(
                RequestMatcher::matching(|r| r.number_for_path < 12),
                faults::stall_after(100_000),
            ),
    );
    let broken = other.get(&origin.url("/f.bin")).await;
    assert!(broken.hints_at_resuming());
    let journal = other.dir.path().join("f.bin.haul-journal");
    std::fs::copy(journal, case.dir.path().join("f.bin.haul-journal")).unwrap();
    origin.replace("/f.bin", origin_resource);
    let again = case.get(&origin.url("/f.bin")).await;
    assert!(again.outcome().not_modified);
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b6_a_file_that_changed_here_or_at_the_origin_is_an_error_and_is_kept() {
    let Some((case, origin)) = downloaded(OriginResource::new(content())).await else {
        return;
    };
    let newer = OriginResource::new(ResourceContent::random(8, 5000)).etag("\"v2\"");
    origin.replace("/f.bin", newer);
    let again = case.get(&origin.url("/f.bin")).await;
    assert!(matches!(again.error(), GetError::AlreadyExists { .. }));
    case.assert_file(&content());
    let Some((case, origin)) = downloaded(OriginResource::new(content())).await else {
        return;
    };
    std::fs::OpenOptions::new()
        .write(true)
        .open(case.path())
        .unwrap()
        .set_len(5)
        .unwrap();
    let again = case.get(&origin.url("/f.bin")).await;
    assert!(matches!(again.error(), GetError::AlreadyExists { .. }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b6_a_file_with_the_checksum_that_the_user_gave_needs_no_request() {
    let origin = serve(OriginResource::new(content())).await;
    for (digest, is_right) in [(content().sha256(), true), ("00".repeat(32), false)] {
        let mut case = JobCase::new();
        std::fs::write(case.path(), content().to_vec()).unwrap();
        let checksum: Checksum = format!("sha256:{digest}").parse().unwrap();
        case.checksums = vec![checksum];
        let ran = case.get(&origin.url("/f.bin")).await;
        if is_right {
            assert!(ran.outcome().not_modified);
        } else {
            assert!(matches!(ran.error(), GetError::AlreadyExists { .. }));
        }
        case.assert_file(&content());
    }
    assert_eq!(origin.requests().len(), 0);
}
