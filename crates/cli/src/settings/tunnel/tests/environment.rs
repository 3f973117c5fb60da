//! What the environment says of proxies, and when that matters.

use super::*;

/// What a command line comes to in this environment.
fn of(line: &str, environment: EnvironmentReader) -> Result<TunnelSettings, SettingError> {
    let words = ["haul", "tunnel"]
        .into_iter()
        .chain(line.split_whitespace());
    let CliCommand::Tunnel(args) = CliArgs::try_parse_from(words).unwrap().command else {
        panic!("another command");
    };
    TunnelSettings::resolve_in(&args, &PromptedPasswords::default(), environment)
}

#[test]
fn the_environment_names_a_proxy_where_nobody_else_does() {
    let some: EnvironmentReader = |name| match name {
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
    let odd: EnvironmentReader = |name| match name {
        "https_proxy" => Some("env.test:3128".to_owned()),
        "no_proxy" => Some(".lan, 1.2.3.4/99,,".to_owned()),
        _ => None,
    };
    let settings = of("1:t.lan:1 2:u.test:1", odd).unwrap();
    assert!(lines(&settings)[0].ends_with("directly"));
    assert_eq!(
        settings.warnings,
        [
            "the variable no_proxy: \"1.2.3.4/99\" is no network: the number of bits is from 0 to 32; haul ignores it"
        ]
    );
    for unasked in ["--no-proxy=", "-p="] {
        let settings = of(&format!("1:t.lan:1 {unasked}"), odd).unwrap();
        assert_eq!(settings.warnings, [""; 0]);
    }
    assert_eq!(
        SettingsFixture::new().wrong_with("1:t.test:1", ""),
        "there is no proxy: -p names none, and no variable either\nhint: -p HOST:PORT names one, as do https_proxy and all_proxy; -p '' goes straight"
    );
    let empty: EnvironmentReader = |name| (name == "HAUL_PROXY_USER").then(String::new);
    let error = of("-p a:1 1:t.test:1", empty).unwrap_err();
    assert!(error.to_string().contains("HAUL_PROXY_USER"));
}

#[test]
fn a_variable_that_cannot_be_used_keeps_nobody_from_going_another_way() {
    let wrong: EnvironmentReader = |name| (name == "https_proxy").then(|| "ftp://x".to_owned());
    let error = of("1:t.test:1", wrong).unwrap_err();
    assert_eq!(error.to_string(), "the variable https_proxy cannot be used");
    assert!(of("-p a:1 1:t.test:1", wrong).is_ok());
    // Who does not need it is not kept from anything by it, and who does goes no other way.
    let spared = of("1:t.lan:1 2:u.lan:1 --no-proxy .lan", wrong).unwrap();
    assert!(lines(&spared).iter().all(|line| line.ends_with("directly")));
    let everything: EnvironmentReader = |name| match name {
        "https_proxy" => Some("corp".to_owned()),
        "no_proxy" => Some("*".to_owned()),
        _ => None,
    };
    assert!(of("1:t.test:1", everything).is_ok());
    for needed in [
        "1:t.lan:1 2:u.test:1",
        "2:u.test:1 1:t.lan:1",
        "1:t.lan:1 --socks 2",
    ] {
        let error = of(&format!("{needed} --no-proxy .lan"), wrong).unwrap_err();
        assert_eq!(error.to_string(), "the variable https_proxy cannot be used");
    }
}
