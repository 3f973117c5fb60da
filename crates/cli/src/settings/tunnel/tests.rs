use std::path::Path;

use clap::Parser as _;
use haul_net::Family;

use super::*;
use crate::args::{Args, Command};
use crate::settings::SettingError;

/// What flags and a file come to, in a folder of its own.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn resolve(&self, line: &str, file: &str) -> Result<TunnelSettings, SettingError> {
        let config = self.write("t.toml", file);
        let words = line.split_whitespace();
        let words = ["haul", "tunnel", "--config", config.as_str()]
            .into_iter()
            .chain(words);
        let Command::Tunnel(args) = Args::try_parse_from(words).unwrap().command else {
            panic!("another command");
        };
        let passwords = Passwords::default();
        passwords.silence();
        TunnelSettings::resolve_in(&args, &passwords, |_| None)
    }

    /// How a file is wrong, without the folder.
    fn wrong(&self, file: &str) -> String {
        self.wrong_with("", file)
    }

    fn wrong_with(&self, line: &str, file: &str) -> String {
        let error = self.resolve(line, file).unwrap_err();
        let told = match error.advice() {
            Some(advice) => format!("{}\nhint: {advice}", crate::message::chain(&error)),
            None => crate::message::chain(&error),
        };
        told.replace(self.0.path().to_str().unwrap(), "[DIR]")
    }
}

#[test]
fn the_environment_names_a_proxy_where_nobody_else_does() {
    let place = Place::new();
    let of = |line: &str, environment| {
        let words = ["haul", "tunnel"]
            .into_iter()
            .chain(line.split_whitespace());
        let Command::Tunnel(args) = Args::try_parse_from(words).unwrap().command else {
            panic!("another command");
        };
        TunnelSettings::resolve_in(&args, &Passwords::default(), environment)
    };
    let some: Environment = |name| match name {
        "https_proxy" => Some("http://env.test:3128".to_owned()),
        // Not for tunnels, and so no matter how wrong.
        "http_proxy" => Some("other.test".to_owned()),
        "no_proxy" => Some(".lan".to_owned()),
        _ => None,
    };
    let way = |line: &str| lines(&of(line, some).unwrap());
    assert_eq!(
        way("1:t.test:1"),
        ["127.0.0.1:1 t.test:1 via env.test:3128"]
    );
    // The list holds whoever names the proxy, as with curl.
    assert_eq!(way("1:t.lan:1"), ["127.0.0.1:1 t.lan:1 directly"]);
    assert_eq!(way("-p a:1 1:t.lan:1"), ["127.0.0.1:1 t.lan:1 directly"]);
    assert_eq!(
        way("-p a:1 --no-proxy= 1:t.lan:1"),
        ["127.0.0.1:1 t.lan:1 via a:1"]
    );
    // What cannot be used there is told of, unless nobody asks for the list.
    let odd: Environment = |name| match name {
        "https_proxy" => Some("env.test:3128".to_owned()),
        "no_proxy" => Some(".lan, 1.2.3.4/99,,".to_owned()),
        _ => None,
    };
    let settings = of("1:t.lan:1 2:u.test:1", odd).unwrap();
    assert!(lines(&settings)[0].ends_with("directly"));
    assert_eq!(
        settings.warnings,
        [
            "the variable no_proxy: \"1.2.3.4/99\" is no network: the number of bits is from 0 to 32; it is left out"
        ]
    );
    for unasked in ["--no-proxy=", "-p="] {
        let settings = of(&format!("1:t.lan:1 {unasked}"), odd).unwrap();
        assert_eq!(settings.warnings, [""; 0]);
    }
    let wrong: Environment = |name| (name == "https_proxy").then(|| "ftp://x".to_owned());
    let error = of("1:t.test:1", wrong).unwrap_err();
    assert_eq!(error.to_string(), "the variable https_proxy cannot be used");
    assert!(of("-p a:1 1:t.test:1", wrong).is_ok());
    assert_eq!(
        place.wrong_with("1:t.test:1", ""),
        "there is no proxy: -p names none, and no variable either\nhint: -p HOST:PORT names one, as do https_proxy and all_proxy; -p '' goes straight"
    );
    let empty: Environment = |name| (name == "HAUL_PROXY_USER").then(String::new);
    let error = of("-p a:1 1:t.test:1", empty).unwrap_err();
    assert!(error.to_string().contains("HAUL_PROXY_USER"));
}

/// Each tunnel in a line.
fn lines(settings: &TunnelSettings) -> Vec<String> {
    let line = |planned: &Planned| {
        let way = planned.way.to(planned.target());
        format!("{} {} {way}", planned.listen, planned.local)
    };
    settings.tunnels.iter().map(line).collect()
}

