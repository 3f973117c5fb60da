//! Tests that forge, move and change signatures.

use std::borrow::Cow;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::ObjectKey;

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

fn request_path(path: &str) -> RequestPath {
    ObjectKey::parse(path).expect("a key")
}

fn key() -> SigningKey {
    SigningKey::new(b"0123456789abcdef").expect("a key")
}

fn verdict(method: &Method, path: &str, query: &str) -> SignatureCheck {
    key().verify(method, &request_path(path), Some(query), at(1000))
}

#[test]
fn the_signature_matches_openssls() {
    let query = key().sign(
        SignableMethod::Get,
        &request_path("/a%20b/c"),
        Some("x=1"),
        at(2000),
    );
    // By `openssl dgst -sha256 -hmac 0123456789abcdef -binary | basenc --base64url`, of the text
    // described at the head of the file.
    let theirs = "zmSDW8reV7qOafoxp74naKPwDAkr1WSkRi-gepVgqlY";
    assert_eq!(
        query,
        format!("x=1&haul-expires=2000&haul-signature={theirs}")
    );
}

#[test]
fn keys_have_a_minimum_length_and_no_final_line_feed() {
    for short in [
        &b""[..],
        b"0123456789abcde",
        b"0123456789abcde\n",
        &[0; MAX_KEY_BYTES + 1],
    ] {
        assert!(matches!(
            SigningKey::new(short),
            Err(SigningKeyError::Length)
        ));
    }
    let sign = |key: &[u8]| {
        SigningKey::new(key).expect("a key").sign(
            SignableMethod::Get,
            &request_path("/"),
            None,
            at(1),
        )
    };
    assert_eq!(sign(b"0123456789abcdef\r\n"), sign(b"0123456789abcdef"));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("key");
    std::fs::write(&path, b"0123456789abcdef\n").expect("written");
    let read = SigningKey::read(&path).expect("a key");
    assert_eq!(
        read.sign(SignableMethod::Get, &request_path("/"), None, at(1)),
        sign(b"0123456789abcdef")
    );
    assert!(matches!(
        SigningKey::read(Path::new("/dev/zero")),
        Err(SigningKeyError::Length)
    ));
    let error = SigningKey::read(&folder.path().join("none")).expect_err("no file");
    assert!(matches!(error, SigningKeyError::Io { .. }));
    assert!(!format!("{read:?}").contains("48"));
}

#[test]
fn a_signature_ends() {
    let query = key().sign(SignableMethod::Get, &request_path("/a"), None, at(1000));
    let verdict = |now| key().verify(&Method::GET, &request_path("/a"), Some(&query), now);
    assert_eq!(verdict(at(999)), SignatureCheck::Valid(SignableMethod::Get));
    assert_eq!(verdict(at(1000)), SignatureCheck::Expired);
    assert_eq!(verdict(at(u32::MAX.into())), SignatureCheck::Expired);
    // A clock that is wrong permits nothing.
    assert_eq!(
        verdict(UNIX_EPOCH - Duration::from_secs(1)),
        SignatureCheck::Expired
    );
    // An invalid signature never counts as expired.
    let wrong = query.replace("signature=", "signature=A");
    assert_eq!(
        key().verify(&Method::GET, &request_path("/a"), Some(&wrong), at(1000)),
        SignatureCheck::Invalid
    );
}

#[test]
fn head_goes_with_get_and_nothing_else_does() {
    let methods = [
        Method::GET,
        Method::HEAD,
        Method::PUT,
        Method::DELETE,
        Method::POST,
        Method::PATCH,
        Method::OPTIONS,
    ];
    for signable in [
        SignableMethod::Get,
        SignableMethod::Put,
        SignableMethod::Delete,
    ] {
        let query = key().sign(signable, &request_path("/a"), None, at(2000));
        for method in &methods {
            let is_right = verdict(method, "/a", &query) == SignatureCheck::Valid(signable);
            let is_meant = method.as_str() == signable.to_string()
                || (signable, method) == (SignableMethod::Get, &Method::HEAD);
            assert_eq!(is_right, is_meant, "{signable} {method}");
        }
    }
}

