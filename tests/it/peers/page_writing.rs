//! The store's page in the hands of those who may write: uploads with and without a script, replacing, deletion, logins.

use std::path::{Path, PathBuf};

use haul_lab::ResourceContent;
use serde_json::json;

use super::chromium::Chromium;
use super::shelf::FileOrigin;
use crate::cli::harness::names;

const NAMES: &str = "tbody tr:not(.up) bdi";

/// An upload's row.
const STATE: &str = "document.querySelector('#uploads .state')?.textContent";

fn nothing(_: PathBuf) {}

/// Chooses files in the form and sends them.
async fn upload(tab: &mut Chromium, files: &[&Path]) {
    tab.choose("#files", files).await;
    tab.click("form.upload button").await;
}

/// Waits until the page lists this many entries.
async fn until_listed(tab: &mut Chromium, count: usize) {
    tab.until(&format!("document.readyState === 'complete' && document.querySelectorAll('{NAMES}').length === {count}"))
        .await;
}

#[track_caller]
fn assert_same(place: &Path, content: &[u8]) {
    let found = std::fs::read(place).unwrap();
    assert!(
        found == content,
        "{}: {} bytes",
        place.display(),
        found.len()
    );
}

#[tokio::test]
async fn without_a_script_it_is_read_and_takes_uploads() {
    let store = FileOrigin::start(&["--writable"], |folder| {
        std::fs::create_dir(folder.join("in")).unwrap();
        std::fs::write(folder.join("in/there.txt"), "there").unwrap();
    });
    let store = store.await;
    let large = ResourceContent::random(1, 3 << 20).to_vec();
    let odd = "caf\u{e9} \"100 %\" \u{2713}.txt";
    let files = [
        store.own("large.bin", &large),
        store.own(odd, b"odd"),
        store.own("empty", b""),
    ];
    let mut tab = Chromium::start().await;
    tab.call(
        "Emulation.setScriptExecutionDisabled",
        json!({ "value": true }),
    )
    .await;
    tab.open(&store.url("in/?sort=size&order=asc")).await;
    tab.shoot("no-script").await;
    assert_eq!(tab.text("document.documentElement.className").await, "");
    assert!(
        tab.text("document.body.innerText")
            .await
            .contains("there.txt")
    );
    assert_eq!(
        tab.each("button.delete", "it.checkVisibility()").await,
        ["false"],
        "what a click would not do is not shown"
    );
    tab.choose("#files", &files.each_ref().map(PathBuf::as_path))
        .await;
    tab.click("form.upload button").await;
    tab.event("Page.loadEventFired").await;
    assert_eq!(
        tab.text("location.pathname + location.search").await,
        "/in/"
    );
    let listed = tab.each(NAMES, "it.textContent").await;
    assert_eq!(listed, [odd, "empty", "large.bin", "there.txt"]);
    assert_same(&store.path("in/large.bin"), &large);
    assert_same(&store.path("in").join(odd), b"odd");
    assert_same(&store.path("in/empty"), b"");
    // What is there is replaced when that is asked for.
    let newer = store.own("there.txt", b"newer");
    for (button, is_replaced) in [("button.main", false), ("button.plain", true)] {
        tab.open(&store.url("in/")).await;
        tab.choose("#files", &[newer.as_path()]).await;
        tab.click(&format!("form.upload {button}")).await;
        tab.event("Page.loadEventFired").await;
        let shown = tab.text("document.body.innerText").await;
        assert!(shown.contains("Upload and replace"), "{shown}");
        assert_eq!(shown.contains("not stored"), !is_replaced, "{shown}");
        let now: &[u8] = if is_replaced { b"newer" } else { b"there" };
        assert_same(&store.path("in/there.txt"), now);
    }
}

#[tokio::test]
async fn uploads_show_how_far_they_are_and_end_in_the_list() {
    let store = FileOrigin::start(&["--writable"], nothing).await;
    let large = ResourceContent::random(2, 4 << 20).to_vec();
    let files = [
        store.own("large.bin", &large),
        store.own("small.txt", b"small"),
    ];
    let mut tab = Chromium::start().await;
    tab.open(&store.url("")).await;
    tab.shoot("empty").await;
    // Slow until it was seen under way.
    tab.send_at(Some(1 << 20)).await;
    upload(&mut tab, &files.each_ref().map(PathBuf::as_path)).await;
    tab.until("document.querySelector('#uploads progress')?.value > 0 && document.querySelector('#uploads progress').value < 1")
        .await;
    let state = tab.text(STATE).await;
    assert!(state.ends_with(" %"), "{state}");
    tab.shoot("uploading").await;
    tab.resize(360, 740).await;
    tab.shoot("uploading-phone").await;
    assert!(
        !store.path("large.bin").exists(),
        "not before all of it is there"
    );
    tab.send_at(None).await;
    until_listed(&mut tab, 2).await;
    assert_eq!(tab.each("#uploads li", "it.textContent").await, [""; 0]);
    assert_same(&store.path("large.bin"), &large);
    assert_same(&store.path("small.txt"), b"small");
    assert_eq!(tab.complaints().await, [""; 0]);
}

