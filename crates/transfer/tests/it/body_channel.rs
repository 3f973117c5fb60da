//! Bodies that go through a channel to a reader in this process: as standard output, in order, over one connection.

use std::io;

use haul_lab::{Origin, OriginResource, RequestMatcher, ResourceContent, faults, within};
use haul_plan::Checksum;
use haul_transfer::{
    GetError, JobOutput, LocalError, NetworkError, VerificationError, body_channel,
};
use tokio::task::JoinSet;

use crate::harness::{JobCase, JobRun, LIMIT, content, serve};

/// Downloads into a channel whose reader takes everything. Returns the bytes, too.
async fn stream(mut case: JobCase, resource: OriginResource) -> (JobRun, Vec<u8>, Origin) {
    let origin = serve(resource).await;
    let (sender, mut receiver) = body_channel();
    case.output = Some(JobOutput::Channel(sender));
    let url = origin.url("/f.bin");
    let download = async move {
        let run = Box::pin(case.get(&url)).await;
        // The case holds a sender.
        drop(case);
        run
    };
    // A task of its own: a decoder blocks the one that it is in.
    let mut reader = JoinSet::new();
    reader.spawn(async move {
        let mut bytes = Vec::new();
        while let Some(chunk) = receiver.recv().await {
            assert!(!chunk.is_empty());
            bytes.extend_from_slice(&chunk);
        }
        bytes
    });
    let run = within(LIMIT, Box::pin(download)).await;
    let bytes = within(LIMIT, reader.join_next()).await;
    (run, bytes.unwrap().unwrap(), origin)
}

fn sha256(digest: &str) -> Checksum {
    format!("sha256:{digest}").parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_comes_in_order_over_one_connection_and_its_digest_is_verified() {
    for is_right in [true, false] {
        let mut case = JobCase::new();
        let digest = if is_right {
            content().sha256()
        } else {
            "0".repeat(64)
        };
        case.checksums = vec![sha256(&digest)];
        let (run, bytes, origin) = stream(case, OriginResource::new(content())).await;
        assert!(bytes == content().to_vec());
        assert_eq!(origin.requests().len(), 1);
        if is_right {
            let outcome = run.outcome();
            assert_eq!((outcome.bytes, &outcome.path), (content().length(), &None));
        } else {
            assert!(matches!(
                run.error(),
                GetError::Verification {
                    error: VerificationError::Checksum { .. },
                    ..
                }
            ));
        }
    }
}

/// The engine of a program may run on one thread.
#[tokio::test]
async fn a10_a_body_that_breaks_is_continued_where_it_broke() {
    let resource =
        OriginResource::new(content()).rule(RequestMatcher::first(3), faults::reset_after(300_000));
    let (run, bytes, origin) = stream(JobCase::new(), resource).await;
    run.outcome();
    assert!(bytes == content().to_vec());
    assert!(origin.bytes_sent() < content().length() * 3 / 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a10_a_body_that_breaks_and_cannot_be_continued_is_an_error() {
    let resource = OriginResource::new(content())
        .rule(RequestMatcher::always(), faults::ignore_range)
        .rule(RequestMatcher::always(), faults::close_after(300_000));
    let (run, bytes, _origin) = stream(JobCase::new(), resource).await;
    let GetError::Network {
        error: NetworkError::BrokenStream { at, .. },
        ..
    } = run.error()
    else {
        panic!("{:?}", run.error());
    };
    assert_eq!(*at, bytes.len() as u64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a5_a_body_of_another_version_is_not_appended() {
    let resource = OriginResource::new(content())
        .rule(RequestMatcher::first(1), faults::close_after(300_000))
        .rule(
            RequestMatcher::after_first(1),
            faults::serve_other(
                OriginResource::new(ResourceContent::random(9, 3 << 20)).etag("\"v2\""),
            ),
        );
    let (run, bytes, _origin) = stream(JobCase::new(), resource).await;
    assert!(matches!(
        run.error(),
        GetError::Verification {
            error: VerificationError::ResourceChanged,
            ..
        }
    ));
    assert!(content().slice(0..300_000) == bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a13_an_encoded_body_is_decoded_on_its_way() {
    let mut case = JobCase::new();
    case.options.decode_content = true;
    // Much more than a channel holds.
    let text = ResourceContent::fixed(b"the same line again and again\n".repeat(300_000));
    let resource = OriginResource::new(text.clone()).rule(RequestMatcher::always(), faults::gzip);
    let (run, bytes, _origin) = stream(case, resource).await;
    assert_eq!(run.outcome().bytes, text.length());
    assert!(bytes == text.to_vec());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_body_is_a_channel_without_chunks() {
    let empty = OriginResource::new(ResourceContent::fixed(""));
    let (run, bytes, _origin) = stream(JobCase::new(), empty).await;
    assert_eq!((run.outcome().bytes, bytes.len()), (0, 0));
}

/// Larger than the buffers of channel and sockets.
fn large() -> OriginResource {
    OriginResource::new(ResourceContent::random(3, 256 << 20))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_closes_the_channel_ends_the_download() {
    let origin = serve(large()).await;
    let (sender, mut receiver) = body_channel();
    let mut case = JobCase::new();
    case.output = Some(JobOutput::Channel(sender));
    let url = origin.url("/f.bin");
    let read_one = async move { receiver.recv().await.unwrap().len() };
    let (run, first) = within(LIMIT, async {
        tokio::join!(Box::pin(case.get(&url)), read_one)
    })
    .await;
    assert!(first > 0);
    let GetError::Local {
        error: LocalError::Output { source, .. },
        ..
    } = run.error()
    else {
        panic!("{:?}", run.error());
    };
    assert_eq!(source.kind(), io::ErrorKind::BrokenPipe);
    assert!(origin.bytes_sent() < 128 << 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_whose_reader_does_not_read_can_be_stopped() {
    let origin = serve(large()).await;
    let (sender, mut receiver) = body_channel();
    let mut case = JobCase::new();
    case.output = Some(JobOutput::Channel(sender));
    let url = origin.url("/f.bin");
    let stop_when_full = async {
        receiver.recv().await.unwrap();
        while receiver.len() < receiver.max_capacity() {
            tokio::task::yield_now().await;
        }
        case.stop.cancel();
    };
    let (run, ()) = within(LIMIT, async {
        tokio::join!(Box::pin(case.get(&url)), stop_when_full)
    })
    .await;
    assert!(matches!(run.error(), GetError::Interrupted { .. }));
    assert!(origin.bytes_sent() < 128 << 20);
}
