//! Whose bytes are taken: a mirror of another size, digest, version or date never gives one.

use haul_lab::{Content, Resource, When, breakage, within};
use haul_transfer::{Class, Connections, GetError, Output};

use crate::harness::{Case, LIMIT, content, serve};
use crate::mirrors::{assert_dropped, copy, dateless, from, paced, sha256};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_another_size_never_gives_a_byte() {
    let mut case = Case::new();
    let longer = Resource::new(Content::random(1, content().length() + 1));
    let (good, other) = (paced(copy("\"v1\"")).await, serve(longer).await);
    let ran = from(&mut case, &[&good, &other]).await;
    assert_eq!(ran.outcome().fetched, content().length());
    assert_dropped(&ran, &other, "bytes where the others have");
    assert_eq!(other.asked().len(), 1);
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_size_that_was_given_says_which_of_two_is_meant() {
    let mut case = Case::new();
    case.size = Some(content().length());
    let longer = Resource::new(Content::random(1, content().length() + 1));
    let (good, other) = (paced(copy("\"v1\"")).await, serve(longer).await);
    let ran = from(&mut case, &[&other, &good]).await;
    assert_eq!(ran.outcome().bytes, content().length());
    assert_dropped(&ran, &other, "were expected");
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_another_size_than_was_given_is_refused_on_every_road() {
    let of = |rule: fn(&haul_lab::Asked, &mut haul_lab::Reply)| {
        Resource::new(content()).rule(When::always(), rule)
    };
    let roads = [
        Resource::new(content()),
        of(breakage::ignore_range),
        of(|asked, reply| {
            breakage::ignore_range(asked, reply);
            breakage::chunked(asked, reply);
        }),
        Resource::new(Content::fixed("")),
    ];
    for (number, resource) in roads.into_iter().enumerate() {
        for stdout in [false, true] {
            let mut case = Case::new();
            case.size = Some(content().length() - 1);
            if stdout {
                case.output = Some(Output::File("/dev/null".into()));
            }
            let (ran, _origin) = case.run(resource.clone()).await;
            let error = ran.error();
            assert!(
                matches!(error, GetError::NotMeant { .. }),
                "{number}: {error}"
            );
            assert_eq!(error.class(), Class::Verification);
            assert_eq!(case.listing(), Vec::<String>::new());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_with_the_same_tag_and_another_digest_never_gives_a_byte() {
    let mut case = Case::new();
    let digest = |resource: Resource| {
        resource.rule(
            When::always(),
            breakage::digest(breakage::DigestField::Repr),
        )
    };
    let older = Resource::bare(Content::random(9, content().length())).etag("\"a\"");
    let (good, other) = (
        paced(digest(copy("\"a\""))).await,
        serve(digest(older)).await,
    );
    let ran = from(&mut case, &[&good, &other]).await;
    ran.outcome();
    assert_dropped(&ran, &other, "another sha256");
    case.assert_file(&content());
}

/// The same length, another content, validators that say nothing: only the digest at the end can tell.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_version_of_equal_length_is_never_passed_off_as_the_file() {
    let mut case = Case::new();
    case.checksums = vec![sha256()];
    let older = Resource::new(Content::random(9, content().length()));
    let (good, other) = (paced(copy("\"a\"")).await, paced(older).await);
    let ran = from(&mut case, &[&good, &other]).await;
    let error = ran.error();
    assert!(matches!(error, GetError::Checksum { .. }), "{error}");
    assert_eq!(case.listing(), ["f.bin.haul-bad-checksum"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_without_validators_is_used_only_where_a_change_would_be_noticed() {
    for verified in [false, true] {
        let mut case = Case::new();
        case.options.connections = Connections::Auto { max: 4 };
        if verified {
            case.checksums = vec![sha256()];
        }
        let (good, bare) = (
            paced(copy("\"a\"")).await,
            paced(Resource::bare(content())).await,
        );
        let ran = from(&mut case, &[&good, &bare]).await;
        ran.outcome();
        case.assert_file(&content());
        assert_eq!(ran.warned("neither ETag nor Last-Modified"), !verified);
        assert_eq!(bare.asked().len() > 1, verified);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mirror_whose_file_changes_is_dropped_and_what_it_gave_stays() {
    let mut case = Case::new();
    let (good, changing) = (paced(copy("\"a\"")).await, paced(copy("\"b\"")).await);
    let swap = async {
        while changing.sent() < 300_000 {
            tokio::task::yield_now().await;
        }
        let newer = Content::random(5, content().length());
        changing.swap("/f.bin", Resource::bare(newer).etag("\"b2\""));
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
async fn one_of_another_date_gives_no_byte_unless_a_digest_would_tell() {
    let dated = |tag, day: &str| copy(tag).last_modified(&format!("{day} Nov 1994 08:49:37 GMT"));
    for verified in [false, true] {
        let mut case = Case::new();
        if verified {
            case.checksums = vec![sha256()];
        }
        let good = paced(dated("\"a\"", "Sun, 06")).await;
        let other = paced(dated("\"b\"", "Sun, 13")).await;
        let ran = from(&mut case, &[&good, &other]).await;
        ran.outcome();
        assert_eq!(other.asked().len() > 1, verified);
        assert_eq!(ran.warned("of another date"), !verified);
        case.assert_file(&content());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_which_nothing_but_the_size_is_known_gives_no_byte_unless_a_digest_would_tell() {
    for verified in [false, true] {
        let mut case = Case::new();
        if verified {
            case.checksums = vec![sha256()];
        }
        let (good, other) = (
            paced(dateless("\"a\"")).await,
            paced(dateless("\"b\"")).await,
        );
        from(&mut case, &[&good, &other]).await.outcome();
        assert_eq!(other.asked().len() > 1, verified);
        case.assert_file(&content());
    }
}
