//! URLs without their secrets, for messages, logs and other programs. All URLs that haul prints pass through here.
//!
//! A redacted URL has no login, and `***` in place of every value of its query or fragment that gives access or signs something:
//! a person who reads a message, a terminal's scrollback or a bug report must not be able to fetch the resource with it. Such
//! values are recognised by their names and by their form: a value may be a URL with a login or a query of its own, in plain
//! text or in percent escapes. A secret in the path cannot be distinguished from any other path.
//!
//! This is written here because the rules are haul's own; the url and percent-encoding crates do the parsing.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use url::{Position, Url};

use crate::request_target::without_credentials;
use crate::zone::url_text;

/// Replaces a secret.
pub(crate) const MASK: &str = "***";

/// A parameter whose name contains one of these is a secret. Names are compared in lower case, letters and digits alone.
const SECRET_NAME_PARTS: [&str; 10] = [
    "token",
    "secret",
    "passw",
    "signature",
    "credential",
    "apikey",
    "accesskey",
    "accessid",
    "authorization",
    "session",
];

/// Names that are too short to be looked for inside others: those of S3, GCS, Azure, CloudFront and Akamai, and general ones.
const SECRET_NAMES: [&str; 17] = [
    "auth",
    "code",
    "hdnea",
    "hdntl",
    "hdnts",
    "hmac",
    "jwt",
    "key",
    "keypairid",
    "pass",
    "policy",
    "pwd",
    "sas",
    "sid",
    "sig",
    "sign",
    "ticket",
];

/// How many layers of escapes are decoded: a redirect to a login page that redirects has several.
const MAX_DECODINGS: u32 = 4;

/// A URL without its secrets.
#[must_use]
pub fn redacted_url(url: &Url) -> String {
    match url.scheme() {
        "s3" => s3_address(url),
        // It has neither a login nor a query or a fragment.
        _ if !url.as_str().contains(['@', '?', '#']) => url_text(url).into_owned(),
        _ => mask(&url_text(&without_credentials(url))),
    }
}

/// An `s3://` URL as people write it: the key as plain text. It contains no secret.
fn s3_address(url: &Url) -> String {
    let path = percent_decode_str(url.path()).decode_utf8();
    match path {
        Ok(path) if !path.contains(char::is_control) => {
            format!("s3://{}{path}", url.host_str().unwrap_or_default())
        }
        _ => url[..Position::AfterPath].to_owned(),
    }
}

/// A text that may have been meant as a URL, without its secrets. Where a login in it ends is unknown, so everything up to the
/// last `@` counts as one.
#[must_use]
pub fn redacted_text(text: &str) -> String {
    let (scheme, rest) = text.split_at(text.find("://").map_or(0, |index| index + 3));
    match rest.rsplit_once('@') {
        Some((_, rest)) => format!("{scheme}{MASK}@{}", mask(rest)),
        None => mask(text),
    }
}

/// The target of a request, or another URL that a peer sent, without its secrets. Other than in a mistyped URL, an `@` in a path is
/// no login's. A target that cannot contain a secret is not copied, since a server does this for each request.
#[must_use]
pub fn redacted_target(target: &str) -> Cow<'_, str> {
    if target.contains(['?', '#']) || target.contains("//") {
        Cow::Owned(mask(target))
    } else {
        Cow::Borrowed(target)
    }
}

/// A text of a peer, with the URLs in it redacted, and queries without a URL, too.
pub(crate) fn redacted_urls_in(text: &str) -> String {
    let is_end = |c: char| c.is_whitespace() || c.is_control() || "\"'`<>()[]{}|,".contains(c);
    // Go writes JSON with this in place of an ampersand.
    let text = text.replace("\\u0026", "&");
    let words = text.split_inclusive(is_end).map(|word| {
        let end = word.trim_end_matches(is_end).len();
        redacted_word(&word[..end]) + &word[end..]
    });
    words.collect()
}

fn redacted_word(word: &str) -> String {
    if word.contains(['?', '#']) || word.contains("//") {
        return mask(word);
    }
    if word.contains('&') {
        return mask(&format!("?{word}")).split_off(1);
    }
    // Short names, as in `code=NotFound`, are ordinary words here.
    let name = word.split_once('=').map(|(name, _)| name);
    match name.filter(|name| has_secret_part(&plain_name(name))) {
        Some(name) => format!("{name}={MASK}"),
        None if encodes_secret(word, MAX_DECODINGS) => MASK.to_owned(),
        None => word.to_owned(),
    }
}

