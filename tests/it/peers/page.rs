//! The store's page in a browser: its content, its look, and the controls that readers without permission to write do not get.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use serde_json::json;

use super::chromium::Chromium;
use super::test_server::FileOrigin;

/// Names that a page must show as they are.
const HOSTILE: [&[u8]; 14] = [
    b"<script>document.title='x'",
    b"\"><img src=x onerror=alert(1)>",
    b"' onclick='alert(1)",
    b"<a><b>",
    b"&lt;&amp;",
    b"<!--",
    b"?q=1#f",
    b"%41",
    b"a:b",
    b"javascript:alert(1)",
    b" two  spaces ",
    "\u{202e}gpj.exe".as_bytes(),
    "\u{5d0}\u{5d1} <i>".as_bytes(),
    b"\xff\xfe.bin",
];

const NAMES: &str = "tbody tr:not(.up):not([hidden]) bdi";

fn write(folder: &std::path::Path, name: &[u8], content: &[u8]) {
    std::fs::write(folder.join(OsStr::from_bytes(name)), content).unwrap();
}

/// Files of different sizes and a folder.
fn write_folder(folder: PathBuf) {
    write(&folder, b"small.txt", b"small");
    write(&folder, b"large.bin", &[0; 70_000]);
    write(&folder, b"middle.md", &[b' '; 3000]);
    std::fs::create_dir(folder.join("docs")).unwrap();
    write(&folder.join("docs"), b"inner", b"inner");
}

#[tokio::test]
async fn the_page_lists_the_folder_under_its_policy() {
    let store = FileOrigin::start(&["--writable"], write_folder).await;
    let mut tab = Chromium::start().await;
    tab.open(&store.url("")).await;
    assert_eq!(
        tab.eval_each(NAMES, "it.textContent").await,
        ["docs", "large.bin", "middle.md", "small.txt"]
    );
    let class = tab.text("document.documentElement.className").await;
    assert_eq!(class, "js", "the script has run");
    assert_eq!(tab.console_errors().await, [""; 0]);
    tab.screenshot("light").await;
    // The policy is there: it holds what somebody would put into the page, and complaints are heard.
    tab.eval("document.body.setAttribute('style', 'color: red')")
        .await;
    tab.eval("document.head.append(Object.assign(document.createElement('script'), { text: 'window.ran = 1' }))").await;
    assert!(tab.eval("window.ran").await.is_null());
    let complaints = tab.console_errors().await;
    let of_policy = |what: &&String| what.contains("Content Security Policy");
    assert_eq!(
        complaints.iter().filter(of_policy).count(),
        2,
        "{complaints:?}"
    );
    // Down and up again.
    tab.click("td a[href='docs/']").await;
    tab.wait_until("document.readyState === 'complete' && location.pathname === '/docs/'")
        .await;
    assert_eq!(
        tab.text("document.querySelector('h1').textContent").await,
        "docs"
    );
    tab.screenshot("inner").await;
    tab.click("nav a").await;
    tab.wait_until("document.readyState === 'complete' && location.pathname === '/'")
        .await;
    assert_eq!(tab.console_errors().await, [""; 0]);
}

