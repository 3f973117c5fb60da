//! Whom a user meant. Redirects lead to peers that nobody named, and proxies are asked on the way: what was given for the
//! one origin - logins, tokens, the client certificate, header fields - is not for those. This is the one place that says
//! who is who.

use url::Url;

/// How a peer stands to the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Standing {
    /// The origin of the URL that the user gave: scheme, host and port.
    Named,
    /// Any other: another origin that a redirect leads to, a proxy.
    Other,
}

impl Standing {
    /// That of the origin of `url`, where the user gave `given`.
    #[must_use]
    pub fn of(url: &Url, given: &Url) -> Self {
        if url.origin() == given.origin() {
            Self::Named
        } else {
            Self::Other
        }
    }
}
