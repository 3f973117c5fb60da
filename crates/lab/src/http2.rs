//! Origins that speak HTTP/2 over TLS (row A29).
//!
//! [`Http2Origin`] conforms to the protocol, and a script decides about each request: it is served, refused, reset in the middle or left
//! without a response, or the connection is closed. [`Http2FrameOrigin`] writes frames by hand, for what no library would send. Both record
//! their requests.

mod frame_origin;
pub mod frames;
mod origin;
mod stream;

use std::sync::Arc;

use rustls::ServerConfig;

pub use frame_origin::{FrameRequest, Http2FrameOrigin};
pub use origin::{Http2Origin, Http2Request, Http2Settings};
pub use stream::StreamAction;

use crate::tls::IssuedCertificate;

/// A TLS configuration with this certificate that offers these protocols by ALPN.
#[must_use]
pub fn alpn_server_config(
    issued: &IssuedCertificate,
    clients: Option<&crate::CertificateAuthority>,
    protocols: &[&str],
) -> Arc<ServerConfig> {
    let mut config = ServerConfig::clone(&issued.server_config(clients));
    config.alpn_protocols = protocols
        .iter()
        .map(|name| name.as_bytes().to_vec())
        .collect();
    Arc::new(config)
}
