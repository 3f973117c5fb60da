//! The record of one request and its response: what is counted and logged at its end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use http::header::{REFERER, USER_AGENT};
use http::{HeaderValue, Method, StatusCode, Uri, Version, request};
use tokio::time::Instant;

use crate::FileServerOptions;
use crate::observe::{AccessRecord, ConnectionFault};

/// The record of one request and its response.
#[derive(Debug)]
pub(super) struct ExchangeRecord {
    method: Method,
    /// When the head was complete.
    started: Instant,
    /// Bytes that the connection had sent before.
    sent_before: u64,
    pub(super) status: StatusCode,
    /// Bytes of the response body that hyper has taken.
    pub(super) body_bytes: u64,
    /// Whether that is less than the whole body.
    pub(super) is_incomplete: bool,
    /// `None` without an access log.
    log_fields: Option<Box<ExchangeLogFields>>,
}

/// What the access log has beyond the metrics.
#[derive(Debug)]
struct ExchangeLogFields {
    time: SystemTime,
    user: Option<Arc<str>>,
    target: Uri,
    version: Version,
    /// Bytes of the request body, counted while it is received.
    received: Arc<AtomicU64>,
    referer: Option<HeaderValue>,
    user_agent: Option<HeaderValue>,
}

impl ExchangeRecord {
    /// Begins the record of a request whose head is complete.
    pub(super) fn new(
        head: &request::Parts,
        options: &FileServerOptions,
        sent_before: u64,
    ) -> Self {
        let log_fields = options.access_log.is_some().then(|| {
            Box::new(ExchangeLogFields {
                time: SystemTime::now(),
                user: None,
                target: head.uri.clone(),
                version: head.version,
                received: Arc::default(),
                referer: head.headers.get(REFERER).cloned(),
                user_agent: head.headers.get(USER_AGENT).cloned(),
            })
        });
        Self {
            method: head.method.clone(),
            started: Instant::now(),
            sent_before,
            status: StatusCode::OK,
            body_bytes: 0,
            is_incomplete: false,
            log_fields,
        }
    }

    pub(super) fn method(&self) -> &Method {
        &self.method
    }

    /// Where bytes of the request body are counted, if the log needs them.
    pub(super) fn received_counter(&self) -> Option<Arc<AtomicU64>> {
        let fields = self.log_fields.as_ref()?;
        Some(Arc::clone(&fields.received))
    }

    /// Sets the user that the request is authorized as.
    pub(super) fn set_user(&mut self, user: Option<&Arc<str>>) {
        if let Some(fields) = &mut self.log_fields {
            fields.user = user.cloned();
        }
    }

    /// Counts and logs the exchange. `sent` is the bytes that the connection has sent by now;
    /// `is_incomplete` says that hyper may have taken bytes that were never sent.
    pub(super) fn write(
        &self,
        options: &FileServerOptions,
        peer: Option<SocketAddr>,
        sent: u64,
        is_incomplete: bool,
    ) {
        let is_incomplete = is_incomplete || self.is_incomplete;
        let duration = self.started.elapsed();
        // For an incomplete body only the connection's count is a bound. That includes heads.
        let sent = if is_incomplete {
            self.body_bytes.min(sent.saturating_sub(self.sent_before))
        } else {
            self.body_bytes
        };
        options
            .metrics
            .count_request(&self.method, self.status, duration);
        options.metrics.count_sent(sent);
        if is_incomplete {
            options.metrics.count_fault(ConnectionFault::Aborted);
        }
        let (Some(fields), Some(log)) = (&self.log_fields, &options.access_log) else {
            return;
        };
        log.write(&AccessRecord {
            time: fields.time,
            peer: peer.map(|peer| peer.ip()),
            user: fields.user.clone(),
            method: Some(self.method.clone()),
            target: fields.target.clone(),
            version: fields.version,
            status: self.status,
            sent,
            received: fields.received.load(Ordering::Relaxed),
            duration,
            referer: fields.referer.clone(),
            user_agent: fields.user_agent.clone(),
            is_incomplete,
        });
    }
}

/// Logs a request that could not be parsed, but got a response.
pub(super) fn log_malformed_request(
    options: &FileServerOptions,
    peer: Option<SocketAddr>,
    status: StatusCode,
) {
    if let Some(log) = &options.access_log {
        log.write(&AccessRecord {
            time: SystemTime::now(),
            peer: peer.map(|peer| peer.ip()),
            user: None,
            method: None,
            target: Uri::default(),
            version: Version::HTTP_11,
            status,
            sent: 0,
            received: 0,
            duration: Duration::ZERO,
            referer: None,
            user_agent: None,
            is_incomplete: false,
        });
    }
}
