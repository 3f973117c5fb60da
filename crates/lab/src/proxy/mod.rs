//! Proxies under a script: HTTP by CONNECT and absolute-form, and SOCKS5.
//!
//! A proxy knows names by its routes: a test says that `files.test:443` is that address, so that nothing is resolved outside,
//! and it is seen whether a client left the name to the proxy. What else it is asked for it tries to reach as asked.

mod forwarding;
mod host_map;
mod http;
mod relay;
mod socks;
mod socks_handshake;

pub(crate) use forwarding::{ForwardedRequest, ForwardingProxyState};
pub use http::{HttpProxy, HttpProxyBuilder};
pub use socks::{SocksProxy, SocksProxyBuilder};
pub use socks_handshake::{SocksQuirk, SocksRequest, SocksTarget};
