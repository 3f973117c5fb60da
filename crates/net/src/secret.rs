//! Text that must not be seen: passwords, tokens.

use std::fmt;

use url::Url;

/// A secret. Printing it, for people or for a log, prints nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The text itself, for the wire.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A URL without user name and password, as it goes over the wire. To show one, see [`shown`](crate::redacted_url()).
#[must_use]
pub fn without_credentials(url: &Url) -> Url {
    let mut url = url.clone();
    if url.username().is_empty() && url.password().is_none() {
        return url;
    }
    // These fail only for URLs that cannot have credentials, which is the state that is wanted.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url
}
