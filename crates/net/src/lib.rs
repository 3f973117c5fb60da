//! Byte streams to peers, and HTTP requests over them.
//!
//! Two types stand for the whole crate. A [`Connector`] makes a stream to a target: names resolved and cached, TCP by happy
//! eyeballs, HTTP or SOCKS5 proxies, TLS; every other crate connects through it. A [`Client`] makes requests over such
//! streams: an HTTP/1.1 connection belongs to one [`FetchResponse`] at a time, and its body is read in the caller's own task,
//! without a background task or a channel. Requests that may share a connection do so by HTTP/2 where that is faster; such a
//! connection has one task, which ends with it.
//!
//! Nothing here retries a failure: [`Error::is_transient`] says whether another try makes sense, and `transfer` tries.
//! Credentials are held as [`Secret`]s, and [`CredentialScope`] decides which peer may see them.
//!
//! Modules build on each other in this order: `zone`, `target`, `request_target`, `secret`, `redacted_url`, `request_secrets`, `credential_scope`; `redirect`; `error`;
//! `transport` (TCP and TLS streams); `tls`; `auth`; `proxy`; `connector`; `request_body`, `signer`, `config` and `request`; `http1` and `http2`
//! (connections and their pools); `response`; `client`.

mod auth;
mod client;
mod config;
mod connector;
mod credential_scope;
mod error;
mod exchange_error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod http1;
mod http2;
mod proxy;
mod read_timeout;
mod redacted_url;
mod redirect;
mod request;
mod request_body;
mod request_head;
mod request_secrets;
mod request_target;
mod response;
mod secret;
mod signer;
mod target;
mod tls;
mod transport;
mod zone;

pub use auth::{Authorization, Login, MAX_AUTH_ATTEMPTS, Netrc, NetrcError, UserCredentials};
pub use client::Client;
pub use config::ClientConfig;
pub use connector::{ConnectedStream, Connector, ConnectorConfig, PinnedAddress, ResolverChoice};
pub use credential_scope::CredentialScope;
pub use error::{Error, Kind, ProxyName, ProxyRefusal, TlsProblem, is_descriptor_limit};
pub use haul_plan::{AlpnOffer, HttpVersionChoice};
pub use proxy::{
    NoProxy, NoProxyError, Proxy, ProxyError, ProxyRules, ProxyScheme, UnusableProxyVariable,
};
pub use redacted_url::{redacted_target, redacted_text, redacted_url};
pub use redirect::{RedirectError, RedirectOptions};
pub use request::{ConnectObserver, FetchRequest, RangeByRoundTrip, ResponseObserver};
pub use request_body::{BodySource, BodyStream, RequestBody};
pub use request_head::is_framing_header;
pub use request_secrets::RequestSecrets;
pub use request_target::{authority, origin_text, without_credentials};
pub use response::{FetchResponse, RequestTimings, ResponseState};
pub use secret::Secret;
pub use signer::{Refusal, RequestSigner, SIGNED_SCHEME, SignerError, SignerFuture};
pub use target::{AddressFamily, Target, TargetError};
pub use tls::{
    ClientCertificate, PemRole, ProxyTls, TlsConfigError, TlsOptions, TlsPeer, TrustedFiles,
    crypto_provider,
};
pub use transport::{
    SocketState, TcpTransport, TlsReadBuffer, TransportStream, bytes_unacknowledged, set_low_water,
};
pub use zone::{
    UrlError, address_with_zone, ipv6_text, parse_ipv6, parse_url, socket_address, url_text,
};