#[tokio::test]
async fn files_and_folders_are_dropped() {
    let store = FileOrigin::start(&["--writable"], nothing).await;
    let bytes = ResourceContent::random(3, 300_000).to_vec();
    let file = store.own("dropped.bin", &bytes);
    let inner = store.own("tree/a b/inner #1.bin", &bytes[..1000]);
    store.own("tree/top", b"top");
    let tree = inner.ancestors().nth(2).unwrap();
    let mut tab = Chromium::start().await;
    tab.open(&store.url("")).await;
    tab.drag(&[&file, tree], "h1", &["dragEnter", "dragOver"])
        .await;
    assert_eq!(tab.text("document.body.className").await, "dropping");
    tab.shoot("dropping").await;
    tab.drag(&[&file, tree], "h1", &["drop"]).await;
    until_listed(&mut tab, 2).await;
    assert_eq!(
        tab.each(NAMES, "it.textContent").await,
        ["tree", "dropped.bin"]
    );
    assert_same(&store.path("dropped.bin"), &bytes);
    assert_same(&store.path("tree/a b/inner #1.bin"), &bytes[..1000]);
    assert_same(&store.path("tree/top"), b"top");
    assert_eq!(tab.complaints().await, [""; 0]);
}

#[tokio::test]
async fn an_upload_replaces_only_when_told_to() {
    let store = FileOrigin::start(&["--writable"], |folder| {
        std::fs::write(folder.join("same.txt"), "old").unwrap()
    })
    .await;
    let file = store.own("same.txt", b"new and longer");
    let mut tab = Chromium::start().await;
    tab.open(&store.url("")).await;
    upload(&mut tab, &[&file]).await;
    tab.until("document.querySelector('#uploads button')?.textContent === 'Replace'")
        .await;
    assert_eq!(tab.text(STATE).await, "it exists already");
    tab.shoot("exists").await;
    assert_same(&store.path("same.txt"), b"old");
    tab.click("#uploads button").await;
    tab.until("document.readyState === 'complete' && !document.querySelector('#uploads li')")
        .await;
    assert_same(&store.path("same.txt"), b"new and longer");
}

#[tokio::test]
async fn what_was_not_uploaded_is_told() {
    let store = FileOrigin::start(&["--writable", "--max-body", "100K"], |folder| {
        std::fs::create_dir(folder.join("taken")).unwrap();
    });
    let store = store.await;
    let files = [
        store.own("large.bin", &ResourceContent::random(4, 2 << 20).to_vec()),
        store.own("taken", b"a folder has the name"),
        store.own("small", b"small"),
    ];
    let mut tab = Chromium::start().await;
    tab.open(&store.url("")).await;
    upload(&mut tab, &files.each_ref().map(PathBuf::as_path)).await;
    tab.until("document.querySelector('#said').textContent.startsWith('1 uploaded, 2 not')")
        .await;
    tab.shoot("errors").await;
    let told = tab.each("#uploads .state", "it.textContent").await;
    assert_eq!(told[0], "larger than this server takes");
    assert_eq!(told[1], "something else has that name");
    assert_eq!(told[2], "done");
    assert!(!store.path("large.bin").exists());
    assert_same(&store.path("small"), b"small");
    // What the page shows is told as well: the link leads to it.
    tab.click("#said a").await;
    until_listed(&mut tab, 2).await;
}

#[tokio::test]
async fn deletion_asks_first() {
    let store = FileOrigin::start(&["--writable"], |folder| {
        for name in ["a", "b & <c>", "d"] {
            std::fs::write(folder.join(name), name).unwrap();
        }
        std::fs::create_dir_all(folder.join("full/inner")).unwrap();
    });
    let store = store.await;
    let mut tab = Chromium::start().await;
    tab.open(&store.url("")).await;
    let button = "tbody tr:nth-child(3) button.delete";
    tab.click(button).await;
    let asked = tab.answer(false).await;
    assert!(asked.contains("b & <c>"), "{asked}");
    tab.click(button).await;
    tab.answer(true).await;
    tab.until("document.querySelector('#said').textContent.includes('was deleted')")
        .await;
    tab.shoot("deleted").await;
    assert_eq!(
        tab.text("document.querySelector('.sum').textContent").await,
        "3 entries left on this page"
    );
    assert_eq!(tab.each(NAMES, "it.textContent").await, ["full", "a", "d"]);
    assert_eq!(
        tab.text("document.activeElement.textContent").await,
        "d",
        "the next is at hand"
    );
    assert_eq!(
        names(&store.path(""))
            .into_iter()
            .filter(|name| name != ".haul")
            .collect::<Vec<_>>(),
        ["a", "d", "full"]
    );
    assert_eq!(tab.complaints().await, [""; 0]);
    tab.click("tbody tr:first-child button.delete").await;
    tab.answer(true).await;
    tab.until("document.querySelector('#said').className === 'bad'")
        .await;
    tab.shoot("not-deleted").await;
    assert!(store.path("full/inner").exists());
}

#[tokio::test]
async fn logins_decide_what_is_on_the_page() {
    let flags = [
        "--writable",
        "--auth",
        "reader:secret-1:ro",
        "--auth",
        "writer:secret-2:rw",
    ];
    let store = FileOrigin::start(&flags, |folder| {
        std::fs::write(folder.join("a"), "a").unwrap()
    })
    .await;
    let file = store.own("b", b"b");
    let mut tab = Chromium::start().await;
    tab.open(&store.url_as("reader:secret-1", "")).await;
    assert!(tab.text("document.body.innerText").await.contains("reader"));
    assert_eq!(tab.each("form, button", "it.outerHTML").await, [""; 0]);
    tab.shoot("reader").await;
    let mut tab = Chromium::start().await;
    tab.open(&store.url_as("writer:secret-2", "")).await;
    upload(&mut tab, &[&file]).await;
    until_listed(&mut tab, 2).await;
    tab.shoot("writer").await;
    assert_same(&store.path("b"), b"b");
    assert_eq!(tab.complaints().await, [""; 0]);
}
