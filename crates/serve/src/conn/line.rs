//! What one connection's parts know together: its end of the wire, the service that answers its requests, and whoever drives both.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::head_watch::HeadWatch;
use crate::sendfile::Ledger;

/// A connection, to its parts.
#[derive(Debug)]
pub(crate) struct Line {
    /// Who is at the other end; nobody knows of a unix socket.
    pub(crate) peer: Option<SocketAddr>,
    /// Whether it is encrypted.
    pub(crate) is_tls: bool,
    /// Mappings that it was lent; `None` where the kernel cannot send files.
    pub(crate) ledger: Option<Ledger>,
    /// Watches the heads of HTTP/1.1.
    watch: Mutex<HeadWatch>,
    /// Whether the peer has said that it sends no more.
    peer_ended: AtomicBool,
    /// Whether a request had a body.
    had_body: AtomicBool,
    /// Bytes that the peer's socket took.
    sent: AtomicU64,
    /// Bytes that came.
    received: AtomicU64,
}

impl Line {
    /// A new connection.
    pub(crate) fn new(peer: Option<SocketAddr>, is_tls: bool, sends_files: bool) -> Self {
        Self {
            peer,
            is_tls,
            ledger: sends_files.then(Ledger::default),
            watch: Mutex::default(),
            peer_ended: AtomicBool::new(false),
            had_body: AtomicBool::new(false),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
        }
    }

    /// Watches heads.
    pub(crate) fn watch(&self) -> MutexGuard<'_, HeadWatch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes came.
    pub(crate) fn came(&self, bytes: &[u8]) {
        self.received.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.watch().came(bytes);
    }

    /// The peer sends no more.
    pub(crate) fn peer_ended(&self) {
        self.peer_ended.store(true, Ordering::Relaxed);
    }

    /// A request has a body.
    pub(crate) fn has_body(&self) {
        self.had_body.store(true, Ordering::Relaxed);
    }

    /// Whether something may still come that nobody waits for.
    pub(crate) fn may_have_more(&self) -> bool {
        self.had_body.load(Ordering::Relaxed) && !self.peer_ended.load(Ordering::Relaxed)
    }

    /// Bytes went.
    pub(crate) fn went(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes that went, so far.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}
