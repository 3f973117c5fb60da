//! What fuzz targets need of this crate: parsers of the bytes of clients. Not an interface for anything else.

use haul_net::Target;
use http::request::Parts;
use http::{Request, StatusCode};

use crate::{http_listener, socks_listener};

/// The length of the SOCKS5 greeting that these bytes begin with, if it is served.
#[must_use]
pub fn socks_greeting(bytes: &[u8]) -> Option<usize> {
    socks_listener::greeting_length(bytes)
}

/// The target of the SOCKS5 request that these bytes begin with, and the request's length.
#[must_use]
pub fn socks_request(bytes: &[u8]) -> Option<(Target, usize)> {
    socks_listener::request_target(bytes)
}

/// Where a request in absolute-form goes, and its head as the origin and as a proxy get it.
///
/// # Errors
/// The status with which it is refused.
pub fn forwarded_request(head: Parts) -> Result<(Target, Request<()>, Request<()>), StatusCode> {
    http_listener::forwarded_request(head)
}
