//! What can go wrong between here and an answer, by meaning.

use std::error::Error as StdError;
use std::fmt;
use std::ops::Range;

use http::StatusCode;
use url::Url;

use crate::secret::without_credentials;

/// A cause of any type.
pub(crate) type Cause = Box<dyn StdError + Send + Sync>;

/// A request that brought no answer, or a body that broke.
#[derive(Debug)]
pub struct Error {
    /// What went wrong.
    kind: Kind,
    /// Where it was going, without credentials.
    url: Box<Url>,
    /// Which bytes were asked for.
    range: Option<Range<u64>>,
    /// What said so.
    source: Option<Cause>,
}

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// The name does not exist, or has no address of the family wanted.
    NoSuchHost(String),
    /// The name servers gave no answer.
    Resolve(String),
    /// No address of the host took a connection.
    Connect(String),
    /// The connection was not there in time.
    ConnectTimeout(String),
    /// The proxy would not connect us; the status it gave, where it is an HTTP proxy.
    ProxyRefused(Option<StatusCode>),
    /// The proxy wants credentials, or others.
    ProxyAuth(Option<String>),
    /// The peer's certificate or TLS itself.
    Tls(TlsProblem),
    /// No byte for as long as the stall timeout.
    Stall,
    /// The connection was closed or reset before the answer or its body was whole.
    Closed,
    /// The answer is no HTTP, or beyond limits.
    Protocol,
    /// A redirect that is not followed.
    Redirect(haul_plan::RedirectError),
    /// The URL or a header cannot be sent.
    Request,
}

/// What is wrong with a TLS peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsProblem {
    /// The certificate's time is over, or has not come.
    Expired,
    /// It is for another name.
    WrongHost,
    /// Nobody trusted has signed it: an own authority's or a self-signed one.
    UnknownIssuer,
    /// It was revoked.
    Revoked,
    /// The certificates that are trusted cannot be loaded.
    Roots,
    /// It wants a client certificate, or another than it was shown.
    ClientCertificate,
    /// Anything else: no common version, not TLS at all.
    Other,
}

impl Error {
    pub(crate) fn new(kind: Kind, url: &Url) -> Self {
        Self {
            kind,
            url: Box::new(without_credentials(url)),
            range: None,
            source: None,
        }
    }

    pub(crate) fn because(mut self, source: impl Into<Cause>) -> Self {
        self.source = Some(source.into());
        self
    }

    pub(crate) fn of_range(mut self, range: Option<Range<u64>>) -> Self {
        self.range = range;
        self
    }

    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Where the request went, without credentials.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Which bytes had been asked for.
    #[must_use]
    pub fn range(&self) -> Option<&Range<u64>> {
        self.range.as_ref()
    }

    /// Whether the same request may work later: the one table of what is retried.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match &self.kind {
            Kind::Resolve(_)
            | Kind::Connect(_)
            | Kind::ConnectTimeout(_)
            | Kind::Stall
            | Kind::Closed => true,
            Kind::ProxyRefused(status) => status.is_none_or(|status| status.is_server_error()),
            // A peer that talks no HTTP once may be a balancer in trouble; the budget ends it if it stays so.
            Kind::Protocol => true,
            Kind::NoSuchHost(_)
            | Kind::ProxyAuth(_)
            | Kind::Tls(_)
            | Kind::Redirect(_)
            | Kind::Request => false,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::NoSuchHost(host) => write!(f, "no such host: {host}"),
            Kind::Resolve(host) => write!(f, "the name {host} cannot be resolved now"),
            Kind::Connect(peer) => write!(f, "cannot connect to {peer}"),
            Kind::ConnectTimeout(peer) => write!(f, "no connection to {peer} in time"),
            Kind::ProxyRefused(Some(status)) => write!(f, "the proxy refused with {status}"),
            Kind::ProxyRefused(None) => f.write_str("the proxy refused"),
            Kind::ProxyAuth(Some(realm)) => write!(f, "the proxy wants credentials for {realm:?}"),
            Kind::ProxyAuth(None) => f.write_str("the proxy wants credentials"),
            Kind::Tls(problem) => write!(f, "{problem}"),
            Kind::Stall => f.write_str("the connection stood still for too long"),
            Kind::Closed => f.write_str("the connection was closed too early"),
            Kind::Protocol => f.write_str("the answer is not proper HTTP"),
            Kind::Redirect(error) => write!(f, "{error}"),
            Kind::Request => f.write_str("the request cannot be sent"),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source
            .as_ref()
            .map(|source| source.as_ref() as &(dyn StdError + 'static))
    }
}

impl fmt::Display for TlsProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "the certificate has expired or is not valid yet",
            Self::WrongHost => "the certificate is for another host",
            Self::UnknownIssuer => "the certificate is not signed by anyone trusted",
            Self::Revoked => "the certificate was revoked",
            Self::Roots => "the trusted certificates cannot be loaded",
            Self::ClientCertificate => "the peer wants a client certificate, or another one",
            Self::Other => "TLS failed",
        })
    }
}

/// Settings that cannot work, found before the first connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A certificate or key file is not what it should be.
    #[error("{what} holds no usable {wanted}")]
    Pem {
        /// Which file or flag.
        what: String,
        /// "certificate" or "private key".
        wanted: &'static str,
    },
    /// TLS refuses the settings.
    #[error("the TLS settings cannot be used")]
    Tls(#[from] rustls::Error),
}
