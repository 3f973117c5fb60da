//! Rows A10 to A12, A19, A22, A24, A26: faults in response bodies.

use std::time::Duration;

use haul_lab::faults::DigestHeader;
use haul_lab::{OriginResource, RequestMatcher, ResourceContent, faults};
use haul_transfer::{ConnectionCount, ErrorClass, GetError, JobOutput, VerificationError};

use crate::harness::{JobCase, content};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a10_resets_and_short_bodies_keep_the_received_bytes() {
    for rule in [0, 1] {
        let case = JobCase::new();
        let resource = OriginResource::new(content()).rule(
            RequestMatcher::matching(|request| request.number_for_path % 3 == 1),
            move |request, reply| match rule {
                0 => faults::reset_after(100_000)(request, reply),
                _ => faults::close_after(100_000)(request, reply),
            },
        );
        let (run, origin) = case.run(resource).await;
        run.outcome();
        case.assert_file(&content());
        // The bytes before the break were kept, except for those in socket buffers: far less than the whole file was fetched twice.
        assert!(
            origin.bytes_sent() < content().length() * 3 / 2,
            "{} sent",
            origin.bytes_sent()
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a10_a_download_survives_a_close_in_the_middle_of_chunks() {
    let case = JobCase::new();
    let resource = OriginResource::new(content())
        .rule(RequestMatcher::always(), faults::chunked)
        .rule(RequestMatcher::nth(0), faults::close_after(50_000));
    let (run, _origin) = case.run(resource).await;
    run.outcome();
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a10_a_broken_single_stream_is_resumed_if_ranges_work() {
    let mut case = JobCase::new();
    case.output = Some(JobOutput::File(case.dir.path().join("fifo")));
    let status = std::process::Command::new("mkfifo")
        .arg(case.dir.path().join("fifo"))
        .status()
        .unwrap();
    assert!(status.success());
    let reader = std::thread::spawn({
        let path = case.dir.path().join("fifo");
        move || std::fs::read(path).unwrap()
    });
    let resource =
        OriginResource::new(content()).rule(RequestMatcher::first(3), faults::reset_after(300_000));
    let (run, _origin) = case.run(resource).await;
    run.outcome();
    assert!(reader.join().unwrap() == content().to_vec());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a11_no_byte_beyond_the_requested_range_is_used() {
    let case = JobCase::new();
    let resource = OriginResource::new(content()).rule(
        RequestMatcher::matching(|request| request.number_for_path % 2 == 1),
        |request, reply| {
            reply.framing = haul_lab::OriginResponseFraming::Chunked;
            let range = request.range(content().length()).unwrap();
            reply.body = haul_lab::OriginResponseBody::Bytes(
                [content().slice(range), vec![0xee; 200_000]].concat(),
            );
        },
    );
    let (run, _origin) = case.run(resource).await;
    run.outcome();
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a12_a_file_of_unknown_length_is_one_stream_with_a_warning() {
    for framing in [
        haul_lab::OriginResponseFraming::Chunked,
        haul_lab::OriginResponseFraming::CloseDelimited,
    ] {
        let case = JobCase::new();
        let resource =
            OriginResource::new(content()).rule(RequestMatcher::always(), faults::ignore_range);
        let resource = resource.rule(RequestMatcher::always(), move |_, reply| {
            reply.framing = framing
        });
        let (run, origin) = case.run(resource).await;
        assert_eq!(run.outcome().bytes, content().length());
        assert!(run.has_warning("cannot be resumed"));
        case.assert_file(&content());
        assert_eq!(origin.requests().len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a19_silence_before_the_response_head_is_a_stall() {
    let case = JobCase::new();
    let resource = OriginResource::new(content()).rule(RequestMatcher::nth(0), |_, reply| {
        reply.delay = Duration::from_secs(3600)
    });
    let (run, origin) = case.run(resource).await;
    run.outcome();
    assert!(origin.requests().len() > 1);
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a22_old_and_unusual_heads_are_parsed() {
    let changes: [fn(&mut haul_lab::OriginResponse); 4] = [
        |reply| {
            reply.version = "HTTP/1.0".into();
            reply.framing = haul_lab::OriginResponseFraming::CloseDelimited;
        },
        |reply| {
            reply
                .headers
                .iter_mut()
                .for_each(|(name, _)| *name = name.to_ascii_lowercase())
        },
        |reply| reply.set_header("X-Folded", "one\r\n  two"),
        |reply| {
            reply.prelude =
                b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
                    .to_vec()
        },
    ];
    for change in changes {
        let case = JobCase::new();
        let (run, _origin) = case
            .run(
                OriginResource::new(content())
                    .rule(RequestMatcher::always(), move |_, reply| change(reply)),
            )
            .await;
        run.outcome();
        case.assert_file(&content());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a24_an_error_page_does_not_match_the_given_checksum() {
    let mut case = JobCase::new();
    case.checksums = vec![format!("sha256:{}", content().sha256()).parse().unwrap()];
    let page = ResourceContent::fixed("<html>please log in</html>");
    let (run, _origin) = case
        .run(OriginResource::without_validator(page).header("Content-Type", "text/html"))
        .await;
    assert_eq!(run.error().class(), ErrorClass::Verification);
    assert_eq!(case.listing(), ["f.bin.haul-bad-checksum"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a26_repr_digest_is_checked() {
    // RFC 9530: `Repr-Digest` is the digest of the whole file in partial responses, too.
    let right = "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:";
    let case = JobCase::new();
    let (run, _origin) = case
        .run(OriginResource::new(ResourceContent::fixed("")).header("Repr-Digest", right))
        .await;
    run.outcome();
    for connections in [ConnectionCount::Fixed(1), ConnectionCount::Fixed(4)] {
        let mut case = JobCase::new();
        case.options.connections = connections;
        let (run, _origin) = case
            .run(OriginResource::new(content()).header("Repr-Digest", right))
            .await;
        assert!(
            matches!(
                run.error(),
                GetError::Verification {
                    error: VerificationError::Checksum {
                        expected_by: "Repr-Digest",
                        ..
                    },
                    ..
                }
            ),
            "{:?}",
            run.error()
        );
        assert!(!case.path().exists());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a4_a_broken_single_stream_is_resumed_without_if_range_if_the_origin_ignores_it() {
    let case = JobCase::new();
    let resource = OriginResource::new(content())
        .rule(RequestMatcher::nth(0), faults::ignore_range)
        .rule(RequestMatcher::nth(0), faults::reset_after(1_000_000))
        .rule(RequestMatcher::always(), faults::if_range_never_matches);
    let (run, origin) = case.run(resource).await;
    run.outcome();
    case.assert_file(&content());
    assert_eq!(
        origin.requests().last().map(|request| request.status),
        Some(206),
        "the received bytes are kept"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a26_every_digest_field_is_checked_whether_right_or_wrong() {
    for field in [
        DigestHeader::Repr,
        DigestHeader::Content,
        DigestHeader::Obsolete,
        DigestHeader::Md5,
        DigestHeader::Amazon,
    ] {
        let whole =
            || OriginResource::new(content()).rule(RequestMatcher::always(), faults::ignore_range);
        let case = JobCase::new();
        let (run, _origin) = case
            .run(whole().rule(RequestMatcher::always(), faults::right_digest(field)))
            .await;
        run.outcome();
        case.assert_file(&content());
        let case = JobCase::new();
        let (run, _origin) = case
            .run(whole().rule(RequestMatcher::always(), faults::wrong_digest(field)))
            .await;
        assert!(
            matches!(
                run.error(),
                GetError::Verification {
                    error: VerificationError::Checksum { .. },
                    ..
                }
            ),
            "{field:?}: {:?}",
            run.error()
        );
        assert_eq!(case.listing(), ["f.bin.haul-bad-checksum"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a26_the_digest_of_a_part_is_not_compared_with_the_file() {
    for field in [DigestHeader::Content, DigestHeader::Md5] {
        let mut case = JobCase::new();
        case.options.connections = ConnectionCount::Fixed(4);
        let right = faults::right_digest(field);
        let resource = OriginResource::new(content()).rule(RequestMatcher::always(), right);
        let (run, origin) = case.run(resource).await;
        run.outcome();
        case.assert_file(&content());
        assert!(origin.requests().len() > 1, "{field:?}");
    }
}
