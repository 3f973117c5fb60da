//! What the user wants of a batch as a whole: names, types and sizes, an end to what is hopeless.

use haul_lab::{Origin, OriginResource, RequestMatcher, faults};
use haul_plan::{ContentExpectation, ErrorLimit, PathLayout};
use haul_transfer::ErrorClass;
use haul_transfer::batch::BatchHaltKind;
use haul_transfer::list::ListEntry;
use haul_transfer::manifest::RowState;

use super::{BatchCase, shelf, small};

#[tokio::test(flavor = "multi_thread")]
async fn c4_equal_names_are_two_files_with_the_same_names_on_every_run() {
    let origin = Origin::builder()
        .resource("/a/photo.jpg", OriginResource::new(small(1)))
        .resource("/b/photo.jpg", OriginResource::new(small(2)))
        .start()
        .await;
    let urls = || ["/a/photo.jpg", "/b/photo.jpg", "/a/photo.jpg"].map(|path| origin.url(path));
    let (lot, again) = (BatchCase::new(), BatchCase::new());
    let ran = lot.get(urls()).await;
    assert_eq!(ran.counts(), (2, 1, 0), "the third is the first once more");
    again.get(urls()).await;
    let names = lot.listing();
    assert_eq!((names.len(), &names), (2, &again.listing()));
    lot.assert_file("photo.jpg", &small(1));
    let other = names.iter().find(|name| *name != "photo.jpg").unwrap();
    lot.assert_file(other, &small(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn c4_a_path_that_the_list_gives_twice_is_the_first_ones() {
    let (lot, origin) = (BatchCase::new(), shelf(3).start().await);
    let entry = |line| {
        let url = origin.url(&format!("/{line}")).parse().unwrap();
        Ok(ListEntry {
            path: Some("same".into()),
            ..ListEntry::new(line, url)
        })
    };
    let ran = lot.run(Box::new([entry(1), entry(2)].into_iter())).await;
    assert_eq!(ran.counts(), (1, 0, 1));
    lot.assert_file("same", &small(1));
    assert!(ran.error("/2").contains("another URL"));
}

#[tokio::test(flavor = "multi_thread")]
async fn layouts_put_files_where_they_say() {
    let origin = Origin::builder()
        .resource("/a/b.bin", OriginResource::new(small(1)))
        .start()
        .await;
    let mut lot = BatchCase::new();
    lot.options.layout = PathLayout::Path;
    assert_eq!(lot.get([origin.url("/a/b.bin")]).await.counts(), (1, 0, 0));
    let host = lot.listing().remove(0);
    assert!(host.contains("127.0.0.1"), "{host}");
    lot.assert_file(&format!("{host}/a/b.bin"), &small(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a24_an_error_page_is_not_the_file_expected() {
    let page = |content| {
        OriginResource::new(content).rule(
            RequestMatcher::always(),
            faults::header("Content-Type", "text/html"),
        )
    };
    let image = OriginResource::new(small(20)).header("Content-Type", "image/png");
    let origin = Origin::builder()
        .resource("/page", page(small(9)))
        .resource("/image", image.clone())
        .resource(
            "/tiny",
            OriginResource::new(small(0)).header("Content-Type", "image/png"),
        )
        .resource(
            "/unsaid",
            image
                .rule(RequestMatcher::always(), faults::chunked)
                .rule(RequestMatcher::always(), faults::ignore_range),
        )
        .start()
        .await;
    let mut lot = BatchCase::new();
    lot.get.expected_content = ContentExpectation {
        media_types: haul_plan::MediaRange::parse_list("image/*").unwrap(),
        min_length: Some(500),
        ..ContentExpectation::default()
    };
    let names = ["page", "image", "tiny", "unsaid"];
    let ran = lot
        .get(names.map(|name| origin.url(&format!("/{name}"))))
        .await;
    assert_eq!(ran.counts(), (2, 0, 2));
    assert!(
        ran.error("/page").contains("text/html"),
        "{}",
        ran.error("/page")
    );
    assert_eq!(
        ran.row("/page").error.as_ref().unwrap().class,
        ErrorClass::Verification
    );
    assert_eq!(ran.row("/tiny").state, RowState::Failed);
    assert_eq!(lot.listing(), ["image", "unsaid"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_size_that_the_list_gives_is_held_to() {
    let (lot, origin) = (BatchCase::new(), shelf(4).start().await);
    let entry = |line, size| {
        let url = origin.url(&format!("/{line}")).parse().unwrap();
        Ok(ListEntry {
            size: Some(size),
            ..ListEntry::new(line, url)
        })
    };
    let entries = [entry(1, small(1).length()), entry(2, small(2).length() + 1)];
    let ran = lot.run(Box::new(entries.into_iter())).await;
    assert_eq!(ran.counts(), (1, 0, 1));
    assert_eq!(ran.row("/2").attempts, 1);
    assert_eq!(lot.listing(), ["1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hopeless_batch_ends_at_its_limit_of_failures() {
    let (mut lot, origin) = (BatchCase::new(), shelf(1).start().await);
    lot.options.error_limit = Some(ErrorLimit::Count(10));
    let ran = lot
        .get((0..5000).map(|n| origin.url(&format!("/missing{n}"))))
        .await;
    assert_eq!(
        ran.summary.halted.as_ref().unwrap().kind,
        BatchHaltKind::TooManyFailures
    );
    assert!((11..400).contains(&ran.summary.failed), "{:?}", ran.summary);
    assert!(ran.rows.iter().all(|row| row.state == RowState::Failed));
}

#[tokio::test(flavor = "multi_thread")]
async fn c3_a_dead_host_holds_up_nothing_but_its_own_jobs() {
    let (lot, origin) = (BatchCase::new(), shelf(50).start().await);
    let dead = super::roads::free_port();
    let urls = (0..100).map(|n| match n % 2 {
        0 => origin.url(&format!("/{}", n / 2)),
        _ => format!("http://127.0.0.1:{dead}/dead{n}"),
    });
    let ran = lot.get(urls).await;
    assert_eq!(ran.counts(), (50, 0, 50));
    let given_up = ran
        .summary
        .failure_groups
        .iter()
        .find(|cause| cause.cause.contains("given up"));
    assert!(
        given_up.is_some_and(|cause| cause.count > 40),
        "{:?}",
        ran.summary.failure_groups
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a24_a_large_file_is_held_to_what_is_expected_too() {
    let large = |kind| {
        OriginResource::new(haul_lab::ResourceContent::random(1, 2 << 20))
            .header("Content-Type", kind)
    };
    let origin = Origin::builder()
        .resource("/page", large("text/html; charset=utf-8"))
        .resource("/image", large("image/tiff"))
        .start()
        .await;
    let mut lot = BatchCase::new();
    lot.get.expected_content = ContentExpectation {
        media_types: haul_plan::MediaRange::parse_list("image/*").unwrap(),
        ..ContentExpectation::default()
    };
    let ran = lot
        .get(["/page", "/image"].map(|path| origin.url(path)))
        .await;
    assert_eq!(ran.counts(), (1, 0, 1));
    assert_eq!(lot.listing(), ["image"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn header_fields_of_a_list_go_to_its_origin_and_no_further() {
    let far = shelf(2).start().await;
    let to = faults::redirect(302, far.url("/1"));
    let origin = Origin::builder()
        .resource("/here", OriginResource::new(small(3)))
        .resource(
            "/there",
            OriginResource::new(small(4)).rule(RequestMatcher::always(), to),
        )
        .resource(
            "/large",
            OriginResource::new(haul_lab::ResourceContent::random(1, 2 << 20)),
        )
        .start()
        .await;
    let lot = BatchCase::new();
    let entry = |path: &str| {
        let mut entry = ListEntry::new(1, origin.url(path).parse().unwrap());
        entry.headers.insert("x-token", "s3cret".parse().unwrap());
        entry.headers.insert("accept", "image/*".parse().unwrap());
        Ok(entry)
    };
    let entries = ["/here", "/there", "/large"].map(entry);
    assert_eq!(
        lot.run(Box::new(entries.into_iter())).await.counts(),
        (3, 0, 0)
    );
    assert!(
        origin.requests().len() > 3,
        "the large one came in segments"
    );
    for asked in origin.requests() {
        assert_eq!(asked.header("x-token"), Some("s3cret"), "{}", asked.path());
        assert_eq!(asked.header("accept"), Some("image/*"));
    }
    for asked in far.requests() {
        assert_eq!(asked.header("x-token"), None);
        assert_eq!(asked.header("accept"), Some("image/*"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_for_hosts_that_the_user_named_goes_to_none_that_a_document_named() {
    let large = haul_lab::ResourceContent::random(1, 2 << 20);
    let origin = shelf(2)
        .resource("/large", OriginResource::new(large))
        .start()
        .await;
    let mut lot = BatchCase::new();
    lot.client
        .headers
        .insert("private-token", "s3cret".parse().unwrap());
    let entry = |path: &str, untrusted_hosts| {
        Ok(ListEntry {
            untrusted_hosts,
            ..ListEntry::new(1, origin.url(path).parse().unwrap())
        })
    };
    let entries = [entry("/0", true), entry("/large", true), entry("/1", false)];
    let ran = lot.run(Box::new(entries.into_iter())).await;
    assert_eq!(ran.counts(), (3, 0, 0));
    for asked in origin.requests() {
        let token = asked.header("private-token");
        assert_eq!(token.is_some(), asked.path() == "/1", "{}", asked.path());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pieces_of_a_document_are_looked_at_in_a_batch_too() {
    use sha2::Digest;
    let content = haul_lab::ResourceContent::random(1, 100_000);
    let mut damaged = content.to_vec();
    damaged[70_000] ^= 1;
    let bad = OriginResource::new(haul_lab::ResourceContent::fixed(damaged));
    let bad = Origin::builder().resource("/f", bad).start().await;
    let good = Origin::builder()
        .resource("/f", OriginResource::new(content.clone()))
        .start()
        .await;
    let digests = content.to_vec();
    let digests = digests
        .chunks(50_000)
        .map(|piece| sha2::Sha256::digest(piece).to_vec());
    let algorithm = "sha256".parse().unwrap();
    let digests: Vec<Vec<u8>> = digests.collect();
    let pieces = haul_plan::PieceDigests::new(algorithm, 50_000, digests).unwrap();
    let entry = ListEntry {
        mirrors: vec![good.url("/f").parse().unwrap()],
        size: Some(100_000),
        pieces: Some(pieces),
        ..ListEntry::new(1, bad.url("/f").parse().unwrap())
    };
    let lot = BatchCase::new();
    assert_eq!(
        lot.run(Box::new([Ok(entry)].into_iter())).await.counts(),
        (1, 0, 0)
    );
    lot.assert_file("f", &content);
}
