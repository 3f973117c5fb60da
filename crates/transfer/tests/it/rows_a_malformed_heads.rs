//! Row A23: responses that are not HTTP, and response heads that are too large.

use haul_lab::{
    OriginResource, OriginResponse, OriginResponseBody, OriginResponseFraming, RequestMatcher,
};
use haul_net::Kind;
use haul_transfer::{ConnectionCount, ErrorClass, GetError, NetworkError};

use crate::harness::{JobCase, content};

/// A response head with a header of 1 MiB.
fn oversized() -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "y".repeat(1 << 20)).into_bytes()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a23_malformed_heads_are_retried_twice_and_leave_no_files() {
    let hostile: [fn(&mut OriginResponse); 5] = [
        |reply| reply.endless_head = true,
        |reply| reply.raw_bytes = Some(oversized()),
        |reply| {
            reply.raw_bytes =
                Some(b"HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 3\r\n\r\nabc".to_vec())
        },
        |reply| {
            reply.raw_bytes =
                Some(b"HTTP/1.1 200 OK\r\nBad Name: x\r\nContent-Length: 3\r\n\r\nabc".to_vec())
        },
        |reply| reply.raw_bytes = Some(b"SSH-2.0-OpenSSH_9.6\r\n".to_vec()),
    ];
    for (number, change) in hostile.into_iter().enumerate() {
        let mut case = JobCase::new();
        case.options.retry.retries = 10;
        let (run, origin) = case
            .run(
                OriginResource::new(content())
                    .rule(RequestMatcher::always(), move |_, reply| change(reply)),
            )
            .await;
        let GetError::Network {
            error: NetworkError::Transport { source, .. },
            ..
        } = run.error()
        else {
            panic!("{number}: {:?}", run.error())
        };
        assert_eq!(*source.kind(), Kind::Protocol, "{number}");
        assert_eq!(run.error().class(), ErrorClass::Network);
        assert_eq!(origin.requests().len(), 3, "{number}");
        assert!(case.listing().is_empty(), "{number}: {:?}", case.listing());
    }
}

/// A response with so many header fields.
fn with_fields(count: usize) -> Vec<u8> {
    let others: String = (1..count).map(|n| format!("X-{n}: y\r\n")).collect();
    format!("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n{others}\r\nabc").into_bytes()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a23_a_head_may_have_a_hundred_fields() {
    for (count, is_accepted) in [(100, true), (101, false)] {
        let mut case = JobCase::new();
        case.options.retry.retries = 0;
        let resource =
            OriginResource::new(content()).rule(RequestMatcher::always(), move |_, reply| {
                reply.raw_bytes = Some(with_fields(count));
            });
        let (run, _origin) = case.run(resource).await;
        assert_eq!(run.result.is_ok(), is_accepted, "{count}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a23_malformed_heads_during_a_download_end_it_and_the_received_bytes_are_kept() {
    let mut case = JobCase::new();
    case.options.connections = ConnectionCount::Fixed(1);
    case.options.retry.retries = 10;
    let resource = OriginResource::new(content())
        .rule(RequestMatcher::after_first(3), |_, reply| {
            reply.raw_bytes = Some(oversized())
        });
    let (run, origin) = case.run(resource).await;
    assert!(
        matches!(run.error(), GetError::Network { error: NetworkError::Transport { source, .. }, .. } if *source.kind() == Kind::Protocol)
    );
    assert_eq!(origin.requests().len(), 6);
    assert_eq!(case.listing(), ["f.bin.haul-journal", "f.bin.haul-part"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a23_a_request_with_a_malformed_response_is_retried() {
    let case = JobCase::new();
    let resource = OriginResource::new(content()).rule(
        RequestMatcher::matching(|request| request.number_for_path % 4 == 2),
        |_, reply| {
            reply.raw_bytes = Some(b"HTTP/1.1 2O6 Partial\r\n\r\n".to_vec());
        },
    );
    let (run, _origin) = case.run(resource).await;
    run.outcome();
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a23_invalid_chunks_are_a_protocol_error() {
    let case = JobCase::new();
    let resource = OriginResource::new(content()).rule(RequestMatcher::always(), |_, reply| {
        reply.status = 200;
        reply.remove_header("Content-Range");
        reply.set_header("Transfer-Encoding", "chunked");
        reply.framing = OriginResponseFraming::Undeclared;
        reply.body = OriginResponseBody::Bytes(b"5\r\nhello\r\nzzz\r\n".to_vec());
    });
    let (run, origin) = case.run(resource).await;
    assert!(
        matches!(run.error(), GetError::Network { error: NetworkError::Transport { source, .. }, .. } if *source.kind() == Kind::Protocol),
        "{:?}",
        run.error()
    );
    assert_eq!(origin.requests().len(), 3);
    assert!(case.listing().is_empty(), "{:?}", case.listing());
}
