//! The settings of a `haul.Client`, from the keyword arguments that Python has already completed.

use std::fmt::Display;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use haul_net::{
    AddressFamily, ClientCertificate, ClientConfig, HttpVersionChoice, Login, NoProxy,
    PinnedAddress, Proxy, ProxyRules, RedirectOptions, Secret, TlsOptions, UrlError,
};
use haul_s3::S3Config;
use haul_transfer::list::{BadLineProblem, parse_list_url};
use haul_transfer::{ConnectionCount, DownloadLimits, MinRate, RetryOptions};
use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use pyo3::prelude::*;
use url::{ParseError, Url};

use crate::errors::{HaulError, chain_text};

/// Connections to one host that are kept between two requests.
const MAX_IDLE_PER_HOST: usize = 128;

/// All settings. The names are those of the arguments.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct ClientSettings {
    pub(crate) connections_per_host: Option<u16>,
    pub(crate) rate_per_host: Option<f64>,
    limit: Option<u64>,
    proxy: Option<String>,
    no_proxy: Option<String>,
    /// Names with a port, and their addresses.
    resolve: Vec<(String, u16, Vec<IpAddr>)>,
    ip_version: Option<u8>,
    http_version: Option<String>,
    max_redirects: Option<usize>,
    allow_downgrade: bool,
    retries: Option<u32>,
    max_wait: Option<f64>,
    /// Bytes a second, 0 for no limit, and seconds.
    min_rate: Option<(u64, Option<f64>)>,
    max_time: Option<f64>,
    timeout: Option<f64>,
    connect_timeout: Option<f64>,
    response_timeout: Option<f64>,
    verify: VerifySetting,
    /// The files of a certificate and of its key, which may be one.
    cert: Option<(PathBuf, PathBuf)>,
    headers: Vec<(String, String)>,
    pub(crate) s3: Option<S3Arguments>,
}

/// `verify=`: whether certificates are checked, or the authorities that they are checked against.
#[derive(FromPyObject)]
enum VerifySetting {
    IsOn(bool),
    Authorities(PathBuf),
}

/// `s3=`: what AWS's variables and files would say.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct S3Arguments {
    endpoint_url: Option<String>,
    region: Option<String>,
    profile: Option<String>,
    access_key: Option<String>,
    secret_key: Option<String>,
    no_sign_request: bool,
    request_payer: bool,
}

/// An argument that is a time.
fn seconds(name: &str, value: Option<f64>) -> Result<Option<Duration>, HaulError> {
    let time = value.map(|value| {
        let time = Duration::try_from_secs_f64(value).ok();
        let time = time.filter(|time| !time.is_zero());
        time.ok_or_else(|| HaulError::usage(format!("{name}: must be a number of seconds above 0")))
    });
    time.transpose()
}

impl ClientSettings {
    /// How failures are repeated. A given number is the only limit, as in the command.
    ///
    /// # Errors
    /// A time that cannot be used.
    pub(crate) fn retry_options(&self) -> Result<RetryOptions, HaulError> {
        let defaults = RetryOptions::default();
        let max_wait = seconds("max_wait", self.max_wait)?;
        Ok(RetryOptions {
            retries: self.retries.unwrap_or(defaults.retries),
            retries_before_response: self.retries.unwrap_or(defaults.retries_before_response),
            max_outage: self.retries.map_or(defaults.max_outage, |_| Duration::MAX),
            max_retry_after: max_wait.unwrap_or(defaults.max_retry_after),
            ..defaults
        })
    }

    /// When downloads end that are too slow or take too long.
    ///
    /// # Errors
    /// A time that cannot be used.
    pub(crate) fn download_limits(&self) -> Result<DownloadLimits, HaulError> {
        let min_rate = self.min_rate.map(|(bytes_per_second, window)| {
            Ok(MinRate {
                bytes_per_second,
                window: seconds("min_rate", window)?.unwrap_or(MinRate::DEFAULT_WINDOW),
            })
        });
        Ok(DownloadLimits {
            min_rate: min_rate.transpose()?,
            max_time: seconds("max_time", self.max_time)?,
        })
    }

    /// Connections of a transfer.
    pub(crate) fn connections(&self, of_call: Option<u16>) -> ConnectionCount {
        match of_call.or(self.connections_per_host) {
            Some(count) => ConnectionCount::Fixed(count.into()),
            None => ConnectionCount::Auto { max: 16 },
        }
    }

