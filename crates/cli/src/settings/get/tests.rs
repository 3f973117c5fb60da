//! Every flag of `haul get` reaches its option.

mod batch;

use std::time::Duration;

use clap::Parser as _;
use haul_net::AddressFamily;
use haul_transfer::DownloadJob;

use super::*;
use crate::args::{CliArgs, CliCommand};

fn resolve(flags: &[&str]) -> Result<GetSettings, SettingError> {
    let command = ["haul", "get", "http://h.test/f"].iter().chain(flags);
    let CliCommand::Get(args) = CliArgs::try_parse_from(command).unwrap().command else {
        unreachable!()
    };
    GetSettings::resolve(&args)
}

fn settings(flags: &[&str]) -> GetSettings {
    resolve(flags).unwrap()
}

fn jobs(flags: &[&str]) -> Vec<DownloadJob> {
    match settings(flags).task {
        GetTask::Single(few) => few.jobs,
        GetTask::Batch(many) => panic!("{many:?}"),
    }
}

#[test]
fn without_flags_the_defaults_of_the_crates_hold() {
    let GetSettings {
        mut client,
        mut options,
        task,
    } = settings(&["--proxy", ""]);
    // They depend on the environment of the test.
    client.tls.trusted_files = None;
    options.notes_directory = None;
    assert_eq!(
        format!("{options:?}"),
        format!("{:?}", GetOptions::default())
    );
    assert_eq!(
        format!("{client:?}"),
        format!("{:?}", ClientConfig::default())
    );
    let GetTask::Single(few) = task else {
        panic!("{task:?}")
    };
    assert_eq!(few.jobs[0].output, JobOutput::Directory("".into()));
}

#[test]
fn outputs() {
    assert_eq!(
        jobs(&["-o", "a/b"])[0].output,
        JobOutput::File("a/b".into())
    );
    assert_eq!(jobs(&["-o", "-"])[0].output, JobOutput::Stdout);
    assert_eq!(
        jobs(&["-d", "dir"])[0].output,
        JobOutput::Directory("dir".into())
    );
    assert_eq!(
        jobs(&["http://h.test/g"])
            .iter()
            .map(|job| job.id)
            .collect::<Vec<_>>(),
        [0, 1]
    );
    assert!(
        resolve(&["http://h.test/g", "-o", "f"])
            .unwrap_err()
            .hint()
            .unwrap()
            .contains("-d DIR")
    );
    assert!(resolve(&["-o", "-", "--json"]).is_err());
    assert_eq!(
        jobs(&["--checksum", "md5", "--checksum", "crc32c:deadbeef"])[0]
            .checksums
            .len(),
        2
    );
}

#[test]
fn a_url_is_given_once() {
    let twice = resolve(&["http://h.test/f#part"]).unwrap_err().to_string();
    assert_eq!(twice, "http://h.test/f#part is given twice");
    assert!(resolve(&["http://h.test/f?other"]).is_ok());
}

#[test]
fn a_certificate_and_its_key_come_together() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "-----BEGIN CERTIFICATE-----\n").unwrap();
    for (given, missing) in [("--cert", "--key"), ("--key", "--cert")] {
        let error = resolve(&[given, file.to_str().unwrap()]).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("{given} is given without {missing}")
        );
        assert!(error.hint().unwrap().starts_with(missing));
    }
}

#[test]
fn flags_of_transfers() {
    let options = settings(&[
        "-x",
        "3",
        "--min-segment-size",
        "2M",
        "--segment-size",
        "25M",
        "--retries",
        "4",
    ])
    .options;
    assert_eq!(options.connections, ConnectionCount::Fixed(3));
    assert_eq!(
        (
            options.min_segment_size,
            options.segment_size,
            options.retry.retries
        ),
        (Some(2 << 20), Some(25 << 20), 4)
    );
    assert_eq!(
        options.retry.retries_before_response, 4,
        "a number given holds for all"
    );
    assert_eq!(
        settings(&["--overwrite"]).options.existing_file,
        ExistingFilePolicy::Overwrite
    );
    assert_eq!(
        settings(&["--update"]).options.existing_file,
        ExistingFilePolicy::Update
    );
    assert!(
        !settings(&["--no-resume"]).options.resume
            && settings(&["--decode"]).options.decode_content
    );
}

