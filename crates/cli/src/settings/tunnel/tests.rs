//! The settings of flags, a file and the environment together. Errors of files are in [`file_errors`].

mod file_errors;

use clap::Parser as _;
use haul_net::AddressFamily;
use haul_tunnel::TunnelLogFormat;

use super::*;
use crate::args::{CliArgs, CliCommand};
use crate::settings::address_family;

const SECOND: Duration = Duration::from_secs(1);

/// Resolves command lines with a file in a folder of its own.
struct SettingsFixture(tempfile::TempDir);

impl SettingsFixture {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn resolve(&self, line: &str, file: &str) -> Result<TunnelSettings, SettingError> {
        self.resolve_in(line, file, |_| None)
    }

    fn resolve_in(
        &self,
        line: &str,
        file: &str,
        environment: EnvironmentReader,
    ) -> Result<TunnelSettings, SettingError> {
        let config = self.write("t.toml", file);
        resolve_in(&format!("--config {config} {line}"), environment)
    }

    /// The error of a file, without the folder.
    fn error(&self, file: &str) -> String {
        self.error_with("", file)
    }

    fn error_with(&self, line: &str, file: &str) -> String {
        let error = self.resolve(line, file).unwrap_err();
        let text = crate::message::chain_text(&error);
        let text = match error.hint() {
            Some(hint) => format!("{text}\nhint: {hint}"),
            None => text,
        };
        text.replace(self.0.path().to_str().unwrap(), "[DIR]")
    }
}

fn tunnel_args(line: &str) -> TunnelArgs {
    let words = ["haul", "tunnel"]
        .into_iter()
        .chain(line.split_whitespace());
    match CliArgs::try_parse_from(words).unwrap().command {
        CliCommand::Tunnel(args) => *args,
        other => panic!("{other:?}"),
    }
}

/// Resolves without prompts.
fn resolve_in(line: &str, environment: EnvironmentReader) -> Result<TunnelSettings, SettingError> {
    let passwords = PromptedPasswords::default();
    passwords.silence();
    TunnelSettings::resolve_in(&tunnel_args(line), &passwords, environment)
}

fn tunnel_lines(settings: &TunnelSettings) -> Vec<String> {
    let line = |tunnel: &PlannedTunnel| {
        let route = tunnel.upstream.route_text(tunnel.target());
        format!("{} {} {route}", tunnel.listen.value, tunnel.kind)
    };
    settings.tunnels.iter().map(line).collect()
}

#[test]
fn tunnels_of_the_file_follow_those_of_flags() {
    let file = r#"
        proxy = "corp"
        idle-timeout = "1h"
        warm-idle = 20

        [proxies.corp]
        url = "http://proxy.test:3128"

        [[tunnel]]
        listen = "9993"
        target = "imap.test:993"
        warm = 4

        [[tunnel]]
        listen = "unix:s.sock?mode=600"
        kind = "socks"
        proxy = ["a:1,b:2", ["c:3"]]
        idle-timeout = 0

        [[tunnel]]
        listen = "127.0.0.1:8022"
        target = "git.lan:22"
        no-proxy = [".lan"]
    "#;
    let fixture = SettingsFixture::new();
    let settings = fixture.resolve("5:x.test:6 --http 7", file).unwrap();
    let socket = fixture.0.path().join("s.sock");
    assert_eq!(
        tunnel_lines(&settings),
        [
            "127.0.0.1:5 x.test:6 via proxy.test:3128".to_owned(),
            "127.0.0.1:7 HTTP proxy via proxy.test:3128".to_owned(),
            "127.0.0.1:9993 imap.test:993 via proxy.test:3128".to_owned(),
            format!(
                "unix:{}?mode=600 SOCKS5 via a:1 or b:2 > c:3",
                socket.display()
            ),
            "127.0.0.1:8022 git.lan:22 directly".to_owned(),
        ]
    );
    let hour = Some(3600 * SECOND);
    let tunnels = &settings.tunnels;
    let idle: Vec<_> = tunnels.iter().map(|tunnel| tunnel.timeouts.idle).collect();
    assert_eq!(idle, [hour, hour, hour, None, hour]);
    let four = WarmPoolOptions {
        size: 4,
        max_idle: 20 * SECOND,
    };
    let warm: Vec<_> = tunnels.iter().map(|tunnel| tunnel.warm).collect();
    assert_eq!(warm, [None, None, Some(four), None, None]);
}

