//! A URL as people, logs and programs may see it: the one place that renders one.
//!
//! Without its login, and with `***` in place of every value of its query (or fragment) that opens or signs something:
//! whoever reads a message, a terminal's scrollback or a bug report must not be able to fetch the resource by it. Which
//! values those are is told by their names, and by what they are: a URL in a URL may have a login, or a query, of its own, written as
//! it is or in escapes. What stands in a path cannot be told from any other path.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use url::Url;

use crate::request_target::without_credentials;

/// What stands for a secret.
const MASK: &str = "***";

/// Names of secrets, or parts of such names: in lower case, letters and digits alone.
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

/// Names too short to be looked for within others: of S3, GCS, Azure, CloudFront, Akamai, and of nobody in particular.
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

/// Escapes within escapes: a redirect to a login page that redirects.
const MAX_DECODINGS: u32 = 4;

/// A URL as it may be shown.
#[must_use]
pub fn redacted_url(url: &Url) -> String {
    mask(without_credentials(url).as_str())
}

/// A text that was meant as a URL, or may have been, as it may be shown. Where a login in it ends cannot be told, so all up
/// to the last `@` is taken for one.
#[must_use]
pub fn redacted_text(text: &str) -> String {
    let scheme = text.find("://").map_or(0, |at| at + 3);
    match text[scheme..].rfind('@') {
        Some(at) => format!(
            "{}{MASK}@{}",
            &text[..scheme],
            mask(&text[scheme + at + 1..])
        ),
        None => mask(text),
    }
}

/// The target of a request, or another URL that a peer sent, as it may be shown. It is not taken apart as a mistyped URL is: an `@`
/// in a path is no login's. One that has no place for a secret is not copied: a server does this for each request.
#[must_use]
pub fn redacted_target(target: &str) -> Cow<'_, str> {
    match target.contains(['?', '#']) || target.contains("//") {
        true => Cow::Owned(mask(target)),
        false => Cow::Borrowed(target),
    }
}

/// A text that holds no login, and whose query and fragment have no secret values any more.
fn mask(text: &str) -> String {
    mask_nested(text, MAX_DECODINGS)
}

/// The same, looking into so many layers of escapes.
fn mask_nested(text: &str, depth: u32) -> String {
    let text = mask_logins(text);
    let (front, rest) = text.split_at(text.find(['?', '#']).unwrap_or(text.len()));
    let pairs = rest.split_inclusive(['?', '#', '&', ';']);
    let pairs = pairs.map(|text| mask_pair(text, depth));
    std::iter::once(front.to_owned()).chain(pairs).collect()
}

/// One `name=value`, or a value alone, with what separates it from the next.
fn mask_pair(text: &str, depth: u32) -> String {
    let end = text.trim_end_matches(['?', '#', '&', ';']).len();
    let (bare, separator) = text.split_at(end);
    let (name, value) = bare.split_at(bare.find('=').map_or(0, |at| at + 1));
    let secret = is_secret_name(name) || is_login(value) || encodes_secret(value, depth);
    match secret && !value.is_empty() {
        true => format!("{name}{MASK}{separator}"),
        false => text.to_owned(),
    }
}

/// A text with the logins of all URLs in it masked. Where one has no slash behind its host, its password may have an `&` in it as well
/// as the next value may have an `@`; the former is assumed.
fn mask_logins(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("//") {
        let (front, behind) = rest.split_at(at + 2);
        shown.push_str(front);
        let authority = behind.find(['/', '?', '#']).unwrap_or(behind.len());
        let login = behind[..authority].rfind('@').unwrap_or(0);
        if login > 0 {
            shown.push_str(MASK);
        }
        rest = &behind[login..];
    }
    shown + rest
}

/// Whether a value is a login, and perhaps its host: `me:password@host`.
fn is_login(value: &str) -> bool {
    let front = value.split(['/', '?', '#']).next().unwrap_or_default();
    let user = front.rsplit_once('@').map_or("", |(user, _)| user);
    user != MASK && user.contains(':')
}

/// Whether escapes in a value hide what would be masked without them.
fn encodes_secret(value: &str, depth: u32) -> bool {
    let plain = percent_decode_str(value).decode_utf8_lossy();
    if plain == value {
        return false;
    }
    // Nobody writes so many in earnest.
    depth == 0
        || is_login(&plain)
        || mask_nested(&plain, depth - 1) != plain
        || encodes_secret(&plain, depth - 1)
}

fn is_secret_name(name: &str) -> bool {
    let plain: String = percent_decode_str(name)
        .decode_utf8_lossy()
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .collect();
    SECRET_NAMES.contains(&plain.as_str())
        || SECRET_NAME_PARTS.iter().any(|part| plain.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(text: &str) -> String {
        redacted_url(&Url::parse(text).unwrap())
    }

    #[test]
    fn logins_and_what_signs_a_url_are_masked_and_nothing_else() {
        assert_eq!(
            of("http://me:s3cret@h.test/f?a=1#x"),
            "http://h.test/f?a=1#x"
        );
        let plain = "https://h.test/f?id=7&response-content-type=a%2Fb;X-Amz-Date=1&X-Amz-SignedHeaders=host&monkey=1#part=2";
        assert_eq!(of(plain), plain);
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
            assert_eq!(of(&url), expected);
        }
        assert_eq!(of("https://h.test/f?token="), "https://h.test/f?token=");
        assert_eq!(
            of("https://h.test/f?a?token=s3cret"),
            "https://h.test/f?a?token=***"
        );
    }

    #[test]
    fn what_a_url_in_a_url_says_of_secrets_is_masked() {
        for (value, shown) in [
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
            // What is no secret is shown.
            ("http://i/x@y", "http://i/x@y"),
            ("http%3A%2F%2Fi%2Fx%40y", "http%3A%2F%2Fi%2Fx%40y"),
            ("me@i.test", "me@i.test"),
            ("12:30", "12:30"),
            ("https%3A%2F%2Fi%2F%3Fa%3D1", "https%3A%2F%2Fi%2F%3Fa%3D1"),
        ] {
            let told = of(&format!("https://h.test/f?a=1&next={value}&b=2"));
            assert_eq!(told, format!("https://h.test/f?a=1&next={shown}&b=2"));
        }
        assert_eq!(of("http://h.test/f?me:s3cret@i"), "http://h.test/f?***");
        assert_eq!(
            of("http://h.test/f#http://me:s3cret@i/"),
            "http://h.test/f#http://***@i/"
        );
        let proxied = "http://h.test/http://me:s3cret@i/f";
        assert_eq!(of(proxied), "http://h.test/http://***@i/f");
    }

    #[test]
    fn in_mistyped_urls_all_up_to_the_last_at_is_a_login() {
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
    fn targets_are_masked_as_urls_are_and_keep_an_at_in_their_path() {
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
        fn no_text_makes_it_panic_or_shows_a_password(text: String, password in "[A-Z]{8}") {
            let _ = redacted_text(&text);
            let shown = redacted_text(&format!("{text}:{password}@h"));
            prop_assert!(!shown.contains(&password) || text.contains(&password));
        }
    }
}
