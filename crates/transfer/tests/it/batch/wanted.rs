//! What the user wants of a batch as a whole: names, types and sizes, an end to what is hopeless.

use haul_lab::{Origin, Resource, When, breakage};
use haul_plan::{ErrorLimit, Expectation, Layout};
use haul_transfer::Class;
use haul_transfer::batch::Halt;
use haul_transfer::list::Entry;
use haul_transfer::manifest::State;

use super::{Lot, shelf, small};

#[tokio::test(flavor = "multi_thread")]
async fn c4_equal_names_are_two_files_with_the_same_names_on_every_run() {
    let origin = Origin::builder()
        .resource("/a/photo.jpg", Resource::new(small(1)))
        .resource("/b/photo.jpg", Resource::new(small(2)))
        .start()
        .await;
    let urls = || ["/a/photo.jpg", "/b/photo.jpg", "/a/photo.jpg"].map(|path| origin.url(path));
    let (lot, again) = (Lot::new(), Lot::new());
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
    let (lot, origin) = (Lot::new(), shelf(3).start().await);
    let entry = |line| {
        let url = origin.url(&format!("/{line}")).parse().unwrap();
        Ok(Entry {
            path: Some("same".into()),
            ..Entry::new(line, url)
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
        .resource("/a/b.bin", Resource::new(small(1)))
        .start()
        .await;
    let mut lot = Lot::new();
    lot.options.layout = Layout::Path;
    assert_eq!(lot.get([origin.url("/a/b.bin")]).await.counts(), (1, 0, 0));
    let host = lot.listing().remove(0);
    assert!(host.contains("127.0.0.1"), "{host}");
    lot.assert_file(&format!("{host}/a/b.bin"), &small(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a24_an_error_page_is_not_the_file_expected() {
    let page = |content| {
        Resource::new(content).rule(
            When::always(),
            breakage::header("Content-Type", "text/html"),
        )
    };
    let image = Resource::new(small(20)).header("Content-Type", "image/png");
    let origin = Origin::builder()
        .resource("/page", page(small(9)))
        .resource("/image", image.clone())
        .resource(
            "/tiny",
            Resource::new(small(0)).header("Content-Type", "image/png"),
        )
        .resource(
            "/unsaid",
            image
                .rule(When::always(), breakage::chunked)
                .rule(When::always(), breakage::ignore_range),
        )
        .start()
        .await;
    let mut lot = Lot::new();
    lot.get.expect = Expectation {
        types: haul_plan::MediaRange::parse_list("image/*").unwrap(),
        min: Some(500),
        ..Expectation::default()
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
        Class::Verification
    );
    assert_eq!(ran.row("/tiny").state, State::Failed);
    assert_eq!(lot.listing(), ["image", "unsaid"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_size_that_the_list_gives_is_held_to() {
    let (lot, origin) = (Lot::new(), shelf(4).start().await);
    let entry = |line, size| {
        let url = origin.url(&format!("/{line}")).parse().unwrap();
        Ok(Entry {
            size: Some(size),
            ..Entry::new(line, url)
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
    let (mut lot, origin) = (Lot::new(), shelf(1).start().await);
    lot.options.limit = Some(ErrorLimit::Count(10));
    let ran = lot
        .get((0..5000).map(|n| origin.url(&format!("/missing{n}"))))
        .await;
    assert_eq!(
        ran.summary.halted.as_ref().unwrap().kind,
        Halt::TooManyFailed
    );
    assert!((11..400).contains(&ran.summary.failed), "{:?}", ran.summary);
    assert!(ran.rows.iter().all(|row| row.state == State::Failed));
}

#[tokio::test(flavor = "multi_thread")]
async fn c3_a_dead_host_holds_up_nothing_but_its_own_jobs() {
    let (lot, origin) = (Lot::new(), shelf(50).start().await);
    let dead = super::roads::free_port();
    let urls = (0..100).map(|n| match n % 2 {
        0 => origin.url(&format!("/{}", n / 2)),
        _ => format!("http://127.0.0.1:{dead}/dead{n}"),
    });
    let ran = lot.get(urls).await;
    assert_eq!(ran.counts(), (50, 0, 50));
    let given_up = ran
        .summary
        .causes
        .iter()
        .find(|cause| cause.text.contains("given up"));
    assert!(
        given_up.is_some_and(|cause| cause.count > 40),
        "{:?}",
        ran.summary.causes
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a24_a_large_file_is_held_to_what_is_expected_too() {
    let large =
        |kind| Resource::new(haul_lab::Content::random(1, 2 << 20)).header("Content-Type", kind);
    let origin = Origin::builder()
        .resource("/page", large("text/html; charset=utf-8"))
        .resource("/image", large("image/tiff"))
        .start()
        .await;
    let mut lot = Lot::new();
    lot.get.expect = Expectation {
        types: haul_plan::MediaRange::parse_list("image/*").unwrap(),
        ..Expectation::default()
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
    let to = breakage::redirect(302, far.url("/1"));
    let origin = Origin::builder()
        .resource("/here", Resource::new(small(3)))
        .resource("/there", Resource::new(small(4)).rule(When::always(), to))
        .resource(
            "/large",
            Resource::new(haul_lab::Content::random(1, 2 << 20)),
        )
        .start()
        .await;
    let lot = Lot::new();
    let entry = |path: &str| {
        let mut entry = Entry::new(1, origin.url(path).parse().unwrap());
        entry.headers.insert("x-token", "s3cret".parse().unwrap());
        entry.headers.insert("accept", "image/*".parse().unwrap());
        Ok(entry)
    };
    let entries = ["/here", "/there", "/large"].map(entry);
    assert_eq!(
        lot.run(Box::new(entries.into_iter())).await.counts(),
        (3, 0, 0)
    );
    assert!(origin.asked().len() > 3, "the large one came in segments");
    for asked in origin.asked() {
        assert_eq!(asked.header("x-token"), Some("s3cret"), "{}", asked.path());
        assert_eq!(asked.header("accept"), Some("image/*"));
    }
    for asked in far.asked() {
        assert_eq!(asked.header("x-token"), None);
        assert_eq!(asked.header("accept"), Some("image/*"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_for_hosts_that_the_user_named_goes_to_none_that_a_document_named() {
    let large = haul_lab::Content::random(1, 2 << 20);
    let origin = shelf(2)
        .resource("/large", Resource::new(large))
        .start()
        .await;
    let mut lot = Lot::new();
    lot.client
        .headers
        .insert("private-token", "s3cret".parse().unwrap());
    let entry = |path: &str, stranger| {
        Ok(Entry {
            stranger,
            ..Entry::new(1, origin.url(path).parse().unwrap())
        })
    };
    let entries = [entry("/0", true), entry("/large", true), entry("/1", false)];
    let ran = lot.run(Box::new(entries.into_iter())).await;
    assert_eq!(ran.counts(), (3, 0, 0));
    for asked in origin.asked() {
        let token = asked.header("private-token");
        assert_eq!(token.is_some(), asked.path() == "/1", "{}", asked.path());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pieces_of_a_document_are_looked_at_in_a_batch_too() {
    use sha2::Digest;
    let content = haul_lab::Content::random(1, 100_000);
    let mut damaged = content.to_vec();
    damaged[70_000] ^= 1;
    let bad = Resource::new(haul_lab::Content::fixed(damaged));
    let bad = Origin::builder().resource("/f", bad).start().await;
    let good = Origin::builder()
        .resource("/f", Resource::new(content.clone()))
        .start()
        .await;
    let digests = content.to_vec();
    let digests = digests
        .chunks(50_000)
        .map(|piece| sha2::Sha256::digest(piece).to_vec());
    let algorithm = "sha256".parse().unwrap();
    let digests: Vec<Vec<u8>> = digests.collect();
    let pieces = haul_plan::Pieces::new(algorithm, 50_000, digests).unwrap();
    let entry = Entry {
        mirrors: vec![good.url("/f").parse().unwrap()],
        size: Some(100_000),
        pieces: Some(pieces),
        ..Entry::new(1, bad.url("/f").parse().unwrap())
    };
    let lot = Lot::new();
    assert_eq!(
        lot.run(Box::new([Ok(entry)].into_iter())).await.counts(),
        (1, 0, 0)
    );
    lot.assert_file("f", &content);
}
