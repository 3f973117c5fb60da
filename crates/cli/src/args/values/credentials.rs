//! `USER[:PASSWORD]`, tokens and other secrets. No `Debug` here shows one.

use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;

use haul_net::Secret;

use super::ValueError;

/// `-u`: a user, with or without a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UserArg {
    pub(crate) name: String,
    /// `None`: haul asks for it.
    pub(crate) password: Option<Secret>,
}

impl FromStr for UserArg {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let (name, password) = text
            .split_once(':')
            .map_or((text, None), |(name, password)| (name, Some(password)));
        if name.is_empty() {
            return Err(
                ValueError::new("there is no user name").with_hint("write USER or USER:PASSWORD")
            );
        }
        Ok(Self {
            name: name.to_owned(),
            password: password.map(|password| Secret::new(password.to_owned())),
        })
    }
}

/// `--bearer`: a token, or the file that holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BearerArg {
    Token(Secret),
    /// A file that contains the token, so that no list of processes shows it.
    File(PathBuf),
}

impl FromStr for BearerArg {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        match text.strip_prefix('@') {
            Some("") => Err(ValueError::new("the file name after @ is missing")),
            Some(file) => Ok(Self::File(file.into())),
            None => token(text).map(Self::Token),
        }
    }
}

/// A token that can be sent in a header field.
pub(crate) fn token(text: &str) -> Result<Secret, ValueError> {
    let text = text.trim();
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(ValueError::new(
            "a token has visible characters only, without blanks",
        ));
    }
    Ok(Secret::new(text.to_owned()))
}

/// The text as typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SecretText(pub(crate) Secret);

impl FromStr for SecretText {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(Secret::new(text.to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_with_and_without_passwords() {
        let user: UserArg = "me:pa:ss".parse().unwrap();
        assert_eq!(
            (
                user.name.as_str(),
                user.password.as_ref().map(Secret::expose)
            ),
            ("me", Some("pa:ss"))
        );
        assert!(!format!("{user:?}").contains("pa:ss"));
        assert_eq!(
            "me".parse(),
            Ok(UserArg {
                name: "me".into(),
                password: None
            })
        );
        assert_eq!(
            "me:".parse::<UserArg>().unwrap().password,
            Some(Secret::new(String::new()))
        );
        assert!(":p".parse::<UserArg>().is_err() && "".parse::<UserArg>().is_err());
    }

    #[test]
    fn tokens_and_their_files() {
        assert_eq!(
            "@/run/token".parse(),
            Ok(BearerArg::File("/run/token".into()))
        );
        let token: BearerArg = " abc ".parse().unwrap();
        assert_eq!(token, BearerArg::Token(Secret::new("abc".into())));
        assert!(!format!("{token:?}").contains("abc"));
        for wrong in ["", "@", "two words", "line\nbreak"] {
            assert!(wrong.parse::<BearerArg>().is_err(), "{wrong:?}");
        }
    }
}
