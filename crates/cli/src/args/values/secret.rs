//! A text that may contain a secret. It is parsed with the settings, where no parser of arguments can repeat it.

use std::convert::Infallible;
use std::str::FromStr;

use haul_net::Secret;

/// The text as typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SecretText(pub(crate) Secret);

impl FromStr for SecretText {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(Secret::new(text.to_owned())))
    }
}
