//! Values as they are typed: sizes, times, header fields, URLs, addresses. Parsed at the edge, so that a wrong one is told
//! with the flag it was given to.

use std::net::IpAddr;
use std::str::FromStr;

use http::{HeaderName, HeaderValue};
use url::Url;

/// A number of bytes: `5`, `5k`, `1.5M`, `2GiB`; units are powers of 1024.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no size; one is written as 500k, 5M or 1.5G");
        let (number, unit) = split(text);
        let shift = match unit.to_ascii_lowercase().trim_end_matches("ib").trim_end_matches('b') {
            "" => 0,
            "k" => 10,
            "m" => 20,
            "g" => 30,
            "t" => 40,
            _ => return Err(wrong()),
        };
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let bytes = number * f64::from(1u32 << (shift % 30)) * if shift >= 30 { f64::from(1u32 << 30) } else { 1.0 };
        if !bytes.is_finite() || !(1.0..9e18).contains(&bytes) {
            return Err(format!("{text:?} is no size from 1 byte on"));
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
        Ok(Self(bytes as u64))
    }
}

/// A time: `30`, `30s`, `1m30s`, `500ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Duration(pub(crate) std::time::Duration);

impl FromStr for Duration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no time; one is written as 30s, 500ms or 1m30s");
        let mut rest = text.trim();
        let mut seconds = 0.0;
        while !rest.is_empty() {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            let number: f64 = rest[..end].parse().map_err(|_| wrong())?;
            let units = &rest[end..];
            let stop = units.find(|c: char| c.is_ascii_digit()).unwrap_or(units.len());
            seconds += number
                * match units[..stop].trim() {
                    "" | "s" => 1.0,
                    "ms" => 1e-3,
                    "m" => 60.0,
                    "h" => 3600.0,
                    _ => return Err(wrong()),
                };
            rest = &units[stop..];
        }
        // A timeout of a year is none; one of nothing never lets anything happen.
        if !(1e-3..=31_536_000.0).contains(&seconds) {
            return Err(wrong());
        }
        Ok(Self(std::time::Duration::from_secs_f64(seconds)))
    }
}

fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

/// A header field: `Name: value`, or `Name:` to take one of ours away.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: HeaderName,
    /// `None` takes the field away.
    pub(crate) value: Option<HeaderValue>,
}

impl std::fmt::Debug for Field {
    /// Values may be secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Field({})", self.name)
    }
}

impl FromStr for Field {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once(':').ok_or("a header field is written as 'Name: value'")?;
        let name = name.trim().parse().map_err(|_| "this is no header name")?;
        let value = value.trim();
        let value = HeaderValue::from_str(value).map_err(|_| "a header value has no line breaks or control characters")?;
        Ok(Self { name, value: (!value.is_empty()).then_some(value) })
    }
}

/// An http or https URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HttpUrl(pub(crate) Url);

impl FromStr for HttpUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let looks_bare = !text.contains("://") && text.split('/').next().is_some_and(|host| host.contains('.') || host.starts_with("localhost"));
        match Url::parse(text) {
            Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(Self(url)),
            Ok(url) if !looks_bare => {
                Err(format!("{}: is not a protocol that haul speaks; it downloads http:// and https://", url.scheme()))
            }
            _ if looks_bare => Err(format!("it has no protocol; did you mean https://{text} ?")),
            Ok(_) | Err(url::ParseError::RelativeUrlWithoutBase) => Err("a URL begins with https:// or http://".into()),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// `HOST:PORT:ADDRESS[,ADDRESS]`, as curl has it; IPv6 addresses with or without brackets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resolve {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) addresses: Vec<IpAddr>,
}

impl FromStr for Resolve {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "this is written as HOST:PORT:ADDRESS".to_owned();
        let (host, rest) = text.split_once(':').ok_or_else(wrong)?;
        let (port, addresses) = rest.split_once(':').ok_or_else(wrong)?;
        let address = |text: &str| text.trim().trim_start_matches('[').trim_end_matches(']').parse().map_err(|_| wrong());
        let addresses = addresses.split(',').map(address).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { host: host.to_owned(), port: port.parse().map_err(|_| wrong())?, addresses })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let size = |text: &str| text.parse::<Size>().map(|size| size.0).ok();
        assert_eq!(size("5"), Some(5));
        assert_eq!(size("5k"), Some(5 << 10));
        assert_eq!(size("1.5M"), Some(3 << 19));
        assert_eq!(size("2GiB"), Some(2 << 30));
        assert_eq!(size("1T"), Some(1 << 40));
        for wrong in ["", "k", "-1", "5x", "0", "1e400", "5 5", "1..5", "999999999999T"] {
            assert_eq!(size(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn times() {
        let time = |text: &str| text.parse::<Duration>().map(|time| time.0.as_millis()).ok();
        assert_eq!(time("30"), Some(30_000));
        assert_eq!(time("1m30s"), Some(90_000));
        assert_eq!(time("250ms"), Some(250));
        assert_eq!(time("1.5s"), Some(1500));
        for wrong in ["", "s", "5x", "-1s", "0", "99999h"] {
            assert_eq!(time(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn fields_and_their_removal() {
        let field: Field = "X-A:  b: c ".parse().unwrap();
        assert_eq!((field.name.as_str(), field.value.unwrap().to_str().unwrap()), ("x-a", "b: c"));
        assert_eq!("Accept:".parse::<Field>().unwrap().value, None);
        assert!("no colon".parse::<Field>().is_err() && "a b: c".parse::<Field>().is_err() && "a: b\r\nc: d".parse::<Field>().is_err());
    }

    #[test]
    fn urls_that_are_not_tell_what_would_be() {
        let error = |text: &str| text.parse::<HttpUrl>().unwrap_err();
        assert!("http://h.test/x".parse::<HttpUrl>().is_ok());
        assert!(error("example.com/file.iso").contains("https://example.com/file.iso"));
        assert!(error("localhost:8080/x").contains("https://localhost:8080/x"));
        assert!(error("ftp://h.test/x").contains("ftp:"));
        assert!(error("file").contains("begins with"));
        assert!(!error("http://").is_empty());
    }

    #[test]
    fn addresses_told_by_hand() {
        let resolve: Resolve = "h.test:443:127.0.0.1,[::1]".parse().unwrap();
        assert_eq!((resolve.host.as_str(), resolve.port, resolve.addresses.len()), ("h.test", 443, 2));
        for wrong in ["h.test", "h.test:443", "h.test:x:127.0.0.1", "h.test:443:nowhere"] {
            assert!(wrong.parse::<Resolve>().is_err(), "{wrong}");
        }
    }
}
