//! Text that must not be shown: passwords, tokens.

use std::fmt;

use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

/// A secret. `Debug` shows nothing of it, and its memory is overwritten when it is dropped.
#[derive(Clone)]
pub struct ZeroizedSecret(Zeroizing<Box<str>>);

impl ZeroizedSecret {
    /// Wraps a secret.
    #[must_use]
    pub fn new(text: &str) -> Self {
        // A box of the exact length: a string that grows leaves copies behind, which nothing
        // overwrites.
        Self(Zeroizing::new(text.into()))
    }

    /// The text itself.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl PartialEq for ZeroizedSecret {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_bytes().ct_eq(other.0.as_bytes()).into()
    }
}

impl Eq for ZeroizedSecret {}

impl fmt::Debug for ZeroizedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
