//! A single stream of several responses: responses that are not the same file, that break off, or that never end.

use haul_lab::faults::DigestHeader;
use haul_lab::{
    OriginResource, OriginResponseBody, OriginResponseFraming, RequestMatcher, ResourceContent,
    faults,
};
use haul_transfer::{GetError, JobOutput, NetworkError, VerificationError};

use crate::harness::{JobCase, content, serve};

/// Content that gzip makes only a little shorter.
fn text() -> ResourceContent {
    let lines = (0..200_000u32).map(|n| format!("{}\n", n.wrapping_mul(2_654_435_761)));
    ResourceContent::fixed(lines.collect::<String>())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a13_an_encoded_body_that_breaks_is_not_continued_with_plain_bytes() {
    let case = JobCase::new();
    let resource = OriginResource::new(text())
        .rule(RequestMatcher::first(1), faults::gzip)
        .rule(RequestMatcher::first(1), faults::close_after(300_000));
    let (run, origin) = case.run(resource).await;
    assert_eq!(run.outcome().bytes, text().length());
    case.assert_file(&text());
    let ranges = origin.requests();
    assert!(
        ranges
            .iter()
            .all(|request| request.header("range") != Some("bytes=300000-")),
        "{ranges:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a13_a_repeated_stream_that_is_now_encoded_gets_a_new_decoder() {
    let mut case = JobCase::new();
    // The origin compresses while the client waits.
    case.client.stall_timeout = crate::harness::LIMIT;
    case.client.response_timeout = case.client.stall_timeout;
    let resource = OriginResource::new(content())
        .rule(RequestMatcher::always(), faults::ignore_range)
        .rule(RequestMatcher::after_first(1), faults::gzip)
        .rule(RequestMatcher::always(), faults::chunked)
        .rule(RequestMatcher::first(1), faults::close_after(100_000));
    let (run, _origin) = case.run(resource).await;
    run.outcome();
    // The origin's only response by now is an encoded one: stored as sent, with a warning.
    assert!(run.has_warning("gzip"));
    let (sent, plain) = (std::fs::read(case.path()).unwrap(), content().to_vec());
    assert_ne!(sent, plain);
    let mut decoder = flate2::write::GzDecoder::new(Vec::new());
    std::io::Write::write_all(&mut decoder, &sent).unwrap();
    assert!(decoder.finish().unwrap() == plain, "not one gzip body");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a26_a_repeated_stream_is_checked_against_the_digest_of_its_last_response() {
    let case = JobCase::new();
    // The first response is of another version, which only its digest shows. The later responses are complete.
    let resource = OriginResource::without_validator(content())
        .rule(RequestMatcher::always(), faults::ignore_range)
        .rule(RequestMatcher::always(), faults::chunked)
        .rule(
            RequestMatcher::first(1),
            faults::wrong_digest(DigestHeader::Repr),
        )
        .rule(RequestMatcher::first(1), faults::close_after(100_000))
        .rule(
            RequestMatcher::after_first(1),
            faults::right_digest(DigestHeader::Repr),
        );
    let (run, _origin) = case.run(resource).await;
    run.outcome();
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a10_a_single_stream_that_always_breaks_exhausts_the_retries() {
    for chunked in [true, false] {
        let mut case = JobCase::new();
        case.options.retry.retries = 2;
        let resource = OriginResource::new(ResourceContent::random(4, 8 << 20))
            .rule(RequestMatcher::always(), faults::ignore_range)
            .rule(RequestMatcher::matching(move |_| chunked), faults::chunked)
            .rule(RequestMatcher::always(), |request, reply| {
                // At the same byte each time, it would be known to be broken for good (row A41).
                let bytes = (5 << 20) + request.number_for_path as u64;
                faults::close_after(bytes)(request, reply);
            });
        let (run, origin) = case.run(resource).await;
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
        // Three requests that show that ranges are ignored, and the retries.
        assert!(origin.requests().len() <= 6, "{}", origin.requests().len());
        assert!(case.listing().is_empty(), "{:?}", case.listing());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a8_ranges_shorter_than_requested_are_joined() {
    let mut case = JobCase::new();
    case.output = Some(JobOutput::File("/dev/null".into()));
    let length = content().length();
    let resource =
        OriginResource::new(content()).rule(RequestMatcher::with_range(), move |request, reply| {
            let range = request.range(length).unwrap();
            let end = range.end.min(range.start + (1 << 20));
            let content_range = format!("bytes {}-{}/{length}", range.start, end - 1);
            reply.set_header("Content-Range", &content_range);
            reply.body = OriginResponseBody::Slice(content(), range.start..end);
        });
    let (run, origin) = case.run(resource).await;
    assert_eq!(run.outcome().bytes, length);
    assert_eq!((origin.requests().len(), run.outcome().retries), (3, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a11_bytes_beyond_the_content_range_are_not_used() {
    let mut case = JobCase::new();
    let fifo = case.dir.path().join("fifo");
    let status = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(status.unwrap().success());
    case.output = Some(JobOutput::File(fifo.clone()));
    let reader = std::thread::spawn(move || std::fs::read(fifo).unwrap());
    let length = content().length();
    let resource =
        OriginResource::new(content()).rule(RequestMatcher::with_range(), move |request, reply| {
            let range = request.range(length).unwrap();
            let end = range.end.min(range.start + 1_000_000);
            let content_range = format!("bytes {}-{}/{length}", range.start, end - 1);
            reply.set_header("Content-Range", &content_range);
            // The bytes of the Content-Range, and as many other bytes.
            let mut bytes = content().slice(range.start..end).to_vec();
            bytes.extend(vec![0xaa; bytes.len()]);
            reply.body = OriginResponseBody::Bytes(bytes);
            reply.framing = OriginResponseFraming::Chunked;
        });
    let (run, _origin) = case.run(resource).await;
    let output = reader.join().unwrap();
    assert!(
        content().to_vec().starts_with(&output),
        "the output is not the file: {:?}",
        run.result
    );
    assert!(run.result.is_err() || output.len() as u64 == length);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a11_an_oversized_body_is_not_read_to_its_end() {
    let mut case = JobCase::new();
    case.output = Some(JobOutput::File("/dev/null".into()));
    // The origin needs time to produce a body of this size.
    case.client.stall_timeout = crate::harness::LIMIT;
    case.client.response_timeout = case.client.stall_timeout;
    let small = ResourceContent::random(7, 2000);
    let bytes = small.to_vec();
    let resource =
        OriginResource::new(small).rule(RequestMatcher::with_range(), move |request, reply| {
            let range = request.range(2000).unwrap();
            let end = range.end.min(range.start + 1000);
            let content_range = format!("bytes {}-{}/2000", range.start, end - 1);
            reply.set_header("Content-Range", &content_range);
            let from = usize::try_from(range.start).unwrap();
            let mut body = bytes[from..from + 1000].to_vec();
            body.resize(64 << 20, 0);
            reply.body = OriginResponseBody::Bytes(body);
            reply.framing = OriginResponseFraming::Chunked;
        });
    let (run, origin) = case.run(resource).await;
    assert_eq!(run.outcome().bytes, 2000);
    // Only what socket buffers hold was sent.
    assert!(origin.bytes_sent() < 64 << 20, "{}", origin.bytes_sent());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a26_digests_of_the_content_are_checked_if_a_response_has_all_of_it() {
    let small = ResourceContent::random(9, 5000);
    for (field, value) in [
        (
            "Content-Digest",
            "sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:",
        ),
        ("Content-MD5", "AAAAAAAAAAAAAAAAAAAAAA=="),
        ("x-amz-checksum-crc32c", "AAAAAA=="),
    ] {
        let case = JobCase::new();
        let origin = serve(OriginResource::new(small.clone()).header(field, value)).await;
        let run = case.get(&origin.url("/f.bin")).await;
        assert_eq!(origin.requests()[0].status, 206, "{field}");
        assert!(
            matches!(
                run.error(),
                GetError::Verification {
                    error: VerificationError::Checksum { .. },
                    ..
                }
            ),
            "{field}: {:?}",
            run.error()
        );
    }
}
