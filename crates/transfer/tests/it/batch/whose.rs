//! Row C4 between runs: what lies under a name is the file of the URL that it came from, whatever the next list's order.

use haul_lab::{
    Origin, OriginResource, OriginResponse, RecordedRequest, RequestMatcher, ResourceContent,
};
use haul_plan::ResourceId;
use haul_transfer::ExistingFilePolicy;

use super::{BatchCase, shelf, small};

/// Two files of one name.
async fn photos(of: impl Fn(ResourceContent) -> OriginResource) -> Origin {
    Origin::builder()
        .resource("/a/photo.jpg", of(small(1)))
        .resource("/b/photo.jpg", of(small(2)))
        .start()
        .await
}

impl BatchCase {
    /// The name that is not the one which both URLs want.
    #[track_caller]
    fn suffixed(&self) -> String {
        let mut names = self.listing();
        names.retain(|name| name != "photo.jpg");
        assert_eq!(names.len(), 1, "{names:?}");
        names.remove(0)
    }

    /// Whether files can be marked here; where not, what rests on marks alone is not shown.
    fn marks(&self) -> bool {
        let path = self.path("mark");
        std::fs::write(&path, "").unwrap();
        let flags = rustix::fs::XattrFlags::empty();
        let marked = rustix::fs::setxattr(&path, "user.test", b"", flags).is_ok();
        std::fs::remove_file(path).unwrap();
        marked
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c4_a_list_in_another_order_finds_each_file_where_it_is() {
    for mark in [true, false] {
        let (lot, origin) = (
            BatchCase::new(),
            photos(OriginResource::without_validator).await,
        );
        let urls = ["/a/photo.jpg", "/b/photo.jpg"].map(|path| origin.url(path));
        assert_eq!(lot.get(urls.clone()).await.counts(), (2, 0, 0));
        let suffixed = lot.suffixed();
        if !mark && lot.marks() {
            // As where a file system has no attributes.
            for name in ["photo.jpg", &suffixed] {
                rustix::fs::removexattr(lot.path(name), "user.haul.from").unwrap();
            }
        }
        let [a, b] = urls;
        let ran = lot.get([b, a]).await;
        assert_eq!(ran.counts(), (0, 2, 0));
        let path = |name| ran.row(name).path.clone().unwrap();
        assert!(path("/a/photo.jpg").ends_with("/photo.jpg"));
        assert!(path("/b/photo.jpg").ends_with(&suffixed));
        assert_eq!((lot.suffixed(), origin.requests().len()), (suffixed, 2));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c4_another_urls_file_under_the_name_is_no_reason_to_skip() {
    // Small ones and such as come in segments; with a validator and without.
    for of in [OriginResource::new, OriginResource::without_validator] {
        for (a, b) in [
            (small(1), small(2)),
            (
                ResourceContent::random(1, 2 << 20),
                ResourceContent::random(2, 2 << 20),
            ),
        ] {
            let lot = BatchCase::new();
            if !lot.marks() {
                return;
            }
            let origin = Origin::builder()
                .resource("/a/photo.jpg", of(a.clone()))
                .resource("/b/photo.jpg", of(b.clone()))
                .start()
                .await;
            let url = |name: &str| origin.url(&format!("/{name}/photo.jpg"));
            // As if the first run had been stopped in between.
            assert_eq!(lot.get([url("a")]).await.counts(), (1, 0, 0));
            let ran = lot.get([url("b"), url("a")]).await;
            assert_eq!(ran.counts(), (1, 1, 0));
            lot.assert_file("photo.jpg", &a);
            lot.assert_file(&lot.suffixed(), &b);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c4_update_does_not_ask_with_another_urls_tag_and_overwrite_replaces() {
    let mut lot = BatchCase::new();
    if !lot.marks() {
        return;
    }
    // Both have the tag "v1".
    let origin = photos(OriginResource::new).await;
    let url = |name: &str| origin.url(&format!("/{name}/photo.jpg"));
    lot.get([url("a")]).await;
    lot.get.existing_file = ExistingFilePolicy::Update;
    assert_eq!(lot.get([url("b")]).await.counts(), (1, 0, 0));
    let asked = origin.requests();
    assert_eq!(asked.last().unwrap().header("if-none-match"), None);
    lot.assert_file("photo.jpg", &small(1));
    lot.assert_file(&lot.suffixed(), &small(2));
    // Whoever says so wants what is there replaced: by the file of its own URL, if that has one.
    lot.get.existing_file = ExistingFilePolicy::Overwrite;
    assert_eq!(lot.get([url("b"), url("a")]).await.counts(), (2, 0, 0));
    lot.assert_file("photo.jpg", &small(1));
    std::fs::remove_file(lot.path(&lot.suffixed())).unwrap();
    assert_eq!(lot.get([url("b")]).await.counts(), (1, 0, 0));
    assert_eq!(lot.listing(), ["photo.jpg"]);
    lot.assert_file("photo.jpg", &small(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn c4_a_list_that_was_signed_anew_finds_its_files() {
    let (lot, origin) = (BatchCase::new(), shelf(5).start().await);
    let urls = |date: u64| {
        let url = move |n: u64| format!("/{n}?X-Amz-Date={date}&X-Amz-Signature={}", n + date);
        (0..5).map(url)
    };
    let first = lot.get(urls(1).map(|path| origin.url(&path))).await;
    let second = lot.get(urls(2).map(|path| origin.url(&path))).await;
    assert_eq!((first.counts(), second.counts()), ((5, 0, 0), (0, 5, 0)));
    assert_eq!(origin.requests().len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn c4_entries_of_an_archive_keep_their_names_in_another_order() {
    let origin = photos(OriginResource::new).await;
    let lot = BatchCase {
        manifest: Some("m.jsonl"),
        tar: Some(("all.tar", None)),
        ..BatchCase::new()
    };
    let [a, b] = ["/a/photo.jpg", "/b/photo.jpg"].map(|path| origin.url(path));
    let first = lot.get([a.clone(), b.clone()]).await;
    assert_eq!(first.counts(), (2, 0, 0));
    let second = lot.get([b, a]).await;
    assert_eq!(
        (second.counts(), second.summary.done_earlier),
        ((0, 0, 0), 2)
    );
    assert_eq!(origin.requests().len(), 2);
}

/// Two URLs that want one name, and the origin that gives the first of them meanwhile: what another haul would do.
async fn overtaken(lot: &BatchCase, by: &str) -> Origin {
    let origin = photos(OriginResource::new).await;
    let (path, of) = (lot.path("photo.jpg"), origin.url(by));
    let lay = move |_: &RecordedRequest, _: &mut OriginResponse| {
        let id = ResourceId::from_url(&of.parse().unwrap()).to_string();
        std::fs::write(&path, "another haul's").unwrap();
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(&path, "user.haul.from", id.as_bytes(), flags).unwrap();
    };
    let late = OriginResource::new(small(2)).rule(RequestMatcher::first(1), lay);
    origin.replace("/b/photo.jpg", late);
    origin
}

#[tokio::test(flavor = "multi_thread")]
async fn c4_a_name_that_another_url_got_meanwhile_is_no_reason_to_skip() {
    let lot = BatchCase::new();
    if !lot.marks() {
        return;
    }
    let origin = overtaken(&lot, "/a/photo.jpg").await;
    let url = || [origin.url("/b/photo.jpg")];
    let ran = lot.get(url()).await;
    assert_eq!(ran.counts(), (0, 0, 1));
    assert!(ran.error("/b/photo.jpg").contains("taken meanwhile"));
    // As it says: the next run sees whose it is.
    assert_eq!(lot.get(url()).await.counts(), (1, 0, 0));
    let there = std::fs::read(lot.path("photo.jpg")).unwrap();
    assert_eq!(there, b"another haul's");
    lot.assert_file(&lot.suffixed(), &small(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn c4_a_name_that_the_same_url_got_meanwhile_is_taken_for_there() {
    let lot = BatchCase::new();
    if !lot.marks() {
        return;
    }
    let origin = overtaken(&lot, "/b/photo.jpg").await;
    let ran = lot.get([origin.url("/b/photo.jpg")]).await;
    assert_eq!(ran.counts(), (0, 1, 0));
    assert_eq!(lot.listing(), ["photo.jpg"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn c4_without_marks_the_manifest_says_whose_a_file_is() {
    for name in ["m.jsonl", "m.csv"] {
        let (lot, origin) = (BatchCase::new(), photos(OriginResource::new).await);
        let lot = BatchCase {
            manifest: Some(name),
            ..lot
        };
        let [a, b] = ["/a/photo.jpg", "/b/photo.jpg"].map(|path| origin.url(path));
        assert_eq!(lot.get([a.clone()]).await.counts(), (1, 0, 0));
        if lot.marks() {
            rustix::fs::removexattr(lot.path("photo.jpg"), "user.haul.from").unwrap();
        }
        let ran = lot.get([b, a]).await;
        assert_eq!((ran.counts(), ran.summary.done_earlier), ((1, 0, 0), 1));
        lot.assert_file("photo.jpg", &small(1));
        lot.assert_file(&lot.suffixed(), &small(2));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c4_without_marks_a_list_that_was_signed_anew_finds_its_files() {
    let (lot, origin) = (BatchCase::new(), shelf(1).start().await);
    let lot = BatchCase {
        manifest: Some("m.jsonl"),
        ..lot
    };
    let url = |date: u64| origin.url(&format!("/0?X-Amz-Date={date}&X-Amz-Signature={date}"));
    assert_eq!(lot.get([url(1)]).await.counts(), (1, 0, 0));
    if lot.marks() {
        rustix::fs::removexattr(lot.path("0"), "user.haul.from").unwrap();
    }
    assert_eq!(lot.get([url(2)]).await.counts(), (0, 1, 0));
    assert_eq!(lot.listing(), ["0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn c4_an_archive_that_grows_gets_no_second_entry_of_a_name() {
    let origin = photos(OriginResource::new).await;
    let lot = BatchCase {
        manifest: Some("m.jsonl"),
        tar: Some(("all.tar", None)),
        ..BatchCase::new()
    };
    let [a, b] = ["/a/photo.jpg", "/b/photo.jpg"].map(|path| origin.url(path));
    assert_eq!(lot.get([a.clone()]).await.counts(), (1, 0, 0));
    let ran = lot.get([b, a]).await;
    assert_eq!((ran.counts(), ran.summary.done_earlier), ((1, 0, 0), 1));
    assert_ne!(ran.row("/b/photo.jpg").path.as_deref(), Some("photo.jpg"));
}