#[test]
fn flags_override_the_file() {
    let file = r#"
        proxy = "a:1"
        ipv6 = true
        max-connections = 7
        log = "l.log"
        log-format = "json"
        grace = "5s"
        [[tunnel]]
        listen = "9993"
        target = "t.test:1"
        proxy = "b:2"
    "#;
    let fixture = SettingsFixture::new();
    let settings = fixture.resolve("", file).unwrap();
    assert_eq!(tunnel_lines(&settings), ["127.0.0.1:9993 t.test:1 via b:2"]);
    let process = &settings.process;
    assert_eq!(process.max_connections.connections, 7);
    assert_eq!(process.options.log_format, TunnelLogFormat::Json);
    let log = LogTarget::File(fixture.0.path().join("l.log"));
    assert_eq!(process.log.as_ref().unwrap().value.target, log);
    let flags = "-p c:3 -p socks5h://d --max-connections 8 --log - --grace 0 -4";
    let settings = fixture.resolve(flags, file).unwrap();
    assert_eq!(
        tunnel_lines(&settings),
        ["127.0.0.1:9993 t.test:1 via c:3 > d:1080"]
    );
    let process = &settings.process;
    assert_eq!(process.max_connections.connections, 8);
    assert_eq!(process.grace, Duration::ZERO);
    let log = process.log.as_ref().unwrap();
    assert_eq!(log.value.target, LogTarget::Stdout);
    let settings = fixture.resolve("-p=", file).unwrap();
    assert_eq!(
        tunnel_lines(&settings),
        ["127.0.0.1:9993 t.test:1 directly"]
    );
}

#[test]
fn options_of_a_proxy_are_not_for_one_that_a_tunnel_names() {
    let file = r#"
        proxy = "https://a.test"
        [proxies.else]
        url = "socks5://b.test"
        [[tunnel]]
        listen = "2"
        target = "t.test:1"
        proxy = "else"
    "#;
    let fixture = SettingsFixture::new();
    // A SOCKS proxy takes no header fields, and has no TLS: there would be an error if it got these options.
    for flags in [
        "-U me:s3cret",
        "-H X:y",
        "--proxy-insecure",
        "-H X:y --proxy-insecure",
    ] {
        assert!(fixture.resolve(&format!("1:t:1 {flags}"), file).is_ok());
        let error = fixture.error_with(flags, file);
        assert!(error.contains("every tunnel names its own proxy"));
        assert!(!error.contains("s3cret"));
    }
    // Where -p takes the place of the tunnel's proxy, they are for that.
    let error = fixture.error_with("-p socks5://c.test -H X:y", file);
    assert!(error.contains("is not an HTTP proxy"), "{error}");
}

#[test]
fn the_login_of_the_variable_is_not_for_a_proxy_that_a_tunnel_names() {
    let environment: EnvironmentReader =
        |name| (name == "HAUL_PROXY_USER").then(|| "me:secret".to_owned());
    let named = "[proxies.b]\nurl = \"http://b.test\"\nuser = \"me\"\n";
    let tunnel = "[[tunnel]]\nlisten = \"1\"\ntarget = \"t.test:1\"\n";
    let fixture = SettingsFixture::new();
    let for_all = format!("proxy = \"b\"\n{named}{tunnel}");
    assert!(fixture.resolve_in("", &for_all, environment).is_ok());
    let own = format!("{named}{tunnel}proxy = \"b\"\n");
    let error = fixture.resolve_in("", &own, environment).unwrap_err();
    assert!(error.to_string().contains("me at b.test:80 is not known"));
}

#[test]
fn a_login_goes_to_the_proxies_that_it_is_given_with() {
    let fixture = SettingsFixture::new();
    let user = |flags: &str, table: &str| {
        let top = "proxy = \"a:1\"\nuser = \"file:x\"\n";
        let tunnel = "[[tunnel]]\nlisten = \"1\"\ntarget = \"t.test:1\"\n";
        let config = fixture.write("t.toml", &format!("{top}{tunnel}{table}"));
        let args = tunnel_args(&format!("--config {config} {flags}"));
        let layers = TunnelLayers::read(&args).unwrap();
        let merged = layers.merged(Some(&layers.file.tunnels[0].given));
        let user = merged.given.texts("proxy-user").next();
        user.map(|user| user.to_str().unwrap().to_owned())
    };
    assert_eq!(user("", "").as_deref(), Some("file:x"));
    assert_eq!(user("-U flag:y", "").as_deref(), Some("flag:y"));
    assert_eq!(user("-p b:1", ""), None);
    assert_eq!(user("", "proxy = \"b:1\""), None);
    assert_eq!(user("-U flag:y", "proxy = \"b:1\""), None);
    let own = "proxy = \"b:1\"\nuser = \"own:z\"";
    assert_eq!(user("-U flag:y", own).as_deref(), Some("own:z"));
    assert_eq!(user("-p c:1 -U flag:y", own).as_deref(), Some("flag:y"));
    assert_eq!(user("-p c:1", own), None);
}

