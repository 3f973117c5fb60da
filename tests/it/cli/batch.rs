//! Many files: lists from files and pipes, globs, what is said of thousands of ends, and how they end together.

use std::fmt::Write as _;
use std::process::Stdio;

use haul_lab::http2::{self, Act, Http2Asked, Http2Origin, Http2Settings};
use haul_lab::{Authority, Content, Origin, Resource, When, breakage, within};
use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};

use crate::cli::harness::{Haul, LIMIT, Ran, names};

/// The bytes of a file.
fn file(n: u64) -> Content {
    Content::random(n, 500 + 37 * n)
}

/// An origin with files `/0`, `/1` and so on.
async fn serve(files: u64) -> Origin {
    let mut origin = Origin::builder();
    for n in 0..files {
        origin = origin.resource(&format!("/{n}"), Resource::new(file(n)));
    }
    origin.start().await
}

/// A list of them, and of more that are not there.
fn list(origin: &Origin, files: u64) -> String {
    (0..files).fold(String::new(), |mut list, n| {
        writeln!(list, "{}", origin.url(&format!("/{n}"))).unwrap();
        list
    })
}

#[track_caller]
fn assert_files(haul: &Haul, directory: &str, files: u64) {
    for n in 0..files {
        haul.assert_file(&format!("{directory}/{n}"), &file(n));
    }
    let found = names(&haul.path(directory)).len();
    assert_eq!(found, usize::try_from(files).unwrap(), "files");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c1_a_list_is_downloaded_plain_and_packed() {
    let origin = serve(60).await;
    let haul = Haul::new();
    haul.write("list", list(&origin, 60));
    let ran = haul.run(&["get", "-i", "list", "-d", "d"]).await;
    ran.assert_code(0).assert_says("60 of 60 files, ");
    assert_eq!((ran.stderr.lines().count(), ran.stdout.as_str()), (1, ""));
    assert_files(&haul, "d", 60);
    haul.shell("gzip list").await.assert_code(0);
    haul.run(&["get", "-i", "list.gz", "-d", "e", "-q"])
        .await
        .assert_code(0);
    assert_files(&haul, "e", 60);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c1_downloads_begin_before_the_list_has_been_read() {
    let origin = serve(3).await;
    let haul = Haul::new();
    let mut command = haul.command(&["get", "-i", "-", "--input-format", "plain", "--json"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut results = BufReader::new(child.stdout.take().unwrap()).lines();
    for n in 0..3 {
        let line = format!("{}\n", origin.url(&format!("/{n}")));
        stdin.write_all(line.as_bytes()).await.unwrap();
        // Each is there before the next is written.
        let result = within(LIMIT, results.next_line()).await.unwrap().unwrap();
        let told: serde_json::Value = serde_json::from_str(&result).unwrap();
        assert_eq!(
            (&told["state"], &told["line"]),
            (&"done".into(), &(n + 1).into())
        );
        haul.assert_file(&n.to_string(), &file(n));
    }
    drop(stdin);
    let ran = Ran::of(within(LIMIT, child.wait_with_output()).await.unwrap());
    ran.assert_code(0).assert_says("3 of 3 files");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c2_c5_what_fails_is_told_and_summed_up_by_cause() {
    let origin = serve(20).await;
    let haul = Haul::new();
    haul.write("list", format!("{}ftp://h/f\n", list(&origin, 23)));
    let ran = haul.run(&["get", "-i", "list", "-d", "d"]).await;
    ran.assert_code(1)
        .assert_says("/21 answered 404 Not Found\n")
        .assert_says("line 24 of list")
        .assert_says("\n20 of 24 files, 4 failed, ")
        .assert_says("haul: error: 4 of 24 files failed\n  3  404 Not Found: such as http://")
        .assert_says(
            "hint: the same command tries those again: what is there is not fetched again",
        );
    assert_files(&haul, "d", 20);
    // Going on asks for nothing that is there.
    let before = origin.asked().len();
    let ran = haul.run(&["get", "-i", "list", "-d", "d", "-q"]).await;
    ran.assert_code(1);
    assert!(
        ran.stderr
            .starts_with("haul: error: 4 of 24 files failed\n"),
        "{ran:#?}"
    );
    assert_eq!(origin.asked().len() - before, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_end_is_an_object_or_a_line_if_wanted() {
    let origin = serve(20).await;
    let haul = Haul::new();
    let glob = origin.url("/[0-20]");
    let ran = haul.run(&["get", &glob, "--json", "-q", "-d", "d"]).await;
    ran.assert_code(1);
    let told: Vec<serde_json::Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(told.len(), 21);
    let failed: Vec<_> = told
        .iter()
        .filter(|told| told["state"] == "failed")
        .collect();
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0]["error_class"], "network");
    let seven = told.iter().find(|told| told["path"] == "d/7").unwrap();
    assert_eq!(seven["bytes"], file(7).length());
    assert!(seven.get("line").is_none(), "it was typed: {seven}");
    let ran = haul.run(&["get", &glob, "-v", "-d", "e"]).await;
    ran.assert_code(1).assert_says("e/7  759 B in ");
    assert_eq!(ran.stderr.matches(" ms\n").count(), 20, "{ran:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn digests_are_printed_as_the_sum_tools_read_them() {
    let origin = serve(20).await;
    let haul = Haul::new();
    let args = [
        "get",
        &origin.url("/[0-19]"),
        "--checksum",
        "sha256",
        "-q",
        "-d",
        "d",
    ];
    let ran = haul.run(&args).await;
    ran.assert_code(0);
    let line = format!("{}  d/3", file(3).sha256());
    assert!(ran.stdout.lines().any(|told| told == line), "{ran:#?}");
    haul.write("sums", &ran.stdout);
    let checked = haul.shell("sha256sum -c sums").await;
    checked.assert_code(0);
    assert_eq!(checked.stdout.matches(": OK").count(), 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c4_names_are_laid_out_as_asked() {
    let origin = serve(2).await;
    let haul = Haul::new();
    haul.write("list", list(&origin, 2));
    let get = |flags: &'static [&str]| {
        let args = [&["get", "-i", "list", "-q"], flags].concat();
        let haul = &haul;
        async move {
            haul.run(&args).await.assert_code(0);
        }
    };
    get(&["-d", "path", "--layout", "path"]).await;
    let host = names(&haul.path("path")).remove(0);
    assert!(host.starts_with("127.0.0.1"), "{host}");
    assert_files(&haul, &format!("path/{host}"), 2);
    get(&["-d", "hash", "--layout", "hash"]).await;
    assert!(names(&haul.path("hash")).iter().all(|name| name.len() == 2));
    get(&["-d", "template", "--output-template", "x/{index:03}_{name}"]).await;
    assert_eq!(names(&haul.path("template/x")), ["000_0", "001_1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_page_is_not_the_file() {
    let page = Resource::new(Content::fixed("<html>not here</html>"))
        .header("Content-Type", "text/html; charset=utf-8");
    let image = Resource::new(file(9)).header("Content-Type", "image/png");
    let origin = Origin::builder()
        .resource("/page", page)
        .resource("/image", image);
    let origin = origin.start().await;
    let haul = Haul::new();
    let both = origin.url("/{page,image}");
    haul.run(&["get", &both, "--expect-type", "image/*"])
        .await
        .assert_code(1)
        .assert_says("it is text/html, not image/*");
    assert_eq!(haul.listing(), ["image"]);
    haul.run(&["get", &both, "--min-size", "100", "--overwrite"])
        .await
        .assert_code(1)
        .assert_says("it has 21 bytes, less than the 100 expected");
    assert_eq!(haul.listing(), ["image"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_many_failures_end_it() {
    let origin = serve(1).await;
    let haul = Haul::new();
    haul.write("list", list(&origin, 3000));
    for (flags, most) in [
        (&["--max-errors", "5"][..], "more than may"),
        (&["--on-error", "stop"], "more than may"),
        (&["--max-errors", "50%"], "more than may"),
    ] {
        let before = origin.asked().len();
        let args = [&["get", "-i", "list", "--overwrite"], flags].concat();
        let ran = haul.run(&args).await;
        ran.assert_code(1)
            .assert_says("haul: error: stopped before all was done: ")
            .assert_says(most);
        let asked = origin.asked().len() - before;
        assert!(asked < 1000, "{asked} requests after {flags:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_by_the_thousand_do_not_flood_the_screen() {
    let origin = serve(0).await;
    let haul = Haul::new();
    haul.write("list", list(&origin, 2000));
    let ran = haul.run(&["get", "-i", "list", "-j", "16"]).await;
    ran.assert_code(1)
        .assert_says("  2000  404 Not Found: such as ");
    let lines = ran.stderr.matches(" answered 404 ").count();
    // Twenty a second, and a run takes some seconds even on a machine that does much else.
    assert!((20..1000).contains(&lines), "{lines} lines");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_that_cannot_be_read_or_name_nothing() {
    let haul = Haul::new();
    haul.write("empty", "\n# nothing\n\n");
    haul.run(&["get", "-i", "missing"])
        .await
        .assert_code(2)
        .assert_says("haul: error: -i: cannot read missing: No such file");
    haul.run(&["get", "-i", "."]).await.assert_code(2);
    haul.run(&["get", "-i", "empty"])
        .await
        .assert_code(0)
        .assert_says("haul: warning: the lists name nothing to download");
    let quiet = haul.run(&["get", "-i", "-", "-q"]).await;
    quiet.assert_code(0);
    assert_eq!(quiet.stderr, "");
    let ran = haul.run(&["get", "-i", "missing", "--json"]).await;
    let told: serde_json::Value = serde_json::from_str(&ran.assert_code(2).stdout).unwrap();
    assert_eq!(
        (&told["url"], &told["error"]["class"]),
        (&serde_json::Value::Null, &"usage".into())
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c6_an_interrupted_batch_keeps_what_is_done() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let stalls = Resource::new(file(1)).rule(When::first(3), breakage::stall_after(100));
        let mut origin = Origin::builder().resource("/stalls", stalls);
        for n in 0..20 {
            origin = origin.resource(&format!("/{n}"), Resource::new(file(n)));
        }
        let origin = origin.start().await;
        let haul = Haul::new();
        haul.write(
            "list",
            format!("{}{}\n", list(&origin, 20), origin.url("/stalls")),
        );
        let args = ["get", "-i", "list", "-d", "d"];
        let mut running = haul.start(&[&args[..], &["-v"]].concat());
        for _ in 0..20 {
            running.until(" ms").await;
        }
        running.signal(signal);
        running
            .end()
            .await
            .assert_code(130)
            .assert_says("haul: stopping; once more")
            .assert_says("haul: error: interrupted\nhint: the same command goes on: what is there");
        assert_files(&haul, "d", 20);
        origin.swap("/stalls", Resource::new(file(1)));
        let again = haul.run(&[&args[..], &["--update"]].concat()).await;
        again
            .assert_code(0)
            .assert_says("1 of 21 files, 20 skipped, ");
        haul.assert_file("d/stalls", &file(1));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c6_a_manifest_says_what_is_done_and_the_same_command_does_the_rest() {
    for name in ["m.jsonl", "m.csv"] {
        let origin = serve(20).await;
        let haul = Haul::new();
        haul.write("list", list(&origin, 21));
        let args = [
            "get",
            "-i",
            "list",
            "-d",
            "d",
            "--manifest",
            name,
            "--checksum",
            "sha256",
        ];
        let ran = haul.run(&args).await;
        ran.assert_code(1).assert_says(
            "hint: the same command tries those again: what its manifest says is done is not asked for",
        );
        let rows = std::fs::read_to_string(haul.path(name)).unwrap();
        assert!(
            rows.contains(&format!("sha256:{}", file(7).sha256())),
            "{rows}"
        );
        // What is done is not asked for, unless its file is gone.
        std::fs::remove_file(haul.path("d/3")).unwrap();
        origin.swap("/20", Resource::new(file(20)));
        let before = origin.asked().len();
        let ran = haul.run(&args).await;
        ran.assert_code(0)
            .assert_says("2 of 21 files, 19 done before, ");
        assert_eq!(origin.asked().len() - before, 2);
        assert_files(&haul, "d", 21);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn manifests_and_archives_that_cannot_be_written_are_told_before_anything_is_asked_for() {
    let origin = serve(1).await;
    let haul = Haul::new();
    haul.write("other.jsonl", "not a manifest\n");
    haul.write("old.tar", "an archive");
    let url = origin.url("/0");
    for (flags, code, words) in [
        (
            ["--manifest", "m.txt"],
            2,
            "hint: the ending says how it is written",
        ),
        (
            ["--manifest", "other.jsonl"],
            4,
            "holds something else than a manifest",
        ),
        (["--manifest", "no/m.csv"], 4, "No such file"),
        (["--tar", "old.tar"], 4, "old.tar exists already"),
        (["--tar", "."], 4, "is a directory"),
    ] {
        let ran = haul.run(&[&["get", &url], &flags[..]].concat()).await;
        ran.assert_code(code).assert_says(words);
    }
    let both = haul.run(&["get", &url, "--tar", "t.tar", "-d", "d"]).await;
    both.assert_code(2)
        .assert_says("--tar and -d/--directory exclude each other");
    assert!(origin.asked().is_empty());
    assert_eq!(haul.listing(), ["old.tar", "other.jsonl"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_version_of_http_is_the_one_that_was_asked_for() {
    let authority = Authority::new();
    let issued = authority.issue(&["127.0.0.1"]);
    let both = http2::speaking(&issued, None, &["h2", "http/1.1"]);
    let number = |asked: &Http2Asked| asked.path.trim_matches('/').parse().unwrap();
    let serve = move |asked: &Http2Asked| Act::Serve(file(number(asked)).to_vec().into());
    let origin = Http2Origin::start(both, Http2Settings::default(), serve).await;
    for (flag, wanted) in [("--http2", true), ("--http1.1", false)] {
        let haul = Haul::new();
        let ca = haul.write("ca.pem", authority.pem());
        let before = origin.asked().len();
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
        let asked = &origin.asked()[before..];
        assert!(
            asked.len() >= 40 && asked.iter().all(|asked| asked.http2 == wanted),
            "{flag}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_become_tar_shards_that_tar_reads() {
    let large = Content::random(7, 3 << 20);
    let mut origin = Origin::builder().resource("/large", Resource::new(large.clone()));
    for n in 0..100 {
        origin = origin.resource(&format!("/{n}"), Resource::new(file(n)));
    }
    let origin = origin.start().await;
    let haul = Haul::new();
    haul.write(
        "list",
        format!("{}{}\n", list(&origin, 100), origin.url("/large")),
    );
    let shards = ["get", "-i", "list", "--tar", "t.tar", "--shard-size", "64k"];
    let args = [&shards[..], &["--manifest", "m.jsonl", "-q"]].concat();
    haul.run(&args).await.assert_code(0);
    let found = haul.listing();
    let shards = found.iter().filter(|name| name.ends_with(".tar")).count();
    assert!(shards > 3 && found.len() == shards + 2, "{found:?}");
    let unpacked = "mkdir d; for tar in t-*.tar; do tar -xf $tar -C d || exit; done";
    haul.shell(unpacked).await.assert_code(0);
    haul.assert_file("d/large", &large);
    std::fs::remove_file(haul.path("d/large")).unwrap();
    assert_files(&haul, "d", 100);
    // A reader that leaves ends it, and nothing more is said than what is said of failures as they come.
    let bin = env!("CARGO_BIN_EXE_haul");
    let line = format!("{{ {bin} get -i list -q --tar -; echo $? >&2; }} | head -c 10 | wc -c");
    let ran = haul.shell(&line).await;
    assert_eq!((ran.stdout.trim(), ran.stderr.as_str()), ("10", "141\n"));
    // One on standard output.
    let line = format!("mkdir e; {bin} get -i list --tar - | tar -x -C e");
    haul.shell(&line)
        .await
        .assert_code(0)
        .assert_says("101 of 101 files");
    std::fs::remove_file(haul.path("e/large")).unwrap();
    assert_files(&haul, "e", 100);
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_second_signal_does_not_wait_for_a_reader_of_results() {
    let origin = serve(1).await;
    let haul = Haul::new();
    haul.write("list", list(&origin, 3000));
    let mut running = haul.start(&["get", "-i", "list", "--json"]);
    // A pipe of a page, which some results fill.
    let stdout = running.child.stdout.take().unwrap();
    rustix::pipe::fcntl_setpipe_size(&stdout, 4096).unwrap();
    while origin.asked().len() < 100 {
        tokio::task::yield_now().await;
    }
    running.signal(Signal::INT);
    running.until("haul: stopping; once more").await;
    running.signal(Signal::INT);
    running.end().await.assert_code(130);
    drop(stdout);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_whose_results_nobody_reads_ends() {
    let origin = serve(1).await;
    let haul = Haul::new();
    haul.write("list", list(&origin, 20_000));
    for asked in [
        &["--json"][..],
        &["--checksum", "md5", "--max-errors", "99999"],
    ] {
        let args = [&["get", "-i", "list", "-q", "--overwrite"], asked].concat();
        let mut child = haul.command(&args).spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let mut first = [0; 10];
        within(LIMIT, stdout.read_exact(&mut first)).await.unwrap();
        drop(stdout);
        if asked[0] == "--json" {
            let ran = Ran::of(within(LIMIT, child.wait_with_output()).await.unwrap());
            ran.assert_code(141);
        }
    }
    assert!(
        origin.asked().len() < 20_000,
        "{} requests",
        origin.asked().len()
    );
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_that_cannot_be_written_are_an_error_of_this_machine() {
    let origin = serve(20).await;
    let haul = Haul::new();
    haul.write("list", list(&origin, 20));
    for asked in [&["--json"][..], &["--checksum", "md5"]] {
        let args = [&["get", "-i", "list", "--overwrite"], asked].concat();
        haul.redirected(">/dev/full", &args)
            .await
            .assert_code(4)
            .assert_says("haul: error: cannot write to standard output: No space left");
        haul.redirected(">&-", &args)
            .await
            .assert_code(4)
            .assert_says("cannot write to standard output: it is closed");
    }
    let objects = ["get", "-i", "list", "--overwrite", "--progress", "json"];
    haul.redirected("2>/dev/full", &objects)
        .await
        .assert_code(4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_is_objects_and_nothing_else() {
    let slow = Resource::new(Content::random(1, 3000)).rule(When::always(), breakage::drip(1500));
    let origin = Origin::builder().resource("/slow", slow).start().await;
    let haul = Haul::new();
    let urls = format!("{}\n{}\n", origin.url("/slow"), origin.url("/none"));
    haul.write("list", urls);
    let ran = haul.run(&["get", "-i", "list", "--progress", "json"]).await;
    ran.assert_code(1);
    let told: Vec<serde_json::Value> = ran
        .stderr
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let events: Vec<&str> = told
        .iter()
        .filter_map(|told| told["event"].as_str())
        .collect();
    assert!(
        events.contains(&"batch") && events.contains(&"row"),
        "{events:?}"
    );
    let last = told.last().unwrap();
    assert_eq!(
        (&last["event"], &last["done"]),
        (&"summary".into(), &1.into())
    );
    assert_eq!(last["causes"][0]["text"], "404 Not Found");
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_line_stays_within_the_narrowest_terminal() {
    let slow = Resource::new(Content::random(1, 3000)).rule(When::always(), breakage::drip(2000));
    let origin = Origin::builder().resource("/slow", slow).start().await;
    for width in [20, 80] {
        let haul = Haul::new();
        haul.write("list", format!("{}\n", origin.url("/slow")));
        let bin = env!("CARGO_BIN_EXE_haul");
        let line = format!("stty rows 24 cols {width}; {bin} get -i list");
        let output = within(LIMIT, haul.on_terminal(&line).output())
            .await
            .unwrap();
        let screen = String::from_utf8(output.stdout).unwrap();
        assert!(
            screen.contains("0/1") && screen.contains("1 of 1 files"),
            "{screen:?}"
        );
        for shown in screen.split(['\r', '\n']) {
            let shown = anstream::adapter::strip_str(shown).to_string();
            assert!(
                shown.trim_end().chars().count() < width,
                "{width}: {shown:?}"
            );
        }
        // The bar is gone at the end, and one line tells what came of it.
        let last = screen.trim_end().rsplit('\n').next().unwrap();
        assert!(
            last.ends_with(" files") || last.contains(" in "),
            "{screen:?}"
        );
    }
}
