//! Malformed netrc files, proxy URLs and `no_proxy` values: near misses of the valid form, each compared with a model that
//! shares no code with the parser.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

use haul_net::{Netrc, NoProxy, Proxy, ProxyScheme};
use proptest::prelude::*;

/// The password in every input. It must never be printed.
const SECRET: &str = "s3cret";

/// A concatenation of fewer than `max` of these pieces, in any order.
fn pieces(choices: &'static [&'static str], max: usize) -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(choices), 0..max).prop_map(|pieces| pieces.concat())
}

const NETRC: &[&str] = &[
    "machine ",
    "default ",
    "login ",
    "password ",
    "account ",
    "macdef ",
    "MACHINE ",
    "#",
    "# ",
    "\"",
    "\\",
    "\\\"",
    "\n",
    "\r\n",
    "\n\n",
    " ",
    "\t",
    "h.test ",
    "[::1] ",
    "me ",
    "s3cret ",
    "\"s3cret\" ",
    "é",
    "\u{0}",
    "\u{2003}",
];

/// Quotes a netrc word.
fn quoted(word: &str) -> String {
    format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""))
}

proptest! {
    #[test]
    fn a21_no_netrc_file_causes_a_panic_or_prints_a_password(text in pieces(NETRC, 24)) {
        match Netrc::parse(&text) {
            Ok(netrc) => {
                for host in ["h.test", "::1", "[::1]", "other", ""] {
                    let _ = netrc.login(host);
                }
                let printed = format!("{:?}", netrc.login("h.test").map(|login| login.password));
                prop_assert!(!printed.contains(SECRET));
            }
            Err(error) => {
                let lines = text.lines().count();
                prop_assert!((1..=lines).contains(&error.line), "line {} of {lines}", error.line);
                let printed = format!("{error} {error:?}");
                prop_assert!(!printed.contains(SECRET));
            }
        }
    }

    #[test]
    fn a21_a_netrc_file_yields_the_logins_written_in_it(
        entries in prop::collection::vec(("[a-e]{1,2}\\.test", "[a-z0-9@.]{1,8}", "[ -~]{1,12}"), 0..6),
        blank in prop::sample::select(&[" ", "\n", "\n  ", "\r\n\t", "\n# a comment\n"][..]),
    ) {
        let mut text = String::new();
        let mut first = HashMap::new();
        for (host, user, password) in &entries {
            let words = ["machine", host, "login", user, "password", &quoted(password)];
            text += &words.join(blank);
            text += "\n";
            first.entry(host.as_str()).or_insert((user.as_str(), password.as_str()));
        }
        let netrc = Netrc::parse(&text).unwrap();
        for (host, (user, password)) in first {
            let login = netrc.login(&host.to_ascii_uppercase()).unwrap();
            prop_assert_eq!((login.user.as_str(), login.password.expose()), (user, password));
        }
        prop_assert!(netrc.login("f.test").is_none());
    }
}

const PROXIES: &[&str] = &[
    "http",
    "https",
    "socks5",
    "socks5h",
    "ftp",
    "://",
    ":",
    "@",
    "/",
    "//",
    "[::1]",
    "[::1",
    "]",
    "127.0.0.1",
    "p.test",
    "8080",
    "0",
    "65535",
    "65536",
    "me",
    "%40",
    "%zz",
    "%00",
    "?",
    "#",
    "\\",
    " ",
    "é",
    "\u{0}",
    "xn--",
    "..",
    "0x7f.1",
];

const SCHEMES: [(&str, ProxyScheme, u16); 4] = [
    ("http", ProxyScheme::Http, 80),
    ("https", ProxyScheme::Https, 443),
    ("socks5", ProxyScheme::Socks5, 1080),
    ("socks5h", ProxyScheme::Socks5h, 1080),
];

