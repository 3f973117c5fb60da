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

mod auth;
mod client;
mod config;
mod connector;
mod credential_scope;
mod error;
mod exchange_error;
mod http1;
mod http2;
mod proxy;
mod read_timeout;
mod redacted_url;
mod request;
mod request_head;
mod request_target;
mod response;
mod secret;
mod target;
mod tls;
mod transport;

pub use auth::{Authorization, Login, MAX_AUTH_ATTEMPTS, Netrc, NetrcError, UserCredentials};
pub use client::Client;
pub use config::ClientConfig;
pub use connector::{ConnectedStream, Connector, ConnectorConfig, PinnedAddress, ResolverChoice};
pub use credential_scope::CredentialScope;
pub use error::{
    Error, Kind, ProxyName, ProxyRefusal, ProxySource, TlsProblem, is_descriptor_limit,
};
pub use haul_plan::{AlpnOffer, HttpVersionChoice};
pub use proxy::{
    NoProxy, NoProxyError, Proxy, ProxyError, ProxyRules, ProxyScheme, UnusableProxyVariable,
};
pub use redacted_url::{redacted_target, redacted_text, redacted_url};
pub use request::FetchRequest;
pub use request_head::is_framing_header;
pub use request_target::without_credentials;
pub use response::{FetchResponse, RequestTimings};
pub use secret::Secret;
pub use target::{AddressFamily, Target, TargetError};
pub use tls::{
    ClientCertificate, ProxyTls, TlsConfigError, TlsOptions, TlsPeer, TrustedFiles, crypto_provider,
};
pub use transport::{SocketState, TcpTransport, TlsReadBuffer, TransportStream, set_low_water};
