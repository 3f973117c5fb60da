//! Proxies under a script: HTTP by CONNECT and absolute-form, and SOCKS5.
//!
//! A test gives the proxy the addresses of names such as `files.test:443`. So nothing is resolved outside, and the test sees whether a
//! client left the name to the proxy. The proxy connects to all other targets as they are requested.

mod forwarding;
mod http;
mod socks;
mod socks_handshake;
mod target;

pub(crate) use forwarding::{ForwardedRequest, ForwardingProxyState};
pub use http::{HttpProxy, HttpProxyBuilder};
pub use socks::{SocksProxy, SocksProxyBuilder};
pub use socks_handshake::{SocksQuirk, SocksRequest, SocksTarget};
