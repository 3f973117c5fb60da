//! What can go wrong between here and an answer, by meaning.

pub(crate) mod proxy_refusal;

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use http::StatusCode;
use url::Url;

use crate::request_target::without_credentials;
use crate::target::AddressFamily;

pub use proxy_refusal::ProxyRefusal;

/// A cause of any type.
pub(crate) type BoxedCause = Box<dyn StdError + Send + Sync>;

/// A request that brought no answer, or a body that broke.
#[derive(Debug, Clone)]
pub struct Error {
    /// What went wrong.
    kind: Kind,
    /// Where it was going, without credentials.
    url: Box<Url>,
    /// Which bytes were asked for.
    range: Option<Range<u64>>,
    /// The proxy that it happened at, or on the way through.
    proxy: Option<Box<ProxyName>>,
    /// What said so. Shared, since one failure may be that of all who waited for one connection.
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// Who named a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProxySource {
    /// The user, by a flag.
    #[default]
    ProxyFlag,
    /// The user, by this other flag.
    Flag(&'static str),
    /// This variable of the environment.
    Variable(&'static str),
}

impl fmt::Display for ProxySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ProxyFlag => "--proxy",
            Self::Flag(name) | Self::Variable(name) => name,
        })
    }
}

/// A proxy as messages name it: never with its login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyName {
    /// `host:port`.
    pub address: String,
    /// Who named it.
    pub source: ProxySource,
    /// Whether there was a login to give it.
    pub has_login: bool,
    /// The proxy behind it that it was asked for, if that is not the target.
    pub next_hop: Option<String>,
}

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// The name does not exist.
    NoSuchHost(String),
    /// The name has no address of the only family wanted, or is one of the other.
    NoAddress(String, AddressFamily),
    /// The name servers gave no answer.
    Resolve(String),
    /// No address of the host took a connection.
    Connect(String),
    /// The connection was not there in time.
    ConnectTimeout(String),
    /// There are connections, and they were full of other requests for too long.
    ConnectionsBusy(String),
    /// The proxy on the way is that of this variable, which cannot be used.
    UnusableProxyVariable(&'static str),
    /// The proxy would not connect us; the status it gave, where it is an HTTP proxy.
    ProxyRefused(Option<StatusCode>),
    /// The proxy wants credentials, or others.
    ProxyAuth(Option<String>),
    /// What was given as a SOCKS5 proxy speaks something else.
    NotSocks,
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
    InvalidRequest,
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
    RootsUnavailable,
    /// It speaks something else than TLS.
    NotTls,
    /// It wants a client certificate, or another than it was shown.
    ClientCertificate,
    /// It has no HTTP/2, and nothing else was to be offered.
    NoHttp2,
    /// Anything else: no common version, say.
    Other,
}

impl Error {
    pub(crate) fn new(kind: Kind, url: &Url) -> Self {
        Self {
            kind,
            url: Box::new(without_credentials(url)),
            range: None,
            proxy: None,
            source: None,
        }
    }

    pub(crate) fn with_source(mut self, source: impl Into<BoxedCause>) -> Self {
        self.source = Some(Arc::from(source.into()));
        self
    }

    /// The same, of another request that waited for the same.
    pub(crate) fn for_url(&self, url: &Url) -> Self {
        Self {
            url: Box::new(without_credentials(url)),
            ..self.clone()
        }
    }

    pub(crate) fn with_range(mut self, range: Option<Range<u64>>) -> Self {
        self.range = range;
        self
    }

    /// It happened at this proxy, or on the way through it.
    pub(crate) fn with_proxy(mut self, proxy: ProxyName) -> Self {
        self.proxy = Some(Box::new(proxy));
        self
    }

