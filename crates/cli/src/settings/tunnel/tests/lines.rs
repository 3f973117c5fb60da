//! What is wrong with a command line that no file has to do with: SPECs, and what means nothing to `--stdio`.

use super::*;

#[test]
fn bad_specs_are_told_by_their_part() {
    let place = SettingsFixture::new();
    let told: Vec<String> = [
        "x",
        "imap.test:993",
        "9993:imap.test",
        "9993",
        "unix:/run/s.sock",
        "unix:/run/s.sock:993",
        "unix:imap.test:993",
        "9993:993",
        "9993:fd00::1:993",
        "9993:imap.test:70000",
        "localhost:imap.test:993",
        "9993:imap.test:0",
        "9993:imap.test:imaps",
        "9993::993",
        "70000:imap.test:993",
        "me:s3cret:imap.test:993",
        "::1:9993:imap.test:993",
        "http://me:s3cret@proxy.test:3128",
        "unix::imap.test:993",
        "unix:/a?mode=9:imap.test:993",
        "1:t:1 2:t:x",
    ]
    .into_iter()
    .map(|line| {
        format!(
            "{line}\n--> {}",
            place.wrong_with(&format!("-p a:1 {line}"), "")
        )
    })
    .collect();
    let told = told.join("\n\n");
    assert!(
        told.lines()
            .all(|line| !line.starts_with("--> ") || !line.contains("s3cret"))
    );
    insta::assert_snapshot!(told);
}

#[test]
fn what_means_nothing_to_stdio_is_refused() {
    let line = |more: &str| {
        let words = ["haul", "tunnel", "-p", "a:1", "--stdio", "t.test:1"];
        CliArgs::try_parse_from(words.into_iter().chain(more.split_whitespace()))
    };
    for more in [
        "--warm 1",
        "--warm-idle 5",
        "--max-connections 5",
        "--log-format json",
        "--grace 5",
        "--threads 2",
        "--admin 1",
        "--log f",
        "1:t:1",
        "--socks 1",
        "--http 1",
    ] {
        let error = line(more).map(|_| ()).unwrap_err();
        assert_eq!(
            error.kind(),
            clap::error::ErrorKind::ArgumentConflict,
            "{more}"
        );
    }
    let place = SettingsFixture::new();
    let of = |file: &str| {
        let config = place.write("t.toml", file);
        let CliCommand::Tunnel(args) = line(&format!("--config {config}")).unwrap().command else {
            panic!("another command");
        };
        let target = args.stdio.clone().unwrap();
        StdioSettings::resolve(&args, &target).map(|settings| settings.warnings)
    };
    assert_eq!(of("idle-timeout = 5").unwrap(), [""; 0]);
    // What a file says for others does no harm here, and is told of.
    let told = of("log = \"l\"\nwarm = 2\ngrace = 5\nidle-timeout = 5").unwrap();
    assert_eq!(told.len(), 1, "{told:?}");
    let says = "t.toml: --stdio has no listeners, and so no use for log, grace, warm";
    assert!(told[0].ends_with(says), "{told:?}");
    let told = of("[[tunnel]]\nlisten = \"9\"\nkind = \"socks\"").unwrap_err();
    assert!(told.to_string().ends_with("has a tunnel at 127.0.0.1:9"));
    let told = of("admin = \"9\"").unwrap_err();
    assert!(told.to_string().ends_with("has an admin endpoint"));
}
