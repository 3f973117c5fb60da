//! Row C4 between runs: a file belongs to its URL, whatever the order of the next list.

use haul_lab::{
    Origin, OriginResource, OriginResponse, RecordedRequest, RequestMatcher, ResourceContent,
};
use haul_transfer::{ExistingFilePolicy, ResourceId};

use super::{BatchCase, origin_with_files, small_content};

/// An origin with two files of one name.
async fn origin_with_two_photos(resource: impl Fn(ResourceContent) -> OriginResource) -> Origin {
    Origin::builder()
        .resource("/a/photo.jpg", resource(small_content(1)))
        .resource("/b/photo.jpg", resource(small_content(2)))
        .start()
        .await
}

impl BatchCase {
    #[track_caller]
    fn name_with_suffix(&self) -> String {
        let mut names = self.listing();
        names.retain(|name| name != "photo.jpg");
        assert_eq!(names.len(), 1, "{names:?}");
        names.remove(0)
    }

    /// Whether the file system has attributes. Where it has none, tests of the stored URL are skipped.
    fn supports_xattrs(&self) -> bool {
        let path = self.path("mark");
        std::fs::write(&path, "").unwrap();
        let flags = rustix::fs::XattrFlags::empty();
        let marked = rustix::fs::setxattr(&path, "user.test", b"", flags).is_ok();
        std::fs::remove_file(path).unwrap();
        marked
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c4_a_list_in_another_order_finds_its_files() {
    for mark in [true, false] {
        let (case, origin) = (
            BatchCase::new(),
            origin_with_two_photos(OriginResource::without_validator).await,
        );
        let urls = ["/a/photo.jpg", "/b/photo.jpg"].map(|path| origin.url(path));
        assert_eq!(case.download(urls.clone()).await.counts(), (2, 0, 0));
        let name_with_suffix = case.name_with_suffix();
        if !mark && case.supports_xattrs() {
            // As on a file system without attributes.
            for name in ["photo.jpg", &name_with_suffix] {
                rustix::fs::removexattr(case.path(name), "user.haul.from").unwrap();
            }
        }
        let [a, b] = urls;
        let run = case.download([b, a]).await;
        assert_eq!(run.counts(), (0, 2, 0));
        let path = |name| run.row(name).path.clone().unwrap();
        assert!(path("/a/photo.jpg").ends_with("/photo.jpg"));
        assert!(path("/b/photo.jpg").ends_with(&name_with_suffix));
        assert_eq!(
            (case.name_with_suffix(), origin.requests().len()),
            (name_with_suffix, 2)
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c4_a_file_of_another_url_is_not_skipped() {
    // Small files and large ones, with and without a validator.
    for resource in [OriginResource::new, OriginResource::without_validator] {
        for (a, b) in [
            (small_content(1), small_content(2)),
            (
                ResourceContent::random(1, 2 << 20),
                ResourceContent::random(2, 2 << 20),
            ),
        ] {
            let case = BatchCase::new();
            if !case.supports_xattrs() {
                return;
            }
            let origin = Origin::builder()
                .resource("/a/photo.jpg", resource(a.clone()))
                .resource("/b/photo.jpg", resource(b.clone()))
                .start()
                .await;
            let url = |name: &str| origin.url(&format!("/{name}/photo.jpg"));
            // As if the first run had been stopped after the first file.
            assert_eq!(case.download([url("a")]).await.counts(), (1, 0, 0));
            let run = case.download([url("b"), url("a")]).await;
            assert_eq!(run.counts(), (1, 1, 0));
            case.assert_file("photo.jpg", &a);
            case.assert_file(&case.name_with_suffix(), &b);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c4_update_sends_no_tag_of_another_url_and_overwrite_replaces_its_own_file() {
    let mut case = BatchCase::new();
    if !case.supports_xattrs() {
        return;
    }
    // Both have the tag "v1".
    let origin = origin_with_two_photos(OriginResource::new).await;
    let url = |name: &str| origin.url(&format!("/{name}/photo.jpg"));
    case.download([url("a")]).await;
    case.get.existing_file = ExistingFilePolicy::Update;
    assert_eq!(case.download([url("b")]).await.counts(), (1, 0, 0));
    let requests = origin.requests();
    assert_eq!(requests.last().unwrap().header("if-none-match"), None);
    case.assert_file("photo.jpg", &small_content(1));
    case.assert_file(&case.name_with_suffix(), &small_content(2));
    // The user wants existing files to be replaced, each by the file of its own URL if there is one.
    case.get.existing_file = ExistingFilePolicy::Overwrite;
    assert_eq!(
        case.download([url("b"), url("a")]).await.counts(),
        (2, 0, 0)
    );
    case.assert_file("photo.jpg", &small_content(1));
    std::fs::remove_file(case.path(&case.name_with_suffix())).unwrap();
    assert_eq!(case.download([url("b")]).await.counts(), (1, 0, 0));
    assert_eq!(case.listing(), ["photo.jpg"]);
    case.assert_file("photo.jpg", &small_content(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn c4_a_list_with_new_signatures_finds_its_files() {
    let (case, origin) = (BatchCase::new(), origin_with_files(5).start().await);
    let urls = |date: u64| {
        let url = move |n: u64| format!("/{n}?X-Amz-Date={date}&X-Amz-Signature={}", n + date);
        (0..5).map(url)
    };
    let first = case.download(urls(1).map(|path| origin.url(&path))).await;
    let second = case.download(urls(2).map(|path| origin.url(&path))).await;
    assert_eq!((first.counts(), second.counts()), ((5, 0, 0), (0, 5, 0)));
    assert_eq!(origin.requests().len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn c4_entries_of_an_archive_keep_their_names_in_another_order() {
    let origin = origin_with_two_photos(OriginResource::new).await;
    let case = BatchCase {
        manifest: Some("m.jsonl"),
        tar: Some(("all.tar", None)),
        ..BatchCase::new()
    };
    let [a, b] = ["/a/photo.jpg", "/b/photo.jpg"].map(|path| origin.url(path));
    let first = case.download([a.clone(), b.clone()]).await;
    assert_eq!(first.counts(), (2, 0, 0));
    let second = case.download([b, a]).await;
    assert_eq!(
        (second.counts(), second.summary.done_earlier),
        ((0, 0, 0), 2)
    );
    assert_eq!(origin.requests().len(), 2);
}

/// An origin during whose response another process stores a file of the URL path `file_url_path` under the name of both URLs.
async fn origin_that_loses_the_race(case: &BatchCase, file_url_path: &str) -> Origin {
    let origin = origin_with_two_photos(OriginResource::new).await;
    let (path, file_url) = (case.path("photo.jpg"), origin.url(file_url_path));
    let create_file = move |_: &RecordedRequest, _: &mut OriginResponse| {
        let id = ResourceId::from_url(&file_url.parse().unwrap()).to_string();
        std::fs::write(&path, "another process").unwrap();
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(&path, "user.haul.from", id.as_bytes(), flags).unwrap();
    };
    let racing = OriginResource::new(small_content(2)).rule(RequestMatcher::first(1), create_file);
    origin.replace("/b/photo.jpg", racing);
    origin
}

#[tokio::test(flavor = "multi_thread")]
async fn c4_a_name_taken_meanwhile_by_another_url_fails_the_job() {
    let case = BatchCase::new();
    if !case.supports_xattrs() {
        return;
    }
    let origin = origin_that_loses_the_race(&case, "/a/photo.jpg").await;
    let url = || [origin.url("/b/photo.jpg")];
    let run = case.download(url()).await;
    assert_eq!(run.counts(), (0, 0, 1));
    assert!(run.error("/b/photo.jpg").contains("taken meanwhile"));
    // The next run sees which URL the file belongs to.
    assert_eq!(case.download(url()).await.counts(), (1, 0, 0));
    let kept = std::fs::read(case.path("photo.jpg")).unwrap();
    assert_eq!(kept, b"another process");
    case.assert_file(&case.name_with_suffix(), &small_content(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn c4_a_name_taken_meanwhile_by_the_same_url_is_skipped() {
    let case = BatchCase::new();
    if !case.supports_xattrs() {
        return;
    }
    let origin = origin_that_loses_the_race(&case, "/b/photo.jpg").await;
    let run = case.download([origin.url("/b/photo.jpg")]).await;
    assert_eq!(run.counts(), (0, 1, 0));
    assert_eq!(case.listing(), ["photo.jpg"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn c4_without_extended_attributes_the_manifest_identifies_the_url_of_a_file() {
    for name in ["m.jsonl", "m.csv"] {
        let (case, origin) = (
            BatchCase::new(),
            origin_with_two_photos(OriginResource::new).await,
        );
        let case = BatchCase {
            manifest: Some(name),
            ..case
        };
        let [a, b] = ["/a/photo.jpg", "/b/photo.jpg"].map(|path| origin.url(path));
        assert_eq!(case.download([a.clone()]).await.counts(), (1, 0, 0));
        if case.supports_xattrs() {
            rustix::fs::removexattr(case.path("photo.jpg"), "user.haul.from").unwrap();
        }
        let run = case.download([b, a]).await;
        assert_eq!((run.counts(), run.summary.done_earlier), ((1, 0, 0), 1));
        case.assert_file("photo.jpg", &small_content(1));
        case.assert_file(&case.name_with_suffix(), &small_content(2));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c4_without_extended_attributes_a_list_with_new_signatures_finds_its_files() {
    let (case, origin) = (BatchCase::new(), origin_with_files(1).start().await);
    let case = BatchCase {
        manifest: Some("m.jsonl"),
        ..case
    };
    let url = |date: u64| origin.url(&format!("/0?X-Amz-Date={date}&X-Amz-Signature={date}"));
    assert_eq!(case.download([url(1)]).await.counts(), (1, 0, 0));
    if case.supports_xattrs() {
        rustix::fs::removexattr(case.path("0"), "user.haul.from").unwrap();
    }
    assert_eq!(case.download([url(2)]).await.counts(), (0, 1, 0));
    assert_eq!(case.listing(), ["0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn c4_an_extended_archive_gets_no_second_entry_of_a_name() {
    let origin = origin_with_two_photos(OriginResource::new).await;
    let case = BatchCase {
        manifest: Some("m.jsonl"),
        tar: Some(("all.tar", None)),
        ..BatchCase::new()
    };
    let [a, b] = ["/a/photo.jpg", "/b/photo.jpg"].map(|path| origin.url(path));
    assert_eq!(case.download([a.clone()]).await.counts(), (1, 0, 0));
    let run = case.download([b, a]).await;
    assert_eq!((run.counts(), run.summary.done_earlier), ((1, 0, 0), 1));
    assert_ne!(run.row("/b/photo.jpg").path.as_deref(), Some("photo.jpg"));
}