#[test]
fn the_files_tunnels_follow_those_of_flags() {
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
    let place = Place::new();
    let settings = place.resolve("5:x.test:6 --http 7", file).unwrap();
    let socket = place.0.path().join("s.sock");
    assert_eq!(
        lines(&settings),
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
    let hour = Some(std::time::Duration::from_secs(3600));
    let idle: Vec<_> = settings
        .tunnels
        .iter()
        .map(|planned| planned.options.idle)
        .collect();
    assert_eq!(idle, [hour, hour, hour, None, hour]);
    let warm = settings.tunnels.iter().map(|planned| planned.warm);
    let twenty = std::time::Duration::from_secs(20);
    let four = ReserveOptions {
        ready: 4,
        longest: twenty,
    };
    assert_eq!(
        warm.collect::<Vec<_>>(),
        [None, None, Some(four), None, None]
    );
}

#[test]
fn flags_go_before_the_file() {
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
    let place = Place::new();
    let settings = place.resolve("", file).unwrap();
    assert_eq!(lines(&settings), ["127.0.0.1:9993 t.test:1 via b:2"]);
    let running = &settings.running;
    assert_eq!(running.max_connections.connections(), 7);
    assert_eq!(running.log_format, haul_tunnel::LogFormat::Json);
    let log = haul_service::observe::LogTarget::File(place.0.path().join("l.log"));
    assert_eq!(running.log.as_ref().unwrap().target, log);
    let settings = place
        .resolve(
            "-p c:3 -p socks5h://d --max-connections 8 --log - --grace 0 -4",
            file,
        )
        .unwrap();
    assert_eq!(
        lines(&settings),
        ["127.0.0.1:9993 t.test:1 via c:3 > d:1080"]
    );
    let running = &settings.running;
    assert_eq!(
        (running.max_connections.connections(), running.grace),
        (8, std::time::Duration::ZERO)
    );
    let settings = place.resolve("-p=", file).unwrap();
    assert_eq!(lines(&settings), ["127.0.0.1:9993 t.test:1 directly"]);
}

#[test]
fn what_flags_say_of_a_proxy_is_not_for_one_that_a_tunnel_names() {
    let own = r#"
        proxy = "https://a.test"
        [proxies.else]
        url = "socks5://b.test"
        [[tunnel]]
        listen = "2"
        target = "t.test:1"
        proxy = "else"
    "#;
    let place = Place::new();
    // A SOCKS proxy takes no header fields, and has no TLS: had they been laid over it there would be an error.
    for flags in [
        "-U me:s3cret",
        "-H X:y",
        "--proxy-insecure",
        "-H X:y --proxy-insecure",
    ] {
        assert!(place.resolve(&format!("1:t:1 {flags}"), own).is_ok());
        let told = place.wrong_with(flags, own);
        assert!(told.contains("every tunnel names a proxy of its own"));
        assert!(!told.contains("s3cret"));
    }
    let words = "haul tunnel 1:t:1".split(' ');
    let Command::Tunnel(args) = Args::try_parse_from(words).unwrap().command else {
        panic!("another command");
    };
    // Nor is the variable's: a user without a password would be completed by it, or asked for it.
    let passwords = Passwords::default();
    passwords.silence();
    let login = |is_own| {
        let wishes = Wishes {
            proxies: Some(vec![wishes::Place::of("http://b.test", "--config")]),
            is_own,
            ..Wishes::default()
        };
        let told = Told::by(&args).unwrap();
        let ways = told.ways(&passwords, |name| {
            (name == login::VARIABLE).then(|| "var:v".to_owned())
        });
        let places = ways.unwrap().proxies(&wishes, None).unwrap();
        places[0][0].login.as_ref().map(|login| login.user.clone())
    };
    assert_eq!(login(false).as_deref(), Some("var"));
    assert_eq!(login(true), None);
}

#[test]
fn certificates_of_one_tunnel_want_tls_there() {
    let place = Place::new();
    let of = |top: &str, tls: &str| {
        format!(
            "proxy = \"a:1\"\n{top}\n[[tunnel]]\nlisten = \"1\"\ntarget = \"t:1\"\ninsecure = true\n{tls}\n"
        )
    };
    for (top, tls) in [("", ""), ("", "target-tls = false")] {
        let told = place.wrong(&of(top, tls));
        assert!(told.starts_with("the tunnel at 127.0.0.1:1: there is no TLS"));
    }
    let told = place.wrong(&of("target-tls = true", "target-tls = false"));
    assert!(told.starts_with("the tunnel at 127.0.0.1:1: there is no TLS"));
    // Another tunnel's TLS is none of its own.
    let other = "[[tunnel]]\nlisten = \"2\"\ntarget = \"t:1\"\ntarget-tls = true";
    assert!(place.resolve("", &of("", other)).is_err());
    assert!(place.resolve("", &of("", "target-tls = true")).is_ok());
    assert!(place.resolve("", &of("target-tls = true", "")).is_ok());
    assert!(place.resolve("--target-tls", &of("", "")).is_ok());
}

#[test]
fn what_means_nothing_to_stdio_is_refused() {
    let line = |more: &str| {
        let words = ["haul", "tunnel", "-p", "a:1", "--stdio", "t.test:1"];
        Args::try_parse_from(words.into_iter().chain(more.split_whitespace()))
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
    let place = Place::new();
    let of = |file: &str| {
        let config = place.write("t.toml", file);
        let Command::Tunnel(args) = line(&format!("--config {config}")).unwrap().command else {
            panic!("another command");
        };
        StdioSettings::resolve(&args).map(|_| ())
    };
    assert!(of("idle-timeout = 5").is_ok());
    let told = of("[[tunnel]]\nlisten = \"9\"\nkind = \"socks\"").unwrap_err();
    assert!(told.to_string().ends_with("has a tunnel at 127.0.0.1:9"));
    let told = of("admin = \"9\"").unwrap_err();
    assert!(told.to_string().ends_with("has an admin endpoint"));
}

#[test]
fn tunnels_that_wish_the_same_share_a_way() {
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
    let settings = Place::new().resolve("3:t:1", file).unwrap();
    let shares = |a: usize, b: usize| {
        let of = |at: usize| &settings.tunnels[at].way.upstream;
        std::sync::Arc::ptr_eq(of(a), of(b))
    };
    assert!(shares(0, 1) && !shares(0, 2));
}

/// Files that cannot be read as they stand.
const MISTAKES: &[&str] = &[
    "proxy = \n",
    "proxy \"a:1\"",
    "proxy = \"s3cret",
    "proxy = \"a:1\"\nproxy = \"b:1\"",
    "\nprosy = \"a:1\"",
    "zzz = 1",
    "proxy = 5",
    "proxy = [\"a:1\", \"ftp://me:s3cret@p\"]",
    "proxy = \"http://me:s3,cret@p:1\"",
    "proxy = [\"a:1\", \"\"]",
    "proxy = []",
    "proxy = [\"a:1\", []]",
    "proxy = \"crop\"\n[proxies.corp]\nurl = \"a:1\"",
    "proxy = \"http://a:1/x\"",
    "no-proxy = [\".lan\",\n\"1.2.3.4/99\"]",
    "no-proxy = \"[::1\"",
    "direct-fallback = \"yes\"",
    "idle-timeout = \"5x\"",
    "keepalive = \"10h\"",
    "warm = -1",
    "user = \":s3cret\"",
    "user = \"a\"\nproxy-user = \"b\"",
    "headers = [\"X-A: b\", \"s3cret\"]",
    "resolve = \"nowhere\"",
    "ipv4 = true\nipv6 = true",
    "log-format = \"xml\"",
    "admin = \"::1\"",
    "max-connections = 0",
    "[[tunnel]]\ntarget = \"t:1\"",
    "[[tunnel]]\nlisten = \"1\"",
    "[[tunnel]]\nlisten = \"1\"\ntarget = \"t\"",
    "[[tunnel]]\nlisten = \"1\"\nkind = \"ftp\"",
    "[[tunnel]]\nlisten = \"1\"\nkind = \"http\"\ntarget = \"t:1\"",
    "[[tunnel]]\nlistn = \"1\"\nkind = \"http\"",
    "[tunnel]\nlisten = \"1\"\nmax-connections = 5",
    "tunnel = 5",
    "[proxies.a]\nuser = \"x:y\"",
    "[proxies.a]\nurl = \"ftp://x\"",
    "[proxies.a]\nurl = \"x:1\"\nurll = \"y\"",
    "proxies = \"x\"",
    "",
];

/// Files from which there is no way, beside a tunnel.
const WAYS: &[&str] = &[
    "",
    "proxy = \"a:1\"\ncacert = \"nowhere.pem\"",
    "proxy = \"a:1\"\nproxy-insecure = true",
    "proxy = \"socks5://a:1\"\nheaders = \"X: y\"",
    "proxy = \"a:1\"\nheaders = \"X:\"",
    "proxy = \"https://a:1\"\nproxy-cacert = \"nowhere.pem\"",
    "proxy = \"https://a:1\"\nproxy-key = \"nowhere.pem\"",
    "proxy = \"a:1\"\npassword-file = \"nowhere\"",
    "proxy = \"a:1\"\nuser = \"me\"",
    "proxy = \"a:1\"\ntarget-tls = true\ncacert = \"t.toml\"",
    "proxy = \"a:1\"\nadmin = \"systemd\"",
    "proxy = \"a:1,b:1,c:1,d:1,e:1\"\n",
    "proxy = [\"a:1,b:1,c:1,d:1,e:1\", \"f:1,g:1,h:1,i:1\"]\n",
];

#[test]
fn every_mistake_in_a_file_is_told_with_its_line() {
    let place = Place::new();
    let tunnel = "[[tunnel]]\nlisten = \"1\"\ntarget = \"t:1\"\n";
    let of = |text: &str| place.wrong(text);
    let mut told = Vec::new();
    for text in MISTAKES {
        told.push(format!("{text}\n--> {}", of(text)));
    }
    for text in WAYS {
        match place.resolve("", &format!("{text}\n{tunnel}")) {
            Ok(_) => told.push(format!("{text}\n--> it is taken")),
            Err(_) => told.push(format!("{text}\n--> {}", of(&format!("{text}\n{tunnel}")))),
        }
    }
    let told = told.join("\n\n");
    for answer in told
        .lines()
        .filter(|line| line.starts_with("-->") || line.starts_with("hint"))
    {
        assert!(!answer.contains("s3cret"), "{answer}");
    }
    insta::assert_snapshot!(told);
}

#[test]
fn a_file_has_a_limit_and_must_be_there() {
    let place = Place::new();
    let large = format!("# {}", "x".repeat(1 << 20));
    assert_eq!(
        place.wrong(&large),
        "--config: [DIR]/t.toml is larger than 1024 KiB"
    );
    let missing = Config::read(Path::new("/nowhere/t.toml")).unwrap_err();
    assert_eq!(missing.to_string(), "--config: cannot read /nowhere/t.toml");
    std::fs::write(place.0.path().join("b"), b"proxy = \"\xff\"").unwrap();
    let binary = Config::read(&place.0.path().join("b")).unwrap_err();
    assert!(binary.to_string().ends_with("is not UTF-8"));
}

#[test]
fn a_file_with_a_password_that_all_can_read_is_told_of() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let tunnel = "[[tunnel]]\nlisten = \"1\"\ntarget = \"t:1\"\n";
    let warned = |text: &str, mode: u32| {
        let path = place.write("t.toml", "");
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        let settings = place.resolve("", &format!("{text}\n{tunnel}")).unwrap();
        settings
            .warnings
            .iter()
            .any(|warning| warning.contains("can be read by every user"))
    };
    assert!(!warned("proxy = \"a:1\"", 0o644));
    assert!(warned("proxy = \"http://me:pw@a:1\"", 0o644));
    assert!(!warned("proxy = \"http://me:pw@a:1\"", 0o640));
    assert!(warned("proxy = \"a:1\"\nuser = \"me:pw\"", 0o604));
    assert!(warned(
        "proxy = \"b\"\n[proxies.b]\nurl = \"a:1\"\nuser = \"me:pw\"",
        0o644
    ));
    assert!(warned("proxy = \"a:1\"\nheaders = \"X-Token: t\"", 0o644));
}

#[test]
fn bad_specs_are_told_by_their_part() {
    let place = Place::new();
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
fn families_of_flags_and_files() {
    let place = Place::new();
    let family = |line: &str, file: &str| {
        let config = place.write("f.toml", file);
        let config = Config::read(Path::new(&config)).unwrap();
        let words = ["haul", "tunnel", "1:t:1"]
            .into_iter()
            .chain(line.split_whitespace());
        let Command::Tunnel(args) = Args::try_parse_from(words).unwrap().command else {
            panic!("another command");
        };
        let flags = Wishes::of_flags(&args.proxy, &args.way, &args.target);
        flags.over(&config.all).family
    };
    assert_eq!(family("", ""), None);
    assert_eq!(family("", "ipv6 = true\nipv4 = false"), Some(Family::V6));
    assert_eq!(family("-4", "ipv6 = true"), Some(Family::V4));
}

#[test]
fn the_example_that_is_shipped_can_be_used() {
    let example = include_str!("../../../../../packaging/tunnel.toml");
    let settings = Place::new().resolve("", example).unwrap();
    assert_eq!(settings.tunnels.len(), 4);
    assert_eq!(
        settings.tunnels[0].way.to(None),
        "via proxy.example.com:3128"
    );
    // What is commented out there, too.
    let rest = example.split("# With haul-tunnel.socket:").nth(1).unwrap();
    let rest = rest.replace("\n# ", "\n");
    let settings = Place::new()
        .resolve("", &format!("{example}\n{rest}"))
        .unwrap();
    assert_eq!(settings.tunnels[4].listen.to_string(), "systemd:imaps");
}
