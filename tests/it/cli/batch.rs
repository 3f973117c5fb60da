//! Batches: lists from files and pipes, globs, summaries of thousands of results, and exit codes.

use std::fmt::Write as _;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use haul_lab::http2::frames::interim_headers_frame;
use haul_lab::http2::{self, Http2Origin, Http2Request, Http2Settings, StreamAction};
use haul_lab::{
    CertificateAuthority, Origin, OriginResource, RequestMatcher, ResourceContent, faults, within,
};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::time::Instant;

use crate::cli::harness::{HaulDirectory, HaulOutput, LIMIT, file_names};

pub(crate) fn file_content(n: u64) -> ResourceContent {
    ResourceContent::random(n, 500 + 37 * n)
}

/// An origin with files `/0`, `/1` and so on.
pub(crate) async fn start_origin_with_files(files: u64) -> Origin {
    let mut origin = Origin::builder();
    for n in 0..files {
        origin = origin.resource(&format!("/{n}"), OriginResource::new(file_content(n)));
    }
    origin.start().await
}

/// A list of them, and of more that are not there.
pub(crate) fn list_of(origin: &Origin, files: u64) -> String {
    (0..files).fold(String::new(), |mut list, n| {
        writeln!(list, "{}", origin.url(&format!("/{n}"))).unwrap();
        list
    })
}

