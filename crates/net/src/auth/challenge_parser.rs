//! Parses challenges (RFC 9110 11.6.1): schemes with parameters, several in a field, with commas between both.
//!
//! Peers send much that is malformed, so the parser refuses no field as a whole: it skips what it cannot read up to the next
//! comma. It reads bytes, since a realm may be in any charset, and looks at every byte a bounded number of times.

/// The longest header field that is read, in bytes.
const MAX_HEADER: usize = 8 * 1024;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ParsedChallenge {
    /// In lower case.
    pub(super) scheme: String,
    /// In order; names in lower case, values without quotes.
    parameters: Vec<(String, Vec<u8>)>,
}

impl ParsedChallenge {
    /// The value of the first parameter of this name.
    pub(super) fn bytes(&self, name: &str) -> Option<&[u8]> {
        let mut parameters = self.parameters.iter();
        let (_, value) = parameters.find(|(known, _)| known == name)?;
        Some(value)
    }

    /// The same as text; `None` also for bytes that are not UTF-8, since they could not be sent back unchanged.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        std::str::from_utf8(self.bytes(name)?).ok()
    }
}

/// The challenges of one field, in order.
pub(super) fn parse_challenges(field: &[u8]) -> Vec<ParsedChallenge> {
    let mut found: Vec<ParsedChallenge> = Vec::new();
    let mut cursor = ChallengeCursor(field.get(..MAX_HEADER).unwrap_or(field));
    loop {
        cursor.skip(|byte| byte == b',' || is_blank(byte));
        if cursor.0.is_empty() {
            return found;
        }
        let token = cursor.take(is_token);
        if token.is_empty() {
            cursor.skip_item();
            continue;
        }
        if let Some(value) = cursor.value() {
            if let Some(challenge) = found.last_mut() {
                challenge.parameters.push((lower(token), value));
            }
            continue;
        }
        found.push(ParsedChallenge {
            scheme: lower(token),
            ..ParsedChallenge::default()
        });
        cursor.skip_token68();
    }
}

/// The rest of a field.
struct ChallengeCursor<'a>(&'a [u8]);

impl<'a> ChallengeCursor<'a> {
    fn take(&mut self, is_taken: impl Fn(u8) -> bool) -> &'a [u8] {
        let length = self.0.iter().take_while(|byte| is_taken(**byte)).count();
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        taken
    }

    fn skip(&mut self, is_skipped: impl Fn(u8) -> bool) {
        self.take(is_skipped);
    }

    /// Skips to the next comma outside of quotes.
    fn skip_item(&mut self) {
        while let Some((byte, rest)) = self.0.split_first() {
            match byte {
                b',' => return,
                b'"' => drop(self.quoted()),
                _ => self.0 = rest,
            }
        }
    }

    /// Reads `= value`, if that follows. Blanks around the sign are invalid and common.
    fn value(&mut self) -> Option<Vec<u8>> {
        let mut ahead = ChallengeCursor(self.0);
        ahead.skip(is_blank);
        ahead.0 = ahead.0.strip_prefix(b"=")?;
        ahead.skip(is_blank);
        let value = if ahead.0.starts_with(b"\"") {
            ahead.quoted()
        } else {
            // More than a token is accepted: some nonces are unquoted and have characters that tokens do not have.
            ahead
                .take(|byte| byte != b',' && !is_blank(byte))
                .to_owned()
        };
        self.0 = ahead.0;
        Some(value)
    }

    /// Reads a quoted string and undoes its escapes. One that is never closed reaches to the end.
    fn quoted(&mut self) -> Vec<u8> {
        let mut value = Vec::new();
        let mut bytes = self.0.iter().enumerate().skip(1);
        while let Some((index, byte)) = bytes.next() {
            match byte {
                b'"' => {
                    self.0 = &self.0[index + 1..];
                    return value;
                }
                b'\\' => value.extend(bytes.next().map(|(_, byte)| *byte)),
                byte => value.push(*byte),
            }
        }
        self.0 = &[];
        value
    }

    /// Skips the one token that some schemes have in place of parameters (`Negotiate YII=`), up to the comma.
    fn skip_token68(&mut self) {
        let mut ahead = ChallengeCursor(self.0);
        ahead.skip(is_blank);
        ahead.skip(|byte| is_token(byte) || byte == b'/');
        ahead.skip(|byte| byte == b'=');
        ahead.skip(is_blank);
        if ahead.0.is_empty() || ahead.0.starts_with(b",") {
            self.0 = ahead.0;
        }
    }
}

