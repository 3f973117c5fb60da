//! The seams of one stream: answers that follow each other and are not the same file, or never end.

use haul_lab::faults::DigestHeader;
use haul_lab::{
    OriginResource, OriginResponseBody, OriginResponseFraming, RequestMatcher, ResourceContent,
    faults,
};
use haul_transfer::{GetError, JobOutput};

use crate::harness::{JobCase, content, serve};

/// What gzip makes shorter, but not by much.
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
    let (ran, origin) = case.run(resource).await;
    assert_eq!(ran.outcome().bytes, text().length());
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
    // The origin compresses while its peer waits.
    case.client.stall_timeout = crate::harness::LIMIT;
    let resource = OriginResource::new(content())
        .rule(RequestMatcher::always(), faults::ignore_range)
        .rule(RequestMatcher::after_first(1), faults::gzip)
        .rule(RequestMatcher::always(), faults::chunked)
        .rule(RequestMatcher::first(1), faults::close_after(100_000));
    let (ran, _origin) = case.run(resource).await;
    ran.outcome();
    // The origin's only response by now is an encoded one: stored as sent, with a warning.
    assert!(ran.warned("gzip"));
    let (sent, plain) = (std::fs::read(case.path()).unwrap(), content().to_vec());
    assert_ne!(sent, plain);
    let mut decoder = flate2::write::GzDecoder::new(Vec::new());
    std::io::Write::write_all(&mut decoder, &sent).unwrap();
    assert!(decoder.finish().unwrap() == plain, "not one gzip body");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a26_a_repeated_stream_is_checked_against_the_digest_of_its_last_response() {
    let case = JobCase::new();
    // The first answer is of another version, which nothing but its digest tells; the later ones are whole.
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
    let (ran, _origin) = case.run(resource).await;
    ran.outcome();
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a10_a_stream_that_always_breaks_exhausts_the_retries() {
    for chunked in [true, false] {
        let mut case = JobCase::new();
        case.options.retry.retries = 2;
        let resource = OriginResource::new(ResourceContent::random(4, 8 << 20))
            .rule(RequestMatcher::always(), faults::ignore_range)
            .rule(RequestMatcher::matching(move |_| chunked), faults::chunked)
            .rule(RequestMatcher::always(), faults::close_after(5 << 20));
        let (ran, origin) = case.run(resource).await;
        assert!(
            matches!(ran.error(), GetError::Transport { .. }),
            "{:?}",
            ran.error()
        );
        // Three tries that found out that ranges are ignored, and the budget.
        assert!(origin.requests().len() <= 6, "{}", origin.requests().len());
        assert!(case.listing().is_empty(), "{:?}", case.listing());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a8_ranges_shorter_than_requested_make_a_whole_stream() {
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
    let (ran, origin) = case.run(resource).await;
    assert_eq!(ran.outcome().bytes, length);
    assert_eq!((origin.requests().len(), ran.outcome().retries), (3, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a11_bytes_beyond_the_content_range_are_not_used() {
    let mut case = JobCase::new();
    let sink = case.dir.path().join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&sink).status();
    assert!(made.unwrap().success());
    case.output = Some(JobOutput::File(sink.clone()));
    let reader = std::thread::spawn(move || std::fs::read(sink).unwrap());
    let length = content().length();
    let resource =
        OriginResource::new(content()).rule(RequestMatcher::with_range(), move |request, reply| {
            let range = request.range(length).unwrap();
            let end = range.end.min(range.start + 1_000_000);
            let content_range = format!("bytes {}-{}/{length}", range.start, end - 1);
            reply.set_header("Content-Range", &content_range);
            // What it says it brings, and as much again of something else.
            let mut bytes = content().slice(range.start..end).to_vec();
            bytes.extend(vec![0xaa; bytes.len()]);
            reply.body = OriginResponseBody::Bytes(bytes);
            reply.framing = OriginResponseFraming::Chunked;
        });
    let (ran, _origin) = case.run(resource).await;
    let output = reader.join().unwrap();
    assert!(
        content().to_vec().starts_with(&output),
        "the output is not the file: {:?}",
        ran.result
    );
    assert!(ran.result.is_err() || output.len() as u64 == length);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a11_a_body_beyond_its_range_is_not_read_to_its_end() {
    let mut case = JobCase::new();
    case.output = Some(JobOutput::File("/dev/null".into()));
    // So much is not made in a moment.
    case.client.stall_timeout = crate::harness::LIMIT;
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
    let (ran, origin) = case.run(resource).await;
    assert_eq!(ran.outcome().bytes, 2000);
    // What the sockets hold, and no more.
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
        let ran = case.get(&origin.url("/f.bin")).await;
        assert_eq!(origin.requests()[0].status, 206, "{field}");
        assert!(
            matches!(ran.error(), GetError::Checksum { .. }),
            "{field}: {:?}",
            ran.error()
        );
    }
}