#[test]
fn one_path_has_one_signature() {
    let query = key().sign(SignableMethod::Get, &request_path("/a/b"), None, at(2000));
    let right = SignatureCheck::Valid(SignableMethod::Get);
    // The same key in another spelling.
    assert_eq!(verdict(&Method::GET, "/%61/b", &query), right);
    for other in ["/", "/a", "/a/b/", "/a/b/c", "/A/b", "/a%0Ab", "/b/a"] {
        assert_eq!(
            verdict(&Method::GET, other, &query),
            SignatureCheck::Invalid,
            "{other}"
        );
    }
    let root = key().sign(SignableMethod::Get, &request_path("/"), None, at(2000));
    assert_eq!(verdict(&Method::GET, "/", &root), right);
    // A line feed in a name does not move the fields.
    let odd = key().sign(
        SignableMethod::Get,
        &request_path("/a%0A2000"),
        None,
        at(2000),
    );
    assert_eq!(verdict(&Method::GET, "/a%0A2000", &odd), right);
}

#[test]
fn a_query_is_signed_byte_by_byte() {
    let sign = |query| {
        key().sign(
            SignableMethod::Get,
            &request_path("/a"),
            Some(query),
            at(2000),
        )
    };
    let ours = sign("");
    for changed in [
        format!("{ours}&format=tar"),
        format!("format=tar&{ours}"),
        format!("&{ours}"),
        format!("{ours}&"),
        format!("{ours}&{ours}"),
        format!("{ours}&haul-expires=9999"),
        format!("{ours}&haul-signature="),
        format!("{ours}&haul-expires"),
        format!("{ours}="),
        ours.replace("=2000", "=02000"),
        ours.replace("=2000", "=+2000"),
        ours.replace("=2000", "=3000"),
        ours.replace("=2000", "="),
        ours.replace("expires=2000", "expires"),
        ours.replace("haul-expires=2000&", ""),
        ours.replace("haul-expires", "haul%2Dexpires"),
        ours.split("&haul-sig").next().expect("a part").to_owned(),
    ] {
        assert_eq!(
            verdict(&Method::GET, "/a", &changed),
            SignatureCheck::Invalid,
            "{changed}"
        );
    }
    // Our parameters may be anywhere; the others keep their order.
    let more = sign("a=1&b=2");
    assert!(matches!(
        verdict(&Method::GET, "/a", &more),
        SignatureCheck::Valid(_)
    ));
    let parts: Vec<_> = more.split('&').collect();
    let moved = [parts[3], parts[0], parts[2], parts[1]].join("&");
    assert!(matches!(
        verdict(&Method::GET, "/a", &moved),
        SignatureCheck::Valid(_)
    ));
    let turned = [parts[1], parts[0], parts[2], parts[3]].join("&");
    assert_eq!(
        verdict(&Method::GET, "/a", &turned),
        SignatureCheck::Invalid
    );
    assert_eq!(verdict(&Method::GET, "/a", "a=1"), SignatureCheck::Unsigned);
    assert_eq!(
        verdict(&Method::GET, "/a", "haul-signatures=1"),
        SignatureCheck::Unsigned
    );
    // A URL that is signed again has one signature.
    assert_eq!(sign(&more), more);
}

#[test]
fn signed_fields_are_unambiguous() {
    let sign = |path, query| {
        key().sign(
            SignableMethod::Get,
            &request_path(path),
            Some(query),
            at(2000),
        )
    };
    let signature = |query: &str| query.rsplit_once('=').expect("a signature").1.to_owned();
    // No request has a line feed in its query, but nothing depends on that.
    let odd = signature(&sign("/a", "x\ny"));
    let moved = format!("y&haul-expires=2000\nx&haul-signature={odd}");
    assert_eq!(verdict(&Method::GET, "/a", &moved), SignatureCheck::Invalid);
    let all = [
        sign("/a", ""),
        sign("/a", "b"),
        sign("/a/b", ""),
        sign("/a", "b&"),
        sign("/a", "&b"),
        sign("/a", "b="),
    ];
    let different: std::collections::HashSet<_> =
        all.iter().map(|query| signature(query)).collect();
    assert_eq!(different.len(), all.len());
}

