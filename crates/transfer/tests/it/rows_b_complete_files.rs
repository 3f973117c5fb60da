//! Row B6: the same command again when the file is complete.

use haul_lab::{
    Origin, OriginResource, OriginResponse, OriginResponseBody, RecordedRequest, RequestMatcher,
    ResourceContent, faults,
};
use haul_plan::Checksum;
use haul_transfer::{ConnectionCount, GetError, LocalError};

use crate::harness::{JobCase, content, serve};

/// Downloads a file. `None` if the file system has no extended attributes, in which haul stores the URL of a file.
async fn download_file(resource: OriginResource) -> Option<(JobCase, Origin)> {
    let mut case = JobCase::new();
    // Of several, one may still be sending what another has fetched.
    case.options.connections = ConnectionCount::Fixed(1);
    let (run, origin) = case.run(resource).await;
    run.outcome();
    let file = std::fs::File::open(case.path()).unwrap();
    let attribute = rustix::fs::fgetxattr(&file, "user.haul.from", &mut [0; 4096][..]);
    attribute.is_ok().then_some((case, origin))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b6_an_unchanged_complete_file_needs_one_request_without_a_body() {
    let with_date_alone =
        OriginResource::without_validator(content()).last_modified("Sun, 06 Nov 1994 08:49:37 GMT");
    for resource in [OriginResource::new(content()), with_date_alone] {
        let Some((case, origin)) = download_file(resource).await else {
            return;
        };
        let before = (origin.requests().len(), origin.bytes_sent());
        let second_run = case.get(&origin.url("/f.bin")).await;
        assert!(second_run.outcome().not_modified);
        assert_eq!(second_run.outcome().path, Some(case.path()));
        assert_eq!(origin.requests().len(), before.0 + 1);
        assert_eq!(origin.bytes_sent(), before.1);
        case.assert_file(&content());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b6_a_304_without_a_date_is_accepted_unless_the_file_was_edited() {
    let resource =
        OriginResource::without_validator(content()).last_modified("Sun, 06 Nov 1994 08:49:37 GMT");
    let Some((case, origin)) = download_file(resource).await else {
        return;
    };
    let not_modified = |fields: &'static str| {
        OriginResource::new(content()).rule(RequestMatcher::always(), move |_, reply| {
            let response = format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n");
            reply.raw_bytes = Some(response.into_bytes());
        })
    };
    origin.replace("/f.bin", not_modified(""));
    let second_run = case.get(&origin.url("/f.bin")).await;
    assert!(second_run.outcome().not_modified);
    // The origin went back to an older file.
    let older = not_modified("Last-Modified: Sat, 05 Nov 1994 08:49:37 GMT\r\n");
    origin.replace("/f.bin", older);
    let second_run = case.get(&origin.url("/f.bin")).await;
    assert!(matches!(
        second_run.error(),
        GetError::Local {
            error: LocalError::AlreadyExists,
            ..
        }
    ));
    origin.replace("/f.bin", not_modified(""));
    let file = std::fs::OpenOptions::new().write(true).open(case.path());
    file.unwrap().set_len(5).unwrap();
    let second_run = case.get(&origin.url("/f.bin")).await;
    assert!(matches!(
        second_run.error(),
        GetError::Local {
            error: LocalError::AlreadyExists,
            ..
        }
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b6_the_next_run_accepts_a_journal_left_by_a_kill_after_the_rename() {
    let Some((case, origin)) = download_file(OriginResource::new(content())).await else {
        return;
    };
    // The journal of the same URL from a run that was killed before its file was complete.
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
    let second_run = case.get(&origin.url("/f.bin")).await;
    assert!(second_run.outcome().not_modified);
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b6_a_file_that_changed_locally_or_at_the_origin_is_an_error_and_is_kept() {
    let Some((case, origin)) = download_file(OriginResource::new(content())).await else {
        return;
    };
    let newer = OriginResource::new(ResourceContent::random(8, 5000)).etag("\"v2\"");
    origin.replace("/f.bin", newer);
    let second_run = case.get(&origin.url("/f.bin")).await;
    assert!(matches!(
        second_run.error(),
        GetError::Local {
            error: LocalError::AlreadyExists,
            ..
        }
    ));
    case.assert_file(&content());
    let Some((case, origin)) = download_file(OriginResource::new(content())).await else {
        return;
    };
    std::fs::OpenOptions::new()
        .write(true)
        .open(case.path())
        .unwrap()
        .set_len(5)
        .unwrap();
    let second_run = case.get(&origin.url("/f.bin")).await;
    assert!(matches!(
        second_run.error(),
        GetError::Local {
            error: LocalError::AlreadyExists,
            ..
        }
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b6_the_tag_of_a_whole_response_does_not_accept_a_file_of_another_length() {
    let resource = OriginResource::new(content()).etag("\"same\"");
    let Some((case, origin)) = download_file(resource).await else {
        return;
    };
    // An origin that knows no conditions, and whose tag does not change with the file.
    for (length, is_accepted) in [(content().length(), true), (5, false)] {
        let send_all = move |_: &RecordedRequest, response: &mut OriginResponse| {
            response.status = 200;
            response.body = OriginResponseBody::Slice(content(), 0..length);
        };
        let resource = OriginResource::new(content()).etag("\"same\"");
        origin.replace("/f.bin", resource.rule(RequestMatcher::always(), send_all));
        let second_run = case.get(&origin.url("/f.bin")).await;
        if is_accepted {
            assert!(second_run.outcome().not_modified);
        } else {
            assert!(matches!(
                second_run.error(),
                GetError::Local {
                    error: LocalError::AlreadyExists,
                    ..
                }
            ));
        }
        case.assert_file(&content());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b6_the_date_1970_of_an_origin_without_a_clock_identifies_no_version() {
    let resource =
        OriginResource::without_validator(content()).last_modified("Thu, 01 Jan 1970 00:00:00 GMT");
    let Some((case, origin)) = download_file(resource).await else {
        return;
    };
    let second_run = case.get(&origin.url("/f.bin")).await;
    assert!(matches!(
        second_run.error(),
        GetError::Local {
            error: LocalError::AlreadyExists,
            ..
        }
    ));
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b6_an_existing_file_with_the_given_checksum_needs_no_request() {
    let origin = serve(OriginResource::new(content())).await;
    for (digest, is_right) in [(content().sha256(), true), ("00".repeat(32), false)] {
        let mut case = JobCase::new();
        std::fs::write(case.path(), content().to_vec()).unwrap();
        let checksum: Checksum = format!("sha256:{digest}").parse().unwrap();
        case.checksums = vec![checksum];
        let run = case.get(&origin.url("/f.bin")).await;
        if is_right {
            assert!(run.outcome().not_modified);
        } else {
            assert!(matches!(
                run.error(),
                GetError::Local {
                    error: LocalError::AlreadyExists,
                    ..
                }
            ));
        }
        case.assert_file(&content());
    }
    assert_eq!(origin.requests().len(), 0);
}
