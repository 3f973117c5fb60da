//! A text that is secret as a whole, and is parsed only where no parser of arguments can repeat it.

use std::convert::Infallible;
use std::str::FromStr;

use haul_net::Secret;

/// What was typed, not looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SecretText(pub(crate) Secret);

impl FromStr for SecretText {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(Secret::new(text.to_owned())))
    }
}
