//! The effect of flags, and which of them contradict each other.

use clap::Parser as _;
use haul_serve::store::UploadDurability;

use super::*;
use crate::args::{CliArgs, CliCommand};
use crate::message::chain_text;

fn resolved(line: &str) -> Result<ServeSettings, SettingError> {
    let words = line.split(' ').filter(|word| !word.is_empty());
    let args = CliArgs::try_parse_from(["haul", "serve"].into_iter().chain(words)).unwrap();
    let CliCommand::Serve(args) = args.command else {
        panic!("{line} is another command")
    };
    ServeSettings::resolve(&args)
}

fn error_of(line: &str) -> String {
    let error = resolved(line).unwrap_err();
    assert_eq!(
        error.exit_reason(),
        crate::exit::ExitReason::Usage,
        "{line}"
    );
    format!("{} / {}", chain_text(&error), error.hint().unwrap_or("-"))
}

#[test]
fn without_flags_a_folder_is_served_read_only_on_loopback() {
    let settings = resolved("").unwrap();
    assert_eq!(settings.listen, ["127.0.0.1:8080".parse().unwrap()]);
    assert!(!settings.store.writable && settings.server.access.is_open());
    assert_eq!(settings.tls, TlsSettings::Off);
    assert_eq!(settings.server.timeouts, TimeoutOptions::default());
    assert_eq!(settings.grace, Duration::from_secs(10));
    assert_eq!(settings.access.to_string(), "to everybody");
    assert!(settings.log.is_none() && settings.admin.is_none() && settings.warnings.is_empty());
}

#[test]
fn each_flag_reaches_its_option() {
    let settings = resolved(
        "d -l :1 -l unix:/s -w --durability full --max-body 1k --quota 1M --cache-control no-store \
         --open-files 7 --limit-rate 2k --limit-rate-total 3k --max-connections 5 --handshake-timeout 1s \
         --header-timeout 2s --idle-timeout 3s --body-timeout 4s --min-rate 9 --grace 5s --access-log - \
         --log-format json --admin 9090 --accept reuseport --threads 3 --cors https://a.example --cors-write \
         --cors-credentials --sink null -q",
    )
    .unwrap();
    assert_eq!(settings.folder, PathBuf::from("d"));
    assert_eq!(settings.listen.len(), 2);
    let (store, server) = (&settings.store, &settings.server);
    assert_eq!(
        (
            store.writable,
            store.durability,
            store.quota,
            store.max_open_files,
            store.discard_uploads
        ),
        (true, UploadDurability::Full, Some(1 << 20), 7, true)
    );
    assert_eq!(
        (server.max_body, server.connection_rate, server.total_rate),
        (Some(1024), Some(2048), Some(3072))
    );
    assert_eq!(server.cache_control.as_ref().unwrap(), "no-store");
    assert!(server.cors.as_ref().is_some_and(|cors| !cors.is_disabled()));
    let patience = server.timeouts;
    let seconds = [
        patience.handshake,
        patience.request_head,
        patience.idle,
        patience.grace,
        settings.grace,
    ];
    assert_eq!(seconds.map(|time| time.as_secs()), [1, 2, 3, 4, 5]);
    assert_eq!((patience.min_body_rate, patience.min_reader_rate), (9, 9));
    assert_eq!(
        (
            settings.workers.strategy,
            settings.workers.threads,
            settings.workers.max_connections
        ),
        (AcceptStrategy::ReusePort, 3, 5)
    );
    assert!(settings.log.is_some());
    assert_eq!(settings.log_format, AccessLogFormat::Json);
    assert_eq!(settings.admin, Some("9090".parse().unwrap()));
    assert!(settings.quiet);
}

#[test]
fn a_temporary_store_takes_flags_about_uploads() {
    let settings = resolved("--s3 --durability none --quota 1M").unwrap();
    assert!(settings.store.writable);
    assert_eq!(settings.store.durability, UploadDurability::None);
    assert_eq!(settings.store.quota, Some(1 << 20));
    let with_key = "--s3 --s3-key me:s3cret --durability none";
    assert!(error_of(with_key).contains("--durability needs uploads"));
}

#[test]
fn contradictions_are_reported_with_a_hint() {
    let lines = [
        "--quota 1G",
        "--max-body 1G",
        "--durability none",
        "--sink null",
        "--auth me:s3cret:rw",
        "--anonymous rw:/in",
        "--key k.pem",
        "--cert a --cert b --key c",
        "--cors-write",
        "--cors-credentials",
        "--cors https://a.example --cors-write",
        "-w --cors * --cors-credentials",
        "--accept single --threads 2",
        "--log-format json",
        "--admin systemd",
        "--auth s3cret",
        "--auth me:s3:cret:ro",
        "--auth me:s3cret:rx",
        "--auth me::ro",
        "-w --auth me:s3cret:ro --auth me:s3cret2:rw:/in",
        "--token s3cret",
        "--token s3cret:all",
        "--auth-file /nope/f",
        "--token-file /nope/f",
        "--sign-key /nope/f",
    ];
    let messages = lines
        .iter()
        .map(|line| format!("{line}\n    {}", error_of(line)))
        .collect::<Vec<String>>()
        .join("\n");
    // No message repeats a secret; the command lines above them do.
    let answers = messages.lines().filter(|line| line.starts_with(' '));
    assert!(
        !answers.clone().any(|line| line.contains("s3")),
        "{messages}"
    );
    insta::assert_snapshot!(messages);
}