#[tokio::test]
async fn hostile_names_are_text_and_link_to_their_files() {
    let fill = |folder: PathBuf| {
        for (at, name) in HOSTILE.iter().enumerate() {
            write(&folder, name, at.to_string().as_bytes());
        }
        std::fs::create_dir(folder.join("plain")).unwrap();
        for (at, _) in HOSTILE.iter().enumerate() {
            write(&folder.join("plain"), at.to_string().as_bytes(), b"");
        }
    };
    let store = FileOrigin::start(&["--writable"], fill).await;
    let mut tab = Chromium::start().await;
    let shape = "it.tagName + [...it.attributes].map((one) => ' ' + one.name).join('')";
    tab.open(&store.url("plain/")).await;
    let plain = tab.eval_each("tbody tr:not(.up) *", shape).await;
    tab.open(&store.url("")).await;
    tab.screenshot("hostile").await;
    // All but the folder's row are of the same elements with the same attributes.
    let found = tab.eval_each("tbody tr:nth-child(n + 2) *", shape).await;
    assert_eq!(found, plain);
    let whole = tab
        .eval_each("body > *, main > *, header > *", "it.tagName")
        .await;
    assert_eq!(whole.len(), 11, "{whole:?}");
    assert_eq!(tab.text("document.title").await, "haul");
    let shown = tab.eval_each(NAMES, "it.textContent").await;
    let linked = "Promise.all([...document.querySelectorAll('tbody a')].slice(1).map(async (it) => (await fetch(it.href)).text()))";
    let linked: Vec<String> = serde_json::from_value(tab.eval(linked).await).unwrap();
    assert_eq!(linked.len(), HOSTILE.len());
    for (name, content) in shown.iter().skip(1).zip(&linked) {
        let file_name = HOSTILE[content.parse::<usize>().unwrap()];
        // A character that reverses the text direction is shown as its code point. A name that is not UTF-8 is shown as well as possible.
        if let Ok(file_name) = std::str::from_utf8(file_name) {
            assert_eq!(*name, file_name.replace('\u{202e}', "\\u{202e}"));
        } else {
            assert!(name.ends_with(".bin"), "{name}");
        }
    }
    assert_eq!(tab.console_errors().await, [""; 0]);
}

#[tokio::test]
async fn column_heads_sort() {
    let store = FileOrigin::start(&[], write_folder).await;
    let mut tab = Chromium::start().await;
    tab.open(&store.url("")).await;
    let mut seen = Vec::new();
    for (column, direction) in [
        (2, "descending"),
        (2, "ascending"),
        (1, "ascending"),
        (1, "descending"),
    ] {
        tab.click(&format!("th:nth-child({column}) button")).await;
        let head = format!("th:nth-child({column})[aria-sort={direction}]");
        tab.wait_until(&format!(
            "document.readyState === 'complete' && document.querySelector('{head}')"
        ))
        .await;
        let names = tab.eval_each(NAMES, "it.textContent").await;
        seen.push(
            names
                .into_iter()
                .filter(|name| name != "docs")
                .collect::<Vec<_>>(),
        );
    }
    let by_size = ["large.bin", "middle.md", "small.txt"];
    assert_eq!(seen[0], by_size);
    assert!(seen[1].iter().eq(by_size.iter().rev()));
    assert_eq!(
        seen[2], by_size,
        "which is the order of their names as well"
    );
    assert!(seen[3].iter().eq(by_size.iter().rev()));
}

#[tokio::test]
async fn it_is_light_or_dark_and_fits_a_phone() {
    let fill = |folder: PathBuf| {
        write_folder(folder.clone());
        write(&folder, &[b'W'; 220], b"");
        write(
            &folder,
            "Fotos vom Sommer \u{2013} an der See (Auswahl).zip".as_bytes(),
            b"",
        );
    };
    let store = FileOrigin::start(&["--writable"], fill).await;
    let mut tab = Chromium::start().await;
    let mut backgrounds = Vec::new();
    for scheme in ["light", "dark"] {
        tab.set_color_scheme(scheme).await;
        tab.open(&store.url("")).await;
        let colours = tab
            .eval_each(
                "body, .list, td a, td:nth-child(3), .sum",
                "getComputedStyle(it).color",
            )
            .await;
        backgrounds.push(
            tab.text("getComputedStyle(document.body).backgroundColor")
                .await,
        );
        assert!(
            !colours.contains(&backgrounds[backgrounds.len() - 1]),
            "{colours:?}"
        );
        tab.screenshot(&format!("looks-{scheme}")).await;
    }
    assert_ne!(backgrounds[0], backgrounds[1]);
    tab.resize(360, 740).await;
    for scheme in ["dark", "light"] {
        tab.set_color_scheme(scheme).await;
        for path in ["", "docs/"] {
            tab.open(&store.url(path)).await;
            let width = tab.eval("document.documentElement.scrollWidth").await;
            assert_eq!(width, json!(360), "{path}");
            tab.screenshot(&format!("phone-{scheme}{}", path.len()))
                .await;
        }
    }
    // Nothing reaches out of its row either.
    let out = tab
        .eval_each("tbody *", "it.getBoundingClientRect().right")
        .await;
    assert!(
        out.iter()
            .all(|right| right.parse::<f64>().unwrap() <= 360.0)
    );
    assert_eq!(tab.console_errors().await, [""; 0]);
}

