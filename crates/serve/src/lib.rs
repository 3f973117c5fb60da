//! A file store over HTTP: files beneath a directory, read, put, deleted and listed by their paths.
//!
//! A request's way, from the outside in:
//!
//! - [`accept`]: a [`WorkerThreads`](accept::WorkerThreads) of threads accepts on listening sockets, in one of four ways; with [`tls`], certificates are
//!   read, and read again.
//! - `conn`: one connection: hyper between a wire that counts, watches and paces, and a driver that knows how long to wait.
//! - `http`: a [`FileServer`]'s service: who asks ([`access`]), what for, and the answer: a file, a folder ([`page`]), an upload's fate.
//! - [`store`]: the files. A library on its own, which knows nothing of HTTP.
//! - `body`, `sendfile`: the way back for a file's bytes: read, or sent by the kernel.
//! - [`observe`]: what is told of all that: numbers, and a line for each request.
//!
//! What any server needs that runs for long, whatever it serves, is in [`haul_service`]: addresses and listening sockets, the log that is
//! written by a thread of its own, the endpoint for whoever watches. What can be decided without a socket or a clock (ranges, conditions,
//! patience) is in `haul_plan::serving`.
//!
//! **No reactor waits for a disk.** Whatever may wait runs on [`store::DiskThreads`]'s threads. What the kernel has in its caches is read at
//! once, in ways that fail rather than wait (`RESOLVE_CACHED`, `RWF_NOWAIT`), since that is most of what is asked for and a hand-over to
//! another thread costs more than reading it.

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

pub use crate::http::{FileServer, FileServerOptions};
pub use key::{
    ObjectKey, ObjectKeyError, RESERVED_NAME, RESERVED_PREFIX, RequestPath, escaped_name,
    is_reserved,
};
