//! What one connection's parts know together: its end of the wire, the service that answers its requests, and whoever drives both.
//!
//! All of them run in one task on HTTP/1.1, so the locks here are never waited for; with HTTP/2 streams have tasks of their own. What happens is told
//! to a [`Timeouts`], which says how long the peer is waited for; and exchanges that are over are kept until their last byte has left
//! hyper, when they are counted and logged.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use haul_plan::serving::{
    AmbiguousHead, RequestBodyFraming, SmugglingGuard, TimeoutKind, Timeouts,
};
use tokio::time::Instant;

use super::exchange::FinishedExchange;
use crate::http::FileServer;
use crate::sendfile::MappingRegistry;

/// A connection, to its parts.
#[derive(Debug)]
pub(crate) struct ConnectionState {
    /// What it is served by.
    pub(crate) server: Arc<FileServer>,
    /// Who is at the other end; nobody knows of a unix socket.
    pub(crate) peer: Option<SocketAddr>,
    /// Whether it is encrypted.
    pub(crate) is_tls: bool,
    /// Mappings that it was lent; `None` where the kernel cannot send files.
    ledger: Option<MappingRegistry>,
    /// What times are since.
    began: Instant,
    /// How long the peer is waited for.
    patience: Mutex<Timeouts>,
    /// Watches the heads of HTTP/1.1.
    watch: Mutex<SmugglingGuard>,
    /// Whether answers go out one after another, so that a flush is the end of all before it.
    is_in_order: AtomicBool,
    /// Exchanges whose answer has left the service and perhaps not hyper.
    finished: Mutex<Vec<FinishedExchange>>,
    /// Whether there are any.
    any_finished: AtomicBool,
    /// Whether the peer has said that it sends no more.
    peer_ended: AtomicBool,
    /// Whether the request that is being answered is the last one.
    is_last: AtomicBool,
    /// Whether bytes of its body are still to come.
    lacks_body: AtomicBool,
    /// Whether a request's body was not read to its end.
    has_unread: AtomicBool,
    /// Whether its peer was waited for long enough.
    is_tired: AtomicBool,
    /// Bytes that were given to the system to be sent.
    sent: AtomicU64,
    /// Of those, bytes that the peer had taken at the last look.
    taken: AtomicU64,
    /// Whether somebody wants to know how many bytes the system has not sent.
    wants_look: AtomicBool,
}

/// A time in which the server makes its peer wait. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct TimeoutPause(Arc<ConnectionState>);

impl Drop for TimeoutPause {
    fn drop(&mut self) {
        let now = self.0.now();
        self.0.patience().resume(now);
    }
}

/// Settles a connection that is over: what has not left by now never will. Exchanges have their connection, so that its own end would
/// never come while they are kept.
#[derive(Debug)]
pub(super) struct ConnectionEndGuard(Arc<ConnectionState>);

impl Drop for ConnectionEndGuard {
    fn drop(&mut self) {
        self.0.settle(true);
    }
}

impl ConnectionState {
    /// A new connection; of one with TLS, when that is agreed on.
    pub(crate) fn new(
        server: Arc<FileServer>,
        peer: Option<SocketAddr>,
        is_tls: bool,
        sends_files: bool,
    ) -> Self {
        let mut patience = Timeouts::new(server.options.timeouts, Duration::ZERO);
        patience.handshake_done(Duration::ZERO);
        Self {
            server,
            peer,
            is_tls,
            ledger: sends_files.then(MappingRegistry::default),
            began: Instant::now(),
            patience: Mutex::new(patience),
            watch: Mutex::default(),
            is_in_order: AtomicBool::new(true),
            finished: Mutex::default(),
            any_finished: AtomicBool::new(false),
            peer_ended: AtomicBool::new(false),
            is_last: AtomicBool::new(false),
            lacks_body: AtomicBool::new(false),
            has_unread: AtomicBool::new(false),
            is_tired: AtomicBool::new(false),
            sent: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            wants_look: AtomicBool::new(false),
        }
    }

    /// Mappings that it was lent.
    pub(crate) fn ledger(&self) -> Option<&MappingRegistry> {
        self.ledger.as_ref()
    }

    /// Where mappings may be lent: not on HTTP/2, which looks into what it sends.
    pub(crate) fn sendfile_mappings(&self) -> Option<&MappingRegistry> {
        let is_in_order = self.is_in_order.load(Ordering::Relaxed);
        self.ledger.as_ref().filter(|_| is_in_order)
    }

    /// Whether it is HTTP/2.
    pub(crate) fn is_multiplexed(&self) -> bool {
        !self.is_in_order.load(Ordering::Relaxed)
    }

    /// Since the connection began.
    pub(crate) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Tells what happened, or asks.
    pub(crate) fn patience(&self) -> MutexGuard<'_, Timeouts> {
        self.patience.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until the pause is dropped, the peer waits for the server.
    pub(crate) fn pause(self: &Arc<Self>) -> TimeoutPause {
        let now = self.now();
        self.patience().pause(now);
        TimeoutPause(Arc::clone(self))
    }

    /// Watches heads.
    pub(crate) fn watch(&self) -> MutexGuard<'_, SmugglingGuard> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether no request has come yet.
    pub(crate) fn is_at_beginning(&self) -> bool {
        self.watch().is_at_connection_start()
    }

