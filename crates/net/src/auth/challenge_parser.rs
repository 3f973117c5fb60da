//! Reads challenges as they are written (RFC 9110 11.6.1): schemes with parameters, several to a field, commas between both.
//!
//! All of it comes from a peer, and much of it from odd ones, so nothing is refused as a whole: what cannot be understood is
//! passed over up to the next comma. It works on bytes, since a realm may be in any charset; every byte is looked at a
//! bounded number of times.

/// The longest field that is read, in bytes.
const MAX_HEADER: usize = 8 * 1024;

/// One challenge.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ParsedChallenge {
    /// The scheme, in lower case.
    pub(super) scheme: String,
    /// Parameters in order, names in lower case, values without quotes.
    parameters: Vec<(String, Vec<u8>)>,
}

impl ParsedChallenge {
    /// A parameter's value, the first of its name.
    pub(super) fn bytes(&self, name: &str) -> Option<&[u8]> {
        let mut named = self.parameters.iter().filter(|(known, _)| known == name);
        named.next().map(|(_, value)| value.as_slice())
    }

    /// The same as text; `None` also for what is no UTF-8, since that could not be given back as it came.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        std::str::from_utf8(self.bytes(name)?).ok()
    }
}

/// The challenges of one field, in order.
pub(super) fn parse_challenges(field: &[u8]) -> Vec<ParsedChallenge> {
    let mut found: Vec<ParsedChallenge> = Vec::new();
    let mut at = ChallengeCursor(field.get(..MAX_HEADER).unwrap_or(field));
    loop {
        at.skip(|byte| byte == b',' || is_blank(byte));
        if at.0.is_empty() {
            return found;
        }
        let token = at.take(is_token);
        if token.is_empty() {
            at.skip_item();
            continue;
        }
        if let Some(value) = at.value() {
            if let Some(challenge) = found.last_mut() {
                challenge.parameters.push((lower(token), value));
            }
            continue;
        }
        found.push(ParsedChallenge {
            scheme: lower(token),
            ..ParsedChallenge::default()
        });
        at.skip_token68();
    }
}

/// What is left to read.
struct ChallengeCursor<'a>(&'a [u8]);

impl<'a> ChallengeCursor<'a> {
    fn take(&mut self, wanted: impl Fn(u8) -> bool) -> &'a [u8] {
        let length = self.0.iter().take_while(|byte| wanted(**byte)).count();
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        taken
    }

    fn skip(&mut self, unwanted: impl Fn(u8) -> bool) {
        self.take(unwanted);
    }

    /// To the next comma, past what is in quotes.
    fn skip_item(&mut self) {
        while let Some((byte, rest)) = self.0.split_first() {
            match byte {
                b',' => return,
                b'"' => drop(self.quoted()),
                _ => self.0 = rest,
            }
        }
    }

    /// `= value` if that is what follows; blanks around the sign are bad and common.
    fn value(&mut self) -> Option<Vec<u8>> {
        let mut ahead = ChallengeCursor(self.0);
        ahead.skip(is_blank);
        ahead.0 = ahead.0.strip_prefix(b"=")?;
        ahead.skip(is_blank);
        let value = if ahead.0.starts_with(b"\"") {
            ahead.quoted()
        } else {
            // More than a token is taken: nonces come unquoted with signs that tokens do not have.
            ahead
                .take(|byte| byte != b',' && !is_blank(byte))
                .to_owned()
        };
        self.0 = ahead.0;
        Some(value)
    }

    /// What is in quotes, backslashes undone. Quotes that are never closed reach to the end.
    fn quoted(&mut self) -> Vec<u8> {
        let mut value = Vec::new();
        let mut bytes = self.0.iter().enumerate().skip(1);
        while let Some((at, byte)) = bytes.next() {
            match byte {
                b'"' => {
                    self.0 = &self.0[at + 1..];
                    return value;
                }
                b'\\' => value.extend(bytes.next().map(|(_, byte)| *byte)),
                byte => value.push(*byte),
            }
        }
        self.0 = &[];
        value
    }

    /// What some schemes have in place of parameters: `Negotiate YII=`. It stands alone up to the comma.
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

    fn read(field: &str) -> Vec<(String, Vec<(String, String)>)> {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let challenge = |found: ParsedChallenge| {
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
            .map(challenge)
            .collect()
    }

    fn written(scheme: &str, parameters: &[(&str, &str)]) -> (String, Vec<(String, String)>) {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        (scheme.to_owned(), parameters.iter().map(pair).collect())
    }

    #[test]
    fn several_challenges_in_a_field_are_told_apart() {
        // RFC 9110 11.6.1's example, and a scheme without parameters between two with.
        assert_eq!(
            read(
                "Basic realm=\"simple\", Newauth realm=\"apps\", type=1, title=\"Login to \\\"apps\\\"\""
            ),
            [
                written("basic", &[("realm", "simple")]),
                written(
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
            read(
                "Negotiate YII=, NTLM,, ,DIGEST Realm=\"a, Basic b=c\" , nonce = a+/=,qop=\"auth,auth-int\""
            ),
            [
                written("negotiate", &[]),
                written("ntlm", &[]),
                written(
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
    fn what_is_broken_is_passed_over() {
        assert_eq!(
            read("=x, \"a, b\", Basic realm=\"open, end"),
            [written("basic", &[("realm", "open, end")])]
        );
        assert_eq!(
            read("realm=\"of no scheme\", Basic"),
            [written("basic", &[])]
        );
        assert_eq!(
            read("Digest realm=\"Прокси\""),
            [written("digest", &[("realm", "Прокси")])]
        );
        let latin = parse_challenges(b"Basic realm=\"caf\xe9\"");
        assert_eq!(latin[0].bytes("realm"), Some(&b"caf\xe9"[..]));
        assert_eq!(latin[0].text("realm"), None);
    }

    proptest! {
        #[test]
        fn no_field_makes_it_panic_or_stay(field: Vec<u8>) {
            parse_challenges(&field);
        }

        /// Parts that matter to the reader, in any order.
        #[test]
        fn nor_does_one_made_of_what_it_looks_for(
            parts in proptest::collection::vec(
                prop::sample::select(vec!["Digest", "basic", "realm", "nonce", "=", "\"", "\\", ",", " ", "\t", "é", "Я", "a68=="]),
                0..40,
            ),
        ) {
            parse_challenges(parts.concat().as_bytes());
        }

        #[test]
        fn what_was_quoted_comes_back(value in ".{0,40}") {
            let quoted = value.replace('\\', "\\\\").replace('"', "\\\"");
            let found = parse_challenges(format!("Digest realm=\"{quoted}\", nonce=\"n\"").as_bytes());
            prop_assert_eq!(found.len(), 1);
            prop_assert_eq!(found[0].text("realm"), Some(value.as_str()));
            prop_assert_eq!(found[0].text("nonce"), Some("n"));
        }
    }
}
