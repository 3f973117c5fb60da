//! What is printed where: progress, summaries, JSON objects, colours, quiet.

use haul_lab::{Origin, OriginResource, RequestMatcher, ResourceContent, faults, within};
use serde_json::Value;

use crate::cli::harness::{HaulDirectory, LIMIT, content, start_origin};

/// An origin that takes some two seconds over its file.
async fn slow_origin() -> Origin {
    start_origin(
        OriginResource::new(ResourceContent::random(9, 2 << 20))
            .rule(RequestMatcher::always(), faults::body_rate(1 << 20)),
    )
    .await
}

fn objects(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pipe_gets_one_summary_line_unless_quiet() {
    let origin = start_origin(OriginResource::new(content())).await;
    let haul = HaulDirectory::new();
    let output = haul.get(&origin.url("/f.bin"), &["-x", "1"]).await;
    output.assert_code(0);
    assert_eq!(output.stdout, "");
    let words: Vec<&str> = output.stderr.trim_end().split([' ', ',']).collect();
    assert_eq!(output.stderr.lines().count(), 1, "{output:#?}");
    assert!(
        words.starts_with(&["f.bin", "", "1.0", "MiB", "in"])
            && words.ends_with(&["1", "connection"]),
        "{output:#?}"
    );
    let quiet = haul
        .get(&origin.url("/f.bin"), &["-q", "-o", "g", "--insecure"])
        .await;
    quiet.assert_code(0);
    assert_eq!(quiet.stderr, "");
    haul.get(&origin.url("/404"), &["-q"])
        .await
        .assert_code(5)
        .assert_stderr_has("haul: error: ");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_progress_is_a_line_a_second() {
    let origin = slow_origin().await;
    let output = HaulDirectory::new()
        .get(&origin.url("/f.bin"), &["-x", "1", "--progress", "plain"])
        .await;
    output.assert_code(0);
    let lines: Vec<&str> = output.stderr.lines().collect();
    assert!((2..=4).contains(&lines.len()), "{output:#?}");
    assert!(
        lines[0].starts_with("f.bin  ")
            && lines[0].contains(" of 2.0 MiB, ")
            && lines[0].ends_with("1 connection")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bars_are_drawn_when_requested_and_cleared_at_the_end() {
    let origin = slow_origin().await;
    let output = HaulDirectory::new()
        .get(&origin.url("/f.bin"), &["-x", "1", "--progress", "bar"])
        .await;
    output.assert_code(0);
    assert!(
        output.stderr.contains("━") && output.stderr.contains("1 conn"),
        "{output:#?}"
    );
    let last = output.stderr.rsplit("\x1b[2K").next().unwrap_or_default();
    assert!(
        last.trim_start_matches('\r')
            .starts_with("f.bin  2.0 MiB in"),
        "{output:#?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn json_progress_is_one_object_a_line_and_nothing_else() {
    let origin = slow_origin().await;
    let haul = HaulDirectory::new();
    let url = origin.url("/f.bin");
    let output = haul.get(&url, &["-x", "1", "--progress", "json"]).await;
    output.assert_code(0);
    let events = objects(&output.stderr);
    let kinds: Vec<&str> = events
        .iter()
        .map(|event| event["event"].as_str().unwrap())
        .collect();
    assert_eq!(
        (kinds[0], kinds[1], kinds[kinds.len() - 1]),
        ("started", "named", "finished")
    );
    assert!(
        kinds.contains(&"progress") && kinds.contains(&"segment"),
        "{kinds:?}"
    );
    assert!(
        events
            .iter()
            .all(|event| event["job"] == 0 && event["schema"] == 1)
    );
    let done: Vec<u64> = events
        .iter()
        .filter_map(|event| event["done"].as_u64())
        .collect();
    assert!(done.is_sorted(), "{done:?}");

    let failed = haul.get(&origin.url("/404"), &["--progress", "json"]).await;
    failed.assert_code(5);
    let events = objects(&failed.stderr);
    let last = events.last().unwrap();
    assert_eq!(
        (&last["event"], &last["class"]),
        (&"failed".into(), &"network".into())
    );
    assert_eq!(last["hint"], "check the URL");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_are_one_object_a_url() {
    let origin = start_origin(OriginResource::new(content())).await;
    let haul = HaulDirectory::new();
    let url = origin.url("/f.bin");
    let output = haul
        .run(&[
            "get",
            &url,
            &origin.url("/404"),
            "--json",
            "-x",
            "1",
            "--checksum",
            "crc32c",
        ])
        .await;
    output.assert_code(1);
    let results = objects(&output.stdout);
    assert_eq!(results.len(), 2);
    let (failed, done): (Vec<&Value>, Vec<&Value>) = results
        .iter()
        .partition(|result| result["error"].is_object());
    let (failed, done) = (failed[0], done[0]);
    assert_eq!(
        (&done["url"], &done["final_url"], &done["path"]),
        (&url.as_str().into(), &url.as_str().into(), &"f.bin".into())
    );
    assert_eq!(
        (&done["bytes"], &done["resumed"], &done["retries"]),
        (&content().length().into(), &0.into(), &0.into())
    );
    assert_eq!(
        (&done["etag"], &done["connections"], &done["segments"]),
        (&"\"v1\"".into(), &1.into(), &1.into())
    );
    assert!(
        done["ms"].is_u64() && done["rate"].as_u64() > Some(0),
        "{done}"
    );
    assert_eq!(done["checksums"]["crc32c"].as_str().map(str::len), Some(8));
    assert_eq!(
        (&failed["error"]["class"], &failed["error"]["hint"]),
        (&"network".into(), &"check the URL".into())
    );
    assert!(failed["error"]["message"].as_str().unwrap().contains("404"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn colours_are_for_terminals_and_carry_no_meaning() {
    let args = ["get", "h.test/f"];
    let plain = HaulDirectory::new().run(&args).await;
    assert!(!plain.stderr.contains('\x1b'), "{plain:#?}");
    let coloured = HaulDirectory::new()
        .with_variable("CLICOLOR_FORCE", "1")
        .run(&args)
        .await;
    assert!(coloured.stderr.contains("\x1b["), "{coloured:#?}");
    assert_eq!(
        anstream::adapter::strip_str(&coloured.stderr).to_string(),
        plain.stderr
    );
    let forbidden = HaulDirectory::new()
        .with_variable("CLICOLOR_FORCE", "1")
        .with_variable("NO_COLOR", "1")
        .run(&args)
        .await;
    assert_eq!(forbidden.stderr, plain.stderr);
}

#[cfg(target_os = "linux")]
async fn run_on_terminal(haul: &HaulDirectory, line: &str) -> String {
    let output = within(LIMIT, haul.terminal_command(line).output())
        .await
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminal_gets_bars_of_its_width_unless_it_is_dumb() {
    let origin = slow_origin().await;
    let haul = HaulDirectory::new();
    let get = format!(
        "{} get -x 1 --overwrite {}",
        env!("CARGO_BIN_EXE_haul"),
        origin.url("/f.bin")
    );
    let wide = run_on_terminal(&haul, &format!("stty rows 24 cols 100; {get}")).await;
    assert!(wide.contains("━") && wide.contains("1 conn"), "{wide:?}");
    let narrow = run_on_terminal(&haul, &format!("stty rows 24 cols 20; {get}")).await;
    let frames: Vec<&str> = narrow
        .split(['\r', '\n'])
        .filter(|line| line.contains('%'))
        .collect();
    assert!(!frames.is_empty() && !narrow.contains("━"), "{narrow:?}");
    let summary = narrow
        .lines()
        .next_back()
        .unwrap_or_default()
        .rsplit("\x1b[2K")
        .next()
        .unwrap_or_default()
        .trim();
    assert_eq!(summary, "f.bin  2.0 MiB", "{narrow:?}");
    let dumb = run_on_terminal(&haul, &format!("TERM=dumb {get}")).await;
    assert!(
        !dumb.contains("━") && dumb.contains("f.bin  2.0 MiB in"),
        "{dumb:?}"
    );
}
