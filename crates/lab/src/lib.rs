//! Servers for tests, `demo` and benches: an origin that can break every rule, a slow link, proxies, certificates.
//!
//! They are real servers on loopback, in the caller's process:
//!
//! - [`Origin`] serves HTTP/1.1 by writing raw bytes, since it must be able to send what no library would send.
//! - [`GeneratedFiles`] gives it as many files as a batch has, with faults by seed.
//! - [`DrawnOrigin`] gives it habits and faults that are drawn from a seed, [`DrawnStore`] an [`ObjectStore`].
//! - [`http2`] has two origins that speak HTTP/2 over TLS.
//! - [`SilentListener`] does not respond at all.
//! - [`DnsServer`] resolves names by a script.
//! - [`ObjectStore`] speaks enough S3 for a client, and fails by a rule.
//! - [`SlowLinkBuilder`] relays TCP with latency, a rate and cuts.
//! - `kernel_link` joins two network namespaces by a link with a delay, a rate, a queue and losses. Only Linux has it.
//! - [`HttpProxy`] and [`SocksProxy`] relay, and record requests.
//! - [`CertificateAuthority`] issues valid and invalid certificates.
//!
//! Each server stops when it is dropped, and a panic in one of its tasks goes on in the thread that drops it. [`within()`] puts a time limit
//! on a test. [`history`] checks recorded operations on a store.

mod bandwidth_limit;
mod content;
mod dns;
mod draw;
mod drawn_origin;
mod drawn_store;
mod free_ports;
mod generated_files;
pub mod history;
pub mod http2;
#[cfg(target_os = "linux")]
pub mod kernel_link;
mod link;
mod object_store;
mod open_counter;
mod origin;
mod proxy;
mod running_listener;
mod seeds;
mod silent_listener;
mod stream_cut;
mod tls;
mod within;

pub use content::ResourceContent;
pub use dns::{DnsReply, DnsServer};
pub use draw::Draw;
pub use drawn_origin::{DrawnOrigin, DrawnValidators};
pub use drawn_store::DrawnStore;
pub use free_ports::free_ports;
pub use generated_files::{FileFault, GeneratedFiles};
pub use link::{SlowLink, SlowLinkBuilder};
pub use object_store::{ObjectStore, StoreFault, StoreRequest, StoredBytes};
pub use origin::{
    Origin, OriginBuilder, OriginResource, OriginResponse, OriginResponseBody,
    OriginResponseFraming, RecordedRequest, RequestMatcher, faults,
};
pub use proxy::{
    HttpProxy, HttpProxyBuilder, SocksProxy, SocksProxyBuilder, SocksQuirk, SocksRequest,
    SocksTarget,
};
pub use seeds::{assert_seeds, seeds};
pub use silent_listener::SilentListener;
pub use stream_cut::StreamCut;
pub use tls::{CertificateAuthority, CertificateFiles, IssuedCertificate};
pub use within::within;
