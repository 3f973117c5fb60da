//! `s3://bucket/key`: what a user types, and the URL that the rest of haul carries. A file of a `haul serve --s3` at a plain URL is such an
//! object, too.
//!
//! A user's key is plain text: `%20` is three characters, as with every other S3 program. In a URL it is escaped by S3's rules,
//! so that the URL's path can be signed and sent as it stands.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use percent_encoding::{
    AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode, utf8_percent_encode,
};
use url::Url;

const MAX_KEY_BYTES: usize = 1024;

/// The characters that S3's canonical form of a key leaves as they are, and the slash.
const KEY: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/');

/// The same for names and values in a query, where the slash is escaped.
const QUERY: &AsciiSet = &KEY.add(b'/');

/// A bucket, and a key or prefix in it. The key may be empty; the bucket is empty for the service itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct S3Address {
    /// The bucket's name.
    pub bucket: String,
    /// The key, or a prefix of keys.
    pub key: String,
    /// The server of an object at a plain URL; `None` for the store that the client is made for.
    origin: Option<Arc<Url>>,
}

/// Why a text or URL is no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum S3AddressError {
    /// It does not begin with `s3://`.
    #[error("{0:?} does not begin with s3://")]
    Scheme(String),
    /// There is no bucket, or its name is not one.
    #[error("{0:?} is not the name of a bucket")]
    Bucket(String),
    /// A directory bucket of S3 Express.
    #[error("{0} is a directory bucket (S3 Express One Zone), which haul cannot use yet")]
    DirectoryBucket(String),
    /// The key has more bytes than S3 takes.
    #[error("the key has {0} bytes, and S3 takes {MAX_KEY_BYTES}")]
    KeyTooLong(usize),
    /// The key has a segment `.` or `..`. Clients and proxies resolve these, and another object would be meant.
    #[error(
        "the key {0:?} has a segment . or .., which HTTP clients and proxies take for another key"
    )]
    DotSegment(String),
    /// The URL's path is not the escaped form of any text.
    #[error("the key in {0} is not UTF-8")]
    NotUtf8(String),
}

impl S3Address {
    /// The service itself, for the list of buckets.
    #[must_use]
    pub fn service() -> Self {
        Self::new("", "")
    }

    #[must_use]
    pub fn new(bucket: impl Into<String>, key: impl Into<String>) -> Self {
        Self {
            bucket: bucket.into(),
            key: key.into(),
            origin: None,
        }
    }

    /// The object at a plain URL: its bucket is the first folder of the path. `haul serve --s3` takes S3's requests there under the logins
    /// of plain HTTP. `None` for a URL that is no object's.
    #[must_use]
    pub fn at_http_url(url: &Url) -> Option<Self> {
        if !matches!(url.scheme(), "http" | "https") || url.query().is_some() {
            return None;
        }
        let (bucket, key) = url.path().strip_prefix('/')?.split_once('/')?;
        let slashes = |text: &str| text.matches('/').count();
        // A slash that is escaped in the URL would not be so in the request.
        let decoded = |text: &str| {
            let decoded = percent_decode_str(text).decode_utf8().ok()?;
            (slashes(&decoded) == slashes(text)).then(|| decoded.into_owned())
        };
        let (bucket, key) = (decoded(bucket)?, decoded(key)?);
        if bucket.is_empty() || key.is_empty() || key.ends_with('/') {
            return None;
        }
        let mut origin = url.clone();
        origin.set_path("/");
        origin.set_fragment(None);
        Some(Self {
            origin: Some(Arc::new(origin)),
            ..Self::new(bucket, key)
        })
    }

    /// The URL of an object at a plain URL; `None` for one of the store that the client is made for.
    #[must_use]
    pub fn http_url(&self) -> Option<Url> {
        self.origin.as_ref()?;
        self.to_url().ok()
    }

    /// The server of an object at a plain URL, without the login that the URL may have.
    pub(crate) fn origin_text(&self) -> Option<String> {
        let mut origin = Url::clone(self.origin.as_deref()?);
        // An http URL can be without a login.
        let _ = origin
            .set_username("")
            .and_then(|()| origin.set_password(None));
        Some(origin.into())
    }

