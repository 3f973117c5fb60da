//! Rows A31 and A32: ambiguous body framing and ambiguous redirect targets.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use haul_lab::{OriginResource, RequestMatcher, ResourceContent};
use haul_net::Kind;
use haul_transfer::{ErrorClass, GetError, NetworkError};

use crate::harness::{JobCase, JobRun, content};

const HELLO: &str = "hello";
const HELLO_CHUNK: &str = "5\r\nhello\r\n0\r\n\r\n";

/// Downloads from an origin that sends `response` to every request and then closes the connection. Returns how many requests
/// there were.
async fn get_raw(case: &JobCase, response: String) -> (JobRun, usize) {
    let resource =
        OriginResource::new(content()).rule(RequestMatcher::always(), move |_, reply| {
            reply.raw_bytes = Some(response.clone().into_bytes());
        });
    let (run, origin) = case.run(resource).await;
    (run, origin.requests().len())
}

fn assert_refused(case: &JobCase, run: &JobRun, requests: usize, name: &str) {
    let GetError::Network {
        error: NetworkError::Transport { source, .. },
        ..
    } = run.error()
    else {
        panic!("{name}: {:?}", run.error())
    };
    assert!(
        matches!(source.kind(), Kind::Framing(_)),
        "{name}: {source}"
    );
    assert_eq!(run.error().class(), ErrorClass::Network, "{name}");
    assert_eq!(requests, 1, "{name}");
    assert!(case.listing().is_empty(), "{name}: {:?}", case.listing());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a31_an_unrequested_transfer_encoding_is_refused_at_once() {
    let nine_fields = ["Transfer-Encoding: gzip,"; 9].join("\r\n");
    let fields = [
        "Transfer-Encoding: gzip",
        "Transfer-Encoding: deflate",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked, gzip",
        "Transfer-Encoding: chunked, chunked, gzip",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: identityx",
        "Transfer-Encoding: chunked,",
        &nine_fields,
    ];
    for field in fields {
        for length in ["", "\r\nContent-Length: 5"] {
            for body in [HELLO, HELLO_CHUNK] {
                let case = JobCase::new();
                let response = format!("HTTP/1.1 200 OK\r\n{field}{length}\r\n\r\n{body}");
                let (run, requests) = get_raw(&case, response).await;
                assert_refused(&case, &run, requests, field);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a31_chunked_is_decoded_if_it_is_repeated_or_follows_identity() {
    let fields = [
        "Transfer-Encoding: chunked",
        "Transfer-Encoding: CHUNKED",
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: identity, chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
    ];
    for field in fields {
        let case = JobCase::new();
        let response = format!("HTTP/1.1 200 OK\r\n{field}\r\n\r\n{HELLO_CHUNK}");
        let (run, _) = get_raw(&case, response).await;
        run.outcome();
        case.assert_file(&ResourceContent::fixed(HELLO));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a31_chunks_that_contradict_content_length_are_refused_at_once() {
    for length in ["0", "4", "6", "100", "5, 6", "x"] {
        let case = JobCase::new();
        let response = format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: {length}\r\n\r\n{HELLO_CHUNK}"
        );
        let (run, requests) = get_raw(&case, response).await;
        assert_refused(&case, &run, requests, length);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a31_a_length_that_is_no_number_and_chunks_in_http_1_0_are_refused_at_once() {
    for (version, field) in [
        ("1.1", "Content-Length: 5, 6"),
        ("1.1", "Content-Length: 5\r\nContent-Length: 6"),
        ("1.1", "Content-Length: +5"),
        ("1.0", "Content-Length: x"),
        ("1.0", "Transfer-Encoding: chunked"),
    ] {
        let case = JobCase::new();
        let response = format!("HTTP/{version} 200 OK\r\n{field}\r\n\r\n{HELLO_CHUNK}");
        let (run, requests) = get_raw(&case, response).await;
        assert_refused(&case, &run, requests, field);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chunk_sizes_and_trailers_may_end_with_lf_alone() {
    for chunks in [
        "5\nhello\n0\n\n",
        "5;a=b\nhello\r\n0\r\n\n",
        "2\nhe\n3\r\nllo\n0\nName: value\n\n",
    ] {
        let case = JobCase::new();
        let response = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}");
        let (run, requests) = get_raw(&case, response).await;
        run.outcome();
        assert_eq!(requests, 1, "{chunks:?}");
        case.assert_file(&ResourceContent::fixed(HELLO));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chunk_that_is_longer_than_its_size_fails_the_download() {
    let case = JobCase::new();
    let response =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\nhello\n0\n\n".to_owned();
    let (run, _) = get_raw(&case, response).await;
    assert_eq!(run.error().class(), ErrorClass::Network);
    assert!(case.listing().is_empty(), "{:?}", case.listing());
}

/// An origin that sends this response to one connection and leaves the connection open.
fn serve_and_stay_open(response: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/f.bin", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        read_request(&mut stream);
        stream.write_all(response.as_bytes()).unwrap();
        // Until the client closes.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    url
}

fn read_request(stream: &mut TcpStream) {
    let mut request = Vec::new();
    let mut byte = [0];
    while !request.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        request.push(byte[0]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a31_identity_is_ignored_and_the_body_ends_at_its_content_length() {
    let responses = [
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity, identity\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\nContent-Length: 5\r\n\r\nhello and more",
    ];
    for response in responses {
        let case = JobCase::new();
        let run = case.get(&serve_and_stay_open(response)).await;
        run.outcome();
        assert_eq!(run.retries(), 0, "{response}");
        case.assert_file(&ResourceContent::fixed(HELLO));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a31_an_identity_body_without_a_length_ends_with_the_connection() {
    let case = JobCase::new();
    let response = "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\nhello".to_owned();
    let (run, _) = get_raw(&case, response).await;
    run.outcome();
    case.assert_file(&ResourceContent::fixed(HELLO));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a31_an_identity_body_that_ends_early_is_an_error() {
    let case = JobCase::new();
    let response =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\nContent-Length: 9\r\n\r\nhello";
    let (run, _) = get_raw(&case, response.to_owned()).await;
    assert_eq!(run.error().class(), ErrorClass::Network);
    assert!(!case.path().exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a32_several_location_headers_are_followed_only_if_they_are_equal() {
    for (second, is_followed) in [("/f.bin?2", true), ("/other", false)] {
        let case = JobCase::new();
        let response = format!(
            "HTTP/1.1 302 Found\r\nLocation: /f.bin?2\r\nLocation: {second}\r\nContent-Length: 0\r\n\r\n"
        );
        let first = RequestMatcher::matching(|request| request.number_for_path == 0);
        let resource = OriginResource::new(content()).rule(first, move |_, reply| {
            reply.raw_bytes = Some(response.clone().into_bytes());
        });
        let (run, origin) = case.run(resource).await;
        if is_followed {
            run.outcome();
            case.assert_file(&content());
        } else {
            let refused = run.error();
            assert!(
                matches!(refused, GetError::Network { error: NetworkError::Transport { source, .. }, .. } if matches!(source.kind(), Kind::Redirect(_)))
            );
            assert_eq!(refused.class(), ErrorClass::Network);
            assert_eq!(origin.requests().len(), 1);
            assert!(case.listing().is_empty());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a32_different_location_headers_are_refused_with_any_status() {
    let case = JobCase::new();
    let response =
        "HTTP/1.1 200 OK\r\nLocation: /a\r\nLocation: /b\r\nContent-Length: 5\r\n\r\nhello";
    let (run, requests) = get_raw(&case, response.to_owned()).await;
    let GetError::Network {
        error: NetworkError::Transport { source, .. },
        ..
    } = run.error()
    else {
        panic!("{:?}", run.error())
    };
    assert!(matches!(source.kind(), Kind::Redirect(_)), "{source}");
    assert_eq!(requests, 1);
    assert!(case.listing().is_empty(), "{:?}", case.listing());
}
