//! Which origin the user's credentials may be sent to.
//!
//! Redirects lead to peers that the user never named, and proxies are peers, too. What the user gave for one origin - logins,
//! tokens, the client certificate, header fields - is not for them. This is the one place that decides.

use url::Url;

/// Whether a peer may see credentials that the user gave for one origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CredentialScope {
    /// The origin of the URL that the user gave: scheme, host and port. Of an `s3://` URL it is the bucket.
    UserOrigin,
    /// Any other peer: another origin that a redirect leads to, or a proxy.
    Other,
}

impl CredentialScope {
    /// The scope of the origin of `url`, where the user gave `user_url`.
    #[must_use]
    pub fn for_url(url: &Url, user_url: &Url) -> Self {
        // This is what `Url::origin` compares for these schemes, without a copy of both hosts. For other schemes every origin is
        // another one.
        let is_same = url.scheme() == user_url.scheme()
            && url.host() == user_url.host()
            && url.port_or_known_default() == user_url.port_or_known_default();
        if matches!(url.scheme(), "http" | "https" | "s3") && is_same {
            Self::UserOrigin
        } else {
            Self::Other
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scheme_host_and_port_make_an_origin() {
        let scope = |url: &str| {
            let user_url: Url = "http://a.test/x".parse().unwrap();
            let url: Url = url.parse().unwrap();
            let scope = CredentialScope::for_url(&url, &user_url);
            let is_same_origin = url.origin() == user_url.origin();
            assert_eq!(
                scope == CredentialScope::UserOrigin,
                is_same_origin,
                "{url}"
            );
            scope
        };
        for same in ["http://a.test/", "http://me:s@A.TEST:80/y?z#f"] {
            assert_eq!(scope(same), CredentialScope::UserOrigin);
        }
        for other in [
            "https://a.test/x",
            "http://a.test:81/x",
            "http://b.test/x",
            "http://a.test./x",
            "http://[::1]/x",
            "data:a.test",
        ] {
            assert_eq!(scope(other), CredentialScope::Other);
        }
    }
}