    /// The proxy that it happened at was asked for this one, and not for the target.
    pub(crate) fn with_next_hop(mut self, next: &str) -> Self {
        if let Some(via) = &mut self.proxy {
            via.next_hop.get_or_insert_with(|| next.to_owned());
        }
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

    /// The proxy that it happened at, or on the way through.
    #[must_use]
    pub fn proxy(&self) -> Option<&ProxyName> {
        self.proxy.as_deref()
    }

    /// Whether it is the proxy itself that could not be reached.
    #[must_use]
    pub fn is_proxy_unreachable(&self) -> bool {
        let Some(proxy) = &self.proxy else {
            return false;
        };
        match &self.kind {
            Kind::Connect(peer) | Kind::ConnectTimeout(peer) => proxy.address == *peer,
            Kind::NoSuchHost(host) | Kind::NoAddress(host, _) | Kind::Resolve(host) => {
                let name = proxy.address.rsplit_once(':').map(|(name, _)| name);
                name == Some(host)
            }
            _ => false,
        }
    }

    /// Whether it happened before there was a connection, or without a look at any range: which bytes were asked for then
    /// says nothing.
    #[must_use]
    pub fn is_after_connect(&self) -> bool {
        matches!(self.kind, Kind::Stall | Kind::Closed | Kind::Protocol)
    }

    /// Whether the same request may work later: the one table of what is retried.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match &self.kind {
            Kind::Resolve(_)
            | Kind::Connect(_)
            | Kind::ConnectTimeout(_)
            | Kind::ConnectionsBusy(_)
            | Kind::Stall
            | Kind::Closed => true,
            Kind::ProxyRefused(Some(status)) => status.is_server_error(),
            Kind::ProxyRefused(None) => self.proxy_refusal() != Some(ProxyRefusal::NotAllowed),
            // A peer that talks no HTTP once may be a balancer in trouble; the budget ends it if it stays so.
            Kind::Protocol => true,
            Kind::NoSuchHost(_)
            | Kind::NoAddress(..)
            | Kind::UnusableProxyVariable(_)
            | Kind::ProxyAuth(_)
            | Kind::NotSocks
            | Kind::Tls(_)
            | Kind::Redirect(_)
            | Kind::InvalidRequest => false,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let proxy_itself = |peer: &String| self.proxy.as_ref().filter(|p| p.address == *peer);
        match &self.kind {
            Kind::NoSuchHost(host) => write!(f, "no such host: {host}"),
            Kind::NoAddress(host, family) => fmt_no_address(f, host, *family),
            Kind::Resolve(host) => write!(f, "the name {host} cannot be resolved now"),
            Kind::Connect(peer) => match proxy_itself(peer) {
                Some(proxy) => return write!(f, "cannot connect to {proxy}"),
                None => write!(f, "cannot connect to {peer}"),
            },
            Kind::ConnectTimeout(peer) => match proxy_itself(peer) {
                Some(proxy) => return write!(f, "no connection to {proxy} in time"),
                None => write!(f, "no connection to {peer} in time"),
            },
            Kind::ConnectionsBusy(peer) => {
                write!(f, "the connections to {peer} had no room in time")
            }
            Kind::UnusableProxyVariable(variable) => {
                write!(f, "the variable {variable} cannot be used")
            }
            Kind::ProxyRefused(status) => return self.fmt_proxy_refused(f, *status),
            Kind::ProxyAuth(realm) => return self.fmt_proxy_auth(f, realm.as_deref()),
            Kind::NotSocks => {
                self.fmt_proxy(f)?;
                return f.write_str(" does not speak SOCKS5");
            }
            Kind::Tls(problem) => write!(f, "{problem}"),
            Kind::Stall => f.write_str("the connection stood still for too long"),
            Kind::Closed => f.write_str("the connection was closed too early"),
            Kind::Protocol => f.write_str("the answer is not proper HTTP"),
            Kind::Redirect(error) => write!(f, "{error}"),
            Kind::InvalidRequest => f.write_str("the request cannot be sent"),
        }?;
        match &self.proxy {
            Some(proxy) => write!(f, " ({proxy})"),
            None => Ok(()),
        }
    }
}

impl Error {
    fn fmt_proxy_refused(
        &self,
        f: &mut fmt::Formatter<'_>,
        status: Option<StatusCode>,
    ) -> fmt::Result {
        self.fmt_proxy(f)?;
        match (self.proxy_refusal(), status) {
            (Some(ProxyRefusal::TargetUnreachable), Some(status)) => {
                write!(f, " cannot reach {}: {status}", self.requested_peer())
            }
            (Some(ProxyRefusal::TargetUnreachable), None) => {
                write!(f, " cannot reach {}", self.requested_peer())
            }
            (_, Some(status)) => write!(f, " refused with {status}"),
            (_, None) => f.write_str(" refused"),
        }
    }

    /// What a proxy was asked for.
    fn requested_peer(&self) -> String {
        let next = self.proxy.as_ref().and_then(|via| via.next_hop.as_ref());
        next.map_or_else(
            || "the target".to_owned(),
            |next| format!("the next proxy {next}"),
        )
    }

    fn fmt_proxy_auth(&self, f: &mut fmt::Formatter<'_>, realm: Option<&str>) -> fmt::Result {
        self.fmt_proxy(f)?;
        f.write_str(match &self.proxy {
            // Where there is a reason, they were not even shown.
            Some(proxy) if proxy.has_login && self.source.is_none() => {
                " refused the credentials given"
            }
            _ => " wants credentials",
        })?;
        realm.map_or(Ok(()), |realm| write!(f, " for {realm:?}"))
    }

    fn fmt_proxy(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.proxy {
            Some(proxy) => write!(f, "{proxy}"),
            None => f.write_str("the proxy"),
        }
    }
}

impl fmt::Display for ProxyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the proxy {} from {}", self.address, self.source)
    }
}

/// An address of the other family is told apart from a name that has none of this one.
fn fmt_no_address(f: &mut fmt::Formatter<'_>, host: &str, family: AddressFamily) -> fmt::Result {
    if host.parse::<std::net::IpAddr>().is_ok() {
        write!(f, "{host} is no {family} address")
    } else {
        write!(f, "{host} has no {family} address")
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
            Self::RootsUnavailable => "the trusted certificates cannot be loaded",
            Self::NotTls => "the peer does not speak TLS",
            Self::ClientCertificate => "the peer wants a client certificate, or another one",
            Self::NoHttp2 => "the peer does not speak HTTP/2; --http1.1 does without",
            Self::Other => "TLS failed",
        })
    }
}

/// Whether the process, or the system, has as many files open as it may.
#[must_use]
pub fn is_descriptor_limit(error: &io::Error) -> bool {
    let errno = error.raw_os_error();
    matches!(errno, Some(libc::EMFILE | libc::ENFILE))
}

impl Error {
    /// Whether that is why there was no connection, or no address.
    #[must_use]
    pub fn is_descriptor_limit(&self) -> bool {
        let mut cause = self.source();
        while let Some(error) = cause {
            if error.downcast_ref().is_some_and(is_descriptor_limit) {
                return true;
            }
            cause = error.source();
        }
        false
    }
}
