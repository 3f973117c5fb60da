//! Which requests a rule applies to.

use std::fmt;
use std::sync::Arc;

use super::RecordedRequest;

/// Which requests a rule applies to.
#[derive(Clone)]
pub struct RequestMatcher(Arc<dyn Fn(&RecordedRequest) -> bool + Send + Sync>);

impl fmt::Debug for RequestMatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("When")
    }
}

impl RequestMatcher {
    /// The requests for which the function returns true.
    #[must_use]
    pub fn matching(test: impl Fn(&RecordedRequest) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(test))
    }

    #[must_use]
    pub fn always() -> Self {
        Self::matching(|_| true)
    }

    /// The n-th request for the path, from 0.
    #[must_use]
    pub fn nth(number: usize) -> Self {
        Self::matching(move |request| request.number_for_path == number)
    }

    /// All requests after the first n for the path.
    #[must_use]
    pub fn after_first(count: usize) -> Self {
        Self::matching(move |request| request.number_for_path >= count)
    }

    /// The first n requests for the path.
    #[must_use]
    pub fn first(count: usize) -> Self {
        Self::matching(move |request| request.number_for_path < count)
    }

    /// All requests after the origin has sent so many bytes of bodies.
    #[must_use]
    pub fn after_bytes_sent(bytes: u64) -> Self {
        Self::matching(move |request| request.bytes_served_before >= bytes)
    }

    #[must_use]
    pub fn with_range() -> Self {
        Self::matching(|request| request.header("range").is_some())
    }

    /// Requests for a range that does not start at 0.
    #[must_use]
    pub fn mid_file() -> Self {
        Self::matching(|request| request.range_start() > 0)
    }

    /// Requests over the n-th connection, from 0.
    #[must_use]
    pub fn on_connection(number: usize) -> Self {
        Self::matching(move |request| request.connection == number)
    }

    /// Requests over connections that were accepted while n others were open.
    #[must_use]
    pub fn above_open_connections(connections: usize) -> Self {
        Self::matching(move |request| request.open_connections > connections)
    }

    /// Requests that arrive while n others are being answered.
    #[must_use]
    pub fn above_active_requests(requests: usize) -> Self {
        Self::matching(move |request| request.active_requests > requests)
    }

    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self::matching(move |request| self.matches(request) && other.matches(request))
    }

    pub(crate) fn matches(&self, request: &RecordedRequest) -> bool {
        (self.0)(request)
    }
}

/// Requests that do not match.
impl std::ops::Not for RequestMatcher {
    type Output = Self;

    fn not(self) -> Self {
        Self::matching(move |request| !self.matches(request))
    }
}
