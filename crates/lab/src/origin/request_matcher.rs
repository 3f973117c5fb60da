//! Which requests a rule is for.

use std::fmt;
use std::sync::Arc;

use super::RecordedRequest;

/// Which requests a rule is for.
#[derive(Clone)]
pub struct RequestMatcher(Arc<dyn Fn(&RecordedRequest) -> bool + Send + Sync>);

impl fmt::Debug for RequestMatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("When")
    }
}

impl RequestMatcher {
    /// Those for which this is true.
    #[must_use]
    pub fn matching(test: impl Fn(&RecordedRequest) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(test))
    }

    /// All.
    #[must_use]
    pub fn always() -> Self {
        Self::matching(|_| true)
    }

    /// The n-th for the path, from 0 on.
    #[must_use]
    pub fn nth(number: usize) -> Self {
        Self::matching(move |request| request.number_for_path == number)
    }

    /// All after the first n for the path.
    #[must_use]
    pub fn after_first(count: usize) -> Self {
        Self::matching(move |request| request.number_for_path >= count)
    }

    /// The first n for the path.
    #[must_use]
    pub fn first(count: usize) -> Self {
        Self::matching(move |request| request.number_for_path < count)
    }

    /// All that come when the origin has sent so many bytes of bodies, or more.
    #[must_use]
    pub fn after_bytes_sent(bytes: u64) -> Self {
        Self::matching(move |request| request.bytes_served_before >= bytes)
    }

    /// Those with a Range.
    #[must_use]
    pub fn with_range() -> Self {
        Self::matching(|request| request.header("range").is_some())
    }

    /// Those for a range that does not begin at 0.
    #[must_use]
    pub fn mid_file() -> Self {
        Self::matching(|request| request.range_start() > 0)
    }

    /// Those over the n-th connection, from 0 on.
    #[must_use]
    pub fn on_connection(number: usize) -> Self {
        Self::matching(move |request| request.connection == number)
    }

    /// Those over connections that came when n were open already.
    #[must_use]
    pub fn above_open_connections(connections: usize) -> Self {
        Self::matching(move |request| request.open_connections > connections)
    }

    /// Those for which both are true.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self::matching(move |request| self.matches(request) && other.matches(request))
    }

    pub(crate) fn matches(&self, request: &RecordedRequest) -> bool {
        (self.0)(request)
    }
}

/// Those for which this is not true.
impl std::ops::Not for RequestMatcher {
    type Output = Self;

    fn not(self) -> Self {
        Self::matching(move |request| !self.matches(request))
    }
}