#[test]
fn tunnels_with_the_same_options_share_an_upstream() {
    let file = r#"
        proxy = "a:1"
        [[tunnel]]
        listen = "1"
        target = "t:1"
        idle-timeout = 5
        [[tunnel]]
        listen = "2"
        target = "t:1"
        connect-timeout = 5
    "#;
    let settings = SettingsFixture::new().resolve("3:t:1", file).unwrap();
    let share = |one: usize, other: usize| {
        let upstream = |index: usize| &settings.tunnels[index].upstream.upstream;
        Arc::ptr_eq(upstream(one), upstream(other))
    };
    assert!(share(0, 1) && !share(0, 2));
}

#[test]
fn a_flag_for_an_address_family_overrides_the_other_one_of_the_file() {
    let fixture = SettingsFixture::new();
    let family = |flags: &str, file: &str| {
        let config = fixture.write("f.toml", file);
        let args = tunnel_args(&format!("1:t:1 {flags} --config {config}"));
        let merged = TunnelLayers::read(&args).unwrap().merged(None);
        let options: LayeredOptions = merged.given.parse().unwrap();
        address_family(&options.tunnel.connection.addresses)
    };
    assert_eq!(family("", ""), None);
    assert_eq!(
        family("", "ipv6 = true\nipv4 = false"),
        Some(AddressFamily::V6)
    );
    assert_eq!(family("-4", "ipv6 = true"), Some(AddressFamily::V4));
}

#[test]
fn the_log_is_on_standard_error_unless_quiet() {
    let fixture = SettingsFixture::new();
    let target = |flags: &str| {
        let settings = fixture.resolve(&format!("-p a:1 1:t:1 {flags}"), "");
        let log = settings.unwrap().process.log;
        log.map(|log| log.value.target)
    };
    assert_eq!(target(""), Some(LogTarget::Stderr));
    assert_eq!(target("--quiet"), None);
    assert_eq!(target("--quiet --log -"), Some(LogTarget::Stdout));
    let error = fixture.error_with("-p a:1 1:t:1 --quiet --log-format json", "");
    assert!(error.starts_with("--log-format: "), "{error}");
}

#[test]
fn the_shipped_example_is_valid() {
    let example = include_str!("../../../../../packaging/tunnel.toml");
    let settings = SettingsFixture::new().resolve("", example).unwrap();
    assert_eq!(settings.tunnels.len(), 4);
    assert_eq!(
        settings.tunnels[0].upstream.route_text(None),
        "via proxy.example.com:3128"
    );
    // The part in comments is valid, too.
    let rest = example
        .split("# With haul-tunnel.socket:")
        .nth(1)
        .unwrap()
        .replace("\n# ", "\n");
    let settings = SettingsFixture::new()
        .resolve("", &format!("{example}\n{rest}"))
        .unwrap();
    let listen = &settings.tunnels[4].listen.value;
    assert_eq!(listen.to_string(), "systemd:imaps");
}

