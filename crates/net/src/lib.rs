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

mod answer;
mod auth;
mod body;
mod broke;
mod client;
mod connection;
pub mod connector;
mod error;
mod limit;
mod multiplexed;
mod no_proxy;
mod offered;
mod pool;
mod proxy;
mod records;
mod refusal;
mod request;
mod route;
mod secret;
mod shortage;
mod shown;
mod stall;
mod standing;
mod tls;
mod tls_words;
mod trust;

pub use answer::{FetchResponse, RequestTimings};
pub use auth::{Authorization, Login, MAX_AUTH_ATTEMPTS, Netrc, NetrcError, UserCredentials};
pub use client::{Client, ClientConfig, FetchRequest};
pub use connector::{
    AddressFamily, ConnectedStream, Connector, ConnectorConfig, ResolverChoice, Target,
    TargetError, TransportStream,
};
pub use error::{ConfigError, Error, Kind, ProxyName, TlsProblem};
pub use haul_plan::{AlpnOffer, HttpVersionChoice};
pub use no_proxy::{NoProxy, NoProxyError};
pub use offered::TlsPeer;
pub use proxy::{Proxy, ProxyError, ProxyRules, ProxyScheme, ProxySource, UnusableProxyVariable};
pub use records::TlsReadBuffer;
pub use refusal::ProxyRefusal;
pub use request::is_framing_header;
pub use secret::{Secret, without_credentials};
pub use shortage::is_descriptor_limit;
pub use shown::{redacted_target, redacted_text, redacted_url};
pub use standing::CredentialScope;
pub use tls::{ClientCertificate, ProxyTls, TlsOptions, crypto_provider};
pub use trust::TrustedFiles;
