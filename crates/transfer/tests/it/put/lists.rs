//! Lists of a bucket: complete, in order, whatever their pages and folders are.

use haul_lab::{ObjectStore, StoreFault, StoreRequest};
use haul_s3::S3Address;
use haul_transfer::RetryOptions;
use haul_transfer::bucket::ObjectLister;
use tokio_util::sync::CancellationToken;

use super::client;

/// All keys below a prefix, as the lister gives them.
async fn listed(store: &ObjectStore, prefix: &str) -> Result<Vec<String>, String> {
    let retry = RetryOptions {
        base_delay: std::time::Duration::from_millis(1),
        ..RetryOptions::default()
    };
    let prefix = S3Address::new("bucket", prefix);
    let mut lister = ObjectLister::start(
        client(store).await,
        &prefix,
        retry,
        CancellationToken::new(),
    );
    let mut keys = Vec::new();
    while let Some(page) = lister.next_page().await {
        let page = page.map_err(|error| error.to_string())?;
        keys.extend(page.into_iter().map(|object| object.key));
    }
    Ok(keys)
}

fn expected(store: &ObjectStore, prefix: &str) -> Vec<String> {
    store
        .keys()
        .into_iter()
        .filter(|key| key.starts_with(prefix))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn f15_a_list_is_complete_and_in_the_order_of_keys() {
    let store = ObjectStore::start().await;
    for folder in 0..12 {
        for file in 0..20 {
            store.insert(&format!("d{folder}/f{file}"), b"x");
        }
    }
    for key in [
        "d1-",
        "d1",
        "d10/x/y/z",
        "a b+c&<>\"'",
        "é/ü\u{1f}",
        "d1//double",
        "zz",
    ] {
        store.insert(key, b"x");
    }
    for page_size in [1, 2, 7, 50, 1000] {
        store.set_page_size(page_size);
        for prefix in ["", "d1", "d1/", "d10/x", "é", "nothing"] {
            assert_eq!(
                listed(&store, prefix).await.unwrap(),
                expected(&store, prefix),
                "{page_size} {prefix}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_deep_below_single_folders_is_split_there() {
    let store = ObjectStore::start().await;
    for folder in 0..5 {
        for file in 0..30 {
            store.insert(&format!("a/b/c/{folder}/{file}"), b"x");
        }
    }
    store.set_page_size(10);
    assert_eq!(listed(&store, "a/").await.unwrap(), expected(&store, "a/"));
    let in_folder = |request: &StoreRequest| {
        request
            .query
            .get("prefix")
            .is_some_and(|prefix| prefix == "a/b/c/3/")
    };
    assert!(store.count(in_folder) > 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_fails_is_asked_for_again() {
    let mut number = 0;
    let rule = move |_: &StoreRequest| {
        number += 1;
        match number % 3 {
            0 => Some(StoreFault::Error(503, "SlowDown")),
            1 => Some(StoreFault::CutDocument),
            _ => None,
        }
    };
    let store = ObjectStore::start_with(rule).await;
    for file in 0..50 {
        store.insert(&format!("f{file}"), b"x");
    }
    store.set_page_size(10);
    assert_eq!(listed(&store, "").await.unwrap(), expected(&store, ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_breaks_off_is_no_end() {
    let rule = |request: &StoreRequest| {
        let is_later = request.has("continuation-token") || request.has("delimiter");
        is_later.then_some(StoreFault::Error(403, "AccessDenied"))
    };
    let store = ObjectStore::start_with(rule).await;
    for file in 0..50 {
        store.insert(&format!("f{file}"), b"x");
    }
    store.set_page_size(10);
    let error = listed(&store, "").await.unwrap_err();
    assert!(error.contains("AccessDenied"), "{error}");
}
