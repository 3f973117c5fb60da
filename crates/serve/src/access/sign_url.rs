//! Signs a URL as a whole, for those who give links away.

use std::time::SystemTime;

use url::Url;

use crate::{ObjectKey, ObjectKeyError};

use super::signed_url::{SignableMethod, SigningKey};

/// Why a URL cannot be signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// Nothing that a store serves.
    #[error("only http and https URLs are signed")]
    Scheme,
    /// No store has such a path.
    #[error("the path of the URL names nothing that a store can hold")]
    Path(#[source] ObjectKeyError),
}

/// The URL with what lets anybody use it, for this method, until `expires`. A signature that it has is replaced; a query is signed
/// with it; a user name, a password and a fragment are left out, since it is made to be given away.
///
/// The path is signed as it stands. When a proxy in front of the store serves it under another path, sign the path that the store
/// sees, and put the host and path of the proxy around what comes of it.
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
    let named = ObjectKey::parse(url.path()).map_err(SignError::Path)?;
    let mut signed = url.clone();
    signed.set_fragment(None);
    // Neither fails for a URL with a host, which those of http have.
    let _ = signed.set_username("");
    let _ = signed.set_password(None);
    signed.set_query(Some(&key.sign(method, &named, url.query(), expires)));
    Ok(signed)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::Method;

    use super::super::signed_url::SignatureCheck;
    use super::*;

    #[test]
    fn a_signed_url_is_one_that_holds() {
        let key = SigningKey::new(b"0123456789abcdef").expect("a key");
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        let expires = now + Duration::from_secs(60);
        let given = "https://me:hunter2@files.example/a%20b/c d;x/?format=tar&q=a'b \u{e9}#top";
        let url: Url = given.parse().expect("a URL");
        let signed = sign_url(&key, SignableMethod::Get, &url, expires).expect("signed");
        let shown = signed.as_str();
        assert!(
            shown.starts_with("https://files.example/a%20b/c%20d;x/?format=tar&q="),
            "{shown}"
        );
        assert!(signed.fragment().is_none());
        let named = ObjectKey::parse(signed.path()).expect("a key");
        let verify = |url: &Url| key.verify(&Method::GET, &named, url.query(), now);
        assert_eq!(verify(&signed), SignatureCheck::Valid(SignableMethod::Get));
        assert_eq!(verify(&url), SignatureCheck::Unsigned);
        // Again, with what it has already.
        assert_eq!(
            sign_url(&key, SignableMethod::Get, &signed, expires),
            Ok(signed)
        );
    }

    #[test]
    fn what_no_store_serves_is_not_signed() {
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