    /// The settings of connections. Reads the file of authorities.
    ///
    /// # Errors
    /// An argument that cannot be used.
    pub(crate) fn client_config(&self) -> Result<ClientConfig, HaulError> {
        let mut config = ClientConfig {
            proxy: self.proxy_rules()?,
            tls: self.tls_options()?,
            headers: parse_headers(&self.headers)?,
            max_idle_per_host: MAX_IDLE_PER_HOST,
            max_idle: 2 * MAX_IDLE_PER_HOST,
            http_version: match self.http_version.as_deref() {
                Some("1.1") => HttpVersionChoice::Http1,
                Some(_) => HttpVersionChoice::Http2,
                None => HttpVersionChoice::Auto,
            },
            redirects: self.redirects(),
            ..ClientConfig::default()
        };
        config.connector.address_family = match self.ip_version {
            Some(4) => AddressFamily::V4,
            Some(_) => AddressFamily::V6,
            None => AddressFamily::Any,
        };
        config.connector.pinned_addresses = self.pinned_addresses();
        config.connector.rate_limit = self.limit;
        if let Some(timeout) = seconds("timeout", self.timeout)? {
            config.connector.connect_timeout = timeout;
            config.stall_timeout = timeout;
            config.response_timeout = timeout;
        }
        if let Some(timeout) = seconds("response_timeout", self.response_timeout)? {
            config.response_timeout = timeout;
        }
        if let Some(timeout) = seconds("connect_timeout", self.connect_timeout)? {
            config.connector.connect_timeout = timeout;
        }
        Ok(config)
    }

    fn redirects(&self) -> RedirectOptions {
        let defaults = RedirectOptions::default();
        RedirectOptions {
            max_redirects: self.max_redirects.unwrap_or(defaults.max_redirects),
            allow_downgrade: self.allow_downgrade,
        }
    }

    fn pinned_addresses(&self) -> Vec<PinnedAddress> {
        let pinned = self
            .resolve
            .iter()
            .cloned()
            .map(|(host, port, addresses)| PinnedAddress {
                host,
                port,
                addresses,
            });
        pinned.collect()
    }

    fn proxy_rules(&self) -> Result<ProxyRules, HaulError> {
        let environment = ProxyRules::from_environment(|name| std::env::var(name).ok());
        let rules = match self.proxy.as_deref() {
            None => environment,
            Some("") => ProxyRules::default(),
            Some(proxy) => ProxyRules {
                no_proxy: environment.no_proxy,
                no_proxy_variable: environment.no_proxy_variable,
                ..ProxyRules::all(argument("proxy", proxy.parse::<Proxy>())?)
            },
        };
        let Some(hosts) = &self.no_proxy else {
            return Ok(rules);
        };
        let no_proxy = NoProxy::parse(hosts);
        match no_proxy.errors().first() {
            Some(error) => Err(HaulError::argument("no_proxy", error)),
            None => Ok(ProxyRules {
                no_proxy,
                no_proxy_variable: None,
                ..rules
            }),
        }
    }

    fn tls_options(&self) -> Result<TlsOptions, HaulError> {
        let (cacert, insecure) = match &self.verify {
            VerifySetting::IsOn(is_on) => (None, !is_on),
            VerifySetting::Authorities(path) => (Some(read("verify", path)?), false),
        };
        let client_certificate = self.cert.as_ref().map(|(certificates, key)| {
            Ok::<_, HaulError>(ClientCertificate {
                certificates: read("cert", certificates)?,
                key: read("cert", key)?,
            })
        });
        Ok(TlsOptions {
            cacert,
            insecure,
            client_certificate: client_certificate.transpose()?,
            ..TlsOptions::default()
        })
    }

    /// The settings of S3 stores.
    ///
    /// # Errors
    /// An argument that cannot be used.
    pub(crate) fn s3_config(&self) -> Result<S3Config, HaulError> {
        let Some(s3) = &self.s3 else {
            return Ok(S3Config::default());
        };
        let endpoint_url = s3
            .endpoint_url
            .as_deref()
            .map(parse_url)
            .transpose()
            .map_err(|error| HaulError {
                text: format!("s3: endpoint_url: {}", error.text),
                ..error
            })?;
        let access_key = match (&s3.access_key, &s3.secret_key) {
            (Some(user), Some(secret)) => Some(Login {
                user: user.clone(),
                password: Secret::new(secret.clone()),
            }),
            (None, None) => None,
            _ => {
                return Err(HaulError::usage(
                    "s3: access_key and secret_key belong together",
                ));
            }
        };
        Ok(S3Config {
            endpoint_url,
            region: s3.region.clone(),
            profile: s3.profile.clone(),
            access_key,
            no_sign_request: s3.no_sign_request,
            request_payer: s3.request_payer,
            ..S3Config::default()
        })
    }
}

