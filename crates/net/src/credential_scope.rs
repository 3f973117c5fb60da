//! Whom a user meant. Redirects lead to peers that nobody named, and proxies are asked on the way: what was given for the
//! one origin - logins, tokens, the client certificate, header fields - is not for those. This is the one place that says
//! who is who.

use url::Url;

/// How a peer stands to the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CredentialScope {
    /// The origin of the URL that the user gave: scheme, host and port.
    UserOrigin,
    /// Any other: another origin that a redirect leads to, a proxy.
    Other,
}

impl CredentialScope {
    /// That of the origin of `url`, where the user gave `given`.
    #[must_use]
    pub fn for_url(url: &Url, given: &Url) -> Self {
        // What `Url::origin` compares for these schemes, without a copy of both hosts; for others every origin is another.
        let alike = |url: &Url, given: &Url| {
            url.scheme() == given.scheme()
                && url.host() == given.host()
                && url.port_or_known_default() == given.port_or_known_default()
        };
        if matches!(url.scheme(), "http" | "https") && alike(url, given) {
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
    fn only_scheme_host_and_port_make_an_origin() {
        let of = |url: &str| {
            let given: Url = "http://a.test/x".parse().unwrap();
            let url: Url = url.parse().unwrap();
            let standing = CredentialScope::for_url(&url, &given);
            assert_eq!(
                standing == CredentialScope::UserOrigin,
                url.origin() == given.origin(),
                "{url}"
            );
            standing
        };
        for named in ["http://a.test/", "http://me:s@A.TEST:80/y?z#f"] {
            assert_eq!(of(named), CredentialScope::UserOrigin);
        }
        for other in [
            "https://a.test/x",
            "http://a.test:81/x",
            "http://b.test/x",
            "http://a.test./x",
            "http://[::1]/x",
            "data:a.test",
        ] {
            assert_eq!(of(other), CredentialScope::Other);
        }
    }
}
