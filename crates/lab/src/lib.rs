//! What tests, `demo` and benches share: an origin that can break every rule, a slow link, proxies, certificates.
//!
//! These are real programs over real sockets on loopback, in the caller's process: [`Origin`] answers HTTP/1.1 by writing
//! raw bytes, since it must be able to say what no library would let it say; a [`Shelf`] gives it as many files as a batch has,
//! with faults by seed; [`http2`] has two origins that speak HTTP/2 over TLS; [`Silent`] is where nothing answers;
//! [`NameServer`] tells addresses by a script; [`SlowLink`] relays TCP with latency, rate and
//! cuts; [`HttpProxy`] and [`SocksProxy`] stand between and tell what they were asked; [`Authority`] issues good and bad
//! certificates. Each stops when it is dropped, and a panic in one goes on in whoever drops it. [`within()`] puts a limit on a
//! test. [`history`] is no program: it judges what others say that a store answered them.

mod content;
mod dns;
pub mod history;
pub mod http2;
mod link;
mod listening;
mod origin;
mod pace;
mod proxy;
mod shelf;
mod silent;
mod tls;
mod within;

pub use content::Content;
pub use dns::{NameReply, NameServer};
pub use link::{Link, SlowLink};
pub use origin::{Asked, Body, Framing, Origin, OriginBuilder, Reply, Resource, When, breakage};
pub use proxy::{
    HttpProxy, HttpProxyBuilder, SocksAsked, SocksProxy, SocksProxyBuilder, SocksQuirk, SocksTarget,
};
pub use shelf::{Fault, Shelf};
pub use silent::Silent;
pub use tls::{Authority, Issued, PemFiles};
pub use within::within;
