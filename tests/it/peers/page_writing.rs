//! The store's page in the hands of those who may write: uploads with and without a script, replacing, deletion, logins.

use std::path::{Path, PathBuf};

use haul_lab::ResourceContent;
use serde_json::json;

use super::chromium::Chromium;
use super::test_server::FileOrigin;
use crate::cli::harness::file_names;

const NAMES: &str = "tbody tr:not(.up) bdi";

/// An upload's row.
const STATE: &str = "document.querySelector('#uploads .state')?.textContent";

fn empty_folder(_: PathBuf) {}

/// Chooses files in the form and sends them.
async fn upload(tab: &mut Chromium, files: &[&Path]) {
    tab.choose("#files", files).await;
    tab.click("form.upload button").await;
}

/// Waits until the page lists this many entries.
async fn until_listed(tab: &mut Chromium, count: usize) {
    tab.wait_until(&format!("document.readyState === 'complete' && document.querySelectorAll('{NAMES}').length === {count}"))
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
async fn without_scripts_the_page_lists_and_takes_uploads() {
    let store = FileOrigin::start(&["--writable"], |folder| {
        std::fs::create_dir(folder.join("in")).unwrap();
        std::fs::write(folder.join("in/there.txt"), "there").unwrap();
    })
    .await;
    let large = ResourceContent::random(1, 3 << 20).to_vec();
    let odd = "caf\u{e9} \"100 %\" \u{2713}.txt";
    let files = [
        store.with_owner("large.bin", &large),
        store.with_owner(odd, b"odd"),
        store.with_owner("empty", b""),
    ];
    let mut tab = Chromium::start().await;
    tab.call(
        "Emulation.setScriptExecutionDisabled",
        json!({ "value": true }),
    )
    .await;
    tab.open(&store.url("in/?sort=size&order=asc")).await;
    tab.screenshot("no-script").await;
    assert_eq!(tab.text("document.documentElement.className").await, "");
    assert!(
        tab.text("document.body.innerText")
            .await
            .contains("there.txt")
    );
    assert_eq!(
        tab.eval_each("button.delete", "it.checkVisibility()").await,
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
    let listed = tab.eval_each(NAMES, "it.textContent").await;
    assert_eq!(listed, [odd, "empty", "large.bin", "there.txt"]);
    assert_same(&store.path("in/large.bin"), &large);
    assert_same(&store.path("in").join(odd), b"odd");
    assert_same(&store.path("in/empty"), b"");
    // Existing files are replaced on request.
    let newer = store.with_owner("there.txt", b"newer");
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
async fn uploads_show_progress_and_appear_in_the_list() {
    let store = FileOrigin::start(&["--writable"], empty_folder).await;
    let large = ResourceContent::random(2, 4 << 20).to_vec();
    let files = [
        store.with_owner("large.bin", &large),
        store.with_owner("small.txt", b"small"),
    ];
    let mut tab = Chromium::start().await;
    tab.open(&store.url("")).await;
    tab.screenshot("empty").await;
    // Slow until the upload was seen running.
    tab.send_at(Some(1 << 20)).await;
    upload(&mut tab, &files.each_ref().map(PathBuf::as_path)).await;
    tab.wait_until("document.querySelector('#uploads progress')?.value > 0 && document.querySelector('#uploads progress').value < 1")
        .await;
    let state = tab.text(STATE).await;
    assert!(state.ends_with(" %"), "{state}");
    tab.screenshot("uploading").await;
    tab.resize(360, 740).await;
    tab.screenshot("uploading-phone").await;
    assert!(
        !store.path("large.bin").exists(),
        "not before all of it is there"
    );
    tab.send_at(None).await;
    until_listed(&mut tab, 2).await;
    assert_eq!(
        tab.eval_each("#uploads li", "it.textContent").await,
        [""; 0]
    );
    assert_same(&store.path("large.bin"), &large);
    assert_same(&store.path("small.txt"), b"small");
    assert_eq!(tab.console_errors().await, [""; 0]);
}

#[tokio::test]
async fn files_and_folders_are_dropped() {
    let store = FileOrigin::start(&["--writable"], empty_folder).await;
    let bytes = ResourceContent::random(3, 300_000).to_vec();
    let file = store.with_owner("dropped.bin", &bytes);
    let inner = store.with_owner("tree/a b/inner #1.bin", &bytes[..1000]);
    store.with_owner("tree/top", b"top");
    let tree = inner.ancestors().nth(2).unwrap();
    let mut tab = Chromium::start().await;
    tab.open(&store.url("")).await;
    tab.drag(&[&file, tree], "h1", &["dragEnter", "dragOver"])
        .await;
    assert_eq!(tab.text("document.body.className").await, "dropping");
    tab.screenshot("dropping").await;
    tab.drag(&[&file, tree], "h1", &["drop"]).await;
    until_listed(&mut tab, 2).await;
    assert_eq!(
        tab.eval_each(NAMES, "it.textContent").await,
        ["tree", "dropped.bin"]
    );
    assert_same(&store.path("dropped.bin"), &bytes);
    assert_same(&store.path("tree/a b/inner #1.bin"), &bytes[..1000]);
    assert_same(&store.path("tree/top"), b"top");
    assert_eq!(tab.console_errors().await, [""; 0]);
}

#[tokio::test]
async fn an_upload_replaces_a_file_only_on_request() {
    let store = FileOrigin::start(&["--writable"], |folder| {
        std::fs::write(folder.join("same.txt"), "old").unwrap()
    })
    .await;
    let file = store.with_owner("same.txt", b"new and longer");
    let mut tab = Chromium::start().await;
    tab.open(&store.url("")).await;
    upload(&mut tab, &[&file]).await;
    tab.wait_until("document.querySelector('#uploads button')?.textContent === 'Replace'")
        .await;
    assert_eq!(tab.text(STATE).await, "it exists already");
    tab.screenshot("exists").await;
    assert_same(&store.path("same.txt"), b"old");
    tab.click("#uploads button").await;
    tab.wait_until("document.readyState === 'complete' && !document.querySelector('#uploads li')")
        .await;
    assert_same(&store.path("same.txt"), b"new and longer");
}

#[tokio::test]
async fn failed_uploads_are_reported() {
    let store = FileOrigin::start(&["--writable", "--max-body", "100K"], |folder| {
        std::fs::create_dir(folder.join("taken")).unwrap();
    })
    .await;
    let files = [
        store.with_owner("large.bin", &ResourceContent::random(4, 2 << 20).to_vec()),
        store.with_owner("taken", b"a folder has the name"),
        store.with_owner("small", b"small"),
    ];
    let mut tab = Chromium::start().await;
    tab.open(&store.url("")).await;
    upload(&mut tab, &files.each_ref().map(PathBuf::as_path)).await;
    tab.wait_until("document.querySelector('#status').textContent.startsWith('1 uploaded, 2 not')")
        .await;
    tab.screenshot("errors").await;
    let states = tab.eval_each("#uploads .state", "it.textContent").await;
    assert_eq!(states[0], "too large for this server");
    assert_eq!(states[1], "the name is in use");
    assert_eq!(states[2], "done");
    assert!(!store.path("large.bin").exists());
    assert_same(&store.path("small"), b"small");
    // The link leads to the page's text.
    tab.click("#status a").await;
    until_listed(&mut tab, 2).await;
}

#[tokio::test]
async fn deletion_asks_for_confirmation() {
    let store = FileOrigin::start(&["--writable"], |folder| {
        for name in ["a", "b & <c>", "d"] {
            std::fs::write(folder.join(name), name).unwrap();
        }
        std::fs::create_dir_all(folder.join("full/inner")).unwrap();
    })
    .await;
    let mut tab = Chromium::start().await;
    tab.open(&store.url("")).await;
    let button = "tbody tr:nth-child(3) button.delete";
    tab.click(button).await;
    let dialog = tab.response(false).await;
    assert!(dialog.contains("b & <c>"), "{dialog}");
    tab.click(button).await;
    tab.response(true).await;
    tab.wait_until("document.querySelector('#status').textContent.includes('was deleted')")
        .await;
    tab.screenshot("deleted").await;
    assert_eq!(
        tab.text("document.querySelector('.sum').textContent").await,
        "3 entries left on this page"
    );
    assert_eq!(
        tab.eval_each(NAMES, "it.textContent").await,
        ["full", "a", "d"]
    );
    assert_eq!(
        tab.text("document.activeElement.textContent").await,
        "d",
        "the next is at hand"
    );
    assert_eq!(
        file_names(&store.path(""))
            .into_iter()
            .filter(|name| name != ".haul")
            .collect::<Vec<_>>(),
        ["a", "d", "full"]
    );
    assert_eq!(tab.console_errors().await, [""; 0]);
    tab.click("tbody tr:first-child button.delete").await;
    tab.response(true).await;
    tab.wait_until("document.querySelector('#status').className === 'bad'")
        .await;
    tab.screenshot("not-deleted").await;
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
    let file = store.with_owner("b", b"b");
    let mut tab = Chromium::start().await;
    tab.open(&store.url_as("reader:secret-1", "")).await;
    assert!(tab.text("document.body.innerText").await.contains("reader"));
    assert_eq!(
        tab.eval_each("form.upload, button.delete", "it.outerHTML")
            .await,
        [""; 0]
    );
    tab.screenshot("reader").await;
    let mut tab = Chromium::start().await;
    tab.open(&store.url_as("writer:secret-2", "")).await;
    upload(&mut tab, &[&file]).await;
    until_listed(&mut tab, 2).await;
    tab.screenshot("writer").await;
    assert_same(&store.path("b"), b"b");
    assert_eq!(tab.console_errors().await, [""; 0]);
}

#[tokio::test]
async fn a_reader_without_a_login_logs_in_and_uploads() {
    let flags = [
        "--writable",
        "--anonymous",
        "ro:/pub",
        "--auth",
        "writer:secret:rw:/pub/in box",
    ];
    let store = FileOrigin::start(&flags, |folder| {
        std::fs::create_dir_all(folder.join("pub/in box")).unwrap();
    })
    .await;
    let file = store.with_owner("b", b"b");
    let mut tab = Chromium::start().await;
    tab.open(&store.url("pub/")).await;
    let text = "document.body.innerText";
    assert!(tab.text(text).await.contains("Log in"));
    tab.screenshot("log-in").await;
    tab.click_and_log_in("[name=login]", "writer", "secret")
        .await;
    tab.wait_until("document.readyState === 'complete' && location.pathname === '/pub/'")
        .await;
    tab.wait_until(&format!("{text}.includes('Logged in as writer')"))
        .await;
    tab.click("td a[href='in%20box/']").await;
    tab.wait_until("document.readyState === 'complete' && document.querySelector('form.upload')")
        .await;
    upload(&mut tab, &[&file]).await;
    until_listed(&mut tab, 1).await;
    assert_same(&store.path("pub/in box/b"), b"b");
}
