//! Byte streams to peers, and HTTP over them.
//!
//! Two pieces stand on their own. [`Connector`] makes a stream to a target: names resolved and cached, TCP by happy
//! eyeballs, through HTTP or SOCKS5 proxies, TLS on top; every other crate connects through it. [`Client`] makes GET
//! requests over such streams: one hyper HTTP/1.1 connection at a time belongs to one [`FetchResponse`], whose body is read
//! in the caller's own task, without a background task or a channel between. Requests that may share a connection do so
//! by HTTP/2 where that is faster; such a connection has one task, which ends with it.
//!
//! Nothing here retries what failed: [`Error::is_transient`] says what may be tried again, and `transfer` tries.
//! Credentials are held as [`Secret`]s and sent only to the origin that they were given for.

mod alpn;
mod auth;
mod body;
mod client;
mod connection;
pub mod connector;
mod credential_scope;
mod descriptor_limit;
mod error;
mod exchange_error;
mod http2;
mod no_proxy;
mod pool;
mod proxy;
mod proxy_refusal;
mod rate_limit;
mod read_timeout;
mod redacted_url;
mod request;
mod response;
mod route;
mod secret;
mod tls;
mod tls_error;
mod tls_read_buffer;
mod trust;

pub use alpn::TlsPeer;
pub use auth::{Authorization, Login, MAX_AUTH_ATTEMPTS, Netrc, NetrcError, UserCredentials};
pub use client::{Client, ClientConfig, FetchRequest};
pub use connector::{
    AddressFamily, ConnectedStream, Connector, ConnectorConfig, ResolverChoice, Target,
    TargetError, TransportStream,
};
pub use credential_scope::CredentialScope;
pub use descriptor_limit::is_descriptor_limit;
pub use error::{ConfigError, Error, Kind, ProxyName, TlsProblem};
pub use haul_plan::{AlpnOffer, HttpVersionChoice};
pub use no_proxy::{NoProxy, NoProxyError};
pub use proxy::{Proxy, ProxyError, ProxyRules, ProxyScheme, ProxySource, UnusableProxyVariable};
pub use proxy_refusal::ProxyRefusal;
pub use redacted_url::{redacted_target, redacted_text, redacted_url};
pub use request::is_framing_header;
pub use response::{FetchResponse, RequestTimings};
pub use secret::{Secret, without_credentials};
pub use tls::{ClientCertificate, ProxyTls, TlsOptions, crypto_provider};
pub use tls_read_buffer::TlsReadBuffer;
pub use trust::TrustedFiles;
