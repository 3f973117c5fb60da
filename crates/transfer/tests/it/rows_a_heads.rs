//! Row A23: answers that are no HTTP, or more of it than anyone takes.

use haul_lab::{
    OriginResource, OriginResponse, OriginResponseBody, OriginResponseFraming, RequestMatcher,
};
use haul_net::Kind;
use haul_transfer::{ConnectionCount, ErrorClass, GetError};

use crate::harness::{JobCase, content};

/// A megabyte in one field, where an honest head has a kilobyte.
fn oversized() -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "y".repeat(1 << 20)).into_bytes()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a23_hostile_heads_are_refused_after_two_more_tries_and_leave_nothing() {
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
        let (ran, origin) = case
            .run(
                OriginResource::new(content())
                    .rule(RequestMatcher::always(), move |_, reply| change(reply)),
            )
            .await;
        let GetError::Transport { source, .. } = ran.error() else {
            panic!("{number}: {:?}", ran.error())
        };
        assert_eq!(*source.kind(), Kind::Protocol, "{number}");
        assert_eq!(ran.error().class(), ErrorClass::Network);
        assert_eq!(origin.requests().len(), 3, "{number}");
        assert!(case.listing().is_empty(), "{number}: {:?}", case.listing());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a23_garbage_during_a_download_ends_it_soon_and_keeps_the_received_bytes() {
    let mut case = JobCase::new();
    case.options.connections = ConnectionCount::Fixed(1);
    case.options.retry.retries = 10;
    let resource = OriginResource::new(content())
        .rule(RequestMatcher::after_first(3), |_, reply| {
            reply.raw_bytes = Some(oversized())
        });
    let (ran, origin) = case.run(resource).await;
    assert!(
        matches!(ran.error(), GetError::Transport { source, .. } if *source.kind() == Kind::Protocol)
    );
    assert_eq!(origin.requests().len(), 6);
    assert_eq!(case.listing(), ["f.bin.haul-journal", "f.bin.haul-part"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a23_one_garbled_response_among_good_ones_is_requested_again() {
    let case = JobCase::new();
    let resource = OriginResource::new(content()).rule(
        RequestMatcher::matching(|request| request.number_for_path % 4 == 2),
        |_, reply| {
            reply.raw_bytes = Some(b"HTTP/1.1 2O6 Partial\r\n\r\n".to_vec());
        },
    );
    let (ran, _origin) = case.run(resource).await;
    ran.outcome();
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a23_invalid_chunks_do_not_end_the_body() {
    let case = JobCase::new();
    let resource = OriginResource::new(content()).rule(RequestMatcher::always(), |_, reply| {
        reply.status = 200;
        reply.remove_header("Content-Range");
        reply.set_header("Transfer-Encoding", "chunked");
        reply.framing = OriginResponseFraming::Undeclared;
        reply.body = OriginResponseBody::Bytes(b"5\r\nhello\r\nzzz\r\n".to_vec());
    });
    let (ran, origin) = case.run(resource).await;
    assert!(
        matches!(ran.error(), GetError::Transport { source, .. } if *source.kind() == Kind::Protocol),
        "{:?}",
        ran.error()
    );
    assert_eq!(origin.requests().len(), 3);
    assert!(case.listing().is_empty(), "{:?}", case.listing());
}
