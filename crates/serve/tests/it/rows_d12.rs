//! D12: a large directory. A million entries are for `scripts/bench serve`; here are as many as a test can make.

use std::collections::HashSet;
use std::fs;

use crate::client::{RequestPathway, TestClient, request};
use crate::harness::{ServerSetup, TestServer, eventually, sample};

const MANY: usize = 100_000;

/// Names of one file in a folder: that is quick, where the file system lets a file have so many.
fn fill(served: &TestServer, count: usize) {
    let folder = served.root().join("many");
    fs::create_dir(&folder).unwrap();
    let mut file = served.file("file", "x");
    for index in 0..count {
        let name = folder.join(format!("{index:06}"));
        if fs::hard_link(&file, &name).is_err() {
            fs::write(&name, "x").unwrap();
            file = name;
        }
    }
}

/// The names in a page of JSON, and where the next one begins.
fn page(served: &TestServer, road: RequestPathway, query: &str) -> (Vec<String>, Option<String>) {
    let answer = served.ask(road, "GET", &format!("/many/?format=json{query}"), &[]);
    assert_eq!(answer.status, 200, "{query}");
    let page: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    let names = page["entries"].as_array().unwrap().iter();
    let names = names
        .map(|entry| entry["name"].as_str().unwrap().to_owned())
        .collect();
    (names, page["next"].as_str().map(ToOwned::to_owned))
}

#[test]
fn d12_a_large_folder_is_listed_in_pages_and_in_a_stream() {
    let served = TestServer::start();
    fill(&served, MANY);
    // A page of what a page is, and no more.
    let (first, next) = page(&served, RequestPathway::Plain, "");
    assert!(!first.is_empty() && first.len() < MANY && next.is_some());
    // Each name once and in order, however long a page is.
    let (mut all, mut query) = (Vec::new(), "&limit=30000".to_owned());
    loop {
        let (names, next) = page(&served, RequestPathway::Tls, &query);
        assert!(names.len() <= 30_000);
        all.extend(names);
        let Some(next) = next else { break };
        query = match next.split_once('?') {
            Some((_, rest)) => format!(
                "&{}",
                rest.replace("format=json&", "").replace("&format=json", "")
            ),
            None => format!("&limit=30000&after={next}"),
        };
    }
    assert_eq!(all.len(), MANY);
    assert!(all.is_sorted());
    // All at once, an object a line.
    for road in [RequestPathway::Plain, RequestPathway::Http2] {
        let answer = served.ask(road, "GET", "/many/", &[("Accept", "application/x-ndjson")]);
        assert_eq!(
            (answer.status, answer.field("content-length")),
            (200, None),
            "{road:?}"
        );
        let text = answer.text();
        let names: HashSet<_> = text
            .lines()
            .map(|line| {
                let row: serde_json::Value = serde_json::from_str(line).unwrap();
                row["name"].as_str().unwrap().to_owned()
            })
            .collect();
        assert_eq!(names.len(), MANY, "{road:?}");
    }
    // A page for people is no larger than a browser takes.
    let html = served.ask(
        RequestPathway::Plain,
        "GET",
        "/many/",
        &[("Accept", "text/html")],
    );
    assert!(
        html.status == 200 && html.body.len() < 4 << 20,
        "{}",
        html.body.len()
    );
}

/// Others are served while it is made, and whoever goes away ends it.
#[test]
fn d12_a_listing_that_nobody_reads_holds_nobody_up() {
    let (served, metrics) = ServerSetup::default().counted();
    fill(&served, MANY);
    let mut stuck: Vec<_> = (0..10).map(|_| TestClient::plain(&served)).collect();
    for client in &mut stuck {
        client.send(request(
            "GET",
            "/many/",
            &[("Accept", "application/x-ndjson")],
        ));
        assert_eq!(client.head().status, 200);
    }
    for _ in 0..100 {
        assert_eq!(served.get("/file").text(), "x");
    }
    assert_eq!(
        page(&served, RequestPathway::Plain, "&limit=10").0.len(),
        10
    );
    let answered = "haul_http_requests_total{method=\"GET\",code=\"2xx\"}";
    eventually("the others are counted", || {
        sample(&metrics, answered) == 101
    });
    drop(stuck);
    eventually("they were stuck, and are given up", || {
        sample(&metrics, answered) == 111
            && sample(&metrics, "haul_errors_total{kind=\"aborted\"}") == 10
    });
    assert_eq!(served.get("/file").text(), "x");
}

#[test]
fn d12_a_folder_is_redirected_to_and_listed_in_every_form() {
    let served = TestServer::start();
    served.file("a/b", "x");
    for road in RequestPathway::ALL {
        let answer = served.ask(road, "GET", "/a?x=y", &[]);
        assert_eq!(
            (answer.status, answer.field("location")),
            (301, Some("/a/?x=y")),
            "{road:?}"
        );
        for (form, kind) in [
            ("html", "text/html"),
            ("json", "application/json"),
            ("tar", "application/x-tar"),
        ] {
            let target = format!("/a/?format={form}");
            let answer = served.ask(road, "GET", &target, &[]);
            assert_eq!(answer.status, 200, "{road:?} {form}");
            assert!(
                answer.field("content-type").unwrap().starts_with(kind),
                "{road:?} {form}"
            );
            assert!(crate::client::find(&answer.body, b"b").is_some());
            let head = served.ask(road, "HEAD", &target, &[]);
            assert!(
                head.status == 200 && head.body.is_empty(),
                "{road:?} {form}"
            );
        }
        // What is the store's own is in no listing.
        assert!(
            !served
                .ask(road, "GET", "/?format=json", &[])
                .text()
                .contains(".haul"),
            "{road:?}"
        );
    }
}
