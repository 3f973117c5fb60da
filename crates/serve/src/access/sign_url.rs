//! Signs whole URLs.

use std::time::SystemTime;

use url::Url;

use crate::{ObjectKey, ObjectKeyError};

use super::signed_url::{SignableMethod, SigningKey};

/// Why a URL cannot be signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// The scheme is neither http nor https.
    #[error("only http and https URLs are signed")]
    Scheme,
    /// The path is not a valid key.
    #[error("the path of the URL is not a valid path of a store")]
    Path(#[source] ObjectKeyError),
}

/// Signs a URL, so that anybody may use it with this method until `expires`. An existing signature
/// is replaced, and the query becomes part of what is signed. The user name, password and fragment
/// are removed, since the URL is made to be given away.
///
/// The path is signed as it is. If a proxy in front of the store serves it under another path, sign
/// the path that the store sees, then replace host and path by those of the proxy.
///
/// # Errors
/// See [`SignError`].
pub fn sign_url(
    key: &SigningKey,
    method: SignableMethod,
    url: &Url,
    expires: SystemTime,
) -> Result<Url, SignError> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(SignError::Scheme);
    }
    let path = ObjectKey::parse(url.path()).map_err(SignError::Path)?;
    let mut signed = url.clone();
    signed.set_fragment(None);
    // Neither fails for a URL with a host, and http URLs have one.
    let _ = signed.set_username("");
    let _ = signed.set_password(None);
    signed.set_query(Some(&key.sign(method, &path, url.query(), expires)));
    Ok(signed)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::Method;

    use super::super::signed_url::SignatureCheck;
    use super::*;

    #[test]
    fn a_signed_url_is_valid() {
        let key = SigningKey::new(b"0123456789abcdef").expect("a key");
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        let expires = now + Duration::from_secs(60);
        let given = "https://me:hunter2@files.example/a%20b/c d;x/?format=tar&q=a'b \u{e9}#top";
        let url: Url = given.parse().expect("a URL");
        let signed = sign_url(&key, SignableMethod::Get, &url, expires).expect("signed");
        let text = signed.as_str();
        assert!(
            text.starts_with("https://files.example/a%20b/c%20d;x/?format=tar&q="),
            "{text}"
        );
        assert!(signed.fragment().is_none());
        let path = ObjectKey::parse(signed.path()).expect("a key");
        let verify = |url: &Url| key.verify(&Method::GET, &path, url.query(), now);
        assert_eq!(verify(&signed), SignatureCheck::Valid(SignableMethod::Get));
        assert_eq!(verify(&url), SignatureCheck::Unsigned);
        // Signing again replaces the signature.
        assert_eq!(
            sign_url(&key, SignableMethod::Get, &signed, expires),
            Ok(signed)
        );
    }

    #[test]
    fn urls_that_no_store_serves_are_not_signed() {
        let key = SigningKey::new(b"0123456789abcdef").expect("a key");
        let sign = |url: &str| {
            sign_url(
                &key,
                SignableMethod::Get,
                &url.parse().expect("a URL"),
                SystemTime::UNIX_EPOCH,
            )
        };
        assert_eq!(sign("ftp://a/b"), Err(SignError::Scheme));
        assert_eq!(
            sign("http://a/b%2fc"),
            Err(SignError::Path(ObjectKeyError::EscapedSeparator))
        );
    }
}
