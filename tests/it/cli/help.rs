//! Help, version, completions: standard output, exit code 0.

use crate::cli::harness::HaulDirectory;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn help_texts() {
    let haul = HaulDirectory::new();
    for (name, args) in [
        ("haul", &["-h"][..]),
        ("get-short", &["get", "-h"]),
        ("get-long", &["get", "--help"]),
        ("serve-short", &["serve", "-h"]),
        ("serve-long", &["serve", "--help"]),
        ("tunnel-short", &["tunnel", "-h"]),
        ("tunnel-long", &["tunnel", "--help"]),
        ("tunnel-status", &["tunnel", "status", "--help"]),
        ("sign", &["sign", "--help"]),
        ("bench", &["bench", "--help"]),
        ("bench-quirks", &["bench", "quirks", "--help"]),
        ("demo", &["demo", "--help"]),
        ("completions", &["completions", "--help"]),
    ] {
        let output = haul.run(args).await;
        output.assert_code(0);
        assert_eq!(output.stderr, "");
        insta::assert_snapshot!(name, output.stdout);
        let widest = output.stdout.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(100), "{name} is wider than its terminal");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_command_the_help_is_an_error() {
    let output = HaulDirectory::new().run(&[]).await;
    output
        .assert_code(2)
        .assert_stderr_has("Usage: haul <COMMAND>");
    assert_eq!(output.stdout, "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_version_is_one_line() {
    let output = HaulDirectory::new().run(&["--version"]).await;
    output.assert_code(0);
    assert_eq!(
        output.stdout,
        concat!("haul ", env!("CARGO_PKG_VERSION"), "\n")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn completions_know_the_flags() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = HaulDirectory::new().run(&["completions", shell]).await;
        output.assert_code(0);
        assert!(output.stdout.contains("max-connections"), "{shell}");
    }
    HaulDirectory::new()
        .run(&["completions", "cobol"])
        .await
        .assert_code(2)
        .assert_stderr_has("hint: one of bash");
}