#[test]
fn the_environment_names_the_proxy_if_nothing_else_does() {
    let environment: EnvironmentReader = |name| match name {
        "https_proxy" => Some("http://env.test:3128".to_owned()),
        // It is not for tunnels, so it may be wrong.
        "http_proxy" => Some("other.test".to_owned()),
        "no_proxy" => Some(".lan".to_owned()),
        _ => None,
    };
    let lines = |line: &str| tunnel_lines(&resolve_in(line, environment).unwrap());
    assert_eq!(
        lines("1:t.test:1"),
        ["127.0.0.1:1 t.test:1 via env.test:3128"]
    );
    // As with curl, no_proxy applies to proxies of flags, too.
    assert_eq!(lines("1:t.lan:1"), ["127.0.0.1:1 t.lan:1 directly"]);
    assert_eq!(lines("-p a:1 1:t.lan:1"), ["127.0.0.1:1 t.lan:1 directly"]);
    assert_eq!(
        lines("-p a:1 --no-proxy= 1:t.lan:1"),
        ["127.0.0.1:1 t.lan:1 via a:1"]
    );
    // A wrong part of no_proxy is a warning, if no_proxy is used.
    let partly_wrong: EnvironmentReader = |name| match name {
        "https_proxy" => Some("env.test:3128".to_owned()),
        "no_proxy" => Some(".lan, 1.2.3.4/99,,".to_owned()),
        _ => None,
    };
    let settings = resolve_in("1:t.lan:1 2:u.test:1", partly_wrong).unwrap();
    assert!(tunnel_lines(&settings)[0].ends_with("directly"));
    let warning = settings.warnings.first().unwrap();
    assert!(warning.starts_with("the variable no_proxy: \"1.2.3.4/99\""));
    assert_eq!(settings.warnings.len(), 1);
    for unused in ["--no-proxy=", "-p="] {
        let settings = resolve_in(&format!("1:t.lan:1 {unused}"), partly_wrong).unwrap();
        assert_eq!(settings.warnings, [""; 0]);
    }
    assert_eq!(
        SettingsFixture::new().error_with("1:t.test:1", ""),
        "there is no proxy: neither -p nor a variable names one\nhint: name one with -p HOST:PORT, https_proxy or all_proxy; -p '' connects directly"
    );
    let empty: EnvironmentReader = |name| (name == "HAUL_PROXY_USER").then(String::new);
    let error = resolve_in("-p a:1 1:t.test:1", empty).unwrap_err();
    assert!(error.to_string().contains("HAUL_PROXY_USER"));
}

#[test]
fn a_wrong_variable_does_no_harm_to_tunnels_that_do_not_need_it() {
    let wrong: EnvironmentReader = |name| (name == "https_proxy").then(|| "ftp://x".to_owned());
    let error = resolve_in("1:t.test:1", wrong).unwrap_err();
    assert_eq!(error.to_string(), "the variable https_proxy cannot be used");
    assert!(resolve_in("-p a:1 1:t.test:1", wrong).is_ok());
    // Tunnels without a proxy work; those that need one never connect directly instead.
    let settings = resolve_in("1:t.lan:1 2:u.lan:1 --no-proxy .lan", wrong).unwrap();
    let lines = tunnel_lines(&settings);
    assert!(lines.iter().all(|line| line.ends_with("directly")));
    let everything: EnvironmentReader = |name| match name {
        "https_proxy" => Some("corp".to_owned()),
        "no_proxy" => Some("*".to_owned()),
        _ => None,
    };
    assert!(resolve_in("1:t.test:1", everything).is_ok());
    for needed in [
        "1:t.lan:1 2:u.test:1",
        "2:u.test:1 1:t.lan:1",
        "1:t.lan:1 --socks 2",
    ] {
        let error = resolve_in(&format!("{needed} --no-proxy .lan"), wrong).unwrap_err();
        assert_eq!(error.to_string(), "the variable https_proxy cannot be used");
    }
}

#[test]
fn an_error_in_a_spec_names_its_part() {
    let fixture = SettingsFixture::new();
    let specs = [
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
    ];
    let errors = specs.map(|spec| {
        let error = fixture.error_with(&format!("-p a:1 {spec}"), "");
        assert!(!error.contains("s3cret"), "{error}");
        format!("{spec}\n--> {error}")
    });
    insta::assert_snapshot!(errors.join("\n\n"));
}

#[test]
fn stdio_refuses_options_of_listeners() {
    let parse = |more: &str| {
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
        let error = parse(more).map(|_| ()).unwrap_err();
        let expected = clap::error::ErrorKind::ArgumentConflict;
        assert_eq!(error.kind(), expected, "{more}");
    }
    let fixture = SettingsFixture::new();
    let resolve = |file: &str| {
        let config = fixture.write("t.toml", file);
        let args = tunnel_args(&format!("-p a:1 --stdio t.test:1 --config {config}"));
        let target = args.stdio.clone().unwrap();
        StdioSettings::resolve(&args, &target).map(|settings| settings.warnings)
    };
    assert_eq!(resolve("idle-timeout = 5").unwrap(), [""; 0]);
    // Options of the file that are for listeners are only a warning.
    let warnings = resolve("log = \"l\"\nwarm = 2\ngrace = 5\nidle-timeout = 5").unwrap();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let expected = "t.toml: --stdio does not use log, grace, warm, which are for listeners";
    assert!(warnings[0].ends_with(expected), "{warnings:?}");
    let error = resolve("[[tunnel]]\nlisten = \"9\"\nkind = \"socks\"").unwrap_err();
    assert!(error.to_string().ends_with("has a tunnel at 127.0.0.1:9"));
    let error = resolve("admin = \"9\"").unwrap_err();
    assert!(error.to_string().ends_with("has an admin endpoint"));
}
