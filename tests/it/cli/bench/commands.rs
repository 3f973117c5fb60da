//! Experiments from files, printed files, comparisons, and JSON.

use haul_bench::results::BenchResults;
use haul_lab::within;

use super::{bench_success, set};
use crate::cli::harness::{HaulDirectory, LIMIT};

const FILE: &str = r#"title = "Two rates"
workload = "requests"

[factors]
files = "40 x 1k"
rate = ["closed", "200/s"]
concurrency = "4"

[baseline]
rate = "closed"

[rounds]
max = 4
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_has_factors_and_a_rate_is_kept() {
    let haul = HaulDirectory::new();
    haul.write("mine.toml", FILE);
    let run = bench_success(&haul, &["run", "mine.toml"]).await;
    let found = run.experiment("mine");
    assert_eq!((&*found.title, found.rounds), ("Two rates", 4));
    // The last of 40 requests is due after 195 ms.
    for measured in run.measurements("mine", &[("rate", "200/s")]) {
        assert!((0.19..2.0).contains(&measured.wall_s), "{measured:#?}");
    }
    assert!(run.ratio("mine", &[("rate", "200/s")]) > 1.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn printed_files_are_experiments() {
    let haul = HaulDirectory::new();
    let listed = haul.run(&["bench", "show"]).await;
    listed.assert_code(0);
    let names: Vec<&str> = listed
        .stdout
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    let known = [
        "accelerate",
        "quirks",
        "sweep",
        "collapse",
        "store",
        "tunnel",
        "s3",
    ];
    assert!(known.iter().all(|name| names.contains(name)), "{listed:#?}");
    for name in names {
        let shown = haul.run(&["bench", "show", name]).await;
        shown.assert_code(0);
        haul.write("shown.toml", &shown.stdout);
        // The file is read before the level is refused: nothing is measured.
        haul.run(&["bench", "run", "shown.toml", "--set", "files=none"])
            .await
            .assert_code(2)
            .assert_stderr_has("--set files=none: files has no level \"none\"");
    }
    haul.run(&["bench", "show", "nothing"])
        .await
        .assert_code(2)
        .assert_stderr_has("there is no experiment \"nothing\"")
        .assert_stderr_has("accelerate, ");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn json_is_one_document_and_runs_can_be_compared() {
    let haul = HaulDirectory::new();
    haul.write("mine.toml", FILE);
    let flags = set(&["rate=closed", "files=4 x 1k,8 x 1k"]);
    let args = [&["bench", "run", "mine.toml", "--json"], &*flags].concat();
    for name in ["a.json", "b.json"] {
        let output = haul.run(&args).await;
        output.assert_code(0);
        let results: BenchResults = serde_json::from_str(&output.stdout).unwrap();
        assert_eq!(results.experiments[0].cells.len(), 2);
        haul.write(name, &output.stdout);
    }
    let compared = haul.run(&["bench", "compare", "a.json", "b.json"]).await;
    compared.assert_code(0);
    for words in ["mine", "4 x 1k", "8 x 1k"] {
        assert!(compared.stdout.contains(words), "{compared:#?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_files_are_not_compared() {
    let haul = HaulDirectory::new();
    haul.write("other.json", r#"{"format": "haul-bench-9"}"#);
    haul.write("damaged.json", r#"{"format": "haul-bench-1", "#);
    for (name, message) in [
        ("other.json", "has the format \"haul-bench-9\""),
        ("damaged.json", "is not a results.json, or is damaged"),
        ("missing.json", "cannot read missing.json"),
    ] {
        let output = haul.run(&["bench", "compare", name, name]).await;
        output.assert_code(4).assert_stderr_has(message);
        assert_eq!(output.stdout, "");
        let has_hint = output.stderr.contains("hint: name one that `haul bench");
        assert_eq!(has_hint, name == "damaged.json", "{output:#?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminal_of_40_columns_is_enough() {
    let haul = HaulDirectory::new();
    let line = format!(
        "stty rows 24 cols 40; {} bench tunnel --time 1s --set 'files=5 x 1k' --set route=direct,proxy; echo code $?",
        env!("CARGO_BIN_EXE_haul")
    );
    let output = within(LIMIT, haul.terminal_command(&line).output()).await;
    let shown = String::from_utf8(output.unwrap().stdout).unwrap();
    assert!(shown.contains("code 0"), "{shown}");
    let shown = console::strip_ansi_codes(&shown).into_owned();
    // A line of progress is written over with what comes after a carriage return.
    for line in shown.split(['\n', '\r']) {
        assert!(line.chars().count() <= 40, "{line:?} of {shown}");
    }
}
