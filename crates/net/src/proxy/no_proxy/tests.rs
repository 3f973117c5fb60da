//! Lists as people write them, and which hosts they exempt from the proxy.

use super::*;

#[test]
fn usable_items_are_used_whatever_separates_them() {
    let list =
        NoProxy::parse(" ,a.test,, .b.test\t*.c.test,10.0.0.0/8,[fd00::1],fd01::/16,Bücher.test, ");
    assert_eq!(list.errors(), []);
    for host in [
        "a.test",
        "X.A.test.",
        "b.test",
        "x.c.test",
        "10.9.8.7",
        "fd00::1",
        "fd01::5",
        "xn--bcher-kva.test",
    ] {
        assert!(list.matches(host, 80), "{host}");
    }
    for host in ["ba.test", "11.0.0.1", "fd02::1", "test", "", "."] {
        assert!(!list.matches(host, 80), "{host}");
    }
}

#[test]
fn forms_of_other_programs_mean_the_same_here() {
    let list = NoProxy::parse("192.168.*,10.*.*.*,a.test:8080,[::1]:443,1.2.3.4:80");
    assert_eq!(list.errors(), []);
    for (host, port) in [
        ("192.168.7.8", 1),
        ("10.1.2.3", 1),
        ("a.test", 8080),
        ("x.a.test", 8080),
        ("::1", 443),
        ("1.2.3.4", 80),
    ] {
        assert!(list.matches(host, port), "{host}:{port}");
    }
    for (host, port) in [
        ("192.169.0.1", 1),
        ("11.0.0.1", 1),
        ("a.test", 80),
        ("::1", 80),
        ("1.2.3.4", 8080),
    ] {
        assert!(!list.matches(host, port), "{host}:{port}");
    }
}

#[test]
fn a_network_of_no_bits_is_every_address_of_its_family() {
    let list = NoProxy::parse("0.0.0.0/0");
    assert!(list.matches("10.9.8.7", 80) && !list.matches("fd00::1", 80));
    let list = NoProxy::parse("::/0");
    assert!(list.matches("fd00::1", 80) && !list.matches("10.9.8.7", 80));
}

#[test]
fn unusable_items_are_reported_and_hide_no_others() {
    use NoProxyError as E;
    let bits = |text: &str, max_bits| E::Bits(text.into(), max_bits);
    for (text, error) in [
        ("1.2.3.4/99", bits("1.2.3.4/99", 32)),
        ("1.2.3.4/", bits("1.2.3.4/", 32)),
        ("1.2.3.4/+8", bits("1.2.3.4/+8", 32)),
        ("fd00::/129", bits("fd00::/129", 128)),
        ("a.test/8", E::Network("a.test/8".into())),
        ("1.2.3/8", E::Network("1.2.3/8".into())),
        ("[::1", E::Brackets("[::1".into())),
        ("[a.test]", E::Brackets("[a.test]".into())),
        ("a.test:x", E::Port("a.test:x".into())),
        ("a.test:", E::Port("a.test:".into())),
        ("[::1]:0", E::Port("[::1]:0".into())),
        ("fe80::1%eth0", E::Zone("fe80::1%eth0".into())),
        ("[fe80::1%25eth0]", E::Zone("[fe80::1%25eth0]".into())),
        ("fd00::zz", E::Host("fd00::zz".into())),
        ("192.168.", E::Address("192.168.".into())),
        ("1.2.3.400", E::Address("1.2.3.400".into())),
        ("192.*.1", E::Star("192.*.1".into())),
        ("192.400.*", E::Star("192.400.*".into())),
        ("1.2.3.4.*", E::Star("1.2.3.4.*".into())),
        ("*a.test", E::Star("*a.test".into())),
        ("http://me:s3cret@a.test", E::Url),
        ("me:s3cret@a.test", E::Url),
        (".", E::Host(".".into())),
        ("a%2etest", E::Host("a%2etest".into())),
        ("<local>", E::Host("<local>".into())),
    ] {
        let list = NoProxy::parse(&format!("a.test,{text},b.test"));
        assert_eq!(list.errors(), [error], "{text}");
        assert!(
            list.matches("b.test", 80) && !list.matches("c.test", 80),
            "{text}"
        );
    }
}