#[tokio::test]
async fn a_large_folder_has_pages_a_filter_and_keys() {
    let fill = |folder: PathBuf| {
        (0..2500).for_each(|n| write(&folder, format!("file-{n:04}.dat").as_bytes(), b"x"))
    };
    let store = FileOrigin::start(&["--writable"], fill).await;
    let mut tab = Chromium::start().await;
    tab.open(&store.url("")).await;
    assert_eq!(tab.eval_each(NAMES, "it.textContent").await.len(), 2000);
    tab.screenshot("large").await;
    tab.press("/").await;
    for key in ["-", "1", "1", "9"] {
        tab.press(key).await;
    }
    tab.wait_until("document.querySelectorAll('tbody tr:not([hidden])').length === 10")
        .await;
    for _ in 0..3 {
        tab.press("ArrowDown").await;
    }
    assert_eq!(
        tab.text("document.activeElement.textContent").await,
        "file-1192.dat"
    );
    tab.screenshot("filter").await;
    tab.eval("document.querySelector('.pages').scrollIntoView()")
        .await;
    tab.click("a[rel=next]").await;
    tab.wait_until("document.readyState === 'complete' && document.querySelector('a[rel=prev]')")
        .await;
    let names = tab.eval_each(NAMES, "it.textContent").await;
    assert_eq!((names.len(), names[0].as_str()), (500, "file-2000.dat"));
    tab.eval("document.querySelector('.pages').scrollIntoView()")
        .await;
    tab.screenshot("last").await;
    assert_eq!(tab.console_errors().await, [""; 0]);
}

#[tokio::test]
async fn a_read_only_user_sees_no_controls_for_writing() {
    let store = FileOrigin::start(&[], write_folder).await;
    let mut tab = Chromium::start().await;
    tab.open(&store.url("")).await;
    tab.screenshot("read-only").await;
    assert_eq!(tab.eval_each(NAMES, "it.textContent").await.len(), 4);
    assert_eq!(
        tab.eval_each(
            "form.upload, button.delete, input[type=file]",
            "it.outerHTML"
        )
        .await,
        [""; 0]
    );
    assert_eq!(tab.console_errors().await, [""; 0]);
}

/// What somebody stored does not run with the rights of the page's server, whichever dialect sends it: not where only reading is permitted
/// either, since it may have been stored before.
#[tokio::test]
async fn a_stored_page_has_no_rights_over_s3() {
    let page = b"<title>stored</title><script>document.title = 'ran as ' + origin</script>";
    let store = FileOrigin::start(
        &["--s3", "--s3-key", "key:secret", "--anonymous", "ro"],
        |folder| {
            std::fs::create_dir(folder.join("bucket")).unwrap();
            write(&folder.join("bucket"), b"page.html", page);
        },
    )
    .await;
    let mut tab = Chromium::start().await;
    for (path, title) in [
        // A server that takes no files has its owner's own pages.
        (
            "bucket/page.html",
            format!("ran as {}", store.url("").trim_end_matches('/')),
        ),
        ("bucket/page.html?list-type=2", "stored".to_owned()),
    ] {
        tab.open(&store.url(path)).await;
        assert_eq!(tab.text("document.title").await, title, "{path}");
    }
}