fn lower(token: &[u8]) -> String {
    String::from_utf8_lossy(token).to_ascii_lowercase()
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// RFC 9110 5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(field: &str) -> Vec<(String, Vec<(String, String)>)> {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let to_text = |found: ParsedChallenge| {
            let parameters = found.parameters.into_iter();
            (
                found.scheme,
                parameters
                    .map(|(name, value)| (name, text(value)))
                    .collect(),
            )
        };
        parse_challenges(field.as_bytes())
            .into_iter()
            .map(to_text)
            .collect()
    }

    fn challenge(scheme: &str, parameters: &[(&str, &str)]) -> (String, Vec<(String, String)>) {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        (scheme.to_owned(), parameters.iter().map(pair).collect())
    }

    #[test]
    fn a_field_may_hold_several_challenges() {
        // The example of RFC 9110 11.6.1.
        assert_eq!(
            parsed(
                "Basic realm=\"simple\", Newauth realm=\"apps\", type=1, title=\"Login to \\\"apps\\\"\""
            ),
            [
                challenge("basic", &[("realm", "simple")]),
                challenge(
                    "newauth",
                    &[
                        ("realm", "apps"),
                        ("type", "1"),
                        ("title", "Login to \"apps\"")
                    ]
                ),
            ]
        );
        assert_eq!(
            parsed(
                "Negotiate YII=, NTLM,, ,DIGEST Realm=\"a, Basic b=c\" , nonce = a+/=,qop=\"auth,auth-int\""
            ),
            [
                challenge("negotiate", &[]),
                challenge("ntlm", &[]),
                challenge(
                    "digest",
                    &[
                        ("realm", "a, Basic b=c"),
                        ("nonce", "a+/="),
                        ("qop", "auth,auth-int")
                    ]
                ),
            ]
        );
    }

    #[test]
    fn malformed_parts_are_skipped() {
        assert_eq!(
            parsed("=x, \"a, b\", Basic realm=\"open, end"),
            [challenge("basic", &[("realm", "open, end")])]
        );
        assert_eq!(
            parsed("realm=\"of no scheme\", Basic"),
            [challenge("basic", &[])]
        );
        assert_eq!(
            parsed("Digest realm=\"Прокси\""),
            [challenge("digest", &[("realm", "Прокси")])]
        );
        let latin = parse_challenges(b"Basic realm=\"caf\xe9\"");
        assert_eq!(latin[0].bytes("realm"), Some(&b"caf\xe9"[..]));
        assert_eq!(latin[0].text("realm"), None);
    }

    proptest! {
        #[test]
        fn no_field_makes_it_panic_or_hang(field: Vec<u8>) {
            parse_challenges(&field);
        }

        #[test]
        fn no_field_of_meaningful_parts_makes_it_panic_or_hang(
            parts in proptest::collection::vec(
                prop::sample::select(vec!["Digest", "basic", "realm", "nonce", "=", "\"", "\\", ",", " ", "\t", "é", "Я", "a68=="]),
                0..40,
            ),
        ) {
            parse_challenges(parts.concat().as_bytes());
        }

        #[test]
        fn a_quoted_value_is_read_back(value in ".{0,40}") {
            let quoted = value.replace('\\', "\\\\").replace('"', "\\\"");
            let found = parse_challenges(format!("Digest realm=\"{quoted}\", nonce=\"n\"").as_bytes());
            prop_assert_eq!(found.len(), 1);
            prop_assert_eq!(found[0].text("realm"), Some(value.as_str()));
            prop_assert_eq!(found[0].text("nonce"), Some("n"));
        }
    }
}
