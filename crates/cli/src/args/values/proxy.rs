//! A proxy, or none.

use std::str::FromStr;

use haul_net::Proxy;

use super::ValueError;

/// `--proxy`: a proxy, or none for an empty text. Its `Debug` shows no password, since that of [`Proxy`] does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProxyUrl(pub(crate) Option<Proxy>);

impl FromStr for ProxyUrl {
    type Err = ValueError;

    /// The errors never repeat the text, which may contain a password.
    fn from_str(text: &str) -> Result<Self, ValueError> {
        if text.trim().is_empty() {
            return Ok(Self(None));
        }
        text.trim()
            .parse()
            .map(|proxy| Self(Some(proxy)))
            .map_err(|error: haul_net::ProxyError| ValueError::new(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_none_and_what_is_neither() {
        assert_eq!("".parse(), Ok(ProxyUrl(None)));
        let ProxyUrl(proxy) = "socks5h://me:s3cret@p.test".parse().unwrap();
        assert_eq!(
            proxy
                .as_ref()
                .map(|proxy| (proxy.host.as_str(), proxy.port)),
            Some(("p.test", 1080))
        );
        assert!(!format!("{proxy:?}").contains("s3cret"));
        let error = "ftp://me:s3cret@p.test".parse::<ProxyUrl>().unwrap_err();
        assert!(
            !error.to_string().contains("s3cret") && error.to_string().contains("ftp"),
            "{error}"
        );
    }
}
