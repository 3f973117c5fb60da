//! Whose bytes are taken: a mirror of another size, digest, version or date never gives one.

use haul_lab::{OriginResource, RequestMatcher, ResourceContent, faults, within};
use haul_transfer::{ConnectionCount, ErrorClass, GetError, JobOutput};

use crate::harness::{JobCase, LIMIT, content, serve};
use crate::mirrors::{assert_dropped, copy, dateless, from, paced, sha256};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mirror_with_another_size_delivers_no_byte() {
    let mut case = JobCase::new();
    let longer = OriginResource::new(ResourceContent::random(1, content().length() + 1));
    let (good, other) = (paced(copy("\"v1\"")).await, serve(longer).await);
    let ran = from(&mut case, &[&good, &other]).await;
    assert_eq!(ran.outcome().fetched, content().length());
    assert_dropped(&ran, &other, "bytes where the others have");
    assert_eq!(other.requests().len(), 1);
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_given_size_selects_one_of_two_versions() {
    let mut case = JobCase::new();
    case.size = Some(content().length());
    let longer = OriginResource::new(ResourceContent::random(1, content().length() + 1));
    let (good, other) = (paced(copy("\"v1\"")).await, serve(longer).await);
    let ran = from(&mut case, &[&other, &good]).await;
    assert_eq!(ran.outcome().bytes, content().length());
    assert_dropped(&ran, &other, "were expected");
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_an_unexpected_size_is_refused_with_every_strategy() {
    let of = |rule: fn(&haul_lab::RecordedRequest, &mut haul_lab::OriginResponse)| {
        OriginResource::new(content()).rule(RequestMatcher::always(), rule)
    };
    let roads = [
        OriginResource::new(content()),
        of(faults::ignore_range),
        of(|request, reply| {
            faults::ignore_range(request, reply);
            faults::chunked(request, reply);
        }),
        OriginResource::new(ResourceContent::fixed("")),
    ];
    for (number, resource) in roads.into_iter().enumerate() {
        for stdout in [false, true] {
            let mut case = JobCase::new();
            case.size = Some(content().length() - 1);
            if stdout {
                case.output = Some(JobOutput::File("/dev/null".into()));
            }
            let (ran, _origin) = case.run(resource.clone()).await;
            let error = ran.error();
            assert!(
                matches!(error, GetError::WrongFile { .. }),
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
    let older = OriginResource::without_validator(ResourceContent::random(9, content().length()))
        .etag("\"a\"");
    let (good, other) = (
        paced(digest(copy("\"a\""))).await,
        serve(digest(older)).await,
    );
    let ran = from(&mut case, &[&good, &other]).await;
    ran.outcome();
    assert_dropped(&ran, &other, "another sha256");
    case.assert_file(&content());
}

/// Another content of the same length.
fn older(seed: u64) -> OriginResource {
    OriginResource::without_validator(ResourceContent::random(seed, content().length()))
}

/// The same length, another content, validators that say nothing: only the digest at the end can tell, and then each is tried alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_mixed_from_two_versions_is_fetched_again_from_each_source_alone() {
    for (bad_first, rounds) in [(true, 3), (false, 2)] {
        let mut case = JobCase::new();
        case.checksums = vec![sha256()];
        let (good, bad) = (
            paced(dateless("\"a\"")).await,
            paced(older(9).etag("\"b\"")).await,
        );
        let origins = if bad_first {
            [&bad, &good]
        } else {
            [&good, &bad]
        };
        let ran = from(&mut case, &origins).await;
        assert_eq!(ran.outcome().fetched, rounds * content().length());
        assert!(ran.warned(&format!("from {} alone", good.url("/f.bin"))));
        case.assert_file(&content());
        assert_eq!(case.listing(), ["f.bin"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_version_of_equal_length_is_never_passed_off_as_the_file() {
    let mut case = JobCase::new();
    case.checksums = vec![sha256()];
    let (one, other) = (
        paced(older(8).etag("\"a\"")).await,
        paced(older(9).etag("\"b\"")).await,
    );
    let ran = from(&mut case, &[&one, &other]).await;
    let error = ran.error();
    assert_eq!(error.class(), ErrorClass::Verification);
    let text = error.to_string();
    for seed in [8, 9] {
        let found = ResourceContent::random(seed, content().length()).sha256();
        assert!(text.contains(&found[..12]), "{text}");
    }
    assert_eq!(case.listing(), ["f.bin.haul-bad-checksum"]);
}

/// In one answer each, of which the first is wrong: nothing was mixed, and the other may be right.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_file_in_one_response_is_fetched_from_the_other_source() {
    let whole =
        |resource: OriginResource| resource.rule(RequestMatcher::always(), faults::ignore_range);
    let mut case = JobCase::new();
    case.checksums = vec![sha256()];
    let (bad, good) = (
        serve(whole(older(9))).await,
        serve(whole(copy("\"a\""))).await,
    );
    let ran = from(&mut case, &[&bad, &good]).await;
    assert_eq!(ran.outcome().fetched, 2 * content().length());
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mirror_without_validators_is_used_only_if_a_change_would_be_detected() {
    for verified in [false, true] {
        let mut case = JobCase::new();
        case.options.connections = ConnectionCount::Auto { max: 4 };
        if verified {
            case.checksums = vec![sha256()];
        }
        let (good, bare) = (
            paced(copy("\"a\"")).await,
            paced(OriginResource::without_validator(content())).await,
        );
        let ran = from(&mut case, &[&good, &bare]).await;
        ran.outcome();
        case.assert_file(&content());
        assert_eq!(ran.warned("neither ETag nor Last-Modified"), !verified);
        assert_eq!(bare.requests().len() > 1, verified);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mirror_whose_file_changes_is_dropped_and_its_bytes_stay() {
    let mut case = JobCase::new();
    let (good, changing) = (paced(copy("\"a\"")).await, paced(copy("\"b\"")).await);
    let swap = async {
        while changing.bytes_sent() < 300_000 {
            tokio::task::yield_now().await;
        }
        let newer = ResourceContent::random(5, content().length());
        changing.replace(
            "/f.bin",
            OriginResource::without_validator(newer).etag("\"b2\""),
        );
    };
    let (ran, ()) = within(LIMIT, async {
        let origins = [&good, &changing];
        tokio::join!(Box::pin(from(&mut case, &origins)), swap)
    })
    .await;
    ran.outcome();
    assert!(!ran.warned("starting again"));
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mirror_with_another_date_and_tag_delivers_no_byte() {
    let dated = |tag, day: &str| copy(tag).last_modified(&format!("{day} Nov 1994 08:49:37 GMT"));
    for verified in [false, true] {
        let mut case = JobCase::new();
        if verified {
            case.checksums = vec![sha256()];
        }
        let good = paced(dated("\"a\"", "Sun, 06")).await;
        let other = paced(dated("\"b\"", "Sun, 13")).await;
        let ran = from(&mut case, &[&good, &other]).await;
        ran.outcome();
        assert_eq!(other.requests().len(), 1);
        assert_eq!(ran.warned("of another date"), !verified);
        assert_eq!(ran.warned("are those of another version"), verified);
        case.assert_file(&content());
    }
}

/// Unlike the first it waits, and is what is left when that one turns out wrong, or fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mirror_with_another_date_and_tag_can_deliver_the_file_alone() {
    for wrong in [true, false] {
        let mut case = JobCase::new();
        case.checksums = vec![sha256()];
        let first = match wrong {
            true => older(9).etag("\"b\""),
            false => dateless("\"b\"").rule(RequestMatcher::after_first(6), faults::status(404)),
        };
        let first = first.last_modified("Sun, 13 Nov 1994 08:49:37 GMT");
        let (first, good) = (paced(first).await, paced(copy("\"a\"")).await);
        let ran = from(&mut case, &[&first, &good]).await;
        let fetched = ran.outcome().fetched;
        assert_eq!(fetched == 2 * content().length(), wrong, "{fetched}");
        case.assert_file(&content());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mirror_with_only_a_size_delivers_no_byte_without_a_digest() {
    for verified in [false, true] {
        let mut case = JobCase::new();
        if verified {
            case.checksums = vec![sha256()];
        }
        let (good, other) = (
            paced(dateless("\"a\"")).await,
            paced(dateless("\"b\"")).await,
        );
        from(&mut case, &[&good, &other]).await.outcome();
        assert_eq!(other.requests().len() > 1, verified);
        case.assert_file(&content());
    }
}