    /// It is HTTP/2 from here on.
    pub(crate) fn becomes_second(&self) {
        self.watch().stop();
        self.is_in_order.store(false, Ordering::Relaxed);
        // Its first bytes looked like the head of a request. That is over.
        let now = self.now();
        let mut patience = self.patience();
        patience.head_done();
        patience.response_started(now);
        patience.response_done(now);
    }

    /// hyper has read a head. Whether others would have read the same, see [`SmugglingGuard::check_head`].
    pub(crate) fn check_head(&self, follows: RequestBodyFraming) -> Result<(), AmbiguousHead> {
        let (judged, has_more) = {
            let mut watch = self.watch();
            (watch.check_head(follows), watch.has_pending_request())
        };
        if has_more {
            // Of the one behind it a part came with it, and nothing else would tell.
            let now = self.now();
            self.patience().head_started(now);
        }
        judged
    }

    /// Bytes came.
    pub(crate) fn came(&self, bytes: &[u8]) {
        let mut watch = self.watch();
        let had_begun = watch.has_pending_request();
        watch.observe(bytes);
        if !had_begun && watch.has_pending_request() {
            drop(watch);
            let now = self.now();
            self.patience().head_started(now);
        }
    }

    /// The peer sends no more.
    pub(crate) fn peer_ended(&self) {
        self.peer_ended.store(true, Ordering::Relaxed);
    }

    /// The request of HTTP/1.1 that is being answered has a body.
    pub(crate) fn expect_body(&self) {
        self.lacks_body.store(true, Ordering::Relaxed);
    }

    /// No request is taken after the one that is being answered.
    pub(crate) fn close_after_response(&self) {
        self.is_last.store(true, Ordering::Relaxed);
    }

    /// The body of the request that is being answered is here.
    pub(crate) fn body_came(&self) {
        self.lacks_body.store(false, Ordering::Relaxed);
    }

    /// Whether a request that is answered now is the last one: that was said, or its body is left where it is, and where the next
    /// one begins nobody knows who was not let send it (RFC 9110 10.1.1).
    pub(crate) fn is_last(&self) -> bool {
        self.is_last.load(Ordering::Relaxed) || self.lacks_body.load(Ordering::Relaxed)
    }

    /// Nobody read a request's body to its end.
    pub(crate) fn leaves_unread(&self) {
        self.has_unread.store(true, Ordering::Relaxed);
    }

    /// Whether something may still come that nobody waits for.
    pub(crate) fn has_unread_body(&self) -> bool {
        self.has_unread.load(Ordering::Relaxed) && !self.peer_ended.load(Ordering::Relaxed)
    }

    /// Whether the peer may still send: on HTTP/2 it may at any time, and nobody knows what it was about to say.
    pub(crate) fn peer_may_send(&self) -> bool {
        !self.peer_ended.load(Ordering::Relaxed)
    }

    /// Its peer was waited for long enough. Whether it can still be told so: a body that comes too slowly ends for whoever reads it, who
    /// then answers. Over HTTP/2 it is the connection that is too slow, and not one body.
    pub(super) fn tires(&self, tired: TimeoutKind) -> bool {
        let was_tired = self.is_tired.swap(true, Ordering::Relaxed);
        tired == TimeoutKind::SlowBody && !was_tired && !self.is_multiplexed()
    }

    /// Whether its peer was waited for long enough.
    pub(crate) fn is_tired(&self) -> bool {
        self.is_tired.load(Ordering::Relaxed)
    }

    /// Bytes went to the system.
    pub(crate) fn went(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes that went, so far.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// The wire is to look how many bytes the system has not sent, when it is next asked to write.
    pub(crate) fn want_look(&self) {
        self.wants_look.store(true, Ordering::Relaxed);
    }

    /// Whether it is, once.
    pub(crate) fn is_look_wanted(&self) -> bool {
        self.wants_look.load(Ordering::Relaxed) && self.wants_look.swap(false, Ordering::Relaxed)
    }

    /// What the wire saw: so many bytes are still with the system.
    pub(crate) fn looked(&self, unsent: u64) {
        let taken = self.sent().saturating_sub(unsent);
        let before = self.taken.fetch_max(taken, Ordering::Relaxed);
        self.patience().response_sent(taken.saturating_sub(before));
    }

    /// An answer has left the service.
    pub(crate) fn finish(&self, finished: FinishedExchange) {
        if self.is_in_order.load(Ordering::Relaxed) {
            self.finished
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(finished);
            self.any_finished.store(true, Ordering::Release);
        } else {
            self.over(&finished, false);
        }
    }

    /// Everything has left hyper.
    pub(crate) fn flushed(&self) {
        if self.any_finished.load(Ordering::Acquire) {
            self.settle(false);
            // A connection that waits for its next request keeps no file open.
            if let Some(ledger) = &self.ledger {
                ledger.remove_unused();
            }
        }
    }

    /// What is to be dropped when the connection is over, also where it is dropped itself.
    pub(super) fn over_at_end(self: &Arc<Self>) -> ConnectionEndGuard {
        ConnectionEndGuard(Arc::clone(self))
    }

    fn settle(&self, is_cut_short: bool) {
        let all =
            std::mem::take(&mut *self.finished.lock().unwrap_or_else(PoisonError::into_inner));
        self.any_finished.store(false, Ordering::Release);
        all.iter()
            .for_each(|finished| self.over(finished, is_cut_short));
    }

    fn over(&self, finished: &FinishedExchange, is_cut_short: bool) {
        let now = self.now();
        self.patience().response_done(now);
        finished.tell(is_cut_short);
    }
}