#[test]
fn certificates_have_a_key_each_or_contain_it() {
    let pair = |certificate: &str, key: &str| CertificatePair {
        certificate: certificate.into(),
        key: key.into(),
    };
    let tls = |line: &str| resolved(line).unwrap().tls;
    assert_eq!(
        tls("--cert a --key b --cert c --key d"),
        TlsSettings::Files(vec![pair("a", "b"), pair("c", "d")])
    );
    assert_eq!(
        tls("--cert both"),
        TlsSettings::Files(vec![pair("both", "both")])
    );
    assert_eq!(tls("--self-signed"), TlsSettings::SelfSigned);
}

#[test]
fn summaries_of_access() {
    let who = |line: &str| resolved(line).unwrap().access.to_string();
    assert_eq!(who("-w"), "to everybody");
    assert_eq!(who("--anonymous ro"), "to everybody (ro)");
    assert_eq!(
        who("-w --auth a:b:rw:/x --auth a:b:ro --auth c:d:ro --token t:ro"),
        "to 2 users, 1 token"
    );
    assert_eq!(
        who("-w --token t:rw --anonymous ro:/pub"),
        "to 1 token, and to everybody (ro:/pub)"
    );
}

#[test]
fn a_writable_server_without_writers_is_warned_of() {
    let warnings = |line: &str| resolved(line).unwrap().warnings;
    assert!(warnings("-w").is_empty());
    assert!(warnings("-w --auth a:b:rw:/in").is_empty());
    let messages = warnings("-w --auth a:b:ro");
    assert!(
        messages[0].contains("no rule allows writing"),
        "{messages:?}"
    );
    // The banner warns of writing without a login, since that depends on the addresses.
    let strangers = |line: &str| resolved(line).unwrap().access.allows_anonymous_writes();
    assert!(strangers("-w") && strangers("-w --auth a:b:ro --anonymous rw"));
    assert!(!strangers("-w --auth a:b:rw") && !strangers("-w --auth a:b:rw --anonymous ro"));
}

#[test]
fn too_few_descriptors_for_connections_are_warned_of() {
    let args = |line: &str| {
        let words = ["haul", "serve"].into_iter().chain(line.split(' '));
        match CliArgs::try_parse_from(words).unwrap().command {
            CliCommand::Serve(args) => args.limits,
            _ => panic!("{line} is another command"),
        }
    };
    let store = FileStoreOptions {
        max_open_files: 1000,
        ..FileStoreOptions::default()
    };
    let warned = |line, allowed| descriptor_warning(&args(line), &store, allowed).is_some();
    assert!(warned("--max-connections 4000", Some(5063)));
    assert!(!warned("--max-connections 4000", Some(5064)));
    assert!(!warned("--max-connections 4000", None));
    // A default needs no warning.
    assert!(!warned("-q", Some(10)));
}

/// Descriptors that connections leave are for files: open ones of the store get half of them at most.
#[test]
fn by_default_connections_leave_descriptors_for_files() {
    let CliCommand::Serve(args) = CliArgs::try_parse_from(["haul", "serve"]).unwrap().command
    else {
        panic!("another command")
    };
    for (allowed, connections, open_files) in [
        (Some(20), 1, 16),
        (Some(64), 32, 16),
        (Some(1024), 768, 128),
        (Some(1 << 20), 65_536, 4096),
        (None, 65_536, 4096),
    ] {
        let workers = worker_options(&args.limits, &args.running, allowed).unwrap();
        let store = store_options(&args.files, &args.running, allowed);
        let had = (workers.max_connections, store.max_open_files);
        assert_eq!(had, (connections, open_files), "{allowed:?}");
    }
}

#[test]
fn variables_have_a_rule_a_line_and_an_empty_one_is_an_error() {
    let of = |name: &'static str, value: &'static str| {
        let args = CliArgs::try_parse_from(["haul", "serve"]).unwrap();
        let CliCommand::Serve(args) = args.command else {
            panic!("another command")
        };
        let store = FileStoreOptions {
            writable: true,
            ..FileStoreOptions::default()
        };
        let variable = |requested: &str| (requested == name).then(|| value.into());
        access::access_control(&args.access, &store, variable)
            .map(|(_, who, _)| who.to_string())
            .map_err(|error| chain_text(&error))
    };
    assert_eq!(
        of("HAUL_AUTH", "a:b:rw\n\n # both\n c:d:ro:/x \n"),
        Ok("to 2 users".into())
    );
    assert_eq!(of("HAUL_TOKEN", "t:rw"), Ok("to 1 token".into()));
    for (name, value) in [
        ("HAUL_AUTH", ""),
        ("HAUL_AUTH", " \n# none\n"),
        ("HAUL_TOKEN", ""),
    ] {
        let error = of(name, value).unwrap_err();
        assert_eq!(error, format!("the variable {name} is set and empty"));
    }
    let error = of("HAUL_AUTH", "a:s3cret").unwrap_err();
    assert!(
        error.starts_with("the variable HAUL_AUTH, line 1, cannot be used: a login is written")
    );
    assert!(!error.contains("s3cret"));
}
