//! Texts of peers without the secrets that the request carried.
//!
//! A server, a store or a proxy that refuses a request often says which token, URL or signature it refuses. People read that text, and
//! it ends in logs, so every such text passes through [`RequestSecrets::redact`] before it is cut or stored. It masks what the peer got with
//! the request, however the peer escapes it, and the secrets of other URLs in the text. It does not find a secret that the peer has encoded
//! in another way, such as in base64 or reversed, or a secret of fewer than six bytes: that would mask ordinary words.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use url::Url;

use crate::redacted_url::{MASK, redacted_urls_in, secret_query_values};

/// Shorter secrets are not looked for.
const MIN_BYTES: usize = 6;

/// The longest escape of one byte: `&#x2f;`.
const MAX_ESCAPE: usize = 6;

/// The secrets that a peer got with a request.
#[derive(Clone, Default)]
pub struct RequestSecrets(Vec<String>);

impl RequestSecrets {
    /// Those of the URLs that were requested, and of the values of header fields that count as secret.
    pub(crate) fn new<'a>(
        urls: impl IntoIterator<Item = &'a Url>,
        fields: impl IntoIterator<Item = &'a HeaderValue>,
    ) -> Self {
        let of_urls = urls.into_iter().flat_map(secret_query_values);
        let of_fields = fields.into_iter().flat_map(field_secrets);
        let mut secrets: Vec<String> = of_urls.chain(of_fields).collect();
        secrets.retain(|secret| secret.len() >= MIN_BYTES);
        secrets.sort_unstable();
        secrets.dedup();
        Self(secrets)
    }

    /// The text with `***` in place of every secret. Where the text ends within a secret, since it was cut, that part is masked, too.
    #[must_use]
    pub fn redact(&self, text: &str) -> String {
        let mut masked = String::with_capacity(text.len());
        // Secrets may overlap: what any of them covers is masked.
        let mut masked_to = 0;
        for (index, character) in text.char_indices() {
            let rest = &text.as_bytes()[index..];
            let lengths = self
                .0
                .iter()
                .filter_map(|secret| found_length(rest, secret));
            match lengths.max() {
                Some(length) => {
                    if index >= masked_to {
                        masked.push_str(MASK);
                    }
                    masked_to = masked_to.max(index + length);
                }
                None if index >= masked_to => masked.push(character),
                None => {}
            }
        }
        redacted_urls_in(&masked)
    }

    /// The same for bytes that may be text.
    #[must_use]
    pub fn redact_bytes(&self, text: &[u8]) -> String {
        self.redact(&String::from_utf8_lossy(text))
    }
}

/// Shows no secret.
impl std::fmt::Debug for RequestSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(MASK)
    }
}

/// The secrets in the value of a header field: the value, the credentials after a scheme, and each value of a `name=value`.
fn field_secrets(value: &HeaderValue) -> Vec<String> {
    let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
    let (scheme, credentials) = value.split_once(' ').unwrap_or(("", &value));
    let mut secrets = vec![credentials.trim().to_owned()];
    if scheme.eq_ignore_ascii_case("basic") {
        let login = STANDARD.decode(credentials.trim()).unwrap_or_default();
        let login = String::from_utf8_lossy(&login).into_owned();
        secrets.extend(
            login
                .split_once(':')
                .map(|(_, password)| password.to_owned()),
        );
        secrets.push(login);
    }
    let is_digest = scheme.eq_ignore_ascii_case("digest");
    for pair in value.split([' ', ',', ';']) {
        let Some((name, value)) = pair.split_once('=') else {
            continue;
        };
        // The names of a realm or of signed fields are words that messages need.
        let is_plain = name == "SignedHeaders" || is_digest && name != "response";
        if !is_plain {
            let value = value.trim_matches('"');
            secrets.push(value.to_owned());
            if name == "Credential" {
                secrets.extend(value.split('/').next().map(ToOwned::to_owned));
            }
        }
    }
    secrets.push(value);
    secrets
}

