//! What the parts of one connection share: its I/O, the service that responds to its requests, and
//! the driver of both.
//!
//! On HTTP/1.1 all of them run in one task, so nothing ever waits for the locks here. On HTTP/2
//! each stream has a task of its own.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::Version;
use tokio_util::task::TaskTracker;

use super::exchange_record::ExchangeRecord;
use super::request_head::{AmbiguousHead, RequestBodyFraming};
use super::smuggling_guard::SmugglingGuard;
use super::timeouts::ConnectionTimeouts;
use crate::http::FileServer;
use crate::sendfile::MappingRegistry;

/// What the parts of one connection share.
#[derive(Debug)]
pub(crate) struct ConnectionState {
    pub(crate) server: Arc<FileServer>,
    /// Runs the tasks of HTTP/2 streams.
    pub(super) tasks: TaskTracker,
    /// The client's address; `None` for a Unix socket.
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) is_tls: bool,
    pub(crate) timeouts: Arc<ConnectionTimeouts>,
    pub(crate) requests: Http1Requests,
    pub(super) responses: ResponseProgress,
    /// The files that the kernel sends; `None` where it cannot.
    pub(super) mappings: Option<MappingRegistry>,
}

/// The requests of an HTTP/1.1 connection: whether each is sound, and whether another may follow.
#[derive(Debug, Default)]
pub(crate) struct Http1Requests {
    guard: Mutex<SmugglingGuard>,
    /// No request is accepted after the current one.
    is_last: AtomicBool,
    /// The body of the current request is not complete.
    is_body_pending: AtomicBool,
}

/// How far the responses of a connection have been sent.
#[derive(Debug, Default)]
pub(super) struct ResponseProgress {
    /// Bytes that were given to the system.
    sent: AtomicU64,
    /// Whether the I/O should report how many of them the client has not acknowledged.
    is_unsent_wanted: AtomicBool,
    /// HTTP/1.1 exchanges whose response has left the service, but perhaps not hyper.
    unflushed: Mutex<Vec<ExchangeRecord>>,
    /// Whether there are any: a flush without them takes no lock.
    has_unflushed: AtomicBool,
}

impl ConnectionState {
    /// The state of a new connection; with TLS, once the handshake is done.
    pub(crate) fn new(
        server: Arc<FileServer>,
        tasks: TaskTracker,
        peer: Option<SocketAddr>,
        is_tls: bool,
        can_sendfile: bool,
    ) -> Self {
        Self {
            timeouts: Arc::new(ConnectionTimeouts::new(server.options.timeouts)),
            server,
            tasks,
            peer,
            is_tls,
            requests: Http1Requests::default(),
            responses: ResponseProgress::default(),
            mappings: can_sendfile.then(MappingRegistry::default),
        }
    }

    /// The files that the kernel may send in response to a request. It sends none over HTTP/2,
    /// where hyper looks at the bytes.
    pub(crate) fn mappings_for(&self, version: Version) -> Option<&MappingRegistry> {
        let mappings = self.mappings.as_ref();
        mappings.filter(|_| version < Version::HTTP_2)
    }

    /// Shows received bytes to the parts that watch request heads.
    pub(super) fn received(&self, bytes: &[u8]) {
        if self.requests.observe(bytes) {
            self.timeouts.head_started();
        }
    }

    /// Checks a head that hyper has parsed.
    ///
    /// # Errors
    /// When other programs could see the end of the request elsewhere.
    pub(crate) fn check_head(&self, framing: RequestBodyFraming) -> Result<(), AmbiguousHead> {
        let (checked, has_next_head) = self.requests.check_head(framing);
        if has_next_head {
            // Received together with this one, so no read will report it.
            self.timeouts.head_started();
        }
        checked
    }

    /// Switches to HTTP/2.
    pub(super) fn switch_to_http2(&self) {
        self.requests.stop();
        self.timeouts.switch_to_http2();
    }