#[test]
fn logs_show_no_signature() {
    let query = key().sign(
        SignableMethod::Get,
        &request_path("/a"),
        Some("x=1"),
        at(2000),
    );
    assert_eq!(
        redact_signature(&query),
        "x=1&haul-expires=2000&haul-signature=***"
    );
    assert!(matches!(redact_signature("x=1"), Cow::Borrowed("x=1")));
}

proptest! {
    /// A signature fails if any byte is changed, removed or added.
    #[test]
    fn any_changed_signed_url_is_refused(
        names in prop::collection::vec("[a-z \\n%]{1,4}", 1..4),
        query in "([a-z=%+]{1,4}&?){0,3}",
        expires in 1001u64..1_000_000,
        place: prop::sample::Index,
        byte in "[a-zA-Z0-9=&_%+-]",
        kind in 0..3,
    ) {
        let made = names.iter().try_fold(ObjectKey::root(), |key, name| key.child(name.as_bytes()));
        prop_assume!(made.is_ok());
        let path = RequestPath { key: made.expect("checked"), is_folder: false };
        let signed = key().sign(SignableMethod::Get, &path, Some(&query), at(expires));
        let verify = |query: &str| key().verify(&Method::GET, &path, Some(query), at(1000));
        prop_assert_eq!(verify(&signed), SignatureCheck::Valid(SignableMethod::Get));
        let at = place.index(signed.len());
        let changed = match kind {
            0 => [&signed[..at], &byte, &signed[at + 1..]].concat(),
            1 => [&signed[..at], &byte, &signed[at..]].concat(),
            _ => [&signed[..at], &signed[at + 1..]].concat(),
        };
        prop_assume!(changed != signed);
        prop_assert!(!matches!(verify(&changed), SignatureCheck::Valid(_)), "{}", changed);
        let other = SigningKey::new(b"0123456789abcdeg").expect("a key");
        prop_assert_eq!(other.verify(&Method::GET, &path, Some(&signed), self::at(1000)), SignatureCheck::Invalid);
    }

    #[test]
    fn no_query_panics(query in "(haul-expires=|haul-signature=|&|=|[0-9]{1,22}|\\PC){0,12}") {
        prop_assert!(!matches!(verdict(&Method::GET, "/a", &query), SignatureCheck::Valid(_)));
        let _ = redact_signature(&query);
    }
}

#[test]
fn a_signed_url_is_valid() {
    let key = SigningKey::new(b"0123456789abcdef").expect("a key");
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
    let expires = now + Duration::from_secs(60);
    let given = "https://me:hunter2@files.example/a%20b/c d;x/?format=tar&q=a'b \u{e9}#top";
    let url: Url = given.parse().expect("a URL");
    let signed = sign_url(&key, SignableMethod::Get, &url, expires).expect("signed");
    let text = signed.as_str();
    assert!(
        text.starts_with("https://files.example/a%20b/c%20d;x/?format=tar&q="),
        "{text}"
    );
    assert!(signed.fragment().is_none());
    let path = ObjectKey::parse(signed.path()).expect("a key");
    let verify = |url: &Url| key.verify(&Method::GET, &path, url.query(), now);
    assert_eq!(verify(&signed), SignatureCheck::Valid(SignableMethod::Get));
    assert_eq!(verify(&url), SignatureCheck::Unsigned);
    // Signing again replaces the signature.
    assert_eq!(
        sign_url(&key, SignableMethod::Get, &signed, expires),
        Ok(signed)
    );
}

#[test]
fn urls_that_no_store_serves_are_not_signed() {
    let key = SigningKey::new(b"0123456789abcdef").expect("a key");
    let sign = |url: &str| {
        sign_url(
            &key,
            SignableMethod::Get,
            &url.parse().expect("a URL"),
            SystemTime::UNIX_EPOCH,
        )
    };
    assert_eq!(sign("ftp://a/b"), Err(SignError::Scheme));
    assert_eq!(
        sign("http://a/b%2fc"),
        Err(SignError::Path(ObjectKeyError::EscapedSeparator))
    );
}