/// The values in a URL's query that [`redacted_url`] masks, as they are there and without their escapes.
pub(crate) fn secret_query_values(url: &Url) -> Vec<String> {
    let mut values = Vec::new();
    for pair in url.query().unwrap_or_default().split(['?', '&', ';']) {
        let (name, value) = pair.split_once('=').unwrap_or(("", pair));
        let plain = || percent_decode_str(value).decode_utf8_lossy().into_owned();
        if mask_pair(pair, MAX_DECODINGS) != pair {
            values.extend([value.to_owned(), plain()]);
        }
        // The access key that it begins with.
        if plain_name(name).ends_with("credential") {
            values.extend(plain().split('/').next().map(ToOwned::to_owned));
        }
    }
    values
}

/// Masks logins, and secret values in query and fragment.
fn mask(text: &str) -> String {
    mask_nested(text, MAX_DECODINGS)
}

/// The same, decoding this many layers of escapes.
fn mask_nested(text: &str, depth: u32) -> String {
    let text = mask_logins(text);
    let (path, query) = text.split_at(text.find(['?', '#']).unwrap_or(text.len()));
    let pairs = query
        .split_inclusive(['?', '#', '&', ';'])
        .map(|pair| mask_pair(pair, depth));
    std::iter::once(path.to_owned()).chain(pairs).collect()
}

/// Masks one `name=value`, or a value alone. The separator to the next one follows it.
fn mask_pair(pair: &str, depth: u32) -> String {
    let end = pair.trim_end_matches(['?', '#', '&', ';']).len();
    let (bare, separator) = pair.split_at(end);
    let (name, value) = bare.split_at(bare.find('=').map_or(0, |index| index + 1));
    let is_secret = is_secret_name(name) || is_login(value) || encodes_secret(value, depth);
    if is_secret && !value.is_empty() {
        format!("{name}{MASK}{separator}")
    } else {
        pair.to_owned()
    }
}

/// Masks the logins of all URLs in a text. Where a URL has no slash after its host, either its password contains an `&` or the
/// next value contains an `@`; this assumes the former.
fn mask_logins(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(index) = rest.find("//") {
        let (before, after) = rest.split_at(index + 2);
        masked.push_str(before);
        let authority = after.find(['/', '?', '#']).unwrap_or(after.len());
        let login = after[..authority].rfind('@').unwrap_or(0);
        if login > 0 {
            masked.push_str(MASK);
        }
        rest = &after[login..];
    }
    masked + rest
}

/// Whether a value begins with a login: `me:password@host`.
fn is_login(value: &str) -> bool {
    let authority = value.split(['/', '?', '#']).next().unwrap_or_default();
    let login = authority.rsplit_once('@').map_or("", |(login, _)| login);
    login != MASK && login.contains(':')
}

/// Whether a value would be masked without its escapes.
fn encodes_secret(value: &str, depth: u32) -> bool {
    let plain = percent_decode_str(value).decode_utf8_lossy();
    if plain == value {
        return false;
    }
    // No honest URL has so many layers.
    depth == 0
        || is_login(&plain)
        || mask_nested(&plain, depth - 1) != plain
        || encodes_secret(&plain, depth - 1)
}

pub(crate) fn is_secret_name(name: &str) -> bool {
    let plain = plain_name(name);
    SECRET_NAMES.contains(&plain.as_str()) || has_secret_part(&plain)
}

fn has_secret_part(plain_name: &str) -> bool {
    SECRET_NAME_PARTS
        .iter()
        .any(|part| plain_name.contains(part))
}

