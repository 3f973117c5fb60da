//! Rows A35 to A38, A41 and A43: pages, refusals and broken bodies in place of the file, and that they cost no byte that is on disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use haul_lab::{
    Origin, OriginResource, OriginResponse, OriginResponseBody, RecordedRequest, RequestMatcher,
    ResourceContent, faults,
};
use haul_transfer::{
    ErrorClass, ExistingFilePolicy, GetError, NetworkError, OriginError, VerificationError,
};
use tokio_util::sync::CancellationToken;

use crate::harness::{JobCase, content};

pub(crate) type Change = Arc<dyn Fn(&RecordedRequest, &mut OriginResponse) + Send + Sync>;

pub(crate) const PAGE: &str =
    "<!DOCTYPE html><html><title>Sign in</title><body>Your session has expired.</body></html>";

/// A response with this body, without the file's fields.
pub(crate) fn document(
    status: u16,
    media_type: Option<&str>,
    body: &str,
    reply: &mut OriginResponse,
) {
    *reply = OriginResponse::empty(status);
    if let Some(media_type) = media_type {
        reply.set_header("Content-Type", media_type);
    }
    reply.body = OriginResponseBody::Bytes(body.as_bytes().to_vec());
}

/// What origins send in place of a file.
pub(crate) fn pages() -> Vec<(&'static str, Change)> {
    let html = Some("text/html; charset=utf-8");
    let simple = move |media_type: Option<&'static str>, body: &'static str| -> Change {
        Arc::new(move |_, reply| document(200, media_type, body, reply))
    };
    vec![
        ("a page", simple(html, PAGE)),
        (
            "an error in JSON",
            simple(Some("application/json"), "{\"error\": \"expired\"}"),
        ),
        (
            "an error in XML",
            simple(
                Some("application/xml"),
                "<Error><Code>AccessDenied</Code></Error>",
            ),
        ),
        (
            "a line of text",
            simple(Some("text/plain"), "Rate limit exceeded\n"),
        ),
        ("a page without a type", simple(None, PAGE)),
        (
            "a page with the file's type",
            simple(Some("application/octet-stream"), PAGE),
        ),
        ("nothing", simple(None, "")),
        (
            "a page in chunks",
            Arc::new(move |request, reply| {
                document(200, html, PAGE, reply);
                faults::chunked(request, reply);
            }),
        ),
        (
            "a page that is longer than the file and has a tag",
            Arc::new(move |_, reply| {
                document(200, html, PAGE, reply);
                reply.body = OriginResponseBody::Bytes(PAGE.repeat(30_000).into_bytes());
                reply.set_header("ETag", "\"page\"");
            }),
        ),
        (
            "a page as a part",
            Arc::new(move |_, reply| {
                document(206, html, PAGE, reply);
                reply.set_header("Content-Range", "bytes 0-87/88");
            }),
        ),
        (
            "a redirect to a page",
            Arc::new(|request, reply| faults::redirect(302, "/signin")(request, reply)),
        ),
    ]
}

/// The file at `/f.bin`, slowly enough to be interrupted, and a page at `/signin`.
async fn origin_of(file: OriginResource) -> Origin {
    let signin = ResourceContent::fixed(PAGE.as_bytes().to_vec());
    let signin = OriginResource::without_validator(signin).header("Content-Type", "text/html");
    Origin::builder()
        .resource("/f.bin", file)
        .resource("/signin", signin)
        .rate_per_connection(2 << 20)
        .start()
        .await
}

fn file() -> OriginResource {
    OriginResource::new(content()).header("Content-Type", "application/octet-stream")
}

/// Stops a job when a third of the file has arrived.
async fn interrupt(case: &mut JobCase, url: &str, origin: &Origin) {
    let stop = case.stop.clone();
    let stop_after_a_third = async {
        while origin.bytes_sent() < content().length() / 3 {
            tokio::task::yield_now().await;
        }
        stop.cancel();
    };
    let (run, ()) = tokio::join!(case.get(url), stop_after_a_third);
    assert!(run.hints_at_resuming(), "{:?}", run.error());
    case.stop = CancellationToken::new();
}