    /// Another key in the same bucket.
    #[must_use]
    pub fn with_key(&self, key: impl Into<String>) -> Self {
        Self {
            origin: self.origin.clone(),
            ..Self::new(self.bucket.clone(), key)
        }
    }

    /// Whether the key is empty or ends with a slash, as prefixes do that are used like folders.
    #[must_use]
    pub fn is_prefix(&self) -> bool {
        self.key.is_empty() || self.key.ends_with('/')
    }

    /// The folder that the address names where a command takes folders: `photos` is everything below `photos/`, and not
    /// `photos.tar`. Keys that only begin with the same text are the pattern `photos*`.
    #[must_use]
    pub fn into_folder(mut self) -> Self {
        if !self.is_prefix() {
            self.key.push('/');
        }
        self
    }

    /// The URL of the address.
    ///
    /// # Errors
    /// [`S3AddressError::DotSegment`] and [`S3AddressError::KeyTooLong`]: no request can name this key.
    pub fn to_url(&self) -> Result<Url, S3AddressError> {
        if self.key.len() > MAX_KEY_BYTES {
            return Err(S3AddressError::KeyTooLong(self.key.len()));
        }
        if has_dot_segment(&self.key) {
            return Err(S3AddressError::DotSegment(self.key.clone()));
        }
        if let Some(origin) = &self.origin {
            let mut url = Url::clone(origin);
            let bucket = escaped_query(&self.bucket);
            url.set_path(&format!("/{bucket}/{}", escaped_key(&self.key)));
            return Ok(url);
        }
        let text = format!("s3://{}/{}", self.bucket, escaped_key(&self.key));
        Url::parse(&text).map_err(|_| S3AddressError::Bucket(self.bucket.clone()))
    }

    /// The address of a URL that [`S3Address::to_url`] made. A query and a fragment are no part of it.
    ///
    /// # Errors
    /// The URL has another scheme, or its path is not UTF-8.
    pub fn from_url(url: &Url) -> Result<Self, S3AddressError> {
        if url.scheme() != "s3" {
            return Err(S3AddressError::Scheme(url.as_str().to_owned()));
        }
        let path = url.path();
        let key = percent_decode_str(path.strip_prefix('/').unwrap_or(path))
            .decode_utf8()
            .map_err(|_| S3AddressError::NotUtf8(url.as_str().to_owned()))?;
        Ok(Self::new(url.host_str().unwrap_or_default(), key))
    }
}

impl FromStr for S3Address {
    type Err = S3AddressError;

    /// Parses what a user types. The key is taken as it stands.
    fn from_str(text: &str) -> Result<Self, S3AddressError> {
        let scheme = text.get(..5).unwrap_or_default();
        if !scheme.eq_ignore_ascii_case("s3://") {
            return Err(S3AddressError::Scheme(text.to_owned()));
        }
        let (bucket, key) = text[5..]
            .split_once('/')
            .unwrap_or_else(|| (&text[5..], ""));
        if bucket.ends_with("--x-s3") {
            return Err(S3AddressError::DirectoryBucket(bucket.to_owned()));
        }
        if !is_bucket_name(bucket) {
            return Err(S3AddressError::Bucket(bucket.to_owned()));
        }
        if key.len() > MAX_KEY_BYTES {
            return Err(S3AddressError::KeyTooLong(key.len()));
        }
        Ok(Self::new(bucket, key))
    }
}

impl fmt::Display for S3Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.origin_text() {
            Some(origin) => write!(f, "{origin}{}/{}", self.bucket, self.key),
            None => write!(f, "s3://{}/{}", self.bucket, self.key),
        }
    }
}

/// Parses a text that names something to download: an http or https URL, or an S3 address, whose key is plain text.
pub fn parse_download_url(text: &str) -> Result<Url, DownloadUrlError> {
    let scheme = text.get(..5).unwrap_or_default();
    if scheme.eq_ignore_ascii_case("s3://") {
        return Ok(text.parse::<S3Address>()?.to_url()?);
    }
    match haul_net::parse_url(text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(url),
        _ if lacks_scheme(text) => Err(DownloadUrlError::NoScheme),
        Ok(url) => Err(DownloadUrlError::Scheme(url.scheme().to_owned())),
        Err(error) => Err(error.into()),
    }
}