/// The length of a secret at the beginning of a text, whatever escapes it has there. A secret may itself look like an escape, or like one
/// twice over, so all readings are followed at once.
fn found_length(text: &[u8], secret: &str) -> Option<usize> {
    let (first, others) = secret.as_bytes().split_first()?;
    // Nearly every text has something else here, and is done at that.
    let mut ends: Vec<usize> = byte_lengths(text, *first).collect();
    for (matched, wanted) in (1..).zip(others) {
        if ends.is_empty() {
            return None;
        }
        let mut next_ends = Vec::new();
        for end in ends {
            let rest = &text[end..];
            let known = next_ends.len();
            next_ends.extend(byte_lengths(rest, *wanted).map(|length| end + length));
            if next_ends.len() == known && matched >= MIN_BYTES && is_cut(rest) {
                return Some(text.len());
            }
        }
        next_ends.sort_unstable();
        next_ends.dedup();
        ends = next_ends;
    }
    ends.last().copied()
}

/// The lengths of what may stand for this byte at the beginning of a text.
fn byte_lengths(text: &[u8], wanted: u8) -> impl Iterator<Item = usize> {
    let is_literal = text.first().is_some_and(|found| {
        let is_space = matches!((found, wanted), (b'+', b' ') | (b' ', b'+'));
        *found == wanted || is_space
    });
    let escaped_twice = text
        .strip_prefix(b"%25")
        .and_then(hex_byte)
        .is_some_and(|found| found == wanted);
    [
        is_literal.then_some(1),
        escape_length(text, wanted),
        escaped_twice.then_some(5),
    ]
    .into_iter()
    .flatten()
}

/// Whether a text ends here, perhaps within an escape.
fn is_cut(rest: &[u8]) -> bool {
    match rest.first() {
        None => true,
        Some(first) => rest.len() < MAX_ESCAPE && b"%\\&".contains(first),
    }
}

/// The byte that two hexadecimal digits at the beginning of a text mean.
fn hex_byte(text: &[u8]) -> Option<u8> {
    let digits = std::str::from_utf8(text.get(..2)?).ok()?;
    u8::from_str_radix(digits, 16).ok()
}

