//! `haul demo`: needs nothing, leaves nothing, and its numbers are on standard output.

use crate::cli::harness::HaulDirectory;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_downloads_are_correct_and_the_second_is_faster() {
    let haul = HaulDirectory::new();
    let temporary = haul.path("tmp");
    std::fs::create_dir(&temporary).unwrap();
    // A proxy that does not exist: the demo must not use it.
    let haul = haul
        .with_variable("TMPDIR", temporary.to_str().unwrap())
        .with_variable("http_proxy", "http://127.0.0.1:1");
    let output = haul.run(&["demo", "--size", "6M", "--rate", "2M"]).await;
    output.assert_code(0).assert_stderr_has("one.bin  ");
    let heads: Vec<&str> = output
        .stdout
        .lines()
        .map(|line| line.get(..16).unwrap_or(line).trim_end())
        .collect();
    let expected = [
        "origin",
        "one connection",
        "haul's defaults",
        "speed-up",
        "SHA-256, origin",
        "SHA-256, result",
    ];
    assert_eq!(heads, expected, "{output:#?}");
    let line = output
        .stdout
        .lines()
        .find(|line| line.starts_with("speed-up"))
        .unwrap();
    let times: f64 = line
        .split_whitespace()
        .nth(1)
        .unwrap()
        .trim_end_matches(['x', ','])
        .parse()
        .unwrap();
    assert!(times > 1.5, "{output:#?}");
    assert!(output.stdout.ends_with(", the same\n"), "{output:#?}");
    assert!(
        crate::cli::harness::file_names(&temporary).is_empty(),
        "it left something"
    );
}
