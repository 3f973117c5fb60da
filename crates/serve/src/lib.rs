//! A file store over HTTP: serves, takes, deletes and lists the files beneath a directory.
//!
//! A request passes these modules, from the socket to the disk:
//!
//! - [`accept`]: [`WorkerThreads`](accept::WorkerThreads) accept connections on listening sockets,
//!   by one of four strategies. [`tls`] reads the certificates, and reads them again when they
//!   change.
//! - `connection`: one connection. hyper parses HTTP over an I/O wrapper that counts bytes, watches
//!   request heads and limits rates; a driver enforces the timeouts.
//! - `http`: the service of a [`FileServer`]: it checks the permissions ([`access`]) and builds the
//!   response, be it a file, a folder ([`page`]) or the outcome of an upload.
//! - [`store`]: the files. It knows nothing of HTTP and can be used alone.
//! - `body`, `sendfile`: the bytes of a response, read by this process or sent by the kernel.
//! - [`dialect`]: how another crate answers requests in a dialect of its own, on the same store.
//! - [`observe`]: metrics and the access log.
//!
//! [`haul_service`] holds what every long-running server needs: addresses, listening sockets, the
//! log with a thread of its own, the admin endpoint. Pure modules decide all that needs neither a
//! socket nor a clock: ranges and conditions in `haul_plan::serving`, timeouts (`peer_timeouts`) and
//! ambiguous request heads (`smuggling_guard`) in `connection`.
//!
//! **No reactor waits for a disk.** An operation that may block runs on the threads of
//! [`store::DiskThreads`]. Data in the kernel's caches is read at once, by calls that fail instead
//! of blocking (`RESOLVE_CACHED`, `RWF_NOWAIT`): most requests are for such data, and handing a
//! request to another thread costs more than the read.

pub mod accept;
pub mod access;
mod body;
mod connection;
mod http;
mod key;
pub mod observe;
pub mod page;
mod sendfile;
pub mod store;
pub mod tls;

/// What another crate needs to answer requests of a server in a dialect of its own.
pub mod dialect {
    pub use crate::body::ServeBody;
    pub use crate::connection::TimeoutPause;
    pub use crate::http::{
        BoxedResponse, Dialect, DialectClaim, DialectRequest, DialectResponse, IncomingBody,
        ObjectUpload, RequestBodyError, RequestContext, ServeResponse, UploadError, UploadRequest,
        UploadSource, empty_response, forbid_sniffing, media_type, sandbox_active_content,
    };
}

pub use crate::http::{FileServer, FileServerOptions};
pub use connection::{AmbiguousHead, RequestBodyFraming, SmugglingGuard, TimeoutOptions, is_host};
pub use key::{
    ObjectKey, ObjectKeyError, RESERVED_NAME, RESERVED_PREFIX, RequestPath, escaped_name,
    is_reserved,
};
