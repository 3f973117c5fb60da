//! Rows A1 to A9 (but not A7) and A30: ranges and validators.

use haul_lab::{
    OriginResource, OriginResponse, OriginResponseBody, RecordedRequest, RequestMatcher,
    ResourceContent, faults,
};
use haul_plan::Checksum;
use haul_transfer::ConnectionCount;

use crate::harness::{JobCase, content};

/// Another version of the file, of the same length.
fn other_version() -> ResourceContent {
    ResourceContent::random(2, content().length())
}

/// Replaces the body with other bytes of the same length. Using them makes a wrong file.
fn replace_body(_: &RecordedRequest, reply: &mut OriginResponse) {
    if let OriginResponseBody::Slice(content, _) = &mut reply.body {
        *content = other_version();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a1_a_plain_download_uses_several_connections_and_requests_every_byte_once() {
    let case = JobCase::new();
    let (run, origin) = case.run(OriginResource::new(content())).await;
    assert_eq!(run.outcome().bytes, content().length());
    case.assert_file(&content());
    assert!(origin.connection_count() > 1);
    assert_eq!(origin.bytes_sent(), content().length());
    assert!(
        origin
            .requests()
            .iter()
            .all(|request| request.status == 206 && request.method == "GET")
    );
    assert!(
        origin
            .requests()
            .iter()
            .all(|request| request.header("accept-encoding") == Some("identity"))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a2_an_origin_without_ranges_gives_the_file_over_one_connection() {
    let case = JobCase::new();
    let (run, origin) = case
        .run(OriginResource::new(content()).rule(RequestMatcher::always(), faults::ignore_range))
        .await;
    run.outcome();
    case.assert_file(&content());
    assert_eq!((origin.requests().len(), origin.connection_count()), (1, 1));
}

/// XRootD said so: a file ended where the first request did.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a2_an_origin_whose_total_is_the_length_of_the_part_gives_the_whole_file() {
    let lying = faults::content_range_from(|range, _| {
        let length = range.end - range.start;
        format!("bytes {}-{}/{length}", range.start, range.end - 1)
    });
    let case = JobCase::new();
    let origin = OriginResource::new(content()).rule(RequestMatcher::always(), lying);
    let (run, _) = case.run(origin).await;
    run.outcome();
    case.assert_file(&content());
}

/// A file that does end there is fetched by another request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a2_a_file_that_ends_where_the_first_request_does_is_whole() {
    let case = JobCase::new();
    let content = ResourceContent::random(1, case.options.segment_size.unwrap());
    let (run, origin) = case.run(OriginResource::new(content.clone())).await;
    run.outcome();
    case.assert_file(&content);
    assert_eq!(origin.requests().len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a3_some_responses_that_ignore_ranges_cause_retries_and_no_wrong_byte() {
    let case = JobCase::new();
    let every_fifth = RequestMatcher::matching(|request| request.number_for_path % 5 == 3);
    let (run, origin) = case
        .run(OriginResource::new(content()).rule(every_fifth, faults::ignore_range))
        .await;
    run.outcome();
    case.assert_file(&content());
    assert!(
        origin
            .requests()
            .iter()
            .filter(|request| request.status == 206)
            .count()
            > 5
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a3_an_origin_that_ignores_all_ranges_but_the_first_is_read_as_one_stream() {
    let case = JobCase::new();
    let (run, origin) = case
        .run(OriginResource::new(content()).rule(RequestMatcher::mid_file(), faults::ignore_range))
        .await;
    assert_eq!(run.outcome().bytes, content().length());
    case.assert_file(&content());
    assert!(run.has_warning("cannot be trusted"));
    assert!(
        origin
            .requests()
            .iter()
            .any(|request| request.header("range").is_none())
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a4_if_range_is_not_sent_again_after_it_was_wrongly_ignored() {
    let case = JobCase::new();
    let (run, origin) = case
        .run(
            OriginResource::new(content())
                .rule(RequestMatcher::always(), faults::if_range_never_matches),
        )
        .await;
    run.outcome();
    case.assert_file(&content());
    let requests = origin.requests();
    assert!(
        requests
            .iter()
            .any(|request| request.header("if-range").is_some())
    );
    assert!(
        requests
            .iter()
            .filter(|request| request.status == 206)
            .all(|request| request.header("if-range").is_none())
    );
    assert!(
        requests
            .last()
            .is_some_and(|request| request.header("if-range").is_none())
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a5_a_changed_file_restarts_the_download_once_with_the_new_version() {
    let case = JobCase::new();
    let newer = other_version();
    let changed = newer.clone();
    let resource = OriginResource::new(content()).rule(
        RequestMatcher::after_first(3),
        move |request, reply| {
            reply.set_header("ETag", "\"v2\"");
            if request
                .header("if-range")
                .is_some_and(|sent| sent != "\"v2\"")
            {
                faults::ignore_range(request, reply);
            }
            if let OriginResponseBody::Slice(content, _) = &mut reply.body {
                *content = changed.clone();
            }
        },
    );
    let (run, _origin) = case.run(resource).await;
    assert_eq!(run.outcome().etag.as_deref(), Some("\"v2\""));
    assert!(run.has_warning("changed at the origin"));
    case.assert_file(&newer);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a39_if_the_file_changes_again_one_response_brings_one_version() {
    let version = |number: usize| ResourceContent::random(number as u64, content().length());
    let resource =
        OriginResource::new(content()).rule(RequestMatcher::always(), move |request, reply| {
            let number = request.number_for_path / 3;
            reply.set_header("ETag", &format!("\"v{number}\""));
            if let OriginResponseBody::Slice(content, _) = &mut reply.body {
                *content = version(number);
            }
        });
    let case = JobCase::new();
    let (run, origin) = case.run(resource).await;
    let last = (origin.requests().len() - 1) / 3;
    assert_eq!(run.outcome().etag, Some(format!("\"v{last}\"")));
    assert_eq!(run.outcome().retries, 0);
    case.assert_file(&version(last));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a39_validators_that_do_not_name_versions_cost_the_parts_and_not_the_file() {
    let dates = |request: &RecordedRequest, reply: &mut OriginResponse| {
        let now = std::time::Duration::from_secs(1_700_000_000 + request.number_for_path as u64);
        let now = httpdate::fmt_http_date(std::time::UNIX_EPOCH + now);
        reply.remove_header("ETag");
        reply.set_header("Last-Modified", &now);
    };
    let tags_of_ranges = |request: &RecordedRequest, reply: &mut OriginResponse| {
        let range = request.header("range").unwrap_or("all");
        reply.set_header("ETag", &format!("\"{}\"", range.replace('=', "-")));
    };
    for obeys_if_range in [true, false] {
        for kind in 0..2 {
            let change = move |request: &RecordedRequest, reply: &mut OriginResponse| {
                match kind {
                    0 => dates(request, reply),
                    _ => tags_of_ranges(request, reply),
                }
                let if_range = request.header("if-range");
                if obeys_if_range && if_range.is_some() && if_range != reply.header("ETag") {
                    faults::ignore_range(request, reply);
                }
            };
            let case = JobCase::new();
            let resource = OriginResource::new(content()).rule(RequestMatcher::always(), change);
            let (run, _origin) = case.run(resource).await;
            run.outcome();
            case.assert_file(&content());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a39_with_a_digest_several_connections_go_on_whatever_validators_say() {
    let resource =
        OriginResource::new(content()).rule(RequestMatcher::always(), |request, reply| {
            reply.set_header("ETag", &format!("\"{}\"", request.number_for_path));
        });
    let mut case = JobCase::new();
    case.checksums = vec![format!("sha256:{}", content().sha256()).parse().unwrap()];
    let (run, origin) = case.run(resource).await;
    run.outcome();
    case.assert_file(&content());
    assert!(
        origin
            .requests()
            .iter()
            .all(|request| request.header("range").is_some())
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a6_weak_etags_and_recent_dates_are_never_sent_as_if_range() {
    for resource in [
        OriginResource::without_validator(content()).etag("W/\"v1\""),
        OriginResource::without_validator(content()).last_modified(&recent()),
    ] {
        let case = JobCase::new();
        let (run, origin) = case.run(resource).await;
        run.outcome();
        case.assert_file(&content());
        assert!(
            origin
                .requests()
                .iter()
                .all(|request| request.header("if-range").is_none())
        );
    }
}

/// The date ten seconds ago, too recent for a strong validator.
fn recent() -> String {
    httpdate::fmt_http_date(std::time::SystemTime::now() - std::time::Duration::from_secs(10))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a6_a_changed_weak_etag_is_a_changed_file() {
    let case = JobCase::new();
    let resource = OriginResource::without_validator(content())
        .etag("W/\"v1\"")
        .rule(RequestMatcher::after_first(3), |request, reply| {
            reply.set_header("ETag", "W/\"v2\"");
            replace_body(request, reply);
        });
    let (run, _origin) = case.run(resource).await;
    assert_eq!(run.outcome().etag.as_deref(), Some("W/\"v2\""));
    assert!(run.has_warning("changed at the origin"));
    case.assert_file(&other_version());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a8_wrong_content_ranges_never_reach_the_file() {
    for wrong in [
        "bytes 0-99/2174929",
        "bytes 0-262143/2174929",
        "bytes 262145-524288/2174929",
        "bytes 262144-524287/2174930",
        "bytes 262144-99999999999999999999/2174929",
        "bytes 524287-262144/2174929",
        "bytes 262144-524287/5",
        "junk",
    ] {
        let case = JobCase::new();
        let resource = OriginResource::new(content())
            .rule(RequestMatcher::nth(1), faults::content_range(wrong))
            .rule(RequestMatcher::nth(1), replace_body);
        let (run, _origin) = case.run(resource).await;
        run.outcome();
        case.assert_file(&content());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a8_if_every_content_range_is_wrong_the_file_is_read_as_one_stream() {
    let case = JobCase::new();
    let wrong = faults::content_range("bytes 0-99/2174929");
    let resource = OriginResource::new(content())
        .rule(RequestMatcher::mid_file(), wrong)
        .rule(RequestMatcher::mid_file(), replace_body);
    let (run, origin) = case.run(resource).await;
    run.outcome();
    case.assert_file(&content());
    let whole =
        |request: &RecordedRequest| request.header("range").is_none() && request.status == 200;
    assert!(origin.requests().iter().any(whole));
}

/// Sends more bytes than were asked for, and says so: up to the next multiple of 300,000.
fn reach_farther(_: &RecordedRequest, reply: &mut OriginResponse) {
    let OriginResponseBody::Slice(content, range) = &mut reply.body else {
        return;
    };
    let total = content.length();
    range.end = (range.end.next_multiple_of(300_000) + 1).min(total);
    let value = format!("bytes {}-{}/{total}", range.start, range.end - 1);
    reply.set_header("Content-Range", &value);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a40_parts_that_reach_farther_or_name_no_total_need_no_retry_and_several_connections_go_on()
{
    let no_total =
        faults::content_range_from(|range, _| format!("bytes {}-{}/*", range.start, range.end - 1));
    for resource in [
        OriginResource::new(content()).rule(RequestMatcher::with_range(), reach_farther),
        OriginResource::new(content())
            .rule(RequestMatcher::with_range(), no_total)
            .rule(RequestMatcher::always(), faults::body_rate(2 << 20)),
    ] {
        let case = JobCase::new();
        let (run, origin) = case.run(resource).await;
        assert_eq!(run.outcome().retries, 0);
        assert!(run.outcome().connections > 1);
        case.assert_file(&content());
        let parts = origin
            .requests()
            .iter()
            .filter(|request| request.status == 206)
            .count();
        assert!(parts > 3);
    }
}

/// Such an origin sends no more of a file than was asked for, under the status of a whole one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a50_parts_under_status_200_are_no_whole_file() {
    for cut in [content().length(), 100_000] {
        let part = move |_: &RecordedRequest, reply: &mut OriginResponse| {
            reply.status = 200;
            if let OriginResponseBody::Slice(content, range) = &mut reply.body {
                range.end = range.end.min(range.start + cut);
                let (first, last) = (range.start, range.end - 1);
                let total = content.length();
                reply.set_header("Content-Range", &format!("bytes {first}-{last}/{total}"));
            }
        };
        let case = JobCase::new();
        let resource = OriginResource::new(content()).rule(RequestMatcher::with_range(), part);
        let (run, _origin) = case.run(resource).await;
        run.outcome();
        case.assert_file(&content());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a9_without_a_content_range_or_with_multipart_the_file_is_read_as_one_stream() {
    for kind in [
        "application/octet-stream",
        "multipart/byteranges; boundary=x",
    ] {
        let case = JobCase::new();
        let resource = OriginResource::new(content()).rule(
            RequestMatcher::with_range(),
            move |request, reply| {
                reply.remove_header("Content-Range");
                reply.set_header("Content-Type", kind);
                replace_body(request, reply);
            },
        );
        let (run, _origin) = case.run(resource).await;
        run.outcome();
        case.assert_file(&content());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a30_a_file_that_grows_with_each_request_comes_in_one_response() {
    let case = JobCase::new();
    let resource = OriginResource::without_validator(content()).rule(
        RequestMatcher::always(),
        |request, reply| {
            let longer = 4_000_000 + request.number_for_path as u64;
            let range = request.range(longer).unwrap_or(0..longer);
            reply.set_header(
                "Content-Range",
                &format!("bytes {}-{}/{longer}", range.start, range.end - 1),
            );
        },
    );
    let (run, origin) = case.run(resource).await;
    run.outcome();
    case.assert_file(&content());
    let whole = |request: &RecordedRequest| request.header("range").is_none();
    assert!(origin.requests().last().is_some_and(whole));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a14_files_of_zero_and_one_byte_and_about_a_segment_are_complete() {
    let segment = 256 << 10;
    for length in [0, 1, segment - 1, segment, segment + 1, 2 * segment] {
        let case = JobCase::new();
        let content = ResourceContent::random(3, length);
        let (run, origin) = case.run(OriginResource::new(content.clone())).await;
        assert_eq!(run.outcome().bytes, length);
        case.assert_file(&content);
        // Whether a file that ends with the first request has more, another one tells.
        let again = u64::from(length == segment);
        assert_eq!(
            origin.requests().len() as u64,
            length.div_ceil(segment).max(1) + again,
            "length {length}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_limit_of_one_connection_holds_and_the_checksum_is_reported() {
    let mut case = JobCase::new();
    case.options.connections = ConnectionCount::Fixed(1);
    case.checksums = vec!["sha256".parse::<Checksum>().unwrap()];
    let (run, origin) = case.run(OriginResource::new(content())).await;
    assert_eq!(run.outcome().checksums[0].1, content().sha256());
    assert_eq!(origin.connection_count(), 1);
    assert_eq!(run.outcome().connections, 1);
}

/// A file of more than the usual first request: over one connection a further request would only be a pause.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_connection_sends_one_request() {
    let mut case = JobCase::new();
    case.options.connections = ConnectionCount::Fixed(1);
    case.options.segment_size = None;
    let content = ResourceContent::random(3, 20 << 20);
    let (run, origin) = case.run(OriginResource::new(content.clone())).await;
    assert_eq!(run.outcome().connections, 1);
    case.assert_file(&content);
    assert_eq!(origin.requests().len(), 1);
}
