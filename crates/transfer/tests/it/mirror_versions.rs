//! Mirrors with another version of the file: no byte is used of one with another size, digest, ETag or date.

use haul_lab::{OriginResource, RequestMatcher, ResourceContent, faults, within};
use haul_transfer::{ConnectionCount, ErrorClass, GetError, JobOutput, VerificationError};

use crate::harness::{JobCase, LIMIT, content, serve};
use crate::mirrors::{
    assert_dropped, get_from, mirror_resource, rate_limited, resource_without_date, sha256,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mirror_with_another_size_delivers_no_byte() {
    let mut case = JobCase::new();
    let longer = OriginResource::new(ResourceContent::random(1, content().length() + 1));
    let (good, other) = (
        rate_limited(mirror_resource("\"v1\"")).await,
        serve(longer).await,
    );
    let run = get_from(&mut case, &[&good, &other]).await;
    assert_eq!(run.outcome().fetched, content().length());
    assert_dropped(&run, &other, "bytes where the others have");
    assert_eq!(other.requests().len(), 1);
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_given_size_selects_one_of_two_versions() {
    let mut case = JobCase::new();
    case.expected_size = Some(content().length());
    let longer = OriginResource::new(ResourceContent::random(1, content().length() + 1));
    let (good, other) = (
        rate_limited(mirror_resource("\"v1\"")).await,
        serve(longer).await,
    );
    let run = get_from(&mut case, &[&other, &good]).await;
    assert_eq!(run.outcome().bytes, content().length());
    assert_dropped(&run, &other, "were expected");
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_an_unexpected_size_is_refused_with_every_strategy() {
    let resource_with_rule =
        |rule: fn(&haul_lab::RecordedRequest, &mut haul_lab::OriginResponse)| {
            OriginResource::new(content()).rule(RequestMatcher::always(), rule)
        };
    let resources = [
        OriginResource::new(content()),
        resource_with_rule(faults::ignore_range),
        resource_with_rule(|request, reply| {
            faults::ignore_range(request, reply);
            faults::chunked(request, reply);
        }),
        OriginResource::new(ResourceContent::fixed("")),
    ];
    for (number, resource) in resources.into_iter().enumerate() {
        for stdout in [false, true] {
            let mut case = JobCase::new();
            case.expected_size = Some(content().length() - 1);
            if stdout {
                case.output = Some(JobOutput::File("/dev/null".into()));
            }
            let (run, _origin) = case.run(resource.clone()).await;
            let error = run.error();
            assert!(
                matches!(
                    error,
                    GetError::Verification {
                        error: VerificationError::WrongFile { .. },
                        ..
                    }
                ),
                "{number}: {error}"
            );
            assert_eq!(error.class(), ErrorClass::Verification);
            assert_eq!(case.listing(), Vec::<String>::new());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mirror_with_the_same_tag_and_another_digest_delivers_no_byte() {
    let mut case = JobCase::new();
    let digest = |resource: OriginResource| {
        resource.rule(
            RequestMatcher::always(),
            faults::right_digest(faults::DigestHeader::Repr),
        )
    };
    let other_version =
        OriginResource::without_validator(ResourceContent::random(9, content().length()))
            .etag("\"a\"");
    let (good, other) = (
        rate_limited(digest(mirror_resource("\"a\""))).await,
        serve(digest(other_version)).await,
    );
    let run = get_from(&mut case, &[&good, &other]).await;
    run.outcome();
    assert_dropped(&run, &other, "another sha256");
    case.assert_file(&content());
}

/// A resource without validators that has other content of the same length.
fn other_version(seed: u64) -> OriginResource {
    OriginResource::without_validator(ResourceContent::random(seed, content().length()))
}

/// Only the checksum of the complete file shows that the contents differ. Then each source is tried alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_mixed_from_two_versions_is_fetched_again_from_each_source_alone() {
    for (bad_first, rounds) in [(true, 3), (false, 2)] {
        let mut case = JobCase::new();
        case.checksums = vec![sha256()];
        let (good, bad) = (
            rate_limited(resource_without_date("\"a\"")).await,
            rate_limited(other_version(9).etag("\"b\"")).await,
        );
        let origins = if bad_first {
            [&bad, &good]
        } else {
            [&good, &bad]
        };
        let run = get_from(&mut case, &origins).await;
        assert_eq!(run.outcome().fetched, rounds * content().length());
        assert!(run.has_warning(&format!("from {} alone", good.url("/f.bin"))));
        case.assert_file(&content());
        assert_eq!(case.listing(), ["f.bin"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_version_of_equal_length_fails_the_checksum() {
    let mut case = JobCase::new();
    case.checksums = vec![sha256()];
    let (one, other) = (
        rate_limited(other_version(8).etag("\"a\"")).await,
        rate_limited(other_version(9).etag("\"b\"")).await,
    );
    let run = get_from(&mut case, &[&one, &other]).await;
    let error = run.error();
    assert_eq!(error.class(), ErrorClass::Verification);
    let text = error.to_string();
    for seed in [8, 9] {
        let found = ResourceContent::random(seed, content().length()).sha256();
        assert!(text.contains(&found[..12]), "{text}");
    }
    assert_eq!(case.listing(), ["f.bin.haul-bad-checksum"]);
}

/// Each source sends the file in one response, and the first file is wrong. The sources were not mixed, so the second may be right.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_file_in_one_response_is_fetched_from_the_other_source() {
    let whole =
        |resource: OriginResource| resource.rule(RequestMatcher::always(), faults::ignore_range);
    let mut case = JobCase::new();
    case.checksums = vec![sha256()];
    let (bad, good) = (
        serve(whole(other_version(9))).await,
        serve(whole(mirror_resource("\"a\""))).await,
    );
    let run = get_from(&mut case, &[&bad, &good]).await;
    assert_eq!(run.outcome().fetched, 2 * content().length());
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mirror_without_validators_is_used_only_if_a_change_would_be_detected() {
    for has_checksum in [false, true] {
        let mut case = JobCase::new();
        case.options.connections = ConnectionCount::Auto { max: 4 };
        if has_checksum {
            case.checksums = vec![sha256()];
        }
        let (good, without_validator) = (
            rate_limited(mirror_resource("\"a\"")).await,
            rate_limited(OriginResource::without_validator(content())).await,
        );
        let run = get_from(&mut case, &[&good, &without_validator]).await;
        run.outcome();
        case.assert_file(&content());
        assert_eq!(
            run.has_warning("neither ETag nor Last-Modified"),
            !has_checksum
        );
        assert_eq!(without_validator.requests().len() > 1, has_checksum);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mirror_whose_file_changes_is_dropped_without_a_restart() {
    let mut case = JobCase::new();
    let (good, changing) = (
        rate_limited(mirror_resource("\"a\"")).await,
        rate_limited(mirror_resource("\"b\"")).await,
    );
    let replace_file = async {
        while changing.bytes_sent() < 300_000 {
            tokio::task::yield_now().await;
        }
        let newer = ResourceContent::random(5, content().length());
        changing.replace(
            "/f.bin",
            OriginResource::without_validator(newer).etag("\"b2\""),
        );
    };
    let (run, ()) = within(LIMIT, async {
        let origins = [&good, &changing];
        tokio::join!(Box::pin(get_from(&mut case, &origins)), replace_file)
    })
    .await;
    run.outcome();
    assert!(!run.has_warning("starting again"));
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mirror_with_another_date_and_tag_delivers_no_byte() {
    let dated = |tag, day: &str| {
        mirror_resource(tag).last_modified(&format!("{day} Nov 1994 08:49:37 GMT"))
    };
    for has_checksum in [false, true] {
        let mut case = JobCase::new();
        if has_checksum {
            case.checksums = vec![sha256()];
        }
        let good = rate_limited(dated("\"a\"", "Sun, 06")).await;
        let other = rate_limited(dated("\"b\"", "Sun, 13")).await;
        let run = get_from(&mut case, &[&good, &other]).await;
        run.outcome();
        assert_eq!(other.requests().len(), 1);
        assert_eq!(run.has_warning("of another date"), !has_checksum);
        assert_eq!(
            run.has_warning("are those of another version"),
            has_checksum
        );
        case.assert_file(&content());
    }
}

/// Such a mirror is kept as a fallback for when the first source has a wrong file or fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mirror_with_another_date_and_tag_can_deliver_the_file_alone() {
    for wrong in [true, false] {
        let mut case = JobCase::new();
        case.checksums = vec![sha256()];
        let first = if wrong {
            other_version(9).etag("\"b\"")
        } else {
            resource_without_date("\"b\"").rule(RequestMatcher::after_first(6), faults::status(404))
        };
        let first = first.last_modified("Sun, 13 Nov 1994 08:49:37 GMT");
        let (first, good) = (
            rate_limited(first).await,
            rate_limited(mirror_resource("\"a\"")).await,
        );
        let run = get_from(&mut case, &[&first, &good]).await;
        let fetched = run.outcome().fetched;
        assert_eq!(fetched == 2 * content().length(), wrong, "{fetched}");
        case.assert_file(&content());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mirror_with_only_a_size_delivers_no_byte_without_a_digest() {
    for has_checksum in [false, true] {
        let mut case = JobCase::new();
        if has_checksum {
            case.checksums = vec![sha256()];
        }
        let (good, other) = (
            rate_limited(resource_without_date("\"a\"")).await,
            rate_limited(resource_without_date("\"b\"")).await,
        );
        get_from(&mut case, &[&good, &other]).await.outcome();
        assert_eq!(other.requests().len() > 1, has_checksum);
        case.assert_file(&content());
    }
}
