//! What can go wrong between a request and the end of its response, by meaning.

pub(crate) mod proxy_refusal;
mod remedies;

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::sync::Arc;

use http::StatusCode;
use url::Url;

use crate::http1::Http1Error;
use crate::redacted_url::redacted_url;
use crate::redirect::RedirectError;
use crate::request_secrets::RequestSecrets;
use crate::request_target::without_credentials;
use crate::target::AddressFamily;
pub use proxy_refusal::ProxyRefusal;

/// A request that got no response, or a body that broke.
#[derive(Debug, Clone)]
pub struct Error {
    kind: Kind,
    /// Without credentials.
    url: Box<Url>,
    /// The proxy that the connection went through.
    proxy: Option<Box<ProxyName>>,
    /// Shared, since the failure of one connection may be the failure of all requests that waited for it.
    source: Option<Arc<dyn StdError + Send + Sync>>,
    is_first_contact: bool,
    is_login_unasked: bool,
}

/// A proxy as messages name it, without its login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyName {
    /// `host:port`.
    pub address: String,
    /// The variable of the environment that named the proxy; `None` if the caller's settings did.
    pub variable: Option<&'static str>,
    /// Whether haul has a login with a password for it.
    pub has_login: bool,
    /// The next proxy of the chain, if the connection to that one failed and not the one to the target.
    pub next_hop: Option<String>,
}

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// The name does not exist.
    NoSuchHost(String),
    /// The name has no address of the only family that may be used, or the address is of the other family.
    NoAddress(String, AddressFamily),
    /// The name servers gave no answer.
    Resolve(String),
    /// No address of the peer accepted a connection.
    Connect(String),
    /// Connecting to the peer took too long.
    ConnectTimeout(String),
    /// All connections to the peer were full of other requests for too long.
    ConnectionsBusy(String),
    /// The environment variable that should name the proxy cannot be used.
    UnusableProxyVariable(&'static str),
    /// The proxy did not connect to the target; with its status, if it is an HTTP proxy.
    ProxyRefused(Option<StatusCode>),
    /// The proxy asks for credentials, or for others; with its realm.
    ProxyAuth(Option<String>),
    /// The proxy does not speak SOCKS5.
    NotSocks,
    /// The peer's certificate, or TLS itself.
    Tls(TlsProblem),
    /// The peer was silent for the stall timeout.
    Stall,
    /// The head of the response did not come within the response timeout.
    ResponseTimeout,
    /// The connection was closed or reset before the response was complete.
    Closed,
    /// The response is not HTTP, or exceeds a limit.
    Protocol,
    /// The end of the body is uncertain, or the body is in a transfer coding that was not asked for.
    Framing(haul_plan::FramingError),
    /// A redirect that is not followed.
    Redirect(RedirectError),
    /// The URL or a header field cannot be sent.
    InvalidRequest,
    /// The request could not be signed: there are no credentials, say.
    Signing,
    /// The body of the request could not be read.
    RequestBody,
}

/// What is wrong with a TLS peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsProblem {
    /// The certificate has expired, or is not valid yet.
    Expired,
    /// The certificate is for another name.
    WrongHost,
    /// The certificate is signed by no trusted authority: by a private one, say.
    UnknownIssuer,
    /// The certificate is a CA's own, as self-signed ones usually are, and is used as a server's.
    SelfSigned,
    Revoked,
    /// The trusted certificates cannot be loaded.
    RootsUnavailable,
    /// The peer does not speak TLS.
    NotTls,
    /// The peer speaks HTTP without TLS.
    PlainHttp,
    /// The peer asks for a client certificate, or does not accept the one it saw.
    ClientCertificate,
    /// The peer does not speak HTTP/2, and nothing else was offered.
    NoHttp2,
    /// Anything else, such as no common version.
    Other,
}

impl Error {
    pub(crate) fn new(kind: Kind, url: &Url) -> Self {
        Self {
            kind,
            url: Box::new(without_credentials(url)),
            proxy: None,
            source: None,
            is_first_contact: false,
            is_login_unasked: false,
        }
    }

    pub(crate) fn with_source(
        mut self,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        self.source = Some(Arc::from(source.into()));
        self
    }

    /// The same failure, for another request that waited for the same connection.
    pub(crate) fn for_url(&self, url: &Url) -> Self {
        Self {
            url: Box::new(without_credentials(url)),
            ..self.clone()
        }
    }

    pub(crate) fn with_proxy(mut self, proxy: ProxyName) -> Self {
        self.proxy = Some(Box::new(proxy));
        self
    }

    /// Adds that the proxy was connecting to this next proxy, and not to the target.
    pub(crate) fn with_next_hop(mut self, address: &str) -> Self {
        if let Some(proxy) = &mut self.proxy {
            proxy.next_hop.get_or_insert_with(|| address.to_owned());
        }
        self
    }