/// Whether a text is a host and a path without a scheme: `example.com/f`, `localhost:8080/f`. The parser would read the latter as a URL
/// with the scheme `localhost:`, and `me:password@host` as one with the scheme `me:`.
#[must_use]
pub fn lacks_scheme(text: &str) -> bool {
    let host = text.split(['/', '?', '#']).next().unwrap_or_default();
    let name = host.rsplit('@').next().unwrap_or_default();
    !text.contains("://")
        && (text.contains('@')
            || name.contains('.')
            || name == "localhost"
            || name.starts_with("localhost:"))
}

/// Why a text names nothing to download.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DownloadUrlError {
    /// It is not a URL.
    #[error(transparent)]
    Malformed(#[from] haul_net::UrlError),
    /// It begins with its host.
    #[error("it has no scheme")]
    NoScheme,
    /// It has another scheme, or no host.
    #[error("the scheme {0} is not supported")]
    Scheme(String),
    /// It is not an S3 address.
    #[error(transparent)]
    Address(#[from] S3AddressError),
}

/// A key, or the name of a file, as it stands in the path of a URL: whatever bytes it has, no other name looks the same.
#[must_use]
pub fn escaped_key(key: impl AsRef<[u8]>) -> String {
    percent_encode(key.as_ref(), KEY).to_string()
}

/// A name or value as it stands in a query.
pub(crate) fn escaped_query(text: &str) -> String {
    utf8_percent_encode(text, QUERY).to_string()
}

/// Whether this may be the name of a bucket. Old ones have capitals and underscores.
fn is_bucket_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    (1..=255).contains(&name.len()) && name.bytes().all(is_letter) && !matches!(name, "." | "..")
}

/// Whether a bucket's name may stand before a host name: no capitals or underscores, and under TLS no dots, which the
/// certificate does not cover (row F21).
pub(crate) fn is_host_label(bucket: &str, is_tls: bool) -> bool {
    let is_letter = |byte: u8| {
        byte.is_ascii_lowercase()
            || byte.is_ascii_digit()
            || byte == b'-'
            || byte == b'.' && !is_tls
    };
    (3..=63).contains(&bucket.len())
        && bucket.bytes().all(is_letter)
        && !bucket.starts_with(['-', '.'])
        && !bucket.ends_with(['-', '.'])
        && !bucket.contains("..")
}

