//! What tests, `demo` and benches share: an origin that can break every rule, a slow link, proxies, certificates.
//!
//! These are real programs over real sockets on loopback, in the caller's process: [`Origin`] answers HTTP/1.1 by writing
//! raw bytes, since it must be able to say what no library would let it say; a [`GeneratedFiles`] gives it as many files as a batch has,
//! with faults by seed; [`http2`] has two origins that speak HTTP/2 over TLS; [`SilentListener`] is where nothing answers;
//! [`DnsServer`] tells addresses by a script; [`SlowLinkBuilder`] relays TCP with latency, rate and
//! cuts; [`HttpProxy`] and [`SocksProxy`] stand between and tell what they were asked; [`CertificateAuthority`] issues good and bad
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

pub use content::ResourceContent;
pub use dns::{DnsReply, DnsServer};
pub use link::{SlowLink, SlowLinkBuilder};
pub use origin::{
    Origin, OriginBuilder, OriginReply, OriginResource, RecordedRequest, ReplyBody, ReplyFraming,
    RequestMatcher, breakage,
};
pub use proxy::{
    HttpProxy, HttpProxyBuilder, SocksProxy, SocksProxyBuilder, SocksQuirk, SocksRequest,
    SocksTarget,
};
pub use shelf::{FileFault, GeneratedFiles};
pub use silent::SilentListener;
pub use tls::{CertificateAuthority, CertificateFiles, IssuedCertificate};
pub use within::within;
