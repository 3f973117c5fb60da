//! What flags and the file say of one thing: who goes before whom.

use super::*;

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
    let place = SettingsFixture::new();
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
    let four = WarmPoolOptions {
        size: 4,
        max_idle: twenty,
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
    let place = SettingsFixture::new();
    let settings = place.resolve("", file).unwrap();
    assert_eq!(lines(&settings), ["127.0.0.1:9993 t.test:1 via b:2"]);
    let running = &settings.running;
    assert_eq!(running.max_connections.connections(), 7);
    assert_eq!(running.log_format, haul_tunnel::TunnelLogFormat::Json);
    let log = haul_service::observe::LogTarget::File(place.0.path().join("l.log"));
    assert_eq!(running.log.as_ref().unwrap().value.target, log);
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
    let place = SettingsFixture::new();
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
    let CliCommand::Tunnel(args) = CliArgs::try_parse_from(words).unwrap().command else {
        panic!("another command");
    };
    // Nor is the variable's: a user without a password would be completed by it, or asked for it.
    let passwords = PromptedPasswords::default();
    passwords.silence();
    let login = |is_own| {
        let wishes = TunnelOptionsLayer {
            proxies: Some(vec![ProxyChainStep::of(
                "http://b.test",
                OptionSource::Flag("-p"),
            )]),
            is_own,
            ..TunnelOptionsLayer::default()
        };
        let told = TunnelLayers::by(&args).unwrap();
        let ways = told.ways(&passwords, |name| {
            (name == crate::settings::proxy_login::VARIABLE).then(|| "var:v".to_owned())
        });
        let places = ways.unwrap().proxies(&wishes, None).unwrap();
        places[0][0].login.as_ref().map(|login| login.user.clone())
    };
    assert_eq!(login(false).as_deref(), Some("var"));
    assert_eq!(login(true), None);
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
    let settings = SettingsFixture::new().resolve("3:t:1", file).unwrap();
    let shares = |a: usize, b: usize| {
        let of = |at: usize| &settings.tunnels[at].way.upstream;
        std::sync::Arc::ptr_eq(of(a), of(b))
    };
    assert!(shares(0, 1) && !shares(0, 2));
}

#[test]
fn families_of_flags_and_files() {
    let place = SettingsFixture::new();
    let family = |line: &str, file: &str| {
        let config = place.write("f.toml", file);
        let config = TunnelConfigFile::read(Path::new(&config)).unwrap();
        let words = ["haul", "tunnel", "1:t:1"]
            .into_iter()
            .chain(line.split_whitespace());
        let CliCommand::Tunnel(args) = CliArgs::try_parse_from(words).unwrap().command else {
            panic!("another command");
        };
        let flags = TunnelOptionsLayer::of_flags(&args.proxy, &args.way, &args.target);
        flags.over(&config.all).family
    };
    assert_eq!(family("", ""), None);
    assert_eq!(
        family("", "ipv6 = true\nipv4 = false"),
        Some(AddressFamily::V6)
    );
    assert_eq!(family("-4", "ipv6 = true"), Some(AddressFamily::V4));
}

#[test]
fn the_example_that_is_shipped_can_be_used() {
    let example = include_str!("../../../../../../packaging/tunnel.toml");
    let settings = SettingsFixture::new().resolve("", example).unwrap();
    assert_eq!(settings.tunnels.len(), 4);
    assert_eq!(
        settings.tunnels[0].way.to(None),
        "via proxy.example.com:3128"
    );
    // What is commented out there, too.
    let rest = example.split("# With haul-tunnel.socket:").nth(1).unwrap();
    let rest = rest.replace("\n# ", "\n");
    let settings = SettingsFixture::new()
        .resolve("", &format!("{example}\n{rest}"))
        .unwrap();
    assert_eq!(settings.tunnels[4].listen.to_string(), "systemd:imaps");
}
