//! The Authorization field (RFC 9110 11.6.2) of a request, as Basic (RFC 7617) or Bearer (RFC
//! 6750).

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use zeroize::Zeroizing;

use super::rules::{ZeroizedSecret, is_token};

/// Maximum bytes of the field. Tokens that carry claims are long.
const MAX_FIELD_BYTES: usize = 8 * 1024;

/// Some clients leave out the padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Credentials of a request, not yet checked.
#[derive(Debug)]
pub(super) enum RequestCredentials {
    /// There is no Authorization field.
    None,
    /// The field cannot be parsed, or there are two.
    Malformed,
    /// A user name and a password.
    Login {
        user: String,
        password: ZeroizedSecret,
    },
    Token(ZeroizedSecret),
}

impl RequestCredentials {
    pub(super) fn parse(headers: &HeaderMap) -> Self {
        let mut fields = headers.get_all(AUTHORIZATION).iter();
        let Some(field) = fields.next() else {
            return Self::None;
        };
        // Of two fields a proxy in front may have checked the other one.
        if fields.next().is_some() || field.len() > MAX_FIELD_BYTES {
            return Self::Malformed;
        }
        parse_field(field.as_bytes()).unwrap_or(Self::Malformed)
    }
}

fn parse_field(field: &[u8]) -> Option<RequestCredentials> {
    let end = field.iter().position(|byte| *byte == b' ')?;
    let (scheme, rest) = field.split_at(end);
    let rest = rest.trim_ascii();
    if scheme.eq_ignore_ascii_case(b"basic") {
        return parse_basic(rest);
    }
    if scheme.eq_ignore_ascii_case(b"bearer") && is_token(rest) {
        let token = std::str::from_utf8(rest).ok()?;
        return Some(RequestCredentials::Token(ZeroizedSecret::new(token)));
    }
    None
}

/// Parses a Basic login. The text is UTF-8, as the challenge asks for; a name or password has no
/// control characters.
fn parse_basic(coded: &[u8]) -> Option<RequestCredentials> {
    let bytes = Zeroizing::new(BASE64.decode(coded).ok()?);
    let text = std::str::from_utf8(&bytes).ok()?;
    let (user, password) = text.split_once(':')?;
    if text.chars().any(char::is_control) {
        return None;
    }
    Some(RequestCredentials::Login {
        user: user.to_owned(),
        password: ZeroizedSecret::new(password),
    })
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn parse_value(field: &[u8]) -> RequestCredentials {
        let value = HeaderValue::from_bytes(field).expect("a value");
        RequestCredentials::parse(&HeaderMap::from_iter([(AUTHORIZATION, value)]))
    }

    #[test]
    fn logins_are_read() {
        for field in [
            "Basic QWxhZGRpbjpvcGVuIHNlc2FtZTp4",
            "bASIC   QWxhZGRpbjpvcGVuIHNlc2FtZTp4 ",
        ] {
            let RequestCredentials::Login { user, password } = parse_value(field.as_bytes()) else {
                panic!("{field}");
            };
            assert_eq!(user, "Aladdin");
            assert_eq!(password.expose(), "open sesame:x");
        }
        // RFC 7617 2.1, and the same without padding.
        for field in ["Basic dGVzdDoxMjPCow==", "Basic dGVzdDoxMjPCow"] {
            let RequestCredentials::Login { password, .. } = parse_value(field.as_bytes()) else {
                panic!("{field}");
            };
            assert_eq!(password.expose(), "123\u{a3}");
        }
    }

    #[test]
    fn tokens_are_read() {
        for field in ["Bearer abc.DEF_123==", "BEARER  abc.DEF_123=="] {
            let RequestCredentials::Token(token) = parse_value(field.as_bytes()) else {
                panic!("{field}");
            };
            assert_eq!(token.expose(), "abc.DEF_123==");
        }
    }

    #[test]
    fn d15_malformed_credentials_are_refused() {
        let latin = STANDARD.encode(b"user:\xe9");
        let null = STANDARD.encode(b"user:pass\0word");
        let long = format!("Bearer {}", "x".repeat(9000));
        let cases = [
            "",
            "Basic",
            "Basic ",
            "Basic\tdGVzdDoxMjPCow==",
            "Basic !!!",
            "Basic dGVzdA==",
            "Basic dGVzdDoxMjPCow== x",
            "Basic dGVzdDoxMjPCow==, Bearer x",
            &format!("Basic {latin}"),
            &format!("Basic {null}"),
            "Bearer",
            "Bearer a b",
            "Bearer =",
            "Bearer \"x\"",
            "Digest username=\"x\"",
            &long,
        ];
        for field in cases {
            let malformed = matches!(parse_value(field.as_bytes()), RequestCredentials::Malformed);
            assert!(malformed, "{field:.40}");
        }
        let one = HeaderValue::from_static("Bearer x");
        let mut two = HeaderMap::new();
        two.append(AUTHORIZATION, one.clone());
        two.append(AUTHORIZATION, one);
        assert!(matches!(
            RequestCredentials::parse(&two),
            RequestCredentials::Malformed
        ));
        assert!(matches!(
            RequestCredentials::parse(&HeaderMap::new()),
            RequestCredentials::None
        ));
    }

    #[test]
    fn debug_output_hides_the_password() {
        let shown = format!("{:?}", parse_value(b"Basic dGVzdDpodW50ZXIy"));
        assert!(
            shown.contains("test") && !shown.contains("hunter2"),
            "{shown}"
        );
    }

    proptest! {
        #[test]
        fn no_field_panics(scheme in "(Basic|Bearer|basic|\\PC{0,3})[ \t]{0,3}", rest in prop::collection::vec(any::<u8>(), 0..80)) {
            let bytes = [scheme.as_bytes(), &rest].concat();
            if let Ok(value) = HeaderValue::from_bytes(&bytes) {
                let _ = RequestCredentials::parse(&HeaderMap::from_iter([(AUTHORIZATION, value)]));
            }
        }

        #[test]
        fn logins_survive_a_round_trip(user in "[^:\\p{Cc}]{0,20}", password in "\\PC{0,40}") {
            let field = format!("Basic {}", STANDARD.encode(format!("{user}:{password}")));
            let RequestCredentials::Login { user: parsed_user, password: parsed_password } = parse_value(field.as_bytes()) else {
                return Err(TestCaseError::fail("not read"));
            };
            prop_assert_eq!(parsed_user, user);
            prop_assert_eq!(parsed_password.expose(), password);
        }
    }
}