/// The length of an escape of this byte: of URLs, of JSON, or of HTML and XML.
fn escape_length(text: &[u8], wanted: u8) -> Option<usize> {
    match text {
        [b'%', digits @ ..] => (hex_byte(digits) == Some(wanted)).then_some(3),
        [b'\\', b'u', b'0', b'0', digits @ ..] if hex_byte(digits) == Some(wanted) => Some(6),
        [b'\\', found, ..] => (*found == wanted).then_some(2),
        [b'&', ..] => {
            let end = text
                .iter()
                .take(MAX_ESCAPE)
                .position(|byte| *byte == b';')?;
            let name = std::str::from_utf8(&text[1..end]).ok()?;
            let found = match name {
                "amp" => Some(b'&'),
                "lt" => Some(b'<'),
                "gt" => Some(b'>'),
                "quot" => Some(b'"'),
                "apos" => Some(b'\''),
                _ => match name.strip_prefix("#x").or_else(|| name.strip_prefix("#X")) {
                    Some(digits) => u8::from_str_radix(digits, 16).ok(),
                    None => name.strip_prefix('#')?.parse().ok(),
                },
            };
            (found == Some(wanted)).then_some(end + 1)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
    use proptest::prelude::*;

    fn secrets(url: &str, fields: &[&str]) -> RequestSecrets {
        let fields: Vec<_> = fields
            .iter()
            .map(|field| HeaderValue::from_str(field).unwrap())
            .collect();
        RequestSecrets::new([&url.parse().unwrap()], &fields)
    }

    #[test]
    fn what_a_request_carried_is_masked_however_it_is_escaped() {
        let url = "https://h.test/f?a=plainvalue&token=S3cr%2Ft+7%26&sig=ab";
        for (fields, text, expected) in [
            (&[][..], "no S3cr/t+7&, no", "no ***, no"),
            (&[], "no S3cr%2Ft+7%26 no", "no *** no"),
            (&[], "no S3cr%2ft%2B7%26 no", "no *** no"),
            (&[], "no S3cr%252Ft%252B7%2526 no", "no *** no"),
            (&[], r#"{"no":"S3cr\/t+7\u0026"}"#, r#"{"no":"***"}"#),
            (&[], "S3cr&#x2F;t&#43;7&amp;", "***"),
            (&[], "cut off: S3cr/t+", "cut off: ***"),
            (&[], "cut off: S3cr%2Ft%2", "cut off: ***"),
            (&[], "plainvalue ab", "plainvalue ab"),
            (
                &["Bearer SECRET77"],
                "invalid: Bearer SECRET77",
                "invalid: ***",
            ),
            (
                &["Bearer SECRET77"],
                "SECRET77SECRET77 SECRET",
                "****** ***",
            ),
            (&["Bearer short"], "in short", "in short"),
            (
                &["Basic bWU6czNjcmV0Nzc="],
                "me:s3cret77 s3cret77 bWU6czNjcmV0Nzc= bWU6czNjcmV0Nzc%3D",
                "*** *** *** ***",
            ),
            (&["Basic bWU6czNjcmV0Nzc="], "user me", "user me"),
            (
                &["lang=de; sid=SECRET77"],
                "session SECRET77",
                "session ***",
            ),
            (&["SECRET77"], "key SECRET77", "key ***"),
            (
                &[
                    "AWS4-HMAC-SHA256 Credential=AKID77/2026/r/s3/aws4_request, SignedHeaders=content-type;host, Signature=0123abc",
                ],
                "AKID77 sent 0123abc for content-type",
                "*** sent *** for content-type",
            ),
            (
                &[r#"Digest username="someone", realm="somewhere", response="0123abc""#],
                "someone somewhere 0123abc",
                "someone somewhere ***",
            ),
            // An escape of a secret that looks like an escape.
            (
                &["Bearer %25AA0"],
                "%2525AA0 %25AA0 %252525AA0.",
                "*** *** ***.",
            ),
            // One overlaps the other.
            (&["AASECR", "SECRET77LONG"], "AASECRET77LONG.", "***."),
            // One lies within the other.
            (&["SECRET77LONGTAIL", "CRET77"], "SECRET77LONGTAIL.", "***."),
        ] {
            assert_eq!(secrets(url, fields).redact(text), expected, "{text}");
        }
    }

    #[test]
    fn secrets_of_urls_in_a_text_are_masked() {
        let none = RequestSecrets::default();
        for (text, expected) in [
            (
                "Cannot GET /tok.bin?a=1&token=abc",
                "Cannot GET /tok.bin?a=1&token=***",
            ),
            (
                r#"{"u":"http://me:pw@h/?sig=abc","n":1}"#,
                r#"{"u":"http://***@h/?sig=***","n":1}"#,
            ),
            (r#"{"u":"/?a=1\u0026sig=abc"}"#, r#"{"u":"/?a=1&sig=***"}"#),
            (
                "<a href='/?a=1&amp;sig=abc'>x</a>",
                "<a href='/?a=1&amp;sig=***'>x</a>",
            ),
            (
                "X-Amz-Date=1&X-Amz-Signature=abc",
                "X-Amz-Date=1&X-Amz-Signature=***",
            ),
            ("X-Amz-Signature=abc", "X-Amz-Signature=***"),
            ("see http%3A%2F%2Fh%2F%3Ftoken%3Dabc", "see ***"),
            (
                "code=AccessDenied, 100% of R&D; what?",
                "code=AccessDenied, 100% of R&D; what?",
            ),
        ] {
            assert_eq!(none.redact(text), expected);
        }
    }

    proptest! {
        #[test]
        fn no_form_of_a_secret_survives(
            before in ".{0,9}",
            after in ".{0,9}",
            token in prop_oneof!["[!-~]{6,30}", r"[%25\\u0&;a]{6,12}"],
            query in "[ -~é]{6,20}",
            password in "[!-~]{6,20}",
        ) {
            let escaped = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
            let basic = STANDARD.encode(format!("me:{password}"));
            let fields = [format!("Bearer {token}"), format!("Basic {basic}")];
            let url = format!("http://h.test/?token={}", escaped(&query));
            let secrets = secrets(&url, &[&fields[0], &fields[1]]);
            for secret in [&token, &query, &password, &basic] {
                let small: String = secret.bytes().map(|byte| format!("%{byte:02x}")).collect();
                for form in [secret.clone(), escaped(secret), small] {
                    // Next to the secret the text may repeat what the secret begins with.
                    prop_assume!(!before.contains(&form) && !after.contains(&form));
                    let shown = secrets.redact(&format!("{before} {form} {after}"));
                    prop_assert!(!shown.contains(&form), "{shown} has {form}");
                }
            }
        }

        #[test]
        fn no_text_makes_it_panic(text: String, secret in "[%&\\\\#x;a0-9+ ]{6,9}", field in ".{0,20}") {
            let field = HeaderValue::from_bytes(field.as_bytes());
            let url = format!("http://h.test/?token={secret}").parse().unwrap();
            let _ = RequestSecrets::new([&url], field.as_ref().ok()).redact(&text);
        }
    }
}
