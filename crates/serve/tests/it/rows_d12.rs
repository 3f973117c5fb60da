//! D12: a large directory. `scripts/bench serve` uses a million entries, and these tests use as many
//! as they can create quickly.

use std::collections::HashSet;
use std::fs;

use crate::client::{TestClient, TestTransport, request_head};
use crate::harness::{ServerSetup, TestServer, metric, wait_until};

const MANY: usize = 100_000;

/// Creates hard links of one file, which is fast, as far as the file system allows so many.
fn fill(server: &TestServer, count: usize) {
    let folder = server.root().join("many");
    fs::create_dir(&folder).unwrap();
    let mut file = server.write_file("file", "x");
    for index in 0..count {
        let name = folder.join(format!("{index:06}"));
        if fs::hard_link(&file, &name).is_err() {
            fs::write(&name, "x").unwrap();
            file = name;
        }
    }
}

/// The names in a page of JSON, and the cursor of the next page.
fn page(
    server: &TestServer,
    transport: TestTransport,
    query: &str,
) -> (Vec<String>, Option<String>) {
    let response = server.request(transport, "GET", &format!("/many/?format=json{query}"), &[]);
    assert_eq!(response.status, 200, "{query}");
    let page: serde_json::Value = serde_json::from_slice(&response.body).unwrap();
    let names = page["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["name"].as_str().unwrap().to_owned())
        .collect();
    (names, page["next"].as_str().map(ToOwned::to_owned))
}

#[test]
fn d12_a_large_folder_is_listed_in_pages_and_as_a_stream() {
    let server = TestServer::start();
    fill(&server, MANY);
    // Without a limit, a page has the default length.
    let (first, next) = page(&server, TestTransport::Plain, "");
    assert!(!first.is_empty() && first.len() < MANY && next.is_some());
    // Each name appears once and in order with any page length.
    let (mut all, mut query) = (Vec::new(), "&limit=30000".to_owned());
    loop {
        let (names, next) = page(&server, TestTransport::Tls, &query);
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
    // All entries at once, one object on each line.
    for transport in [TestTransport::Plain, TestTransport::Http2] {
        let response = server.request(
            transport,
            "GET",
            "/many/",
            &[("Accept", "application/x-ndjson")],
        );
        assert_eq!(
            (response.status, response.header("content-length")),
            (200, None),
            "{transport:?}"
        );
        let text = response.text();
        let names: HashSet<_> = text
            .lines()
            .map(|line| {
                let row: serde_json::Value = serde_json::from_str(line).unwrap();
                row["name"].as_str().unwrap().to_owned()
            })
            .collect();
        assert_eq!(names.len(), MANY, "{transport:?}");
    }
    // An HTML page is no larger than a browser can handle.
    let html = server.request(
        TestTransport::Plain,
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

/// Other clients are served meanwhile, and the listing ends when its client disconnects.
#[test]
fn d12_an_unread_listing_does_not_block_others() {
    let (server, metrics) = ServerSetup::default().start_with_metrics();
    fill(&server, MANY);
    let mut unread_client: Vec<_> = (0..10)
        .map(|_| TestClient::connect_plain(&server))
        .collect();
    for client in &mut unread_client {
        client.send(request_head(
            "GET",
            "/many/",
            &[("Accept", "application/x-ndjson")],
        ));
        assert_eq!(client.read_head().status, 200);
    }
    for _ in 0..100 {
        assert_eq!(server.get("/file").text(), "x");
    }
    assert_eq!(page(&server, TestTransport::Plain, "&limit=10").0.len(), 10);
    let successful_requests = "haul_http_requests_total{method=\"GET\",code=\"2xx\"}";
    wait_until("the others are counted", || {
        metric(&metrics, successful_requests) == 101
    });
    drop(unread_client);
    wait_until("the unread listings have ended", || {
        metric(&metrics, successful_requests) == 111
            && metric(&metrics, "haul_errors_total{kind=\"aborted\"}") == 10
    });
    assert_eq!(server.get("/file").text(), "x");
}

#[test]
fn d12_a_folder_without_slash_redirects_and_lists_in_every_format() {
    let server = TestServer::start();
    server.write_file("a/b", "x");
    for transport in TestTransport::ALL {
        let response = server.request(transport, "GET", "/a?x=y", &[]);
        assert_eq!(
            (response.status, response.header("location")),
            (301, Some("/a/?x=y")),
            "{transport:?}"
        );
        for (form, kind) in [
            ("html", "text/html"),
            ("json", "application/json"),
            ("tar", "application/x-tar"),
        ] {
            let target = format!("/a/?format={form}");
            let response = server.request(transport, "GET", &target, &[]);
            assert_eq!(response.status, 200, "{transport:?} {form}");
            assert!(
                response.header("content-type").unwrap().starts_with(kind),
                "{transport:?} {form}"
            );
            assert!(crate::client::find(&response.body, b"b").is_some());
            let head = server.request(transport, "HEAD", &target, &[]);
            assert!(
                head.status == 200 && head.body.is_empty(),
                "{transport:?} {form}"
            );
        }
        // Listings do not contain the internal files of the store.
        assert!(
            !server
                .request(transport, "GET", "/?format=json", &[])
                .text()
                .contains(".haul"),
            "{transport:?}"
        );
    }
}
