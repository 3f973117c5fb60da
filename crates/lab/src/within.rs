//! A time limit for tests: a test that hangs must fail, and its message name the line.

use std::time::Duration;

/// Runs a future to its end, or panics after `limit`.
///
/// # Panics
/// When the time is over.
#[track_caller]
pub fn within<T>(limit: Duration, future: impl Future<Output = T>) -> impl Future<Output = T> {
    let caller = std::panic::Location::caller();
    async move {
        match tokio::time::timeout(limit, future).await {
            Ok(value) => value,
            Err(_) => panic!("not done within {limit:?}, the limit at {caller}"),
        }
    }
}