#[track_caller]
pub(crate) fn assert_files(haul: &HaulDirectory, directory: &str, files: u64) {
    for n in 0..files {
        haul.assert_file(&format!("{directory}/{n}"), &file_content(n));
    }
    let found = file_names(&haul.path(directory)).len();
    assert_eq!(found, usize::try_from(files).unwrap(), "files");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c1_a_list_is_downloaded_plain_and_compressed() {
    let origin = start_origin_with_files(60).await;
    let haul = HaulDirectory::new();
    haul.write("list", list_of(&origin, 60));
    let output = haul.run(&["get", "-i", "list", "-d", "d"]).await;
    output.assert_code(0).assert_stderr_has("60 of 60 files, ");
    assert_eq!(
        (output.stderr.lines().count(), output.stdout.as_str()),
        (1, "")
    );
    assert_files(&haul, "d", 60);
    haul.shell("gzip list").await.assert_code(0);
    haul.run(&["get", "-i", "list.gz", "-d", "e", "-q"])
        .await
        .assert_code(0);
    assert_files(&haul, "e", 60);
}

/// Writes lines to the standard input of a command, each when the result of the one before has come.
async fn feed_slowly(haul: &HaulDirectory, flags: &[&str], first: &str, lines: &[String]) {
    let mut command = haul.command(&[&["get", "-i", "-", "--json"], flags].concat());
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut results = BufReader::new(child.stdout.take().unwrap()).lines();
    stdin.write_all(first.as_bytes()).await.unwrap();
    for line in lines {
        stdin.write_all(line.as_bytes()).await.unwrap();
        let result = within(LIMIT, results.next_line()).await.unwrap().unwrap();
        let object: serde_json::Value = serde_json::from_str(&result).unwrap();
        assert_eq!(object["state"], "done", "{first} {line}: {object}");
    }
    drop(stdin);
    let output = HaulOutput::from_output(within(LIMIT, child.wait_with_output()).await.unwrap());
    let summary = format!("{0} of {0} files", lines.len());
    output.assert_code(0).assert_stderr_has(&summary);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c9_each_line_begins_before_the_next_comes() {
    let origin = start_origin_with_files(3).await;
    let haul = HaulDirectory::new();
    let lines = |form: &dyn Fn(String) -> String| -> Vec<String> {
        (0..3).map(|n| form(origin.url(&format!("/{n}")))).collect()
    };
    let plain = lines(&|url| format!("{url}\n"));
    feed_slowly(&haul, &["-d", "a"], "", &plain).await;
    feed_slowly(&haul, &["-d", "b", "--input-format", "plain"], "", &plain).await;
    let csv = lines(&|url| format!("\"a, b\",{url}\n"));
    feed_slowly(&haul, &["-d", "c"], "label,url\n", &csv).await;
    let json = lines(&|url| format!("{{\"url\": \"{url}\"}}\n"));
    feed_slowly(&haul, &["-d", "d"], "", &json).await;
    for directory in ["a", "b", "c", "d"] {
        assert_files(&haul, directory, 3);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c2_c5_failures_are_reported_and_grouped_by_cause() {
    let origin = start_origin_with_files(20).await;
    let haul = HaulDirectory::new();
    haul.write("list", format!("{}ftp://h/f\n", list_of(&origin, 23)));
    let output = haul.run(&["get", "-i", "list", "-d", "d"]).await;
    output
        .assert_code(1)
        .assert_stderr_has("/21 answered 404 Not Found\n")
        .assert_stderr_has("line 24 of list")
        .assert_stderr_has("\n20 of 24 files, 4 failed, ")
        .assert_stderr_has("haul: error: 4 of 24 files failed\n  3  404 Not Found, e.g. http://")
        .assert_stderr_has(
            "hint: the same command retries them: existing files are not downloaded again",
        );
    assert_files(&haul, "d", 20);
    // The second run requests no file that exists.
    let before = origin.requests().len();
    let output = haul.run(&["get", "-i", "list", "-d", "d", "-q"]).await;
    output.assert_code(1);
    assert!(
        output
            .stderr
            .starts_with("haul: error: 4 of 24 files failed\n"),
        "{output:#?}"
    );
    assert_eq!(origin.requests().len() - before, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c4_names_follow_the_layout() {
    let origin = start_origin_with_files(2).await;
    let haul = HaulDirectory::new();
    haul.write("list", list_of(&origin, 2));
    let get = |flags: &'static [&str]| {
        let args = [&["get", "-i", "list", "-q"], flags].concat();
        let haul = &haul;
        async move {
            haul.run(&args).await.assert_code(0);
        }
    };
    get(&["-d", "path", "--layout", "path"]).await;
    let host = file_names(&haul.path("path")).remove(0);
    assert!(host.starts_with("127.0.0.1"), "{host}");
    assert_files(&haul, &format!("path/{host}"), 2);
    get(&["-d", "hash", "--layout", "hash"]).await;
    assert!(
        file_names(&haul.path("hash"))
            .iter()
            .all(|name| name.len() == 2)
    );
    get(&["-d", "template", "--output-template", "x/{index:03}_{name}"]).await;
    assert_eq!(file_names(&haul.path("template/x")), ["000_0", "001_1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_page_is_not_taken_for_the_file() {
    let page = OriginResource::new(ResourceContent::fixed("<html>not here</html>"))
        .header("Content-Type", "text/html; charset=utf-8");
    let image = OriginResource::new(file_content(9)).header("Content-Type", "image/png");
    let origin = Origin::builder()
        .resource("/page", page)
        .resource("/image", image)
        .start()
        .await;
    let haul = HaulDirectory::new();
    let both = origin.url("/{page,image}");
    haul.run(&["get", &both, "--expect-type", "image/*"])
        .await
        .assert_code(1)
        .assert_stderr_has("its media type is text/html, not image/*");
    assert_eq!(haul.listing(), ["image"]);
    haul.run(&["get", &both, "--min-size", "100", "--overwrite"])
        .await
        .assert_code(1)
        .assert_stderr_has("it has 21 bytes, less than the 100 expected");
    assert_eq!(haul.listing(), ["image"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b6_existing_files_must_have_the_expected_type_and_size() {
    let page = || OriginResource::new(ResourceContent::fixed("<html>not here</html>"));
    let image = OriginResource::new(file_content(9)).header("Content-Type", "image/png");
    let origin = Origin::builder()
        .resource("/page", page())
        .resource("/image", image)
        .start()
        .await;
    let haul = HaulDirectory::new();
    haul.write("list", origin.url("/page\n") + &origin.url("/image\n"));
    let get = |flags: &'static str| {
        let flags: Vec<&str> = flags.split_whitespace().collect();
        let args = [
            &["get", "-i", "list", "--manifest", "m.jsonl", "--json"],
            &flags[..],
        ]
        .concat();
        let haul = &haul;
        async move { haul.run(&args).await }
    };
    get("").await.assert_code(0);
    // A flag that is added later finds the error page of the first run, and says of every job of the list what it is.
    for (flags, problem) in [
        (
            "--expect-type image/*",
            "page is in the way: it is an HTML page",
        ),
        (
            "--min-size 100",
            "page is in the way: its size is not the expected one",
        ),
    ] {
        let output = get(flags).await;
        let rows: Vec<serde_json::Value> = output
            .assert_code(1)
            .stdout
            .lines()
            .map(|row| serde_json::from_str(row).unwrap())
            .collect();
        let row = |path: &str| rows.iter().find(|row| row["path"] == *path).unwrap();
        assert_eq!(row("image")["state"], "skipped", "{output:#?}");
        assert_eq!(row("image")["bytes"], file_content(9).to_vec().len());
        assert_eq!(row("page")["state"], "failed", "{output:#?}");
        // Nothing was requested.
        assert!(row("page").get("ms").is_none() && row("image").get("ms").is_none());
        let error = row("page")["error"].as_str().unwrap();
        assert!(error.contains(problem), "{error}");
    }
    // It is requested again with --overwrite or --update, and refused with its status.
    for flag in [
        "--overwrite --expect-type image/*",
        "--update --expect-type image/*",
    ] {
        let output = get(flag).await;
        let refused = output
            .stdout
            .lines()
            .find(|row| row.contains("image/* is expected"));
        let refused: serde_json::Value = serde_json::from_str(refused.unwrap()).unwrap();
        assert_eq!(refused["status"], 206, "{output:#?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_many_failures_end_the_batch() {
    let origin = start_origin_with_files(1).await;
    let haul = HaulDirectory::new();
    haul.write("list", list_of(&origin, 3000));
    for (flags, most) in [
        (&["--max-errors", "5"][..], "more than the limit allows"),
        (&["--on-error", "stop"], "more than the limit allows"),
        (&["--max-errors", "50%"], "more than the limit allows"),
    ] {
        let before = origin.requests().len();
        let args = [&["get", "-i", "list", "--overwrite"], flags].concat();
        let output = haul.run(&args).await;
        output
            .assert_code(1)
            .assert_stderr_has("haul: error: stopped early: ")
            .assert_stderr_has(most);
        let request_count = origin.requests().len() - before;
        assert!(
            request_count < 1000,
            "{request_count} requests after {flags:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_that_cannot_be_read_or_are_empty() {
    let haul = HaulDirectory::new();
    haul.write("empty", "\n# nothing\n\n");
    haul.run(&["get", "-i", "missing"])
        .await
        .assert_code(2)
        .assert_stderr_has("haul: error: -i: cannot read missing: No such file");
    haul.run(&["get", "-i", "."]).await.assert_code(2);
    haul.run(&["get", "-i", "empty"])
        .await
        .assert_code(0)
        .assert_stderr_has("haul: warning: the lists contain nothing to download");
    let quiet = haul.run(&["get", "-i", "-", "-q"]).await;
    quiet.assert_code(0);
    assert_eq!(quiet.stderr, "");
    // One that is closed is no list.
    haul.run_redirected("<&-", &["get", "-i", "-"])
        .await
        .assert_code(2)
        .assert_stderr_has("haul: error: -i: cannot read standard input: it is closed\nhint: ");
    let output = haul.run(&["get", "-i", "missing", "--json"]).await;
    let object: serde_json::Value = serde_json::from_str(&output.assert_code(2).stdout).unwrap();
    assert_eq!(
        (&object["url"], &object["error"]["class"]),
        (&serde_json::Value::Null, &"usage".into())
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c2_a_file_that_is_no_list_ends_the_batch_at_once() {
    let haul = HaulDirectory::new();
    for (content, reason) in [
        (vec![0; 100_000], "this is not a list of URLs: it is binary"),
        (
            b"some text\n".repeat(2000),
            "this is not a list of URLs: none of its first 1000 lines can be used",
        ),
        (
            b"name,link\na,http://h.test/a\n".to_vec(),
            "the first line has no column 'url'",
        ),
    ] {
        haul.write("file", content);
        let output = haul.run(&["get", "-i", "file", "-d", "d"]).await;
        output
            .assert_code(2)
            .assert_stderr_has("haul: error: line 1 of file")
            .assert_stderr_has(reason)
            .assert_stderr_has("hint: a list has a URL a line");
        assert_eq!(output.stderr.lines().count(), 3, "{output:#?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_http_version_is_the_requested_one() {
    let authority = CertificateAuthority::new();
    let issued = authority.issue(&["127.0.0.1"]);
    let both = http2::alpn_server_config(&issued, None, &["h2", "http/1.1"]);
    let number = |request: &Http2Request| request.path.trim_matches('/').parse().unwrap();
    let serve = move |request: &Http2Request| {
        StreamAction::Respond(file_content(number(request)).to_vec().into())
    };
    let origin = Http2Origin::start(both, Http2Settings::default(), serve).await;
    for (flag, wanted) in [("--http2", true), ("--http1.1", false)] {
        let haul = HaulDirectory::new();
        let ca = haul.write("ca.pem", authority.certificate_pem());
        let before = origin.requests().len();
        let args = [
            "get",
            &origin.url("/[0-39]"),
            "-d",
            "d",
            "--cacert",
            &ca,
            flag,
        ];
        haul.run(&args).await.assert_code(0);
        assert_files(&haul, "d", 40);
        let requests = &origin.requests()[before..];
        assert!(
            requests.len() >= 40 && requests.iter().all(|request| request.is_http2 == wanted),
            "{flag}"
        );
    }
}

/// An origin with files `/0`, `/1` and so on, of which `/0` is there at the second request, and the times of its requests.
async fn start_timed_origin(files: u64) -> (Origin, Arc<Mutex<Vec<Instant>>>) {
    let times = Arc::new(Mutex::new(Vec::new()));
    let mut origin = Origin::builder();
    for n in 0..files {
        let times = Arc::clone(&times);
        let mut resource =
            OriginResource::new(file_content(n)).rule(RequestMatcher::always(), move |_, _| {
                times.lock().unwrap().push(Instant::now());
            });
        if n == 0 {
            resource = resource.rule(RequestMatcher::first(1), faults::status(500));
        }
        origin = origin.resource(&format!("/{n}"), resource);
    }
    (origin.start().await, times)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_host_gets_at_most_its_requests_a_second_retries_included() {
    let ((one, one_times), (two, two_times)) =
        (start_timed_origin(8).await, start_timed_origin(8).await);
    let haul = HaulDirectory::new();
    haul.write("list", list_of(&one, 8) + &list_of(&two, 8));
    let args = ["get", "-i", "list", "-d", "d", "--rate-per-host", "5"];
    let layout = ["--output-template", "{index}"];
    let output = haul.run(&[&args[..], &layout].concat()).await;
    output.assert_code(0).assert_stderr_has("16 of 16 files, ");
    let times_of = |times: Arc<Mutex<Vec<Instant>>>| times.lock().unwrap().clone();
    let (one_times, two_times) = (times_of(one_times), times_of(two_times));
    for (origin, times) in [(&one, &one_times), (&two, &two_times)] {
        assert_eq!(origin.requests().len(), 9, "one is a retry");
        for (first, begin) in times.iter().enumerate() {
            for (last, end) in times.iter().enumerate().skip(first) {
                // A request may be on its way for longer than the next one.
                let window = (*end - *begin).as_secs_f64() + 0.1;
                let requests = (last - first + 1) as f64;
                assert!(requests <= 5.0 * window + 1.0, "{requests} in {window} s");
            }
        }
    }
    assert!(one_times[0] < two_times[8] && two_times[0] < one_times[8]);
}

/// A peer whose response begins with eight thousand interim ones, each of 2 KB that need 200 KB of memory when they are read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a29_a_flood_of_interim_responses_needs_little_memory() {
    let authority = CertificateAuthority::new();
    let tls = http2::alpn_server_config(&authority.issue(&["127.0.0.1"]), None, &["h2"]);
    let origin = http2::Http2FrameOrigin::start(tls, |request| {
        Some(interim_headers_frame(request.stream, 103, 1_700).repeat(8_000))
    })
    .await;
    let haul = HaulDirectory::new();
    haul.write("ca.pem", authority.certificate_pem());
    haul.write("list", origin.url("/f"));
    let program = env!("CARGO_BIN_EXE_haul");
    // KiB of addresses: threads reserve some hundred MiB, and the heads would need 1.6 GiB.
    let line = format!(
        "ulimit -v 1000000; exec {program} get -i list --cacert ca.pem --http2 --retries 0 -d d"
    );
    let output = haul.shell(&line).await;
    output
        .assert_code(1)
        .assert_stderr_has("its head is too long");
}