    /// Adds that none of the client's requests has had a response yet.
    pub(crate) fn at_first_contact(self) -> Self {
        Self {
            is_first_contact: true,
            ..self
        }
    }

    /// The same without these secrets in what it repeats of the peer.
    pub(crate) fn redacted_by(mut self, secrets: &RequestSecrets) -> Self {
        if let Kind::ProxyAuth(Some(realm)) = &mut self.kind {
            *realm = secrets.redact(realm);
        }
        self
    }

    /// Adds that the proxy got its login without ever having asked for one.
    pub(crate) fn with_unasked_login(self) -> Self {
        Self {
            is_login_unasked: true,
            ..self
        }
    }

    /// Whether the proxy got its login without ever having asked for one. What it refused may have been the login.
    #[must_use]
    pub fn is_login_unasked(&self) -> bool {
        self.is_login_unasked
    }

    /// Whether none of the client's requests had had a response yet: the host may be a wrong one.
    #[must_use]
    pub fn is_first_contact(&self) -> bool {
        self.is_first_contact
    }

    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// The URL of the request, without credentials.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The proxy that failed, or that the connection went through.
    #[must_use]
    pub fn proxy(&self) -> Option<&ProxyName> {
        self.proxy.as_deref()
    }

    /// Whether the proxy itself could not be reached.
    #[must_use]
    pub fn is_proxy_unreachable(&self) -> bool {
        let Some(proxy) = &self.proxy else {
            return false;
        };
        match &self.kind {
            Kind::Connect(peer) | Kind::ConnectTimeout(peer) => proxy.address == *peer,
            Kind::NoSuchHost(host) | Kind::NoAddress(host, _) | Kind::Resolve(host) => {
                let proxy_host = proxy.address.rsplit_once(':').map(|(host, _)| host);
                proxy_host == Some(host)
            }
            _ => false,
        }
    }

    /// Whether it happened on an established connection. Before that, the range of the request does not matter.
    #[must_use]
    pub fn is_after_connect(&self) -> bool {
        matches!(
            self.kind,
            Kind::Stall | Kind::ResponseTimeout | Kind::Closed | Kind::Protocol | Kind::Framing(_)
        )
    }

    /// Whether an HTTP/1.1 peer closed the connection without a response, as some servers do that expect TLS.
    #[must_use]
    pub fn is_closed_without_response(&self) -> bool {
        matches!(self.http1_error(), Some(Http1Error::ClosedBeforeHead))
    }

    /// Whether nothing of the request was sent.
    pub(crate) fn is_unsent(&self) -> bool {
        matches!(self.http1_error(), Some(Http1Error::Unsent))
    }

    fn http1_error(&self) -> Option<&Http1Error> {
        self.source().and_then(<dyn StdError>::downcast_ref)
    }

    /// Whether the process or the system has no free descriptors, and that is why there was no connection or no address.
    #[must_use]
    pub fn is_descriptor_limit(&self) -> bool {
        let mut source = self.source();
        while let Some(error) = source {
            if error.downcast_ref().is_some_and(is_descriptor_limit) {
                return true;
            }
            source = error.source();
        }
        false
    }

    /// Whether the address is a link-local one without the interface that leads to it. It can never be reached like this.
    #[must_use]
    pub fn lacks_zone(&self) -> bool {
        let source = self.source().and_then(<dyn StdError>::downcast_ref);
        let number = source.and_then(io::Error::raw_os_error);
        matches!(self.kind, Kind::Connect(_)) && number == Some(libc::EINVAL)
    }