fn assert_partial_file_is_kept(case: &JobCase, what: &str) {
    assert_eq!(
        case.listing(),
        ["f.bin.haul-journal", "f.bin.haul-part"],
        "{what}"
    );
}

/// The job goes on where it was, and is right.
async fn assert_resumes(case: &JobCase, url: &str, what: &str) {
    let run = case.get(url).await;
    assert!(
        run.outcome().resumed > 300_000,
        "{what}: {:?}",
        run.outcome()
    );
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a35_a_page_on_resume_is_refused_and_costs_nothing() {
    for (what, change) in pages() {
        let mut case = JobCase::new();
        let origin = origin_of(file()).await;
        let url = origin.url("/f.bin");
        interrupt(&mut case, &url, &origin).await;
        origin.replace(
            "/f.bin",
            file().rule(RequestMatcher::always(), move |request, reply| {
                change(request, reply)
            }),
        );
        let run = case.get(&url).await;
        assert_eq!(
            run.error().class(),
            ErrorClass::Verification,
            "{what}: {}",
            run.error()
        );
        let GetError::Verification {
            error: VerificationError::ErrorPage { document, .. },
            ..
        } = run.error()
        else {
            panic!("{what}: {:?}", run.error());
        };
        if what == "a page" {
            assert_eq!(
                document.to_string(),
                "text/html of 88 bytes (\"Sign in Your session has expired.\")"
            );
        }
        assert!(run.hints_at_resuming(), "{what}: {:?}", run.error());
        assert_partial_file_is_kept(&case, what);
        origin.replace("/f.bin", file());
        assert_resumes(&case, &url, what).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a35_a_login_that_expires_in_mid_run_costs_nothing() {
    for (what, change) in pages() {
        let case = JobCase::new();
        let expired = RequestMatcher::after_bytes_sent(content().length() / 3);
        let origin =
            origin_of(file().rule(expired, move |request, reply| change(request, reply))).await;
        let url = origin.url("/f.bin");
        let run = case.get(&url).await;
        assert!(
            matches!(
                run.error(),
                GetError::Verification {
                    error: VerificationError::ErrorPage { .. },
                    ..
                }
            ),
            "{what}: {:?}",
            run.error()
        );
        assert!(run.hints_at_resuming(), "{what}: {:?}", run.error());
        assert_partial_file_is_kept(&case, what);
        origin.replace("/f.bin", file());
        assert_resumes(&case, &url, what).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a35_a_page_among_good_responses_is_asked_again() {
    for (what, change) in pages() {
        let case = JobCase::new();
        let some = RequestMatcher::matching(|request| request.number_for_path % 4 == 2);
        let (run, _origin) = case
            .run(file().rule(some, move |request, reply| {
                // A redirect would lead all further requests to the page.
                match what {
                    "a redirect to a page" => document(200, Some("text/html"), PAGE, reply),
                    _ => change(request, reply),
                }
            }))
            .await;
        run.outcome();
        case.assert_file(&content());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a35_a_page_that_is_the_resource_may_change() {
    let page = |seed| {
        let mut bytes = PAGE.as_bytes().to_vec();
        bytes.extend(ResourceContent::random(seed, content().length()).to_vec());
        ResourceContent::fixed(bytes)
    };
    let resource = |seed, tag: &str| {
        OriginResource::new(page(seed))
            .etag(tag)
            .header("Content-Type", "text/html; charset=utf-8")
    };
    let mut case = JobCase::new();
    let origin = origin_of(resource(1, "\"1\"")).await;
    let url = origin.url("/f.bin");
    interrupt(&mut case, &url, &origin).await;
    origin.replace("/f.bin", resource(2, "\"2\""));
    let run = case.get(&url).await;
    assert_eq!(run.outcome().resumed, 0);
    assert!(run.has_warning("starting again"));
    case.assert_file(&page(2));
}

/// The new version's first bytes never come: those of the old one stay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a5_old_bytes_stay_until_the_new_version_has_begun() {
    let mut case = JobCase::new();
    let origin = origin_of(file()).await;
    let url = origin.url("/f.bin");
    interrupt(&mut case, &url, &origin).await;
    let newer = ResourceContent::random(9, content().length());
    let changed = OriginResource::new(newer.clone())
        .etag("\"v2\"")
        .header("Content-Type", "application/octet-stream");
    origin.replace(
        "/f.bin",
        changed
            .clone()
            .rule(RequestMatcher::after_first(1), faults::close_after(0)),
    );
    let run = case.get(&url).await;
    assert!(
        matches!(
            run.error(),
            GetError::Network {
                error: NetworkError::Transport { .. },
                ..
            }
        ),
        "{:?}",
        run.error()
    );
    assert_partial_file_is_kept(&case, "cut");
    // The origin has the old version again, perhaps on another node.
    origin.replace("/f.bin", file());
    assert_resumes(&case, &url, "the old version").await;
    // With the new one it begins again.
    let mut case = JobCase::new();
    let origin = origin_of(file()).await;
    let url = origin.url("/f.bin");
    interrupt(&mut case, &url, &origin).await;
    origin.replace("/f.bin", changed);
    let run = case.get(&url).await;
    assert_eq!(run.outcome().resumed, 0);
    case.assert_file(&newer);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a35_update_replaces_no_file_by_a_page() {
    for (what, change) in pages() {
        let mut case = JobCase::new();
        case.options.existing_file = ExistingFilePolicy::Update;
        let origin = origin_of(file()).await;
        let url = origin.url("/f.bin");
        case.get(&url).await.outcome();
        origin.replace(
            "/f.bin",
            file()
                .etag("\"v2\"")
                .rule(RequestMatcher::always(), move |request, reply| {
                    change(request, reply)
                }),
        );
        let run = case.get(&url).await;
        assert!(
            matches!(
                run.error(),
                GetError::Verification {
                    error: VerificationError::ErrorPage { .. },
                    ..
                }
            ),
            "{what}: {:?}",
            run.result
        );
        case.assert_file(&content());
        let newer = ResourceContent::random(9, 70_000);
        origin.replace("/f.bin", OriginResource::new(newer.clone()).etag("\"v3\""));
        case.get(&url).await.outcome();
        case.assert_file(&newer);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a36_a_page_that_is_the_first_response_is_stored_under_a_warning() {
    for (what, change) in pages() {
        let is_page = !matches!(what, "nothing" | "a line of text");
        let case = JobCase::new();
        let resource = file().rule(RequestMatcher::always(), move |request, reply| match what {
            "a redirect to a page" => document(200, Some("text/html"), PAGE, reply),
            _ => change(request, reply),
        });
        let (run, _origin) = case.run(resource).await;
        run.outcome();
        assert_eq!(
            run.has_warning("what the name f.bin promises"),
            is_page,
            "{what}: {:?}",
            run.events
        );
    }
    let case = JobCase::new();
    let (run, _origin) = case.run(file()).await;
    assert!(!run.has_warning("promises"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a37_a_link_with_a_fresh_signature_or_token_goes_on() {
    for (old, new) in [
        ("?sig=1", "?sig=2"),
        (
            "?X-Amz-Date=1&X-Amz-Signature=2",
            "?X-Amz-Date=3&X-Amz-Signature=4",
        ),
        ("?id=5&token=a&expires=1", "?id=5&token=b&expires=2"),
    ] {
        let mut case = JobCase::new();
        let origin = origin_of(file()).await;
        interrupt(&mut case, &origin.url(&format!("/f.bin{old}")), &origin).await;
        assert_resumes(&case, &origin.url(&format!("/f.bin{new}")), new).await;
    }
    // Validators decide, and another path is another file.
    let mut case = JobCase::new();
    let origin = origin_of(file()).await;
    interrupt(&mut case, &origin.url("/f.bin?sig=1"), &origin).await;
    origin.replace("/f.bin", file().etag("\"v2\""));
    let run = case.get(&origin.url("/f.bin?sig=2")).await;
    assert_eq!(run.outcome().resumed, 0);
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a38_ranges_that_are_refused_cost_no_file() {
    let matcher = |what: &str| match what {
        "all" => RequestMatcher::with_range(),
        "all but the first" => RequestMatcher::mid_file(),
        "some" => RequestMatcher::matching(|request| request.number_for_path % 5 == 3),
        _ => RequestMatcher::matching(|request| {
            let range = request.range(content().length());
            range.is_some_and(|range| range.start >= content().length() / 2)
        }),
    };
    for status in [400, 403, 416, 501] {
        for what in [
            "all",
            "all but the first",
            "some",
            "those in the second half",
        ] {
            let matcher = matcher(what);
            let case = JobCase::new();
            let (run, origin) = case
                .run(file().rule(
                    matcher.and(RequestMatcher::with_range()),
                    faults::status(status),
                ))
                .await;
            run.result
                .as_ref()
                .unwrap_or_else(|error| panic!("{status} to {what}: {error}"));
            assert!(!run.has_warning("changed"), "{status} to {what}");
            case.assert_file(&content());
            if what == "some" {
                assert!(
                    origin
                        .requests()
                        .iter()
                        .all(|request| request.header("range").is_some())
                );
            }
        }
    }
}

/// Falling back to one response must not cost what is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a38_the_parts_stay_while_one_response_brings_everything_again() {
    let refused = [faults::status(416), faults::status(403)];
    for refusal in refused {
        let case = JobCase::new();
        let third = content().length() / 3;
        let late = RequestMatcher::after_bytes_sent(third);
        let no_range = RequestMatcher::matching(|request| request.header("range").is_none());
        let origin = origin_of(
            file()
                .rule(late.and(RequestMatcher::with_range()), refusal)
                .rule(no_range, faults::close_after(100_000)),
        )
        .await;
        let url = origin.url("/f.bin");
        let run = case.get(&url).await;
        run.error();
        assert_partial_file_is_kept(&case, "refused");
        origin.replace("/f.bin", file());
        assert_resumes(&case, &url, "refused").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a41_a_length_that_no_body_ever_has_is_told_after_three() {
    let mut case = JobCase::new();
    // The origin compresses the body at each request, which takes a busy machine longer than the 300 ms of `JobCase`.
    case.client.response_timeout = Duration::from_secs(20);
    case.client.stall_timeout = Duration::from_secs(20);
    let resource = file().rule(RequestMatcher::always(), faults::gzip).rule(
        RequestMatcher::always(),
        faults::overstated_length(1_000_000),
    );
    let (run, origin) = case.run(resource).await;
    assert_eq!(origin.requests().len(), 3);
    assert_eq!(run.error().class(), ErrorClass::Network);
    let message = run.error().to_string();
    assert!(message.contains("announced"), "{message}");
    assert!(case.listing().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a43_a_ban_in_mid_run_keeps_the_bytes_and_names_no_credentials() {
    let case = JobCase::new();
    let sent = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&sent);
    let banned = RequestMatcher::after_bytes_sent(content().length() / 3);
    let origin = origin_of(file().rule(banned, move |request, reply| {
        counted.fetch_add(1, Ordering::Relaxed);
        document(
            403,
            Some("text/html"),
            "<title>Attention Required!</title>",
            reply,
        );
        reply.set_header("cf-mitigated", "challenge");
        let _ = request;
    }))
    .await;
    let url = origin.url("/f.bin");
    let run = case.get(&url).await;
    assert!(
        matches!(
            run.error(),
            GetError::Origin {
                error: OriginError::Status { .. },
                ..
            }
        ),
        "{:?}",
        run.error()
    );
    let hint = format!("{:?}", run.error().remedies());
    assert!(hint.contains("blocks") && run.hints_at_resuming(), "{hint}");
    assert!(!hint.contains("LogIn"), "{hint}");
    assert!(sent.load(Ordering::Relaxed) < 20, "{sent:?} requests");
    assert_partial_file_is_kept(&case, "banned");
    origin.replace("/f.bin", file());
    assert_resumes(&case, &url, "banned").await;
}