/// The content of a file that an argument names.
fn read(name: &str, path: &Path) -> Result<Vec<u8>, HaulError> {
    let content = std::fs::read(path);
    content.map_err(|error| {
        HaulError::local(&format!("{name}: cannot read {}", path.display()), &error)
    })
}

pub(crate) fn argument<T, E: std::error::Error>(
    name: &str,
    parsed: Result<T, E>,
) -> Result<T, HaulError> {
    parsed.map_err(|error| HaulError::argument(name, &error))
}

/// Header fields. Their values are never part of a message.
pub(crate) fn parse_headers(fields: &[(String, String)]) -> Result<HeaderMap, HaulError> {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        let parsed: HeaderName = name.parse().map_err(|_| {
            HaulError::usage(format!("headers: {name:?} is not the name of a field"))
        })?;
        if haul_net::is_framing_header(&parsed) {
            let text = format!("headers: haul sets {parsed} itself");
            return Err(HaulError::usage(text));
        }
        headers.append(parsed, header_value(name, value)?);
    }
    Ok(headers)
}

fn header_value(name: &str, value: &str) -> Result<HeaderValue, HaulError> {
    // Python's own clients send ISO 8859-1, too, which also keeps the bytes of a value that was bytes.
    let latin = value.chars().map(u8::try_from).collect::<Result<_, _>>();
    let bytes: Vec<u8> = latin.unwrap_or_else(|_| value.as_bytes().to_vec());
    let mut value = HeaderValue::from_bytes(&bytes).map_err(|_| {
        HaulError::usage(format!(
            "headers: the value of {name:?} has a control character"
        ))
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// `auth=`: a user and a password, or a token.
#[derive(FromPyObject)]
pub(crate) enum AuthArgument {
    Login(String, String),
    Token(String),
}

impl AuthArgument {
    /// Adds it to a request. A login goes into the URL, so that it is for the URL's host alone.
    pub(crate) fn apply(&self, url: &mut Url, headers: &mut HeaderMap) -> Result<(), HaulError> {
        if url.scheme() == "s3" {
            return Err(no_auth_for_stores());
        }
        match self {
            Self::Login(user, _) if user.is_empty() => {
                let error = HaulError::usage("auth: a login needs a user");
                let hint = "give the field Authorization with headers=";
                Err(error.with_hint(hint))
            }
            Self::Login(user, password) => {
                let encoded = |text| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
                let is_set = url.set_username(&encoded(user)).is_ok()
                    && url.set_password(Some(&encoded(password))).is_ok();
                if is_set {
                    Ok(())
                } else {
                    Err(HaulError::usage("auth: this URL cannot have a login"))
                }
            }
            Self::Token(token) => {
                let value = header_value("Authorization", &format!("Bearer {token}"))?;
                headers.insert(AUTHORIZATION, value);
                Ok(())
            }
        }
    }
}

/// Requests to stores are signed.
pub(crate) fn no_auth_for_stores() -> HaulError {
    let error = HaulError::usage("auth: it is for http:// and https://");
    error.with_hint("give the keys of a store with s3= of the client")
}

/// A URL that can be requested. Nothing is guessed, as by the command: `example.com/x` may be a path.
pub(crate) fn parse_url(text: &str) -> Result<Url, HaulError> {
    parse_list_url(text).map_err(|problem| {
        let shown = haul_net::redacted_text(text);
        let (what, hint) = match &problem {
            BadLineProblem::NoScheme => {
                let hint = format!("did you mean https://{shown} ?");
                ("has no scheme".to_owned(), Some(hint))
            }
            BadLineProblem::InvalidUrl(UrlError::Malformed(ParseError::RelativeUrlWithoutBase)) => {
                let hint =
                    "a URL looks like https://example.com/file, an object's like s3://bucket/key";
                ("is not a URL".to_owned(), Some(hint.to_owned()))
            }
            problem => (format!("cannot be used: {}", chain_text(problem)), None),
        };
        HaulError {
            hint,
            url: Some(shown.clone()),
            ..HaulError::usage(format!("{shown:?} {what}"))
        }
    })
}

pub(crate) fn parse_all<T>(name: &str, texts: &[String]) -> Result<Vec<T>, HaulError>
where
    T: std::str::FromStr,
    T::Err: Display,
{
    let parse = |text: &String| {
        text.parse()
            .map_err(|error: T::Err| HaulError::usage(format!("{name}: {error}")))
    };
    texts.iter().map(parse).collect()
}