    /// Whether the same request may work later. This is the one table of what may be retried.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match &self.kind {
            Kind::Connect(_) => !self.lacks_zone(),
            Kind::Resolve(_)
            | Kind::ConnectTimeout(_)
            | Kind::ConnectionsBusy(_)
            | Kind::Stall
            | Kind::ResponseTimeout
            | Kind::Closed => true,
            Kind::ProxyRefused(Some(status)) => status.is_server_error(),
            Kind::ProxyRefused(None) => self.proxy_refusal() != Some(ProxyRefusal::NotAllowed),
            // A peer that once sends something else than HTTP may be a load balancer in trouble; the retry budget ends it.
            Kind::Protocol => true,
            Kind::NoSuchHost(_)
            | Kind::NoAddress(..)
            | Kind::UnusableProxyVariable(_)
            | Kind::ProxyAuth(_)
            | Kind::NotSocks
            | Kind::Tls(_)
            | Kind::Framing(_)
            | Kind::Redirect(_)
            | Kind::InvalidRequest
            | Kind::Signing
            | Kind::RequestBody => false,
        }
    }

    fn fmt_failure(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let proxy_at = |peer: &String| self.proxy.as_ref().filter(|p| p.address == *peer);
        match &self.kind {
            Kind::NoSuchHost(host) => write!(f, "no such host: {host}"),
            Kind::NoAddress(host, family) => fmt_no_address(f, host, *family),
            Kind::Resolve(host) => write!(f, "the name {host} cannot be resolved now"),
            Kind::Connect(peer) => match proxy_at(peer) {
                Some(proxy) => return write!(f, "cannot connect to {proxy}"),
                None => write!(f, "cannot connect to {peer}"),
            },
            Kind::ConnectTimeout(peer) => match proxy_at(peer) {
                Some(proxy) => return write!(f, "no connection to {proxy} in time"),
                None => write!(f, "no connection to {peer} in time"),
            },
            Kind::ConnectionsBusy(peer) => {
                write!(f, "no connection to {peer} was free in time")
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
            Kind::Tls(TlsProblem::PlainHttp)
                if self.proxy.is_none() && self.url.scheme() == "https" =>
            {
                let mut url = Url::clone(&self.url);
                // It fails only for URLs that are not of the web.
                let _ = url.set_scheme("http");
                write!(
                    f,
                    "the server speaks plain HTTP, without TLS: {}",
                    redacted_url(&url)
                )
            }
            Kind::Tls(problem) => write!(f, "{problem}"),
            Kind::Stall => f.write_str("no data arrived for too long"),
            Kind::ResponseTimeout => f.write_str("no response came in time"),
            Kind::Closed => f.write_str("the connection was closed too early"),
            Kind::Protocol => f.write_str("the response is not valid HTTP"),
            Kind::Framing(error) => write!(f, "{error}"),
            Kind::Redirect(error) => write!(f, "{error}"),
            Kind::InvalidRequest => f.write_str("the request cannot be sent"),
            Kind::Signing => f.write_str("the request cannot be signed"),
            Kind::RequestBody => f.write_str("the bytes to send cannot be read"),
        }?;
        match &self.proxy {
            Some(proxy) => write!(f, " ({proxy})"),
            None => Ok(()),
        }
    }

    fn fmt_proxy_refused(
        &self,
        f: &mut fmt::Formatter<'_>,
        status: Option<StatusCode>,
    ) -> fmt::Result {
        self.fmt_proxy(f)?;
        match (self.proxy_refusal(), status) {
            (Some(ProxyRefusal::TargetUnreachable), status) => {
                write!(f, " cannot reach {}", self.requested_peer())?;
                status.map_or(Ok(()), |status| write!(f, ": {status}"))
            }
            (_, Some(status)) => write!(f, " refused with {status}"),
            (_, None) => f.write_str(" refused"),
        }
    }

    /// What the proxy should connect to.
    fn requested_peer(&self) -> String {
        let next_hop = self
            .proxy
            .as_ref()
            .and_then(|proxy| proxy.next_hop.as_ref());
        match next_hop {
            Some(address) => format!("the next proxy {address}"),
            None => "the target".to_owned(),
        }
    }

    fn fmt_proxy_auth(&self, f: &mut fmt::Formatter<'_>, realm: Option<&str>) -> fmt::Result {
        self.fmt_proxy(f)?;
        f.write_str(match &self.proxy {
            // With a source, the credentials were not even sent.
            Some(proxy) if proxy.has_login && self.source.is_none() => " refused the credentials",
            _ => " requires credentials",
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

/// Whether the process, or the system, has as many files open as it may. Neither the network nor the peer causes that.
#[must_use]
pub fn is_descriptor_limit(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_failure(f)?;
        if self.is_login_unasked {
            f.write_str("; it never asked for a login, and haul sent it by Basic")
        } else {
            Ok(())
        }
    }
}

/// An address of the other family gets another message than a name without addresses of this one.
fn fmt_no_address(f: &mut fmt::Formatter<'_>, host: &str, family: AddressFamily) -> fmt::Result {
    if host.parse::<std::net::IpAddr>().is_ok() {
        write!(f, "{host} is not an {family} address")
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

impl fmt::Display for ProxyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.variable {
            Some(variable) => write!(f, "the proxy {} from {variable}", self.address),
            None => write!(f, "the proxy {}", self.address),
        }
    }
}

impl fmt::Display for TlsProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "the certificate has expired or is not valid yet",
            Self::WrongHost => "the certificate is for another host",
            Self::UnknownIssuer => "the issuer of the certificate is not trusted",
            Self::SelfSigned => "the server's certificate is self-signed, or is a CA certificate",
            Self::Revoked => "the certificate was revoked",
            Self::RootsUnavailable => "the trusted certificates cannot be loaded",
            Self::NotTls => "the peer does not speak TLS",
            Self::PlainHttp => "the peer speaks plain HTTP, without TLS",
            Self::ClientCertificate => "the peer requires a client certificate, or another one",
            Self::NoHttp2 => "the peer does not support HTTP/2",
            Self::Other => "TLS failed",
        })
    }
}
