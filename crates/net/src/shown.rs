//! A URL as people, logs and programs may see it: the one place that renders one.
//!
//! Without its login, and with `***` in place of every value of its query (or fragment) that opens or signs something:
//! whoever reads a message, a terminal's scrollback or a bug report must not be able to fetch the resource by it. Which
//! values those are is told by their names; what stands in a path cannot be told from any other path.

use percent_encoding::percent_decode_str;
use url::Url;

use crate::secret::without_credentials;

/// What stands for a secret.
const MASK: &str = "***";

/// Names of secrets, or parts of such names: in lower case, letters and digits alone.
const PARTS: [&str; 10] = [
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
const NAMES: [&str; 16] = [
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
    "sid",
    "sig",
    "sign",
    "ticket",
];

/// A URL as it may be shown.
#[must_use]
pub fn shown(url: &Url) -> String {
    masked(without_credentials(url).as_str())
}

/// A text that was meant as a URL, or may have been, as it may be shown. Where a login in it ends cannot be told, so all up
/// to the last `@` is taken for one.
#[must_use]
pub fn shown_text(text: &str) -> String {
    let scheme = text.find("://").map_or(0, |at| at + 3);
    match text[scheme..].rfind('@') {
        Some(at) => format!(
            "{}{MASK}@{}",
            &text[..scheme],
            masked(&text[scheme + at + 1..])
        ),
        None => masked(text),
    }
}

/// A text whose query and fragment have no secret values any more.
fn masked(text: &str) -> String {
    let (front, rest) = text.split_at(text.find(['?', '#']).unwrap_or(text.len()));
    let pairs = rest.split_inclusive(['?', '#', '&', ';']).map(pair);
    std::iter::once(front.to_owned()).chain(pairs).collect()
}

/// One `name=value` with what separates it from the next.
fn pair(text: &str) -> String {
    let end = text.trim_end_matches(['?', '#', '&', ';']).len();
    match text[..end].split_once('=') {
        Some((name, value)) if !value.is_empty() && is_secret(name) => {
            format!("{name}={MASK}{}", &text[end..])
        }
        _ => text.to_owned(),
    }
}

fn is_secret(name: &str) -> bool {
    let plain: String = percent_decode_str(name)
        .decode_utf8_lossy()
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .collect();
    NAMES.contains(&plain.as_str()) || PARTS.iter().any(|part| plain.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(text: &str) -> String {
        shown(&Url::parse(text).unwrap())
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
            assert_eq!(shown_text(text), expected);
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic_or_shows_a_password(text: String, password in "[A-Z]{8}") {
            let _ = shown_text(&text);
            let shown = shown_text(&format!("{text}:{password}@h"));
            prop_assert!(!shown.contains(&password) || text.contains(&password));
        }
    }
}