proptest! {
    #[test]
    fn an_accepted_proxy_url_has_a_valid_host(text in pieces(PROXIES, 10)) {
        if let Ok(proxy) = text.parse::<Proxy>() {
            let is_invalid = |c: char| c.is_whitespace() || c.is_control() || "@/?#\\[]".contains(c);
            prop_assert!(!proxy.host.is_empty() && !proxy.host.contains(is_invalid), "{:?} of {text:?}", proxy.host);
            prop_assert!(!proxy.host.contains(':') || proxy.host.parse::<IpAddr>().is_ok(), "{:?}", proxy.host);
        }
    }

    #[test]
    fn the_password_of_a_proxy_is_never_printed(
        scheme in prop::sample::select(&["http://", "https://", "socks5h://", "ftp://", ""][..]),
        rest in pieces(PROXIES, 6),
    ) {
        let printed = match format!("{scheme}me:{SECRET}@{rest}").parse::<Proxy>() {
            Ok(proxy) => format!("{proxy:?}"),
            Err(error) => format!("{error} {error:?}"),
        };
        prop_assert!(!printed.contains(SECRET), "{printed}");
    }

    #[test]
    fn a_proxy_url_yields_the_parts_written_in_it(
        (scheme, expected, default_port) in prop::sample::select(&SCHEMES[..]),
        (written, host) in prop::sample::select(&[("p.test", "p.test"), ("10.0.0.1", "10.0.0.1"), ("[fd00::1]", "fd00::1")][..]),
        port in prop::option::of(1u16..),
        login in prop::option::of(("[a-z@:/%é]{1,6}", "[a-z@:/%é]{0,6}")),
    ) {
        let encode = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
        let at = login.as_ref().map(|(user, password)| format!("{}:{}@", encode(user), encode(password)));
        let colon = port.map(|port| format!(":{port}"));
        let text = format!("{scheme}://{}{written}{}", at.unwrap_or_default(), colon.unwrap_or_default());
        let proxy: Proxy = text.parse().unwrap();
        prop_assert_eq!((proxy.scheme, proxy.host.as_str(), proxy.port), (expected, host, port.unwrap_or(default_port)));
        let found = proxy.login.map(|login| (login.user, login.password.expose().to_owned()));
        prop_assert_eq!(found, login);
    }
}

/// The bits of an address as text.
fn bits(address: Ipv4Addr) -> String {
    format!("{:032b}", u32::from(address))
}

const NO_PROXY: &[&str] = &[
    "a.test",
    ".a.test",
    "*.a.test",
    "*",
    "10.0.0.0/8",
    "10.0.0.0/33",
    "10.0.0.0/",
    "/8",
    "fd00::/8",
    "[::1]",
    "::1",
    "::/0",
    ",",
    ", ",
    " ",
    "\t",
    ".",
    "*.",
    "/",
    "-",
    "é",
    "10.0.0.1",
    "0.0.0.0/-1",
    "10.0.0.0/99999999999",
];

/// A host name of a few labels, drawn from so few that names often match.
fn any_name() -> impl Strategy<Value = Vec<&'static str>> {
    prop::collection::vec(prop::sample::select(&["a", "b", "ab"][..]), 1..4)
}

proptest! {
    #[test]
    fn no_no_proxy_value_causes_a_panic(
        text in pieces(NO_PROXY, 8),
        host in prop::sample::select(&["a.test", "a.test.", "", ".", "10.1.2.3", "::1", "fd00::1", "é", "*"][..]),
    ) {
        let _ = NoProxy::parse(&text).matches(host, 80);
        prop_assert!(!NoProxy::parse("").matches(host, 80));
    }

    #[test]
    fn a_name_in_no_proxy_matches_itself_and_its_subdomains(item in any_name(), host in any_name(), dotted: bool, upper: bool) {
        let expected = host.ends_with(&item);
        let written = format!("{}{}", if dotted { "." } else { "" }, item.join("."));
        let written = if upper { written.to_uppercase() } else { written };
        prop_assert_eq!(NoProxy::parse(&format!("other.test, {written}")).matches(&host.join("."), 80), expected);
    }

    #[test]
    fn a_network_in_no_proxy_matches_its_addresses(network: Ipv4Addr, width in 0usize..=32, flip in prop::option::of(0u32..32)) {
        // The network's own address, or one that differs from it in one bit.
        let address = Ipv4Addr::from(u32::from(network) ^ flip.map_or(0, |bit| 1 << bit));
        let expected = bits(network)[..width] == bits(address)[..width];
        let no_proxy = NoProxy::parse(&format!("{network}/{width}"));
        prop_assert_eq!(no_proxy.matches(&address.to_string(), 80), expected);
        let mapped = format!("{}/{}", network.to_ipv6_mapped(), width + 96);
        prop_assert_eq!(NoProxy::parse(&mapped).matches(&address.to_ipv6_mapped().to_string(), 80), expected);
    }
}
