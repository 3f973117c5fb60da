//! Row A13: content codings that were not requested.

use std::io::Write as _;

use haul_lab::{OriginResource, RequestMatcher, ResourceContent, faults};
use haul_transfer::{ConnectionCount, ErrorClass, GetError, OriginError};

use crate::harness::{JobCase, content};

fn gzipped(content: &ResourceContent) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&content.to_vec()).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a13_an_encoded_response_is_stored_as_sent_or_decoded_on_request() {
    for decode in [false, true] {
        let mut case = JobCase::new();
        case.options.decode_content = decode;
        let sent = gzipped(&content());
        let body = sent.clone();
        let resource =
            OriginResource::new(content()).rule(RequestMatcher::always(), move |_, reply| {
                reply.set_header("Content-Encoding", "gzip");
                reply.remove_header("Content-Range");
                reply.status = 200;
                reply.body = haul_lab::OriginResponseBody::Bytes(body.clone());
            });
        let (run, _origin) = case.run(resource).await;
        run.outcome();
        assert_eq!(run.has_warning("gzip"), !decode);
        case.assert_file(&if decode {
            content()
        } else {
            ResourceContent::fixed(sent)
        });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a13_encoded_segments_are_not_written_to_the_file() {
    let case = JobCase::new();
    // These are other bytes, as encoded ones would be: using them makes a wrong file.
    let resource = OriginResource::new(content()).rule(RequestMatcher::mid_file(), |_, reply| {
        reply.set_header("Content-Encoding", "gzip");
        if let haul_lab::OriginResponseBody::Slice(part, _) = &mut reply.body {
            *part = ResourceContent::random(2, content().length());
        }
    });
    let (run, _origin) = case.run(resource).await;
    run.outcome();
    case.assert_file(&content());
}

/// A resource that sends this body with this content coding to every request.
fn encoded(coding: &'static str, body: Vec<u8>) -> OriginResource {
    OriginResource::new(content()).rule(RequestMatcher::always(), move |_, reply| {
        reply.set_header("Content-Encoding", coding);
        reply.remove_header("Content-Range");
        reply.status = 200;
        reply.body = haul_lab::OriginResponseBody::Bytes(body.clone());
    })
}

fn deflated(content: &ResourceContent) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&content.to_vec()).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a13_decoding_after_a_broken_body_starts_over_with_a_new_decoder_and_digest() {
    // Compressible text, so that a decoder buffers output that is lost when it is dropped.
    let text = ResourceContent::fixed("the same line again and again\n".repeat(100_000));
    for (coding, body) in [("gzip", gzipped(&text)), ("deflate", deflated(&text))] {
        let mut case = JobCase::new();
        case.options.decode_content = true;
        case.checksums = vec![format!("sha256:{}", text.sha256()).parse().unwrap()];
        let half = body.len() as u64 / 2;
        let resource = encoded(coding, body)
            .rule(RequestMatcher::first(2), faults::close_after(half))
            .rule(RequestMatcher::nth(2), faults::reset_after(half / 2));
        let (run, origin) = case.run(resource).await;
        assert_eq!(run.outcome().bytes, text.length(), "{coding}");
        assert_eq!(origin.requests().len(), 4);
        case.assert_file(&text);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a13_an_encoded_body_that_always_breaks_exhausts_the_retries_and_leaves_no_files() {
    let mut case = JobCase::new();
    case.options.decode_content = true;
    case.options.retry.retries = 2;
    let resource = encoded("gzip", gzipped(&content()))
        .rule(RequestMatcher::always(), faults::close_after(1_000_000));
    let (run, origin) = case.run(resource).await;
    assert_eq!(run.error().class(), ErrorClass::Network);
    assert_eq!(origin.requests().len(), 3);
    assert!(case.listing().is_empty(), "{:?}", case.listing());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a13_a_response_in_another_coding_does_not_continue_a_broken_one() {
    for decode in [false, true] {
        let mut case = JobCase::new();
        case.options.decode_content = decode;
        case.options.connections = ConnectionCount::Auto { max: 4 };
        let body = gzipped(&content());
        let plain = RequestMatcher::nth(1);
        // Without a validator, so that the next request is for the whole file.
        let resource = encoded("gzip", body.clone())
            .rule(RequestMatcher::always(), |_, reply| {
                reply.remove_header("ETag")
            })
            .rule(RequestMatcher::nth(0), faults::close_after(100_000))
            .rule(plain, |_, reply| {
                reply.remove_header("Content-Encoding");
                reply.body = haul_lab::OriginResponseBody::Bytes(content().to_vec());
            });
        let (run, origin) = case.run(resource).await;
        run.outcome();
        assert_eq!(origin.requests().len(), 3);
        case.assert_file(&if decode {
            content()
        } else {
            ResourceContent::fixed(body)
        });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a13_an_unknown_content_coding_is_a_network_error_and_leaves_no_files() {
    let mut case = JobCase::new();
    case.options.decode_content = true;
    let resource = OriginResource::new(content())
        .header("Content-Encoding", "compress")
        .rule(RequestMatcher::always(), faults::ignore_range);
    let (run, _origin) = case.run(resource).await;
    assert!(matches!(
        run.error(),
        GetError::Origin {
            error: OriginError::UnknownCoding { .. },
            ..
        }
    ));
    assert_eq!(run.error().class(), ErrorClass::Network);
    assert!(case.listing().is_empty(), "{:?}", case.listing());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a49_a_word_that_is_no_coding_costs_no_connection_and_needs_no_decoder() {
    let mut case = JobCase::new();
    case.options.decode_content = true;
    let resource = OriginResource::new(content()).header("Content-Encoding", "aws-chunked");
    let (run, origin) = case.run(resource).await;
    assert!(run.outcome().connections > 1);
    assert!(!run.has_warning("aws-chunked"));
    case.assert_file(&content());
    assert_eq!(origin.bytes_sent(), content().length());
}
