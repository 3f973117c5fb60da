//! What tests, `demo` and benches share: an origin that can break every rule, a slow link, proxies, certificates.
//!
//! These are real programs over real sockets on loopback, in the caller's process: [`Origin`] answers HTTP/1.1 by writing
//! raw bytes, since it must be able to say what no library would let it say; a [`GeneratedFiles`] gives it as many files as a batch has,
//! with faults by seed; [`http2`] has two origins that speak HTTP/2 over TLS; [`SilentListener`] is where nothing answers;
//! [`DnsServer`] tells addresses by a script; [`SlowLinkBuilder`] relays TCP with latency, rate and
//! cuts; [`HttpProxy`] and [`SocksProxy`] stand between and tell what they were asked; [`CertificateAuthority`] issues good and bad
//! certificates. Each stops when it is dropped, and a panic in one goes on in whoever drops it. [`within()`] puts a limit on a
//! test. [`history`] is no program: it judges what others say that a store answered them.

mod bandwidth_limit;
mod content;
mod dns;
mod generated_files;
pub mod history;
pub mod http2;
mod link;
mod open_counter;
mod origin;
mod proxy;
mod running_listener;
mod silent_listener;
mod stream_cut;
mod tls;
mod within;

pub use content::ResourceContent;
pub use dns::{DnsReply, DnsServer};
pub use generated_files::{FileFault, GeneratedFiles};
pub use link::{SlowLink, SlowLinkBuilder};
pub use origin::{
    Origin, OriginBuilder, OriginResource, OriginResponse, OriginResponseBody,
    OriginResponseFraming, RecordedRequest, RequestMatcher, faults,
};
pub use proxy::{
    HttpProxy, HttpProxyBuilder, SocksProxy, SocksProxyBuilder, SocksQuirk, SocksRequest,
    SocksTarget,
};
pub use silent_listener::SilentListener;
pub use stream_cut::StreamCut;
pub use tls::{CertificateAuthority, CertificateFiles, IssuedCertificate};
pub use within::within;
