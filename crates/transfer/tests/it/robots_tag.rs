//! X-Robots-Tag: files whose use an origin forbids are not downloaded, if the user wants that.

use haul_lab::{Origin, OriginResource, ResourceContent};
use haul_plan::Remedy;
use haul_transfer::{ErrorClass, GetError, RobotsTagPolicy, VerificationError};

use crate::batch::{BatchCase, small_content};
use crate::harness::{JobCase, content, serve};

fn respectful_job() -> JobCase {
    let mut case = JobCase::new();
    case.options.robots_tag = RobotsTagPolicy::Respect;
    case
}

fn tagged(content: ResourceContent, tag: &str) -> OriginResource {
    OriginResource::new(content).header("X-Robots-Tag", tag)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forbidden_file_is_requested_once_and_not_read() {
    let case = respectful_job();
    let (run, origin) = case.run(tagged(content(), "nofollow, NoAI")).await;
    let error = run.error();
    assert!(
        matches!(
            error,
            GetError::Verification {
                error: VerificationError::ForbiddenByRobotsTag {
                    directive: "noai",
                    ..
                },
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(error.class(), ErrorClass::Verification);
    assert_eq!(error.remedies(), [Remedy::IgnoreRobotsTag]);
    assert_eq!((origin.requests().len(), run.retries()), (1, 0));
    assert!(case.listing().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn other_tags_do_not_matter_and_none_does_by_default() {
    for (case, tag) in [
        (respectful_job(), "otherbot: noai, noindex"),
        (respectful_job(), "nofollow"),
        (JobCase::new(), "noai"),
    ] {
        let (run, _origin) = case.run(tagged(content(), tag)).await;
        assert_eq!(run.outcome().bytes, content().length(), "{tag}");
        case.assert_file(&content());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mirror_that_forbids_it_is_dropped_whether_it_is_first_or_not() {
    let allowed = || OriginResource::new(content());
    let forbidden = || tagged(content(), "noindex");
    for (first, second) in [(forbidden(), allowed()), (allowed(), forbidden())] {
        let (first, second) = (serve(first).await, serve(second).await);
        let mut case = respectful_job();
        case.mirrors = vec![second.url("/f.bin")];
        let run = case.get(&first.url("/f.bin")).await;
        assert_eq!(run.outcome().bytes, content().length());
        assert!(run.has_warning("its X-Robots-Tag says noindex"), "{run:?}");
        case.assert_file(&content());
    }
    let (first, second) = (serve(forbidden()).await, serve(forbidden()).await);
    let mut case = respectful_job();
    case.mirrors = vec![second.url("/f.bin")];
    let run = case.get(&first.url("/f.bin")).await;
    assert_eq!(run.error().class(), ErrorClass::Verification);
    assert_eq!(first.requests().len() + second.requests().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_batch_a_forbidden_file_is_a_failed_row_and_the_others_go_on() {
    let large = || ResourceContent::random(1, 2 << 20);
    let origin = Origin::builder()
        .resource("/small", tagged(small_content(7), "noimageai"))
        .resource("/large", tagged(large(), "haul: none"))
        .resource("/free", OriginResource::new(small_content(8)))
        .start()
        .await;
    let urls = || ["/small", "/large", "/free"].map(|path| origin.url(path));
    let mut case = BatchCase::new();
    case.get.robots_tag = RobotsTagPolicy::Respect;
    let run = case.download(urls()).await;
    assert_eq!((run.counts(), run.summary.retries), ((1, 0, 2), 0));
    assert_eq!(case.listing(), ["free"]);
    assert_eq!(origin.requests().len(), 3);
    for (name, directive) in [("/small", "noimageai"), ("/large", "none")] {
        let error = run.error(name);
        let reason = format!("must not be used: its X-Robots-Tag says {directive}");
        assert!(error.ends_with(&reason), "{error}");
        let row = run.row(name);
        assert_eq!((row.status, row.attempts), (Some(206), 1));
    }
    let groups = &run.summary.failure_groups;
    assert_eq!(groups[0].cause, "forbidden by X-Robots-Tag");
    assert_eq!(BatchCase::new().download(urls()).await.counts(), (3, 0, 0));
}