#[test]
fn flags_of_the_client() {
    let flags = [
        "--connect-timeout",
        "2",
        "--stall-timeout",
        "1m",
        "--max-redirs",
        "3",
        "--allow-downgrade",
        "--limit-rate",
        "5M",
        "-k",
        "-4",
        "-x",
        "64",
        "-H",
        "X-A: 1",
        "-H",
        "X-A: 2",
        "-H",
        "Accept:",
        "--resolve",
        "h.test:80:127.0.0.9",
    ];
    let client = settings(&flags).client;
    assert_eq!(client.connector.connect_timeout, Duration::from_secs(2));
    assert_eq!(client.connector.address_family, AddressFamily::V4);
    assert_eq!(client.connector.pinned_addresses.len(), 1);
    assert_eq!(client.stall_timeout, Duration::from_secs(60));
    assert_eq!(
        client.redirects,
        RedirectOptions {
            max_redirects: 3,
            allow_downgrade: true
        }
    );
    assert_eq!(
        (
            client.connector.rate_limit,
            client.max_idle_per_host,
            client.tls.insecure
        ),
        (Some(5 << 20), 64, true)
    );
    assert_eq!(client.headers.get_all("x-a").iter().count(), 2);
    assert_eq!(client.removed_headers, [http::header::ACCEPT]);
    assert_eq!(
        settings(&["-6"]).client.connector.address_family,
        AddressFamily::V6
    );
    assert_eq!(
        settings(&["--http1.1"]).client.http_version,
        HttpVersionChoice::Http1
    );
    assert_eq!(
        settings(&["--http2"]).client.http_version,
        HttpVersionChoice::Http2
    );
}

#[test]
fn proxies_and_hosts_without_one() {
    let url = Url::parse("http://h.test/f").unwrap();
    let through = |flags: &[&str]| {
        settings(flags)
            .client
            .proxy
            .for_url(&url)
            .unwrap()
            .map(|proxy| proxy.host.clone())
    };
    assert_eq!(
        through(&["--proxy", "http://p.test:1"]).as_deref(),
        Some("p.test")
    );
    assert_eq!(through(&["--proxy", ""]), None);
    assert_eq!(
        through(&["--proxy", "http://p.test:1", "--no-proxy", "x.test, h.test"]),
        None
    );
    assert_eq!(
        through(&["--proxy", "http://p.test:1", "--no-proxy", "x.test"]).as_deref(),
        Some("p.test")
    );
}

#[test]
fn secrets_are_used_and_never_shown() {
    let dir = tempfile::tempdir().unwrap();
    let (token, netrc) = (dir.path().join("token"), dir.path().join("netrc"));
    std::fs::write(&token, "s3cret\n").unwrap();
    std::fs::write(&netrc, "machine h.test login me password s3cret").unwrap();
    let token = format!("@{}", token.display());
    let user = [
        "-u",
        "me:s3cret",
        "-H",
        "X-Key: s3cret",
        "--netrc-file",
        netrc.to_str().unwrap(),
    ];
    let with_user = settings(&user);
    let with_token = settings(&["--bearer", &token, "--proxy", "http://me:s3cret@p.test"]);
    assert_eq!(
        with_user
            .client
            .credentials
            .login
            .as_ref()
            .unwrap()
            .password
            .expose(),
        "s3cret"
    );
    assert_eq!(
        with_token
            .client
            .credentials
            .bearer
            .as_ref()
            .unwrap()
            .expose(),
        "s3cret"
    );
    assert!(
        with_user
            .client
            .credentials
            .netrc
            .as_ref()
            .unwrap()
            .login("h.test")
            .is_some()
    );
    let command = ["haul", "get", "http://me:s3cret@h.test/f"]
        .iter()
        .chain(&user);
    let args = CliArgs::try_parse_from(command).unwrap();
    for shown in [
        format!("{:?}", with_user.client),
        format!("{:?}", with_token.client),
        format!("{args:?}"),
    ] {
        assert!(!shown.contains("s3cret"), "{shown}");
    }
}

#[test]
fn files_that_cannot_be_used_are_named() {
    for flags in [
        ["--cacert", "/nowhere"],
        ["--netrc-file", "/nowhere"],
        ["--bearer", "@/nowhere"],
    ] {
        let error = resolve(&flags).unwrap_err().to_string();
        assert!(
            error.contains("/nowhere") && error.contains(flags[0]),
            "{error}"
        );
    }
}