/// A name in lower case, letters and digits alone.
fn plain_name(name: &str) -> String {
    percent_decode_str(name)
        .decode_utf8_lossy()
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn redacted(text: &str) -> String {
        redacted_url(&Url::parse(text).unwrap())
    }

    #[test]
    fn logins_and_signatures_are_masked_and_nothing_else() {
        assert_eq!(
            redacted("http://me:s3cret@h.test/f?a=1#x"),
            "http://h.test/f?a=1#x"
        );
        let plain = "https://h.test/f?id=7&response-content-type=a%2Fb;X-Amz-Date=1&X-Amz-SignedHeaders=host&monkey=1#part=2";
        assert_eq!(redacted(plain), plain);
        for name in [
            "token",
            "access_token",
            "sig",
            "Signature",
            "X-Amz-Signature",
            "X-Amz-Security-Token",
            "X-Amz-Credential",
            "X-Goog-Signature",
            "X-Goog-Credential",
            "GoogleAccessId",
            "AWSAccessKeyId",
            "Key-Pair-Id",
            "Policy",
            "password",
            "key",
            "api_key",
            "%74oken",
            "client_secret",
            "sas",
        ] {
            let url = format!("https://h.test/f?a=1&{name}=s3cret%3D&b=2#{name}=s3cret");
            let expected = format!("https://h.test/f?a=1&{name}=***&b=2#{name}=***");
            assert_eq!(redacted(&url), expected);
        }
        assert_eq!(
            redacted("https://h.test/f?token="),
            "https://h.test/f?token="
        );
        assert_eq!(
            redacted("https://h.test/f?a?token=s3cret"),
            "https://h.test/f?a?token=***"
        );
    }

    #[test]
    fn secrets_of_a_url_in_a_url_are_masked() {
        for (value, expected) in [
            ("http://me:s3cret@i/x", "http://***@i/x"),
            ("//me:s3cret@i/x", "//***@i/x"),
            ("http://s3cret@i", "http://***@i"),
            ("http://me:s3&cret@i/", "http://***@i/"),
            ("http://me:s3;cret@i", "http://***@i"),
            ("http://i/?u=ftp://me:s3cret@k/", "http://i/?u=ftp://***@k/"),
            ("http%3A%2F%2Fme%3As3cret%40i%2Fx", "***"),
            ("http%3a%2f%2fs3cret@i", "***"),
            ("http%253A%252F%252Fme%253As3cret%2540i", "***"),
            ("https%3A%2F%2Fi%2F%3Ftoken%3Ds3cret", "***"),
            (
                "https%3A%2F%2Fi%2F%3Fa%3D1%26X-Amz-Signature%3Ds3cret",
                "***",
            ),
            ("me:s3cret@i:8080", "***"),
            ("me%3As3cret@i", "***"),
            ("%25252525252525252573", "***"),
            // No secrets.
            ("http://i/x@y", "http://i/x@y"),
            ("http%3A%2F%2Fi%2Fx%40y", "http%3A%2F%2Fi%2Fx%40y"),
            ("me@i.test", "me@i.test"),
            ("12:30", "12:30"),
            ("https%3A%2F%2Fi%2F%3Fa%3D1", "https%3A%2F%2Fi%2F%3Fa%3D1"),
        ] {
            let found = redacted(&format!("https://h.test/f?a=1&next={value}&b=2"));
            assert_eq!(found, format!("https://h.test/f?a=1&next={expected}&b=2"));
        }
        assert_eq!(
            redacted("http://h.test/f?me:s3cret@i"),
            "http://h.test/f?***"
        );
        assert_eq!(
            redacted("http://h.test/f#http://me:s3cret@i/"),
            "http://h.test/f#http://***@i/"
        );
        let proxied = "http://h.test/http://me:s3cret@i/f";
        assert_eq!(redacted(proxied), "http://h.test/http://***@i/f");
    }

    #[test]
    fn in_mistyped_urls_everything_up_to_the_last_at_is_a_login() {
        for (text, expected) in [
            ("http://me:s3cret/pw@host/x", "http://***@host/x"),
            ("http//me:s3cret@host/x", "***@host/x"),
            ("me:s3cret@host", "***@host"),
            ("ftp://me:s3@cret@h/?token=s3cret", "ftp://***@h/?token=***"),
            ("http//h/f?sig=s3cret", "http//h/f?sig=***"),
            ("h/@", "***@"),
            ("plain", "plain"),
        ] {
            assert_eq!(redacted_text(text), expected);
        }
    }

    #[test]
    fn targets_are_masked_like_urls_and_keep_an_at_in_their_path() {
        for (target, expected) in [
            ("/a/me@host/b", "/a/me@host/b"),
            (
                "/a?haul-signature=s3cret&haul-expires=5",
                "/a?haul-signature=***&haul-expires=5",
            ),
            ("/a?X-Amz-Signature=s3cret", "/a?X-Amz-Signature=***"),
            (
                "/a?format=json&access_token=s3cret",
                "/a?format=json&access_token=***",
            ),
            ("http://me:s3cret@h/a", "http://***@h/a"),
            (
                "https://h/a?key=s3cret#sig=s3cret",
                "https://h/a?key=***#sig=***",
            ),
            ("*", "*"),
        ] {
            assert_eq!(redacted_target(target), expected);
        }
        assert!(matches!(redacted_target("/plain"), Cow::Borrowed(_)));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic_or_show_a_password(text: String, password in "[A-Z]{8}") {
            let _ = redacted_text(&text);
            let shown = redacted_text(&format!("{text}:{password}@h"));
            prop_assert!(!shown.contains(&password) || text.contains(&password));
        }
    }
}