fn has_dot_segment(key: &str) -> bool {
    key.split('/').any(|segment| matches!(segment, "." | ".."))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_key_is_plain_text() {
        for (text, bucket, key, url) in [
            ("s3://b-1/a b%20c", "b-1", "a b%20c", "s3://b-1/a%20b%2520c"),
            ("S3://b.c/x?y#z", "b.c", "x?y#z", "s3://b.c/x%3Fy%23z"),
            ("s3://bucket", "bucket", "", "s3://bucket/"),
            ("s3://bucket//x//", "bucket", "/x//", "s3://bucket//x//"),
            ("s3://bucket/é", "bucket", "é", "s3://bucket/%C3%A9"),
        ] {
            let address: S3Address = text.parse().unwrap();
            assert_eq!((&*address.bucket, &*address.key), (bucket, key), "{text}");
            let parsed = address.to_url().unwrap();
            assert_eq!(parsed.as_str(), url);
            assert_eq!(S3Address::from_url(&parsed), Ok(address));
        }
    }

    #[test]
    fn keys_have_at_most_1024_bytes() {
        for (bytes, is_allowed) in [(MAX_KEY_BYTES, true), (MAX_KEY_BYTES + 1, false)] {
            let key = "k".repeat(bytes);
            let parsed: Result<S3Address, _> = format!("s3://bucket/{key}").parse();
            assert_eq!(parsed.is_ok(), is_allowed, "{bytes}");
            assert_eq!(S3Address::new("bucket", key).to_url().is_ok(), is_allowed);
        }
    }

    /// What might be sent to a host, or shown with its password, is told apart from what has no scheme.
    #[test]
    fn a_download_is_a_web_url_or_an_address_of_s3() {
        for url in ["http://h/f", "HTTPS://h", "s3://bucket/key"] {
            assert!(parse_download_url(url).is_ok(), "{url}");
            assert!(!lacks_scheme(url), "{url}");
        }
        for text in [
            "h.example/f",
            "localhost",
            "localhost:80/f",
            "me:secret@host",
            "me@host/f",
        ] {
            let refused = parse_download_url(text);
            assert_eq!(refused, Err(DownloadUrlError::NoScheme), "{text}");
        }
        for text in ["ftp://h/f", "file:///f", "mailto:a", "data:,x"] {
            let scheme = text.split(':').next().unwrap().to_owned();
            assert_eq!(
                parse_download_url(text),
                Err(DownloadUrlError::Scheme(scheme))
            );
        }
        for text in ["", "word", "a/b.c", "other:80"] {
            assert!(!lacks_scheme(text), "{text}");
        }
    }

    #[test]
    fn another_key_of_a_plain_url_is_at_the_same_server() {
        let url = Url::parse("http://user@host:1/bucket/key").unwrap();
        let other = S3Address::at_http_url(&url).unwrap().with_key("a b");
        let expected = Url::parse("http://user@host:1/bucket/a%20b").unwrap();
        assert_eq!(other.http_url(), Some(expected));
        assert_eq!(S3Address::new("bucket", "key").http_url(), None);
    }

    #[test]
    fn an_object_at_a_plain_url_is_below_a_folder() {
        let url: Url = "http://u:secret@h:81/b%201/a/%25/%C3%A9#x".parse().unwrap();
        let address = S3Address::at_http_url(&url).unwrap();
        assert_eq!((&*address.bucket, &*address.key), ("b 1", "a/%/é"));
        assert_eq!(address.to_string(), "http://h:81/b 1/a/%/é");
        assert_eq!(
            address.to_url().unwrap().as_str(),
            "http://u:secret@h:81/b%201/a/%25/%C3%A9"
        );
        for text in [
            "http://h/",
            "http://h/b",
            "http://h/b/",
            "http://h//k",
            "http://h/b/k/",
            "http://h/b/k?x",
            "http://h/b/k%2Fl",
            "s3://b/k",
        ] {
            assert_eq!(
                S3Address::at_http_url(&text.parse().unwrap()),
                None,
                "{text}"
            );
        }
    }

    #[test]
    fn a_folder_ends_with_a_slash() {
        for (key, folder) in [("photos", "photos/"), ("photos/", "photos/"), ("", "")] {
            assert_eq!(S3Address::new("b", key).into_folder().key, folder);
        }
    }

    #[test]
    fn texts_that_are_no_addresses_say_why() {
        let error = |text: &str| text.parse::<S3Address>().unwrap_err();
        assert!(matches!(error("http://x/y"), S3AddressError::Scheme(_)));
        assert!(matches!(error("s3://"), S3AddressError::Bucket(_)));
        assert!(matches!(error("s3://a b/c"), S3AddressError::Bucket(_)));
        let dots = S3Address::new("b", "a/../c").to_url();
        assert!(matches!(dots, Err(S3AddressError::DotSegment(_))));
    }

    #[test]
    fn f20_a_directory_bucket_is_refused_with_words() {
        let error = "s3://b--use1-az4--x-s3/k".parse::<S3Address>().unwrap_err();
        assert!(error.to_string().contains("S3 Express"), "{error}");
    }

    #[test]
    fn f21_a_bucket_with_dots_is_no_host_name_under_tls() {
        assert!(is_host_label("a.b", false) && !is_host_label("a.b", true));
        assert!(is_host_label("a-b", true));
        for name in ["ab", "Abc", "a_b", "-ab", "a..b"] {
            assert!(!is_host_label(name, false), "{name}");
        }
    }

    proptest! {
        #[test]
        fn keys_survive_a_url(key in "\\PC{0,40}") {
            let address = S3Address::new("bucket", key);
            if let Ok(url) = address.to_url() {
                prop_assert!(url.as_str().is_ascii());
                prop_assert_eq!(S3Address::from_url(&url), Ok(address));
            }
        }
    }
}