    /// Everything has left hyper's buffers.
    pub(super) fn flushed(&self) {
        if self.responses.has_unflushed.load(Ordering::Acquire) {
            self.record_unflushed(false);
            // An idle connection keeps no file open.
            if let Some(mappings) = &self.mappings {
                mappings.remove_unused();
            }
        }
    }

    /// Records the HTTP/1.1 exchanges whose response has left the service.
    pub(super) fn record_unflushed(&self, is_incomplete: bool) {
        let mut unflushed = self.responses.lock_unflushed();
        self.responses.has_unflushed.store(false, Ordering::Release);
        for record in unflushed.drain(..) {
            self.record(&record, is_incomplete);
        }
    }

    /// Ends an exchange: counts and logs it.
    pub(super) fn record(&self, record: &ExchangeRecord, is_incomplete: bool) {
        self.timeouts.response_done();
        let sent = self.responses.sent();
        record.write(&self.server.options, self.peer, sent, is_incomplete);
    }
}

impl Http1Requests {
    /// Shows received bytes to the guard. Returns whether a head begins with them.
    fn observe(&self, bytes: &[u8]) -> bool {
        let mut guard = self.lock_guard();
        let had_begun = guard.has_pending_request();
        guard.observe(bytes);
        !had_begun && guard.has_pending_request()
    }

    /// See [`SmugglingGuard::check_head`]. Also returns whether the next head has begun.
    fn check_head(&self, framing: RequestBodyFraming) -> (Result<(), AmbiguousHead>, bool) {
        let mut guard = self.lock_guard();
        (guard.check_head(framing), guard.has_pending_request())
    }

    /// Whether no request has been received, so that another protocol may begin.
    pub(super) fn is_at_start(&self) -> bool {
        self.lock_guard().is_at_connection_start()
    }

    /// Stops watching heads.
    pub(super) fn stop(&self) {
        self.lock_guard().stop();
    }

    /// The current request has a body.
    pub(crate) fn expect_body(&self) {
        self.is_body_pending.store(true, Ordering::Relaxed);
    }

    /// The body of the current request is complete.
    pub(crate) fn body_received(&self) {
        self.is_body_pending.store(false, Ordering::Relaxed);
    }

    /// Whether the body of the current request is not complete.
    pub(super) fn is_body_pending(&self) -> bool {
        self.is_body_pending.load(Ordering::Relaxed)
    }

    /// Accepts no request after the current one.
    pub(crate) fn close_after_response(&self) {
        self.is_last.store(true, Ordering::Relaxed);
    }

    /// Whether the connection closes after a response that is made now: because it must, or because
    /// the body stays unread, so that nobody knows whether the client will send it and where the
    /// next request begins (RFC 9110 10.1.1).
    pub(super) fn is_last(&self) -> bool {
        self.is_last.load(Ordering::Relaxed) || self.is_body_pending()
    }

    fn lock_guard(&self) -> MutexGuard<'_, SmugglingGuard> {
        self.guard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ResponseProgress {
    /// Adds bytes that were given to the system.
    pub(super) fn add_sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes that were given to the system.
    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Asks the I/O to report unsent bytes when it is next polled.
    pub(super) fn request_unsent(&self) {
        self.is_unsent_wanted.store(true, Ordering::Relaxed);
    }

    /// Whether unsent bytes are to be reported; true once for each request.
    pub(super) fn take_unsent_request(&self) -> bool {
        self.is_unsent_wanted.load(Ordering::Relaxed)
            && self.is_unsent_wanted.swap(false, Ordering::Relaxed)
    }

    /// Keeps an HTTP/1.1 exchange until the next flush.
    pub(super) fn push_unflushed(&self, record: ExchangeRecord) {
        self.lock_unflushed().push(record);
        self.has_unflushed.store(true, Ordering::Release);
    }

    /// Frees memory that an idle connection does not need.
    pub(super) fn shrink(&self) {
        self.lock_unflushed().shrink_to_fit();
    }

    fn lock_unflushed(&self) -> MutexGuard<'_, Vec<ExchangeRecord>> {
        self.unflushed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
