//! The control against fixed numbers of connections, on the same link.

use super::download::{SimulatedDownload, SimulatedDownloadOutcome};
use super::simulated_link::{MIB, SimulatedLink};
use crate::connection_control::ConnectionControlOptions;

/// A user's number of connections.
pub(crate) fn fixed(connections: usize) -> ConnectionControlOptions {
    ConnectionControlOptions {
        max: connections,
        fixed: true,
        ..ConnectionControlOptions::default()
    }
}

pub(crate) fn mib(count: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a test's own number"
    )]
    let bytes = (count * MIB) as u64;
    bytes
}

/// How many times the best fixed number's time the control takes, and the number that it settled on.
pub(crate) fn race(
    link: &dyn SimulatedLink,
    length: u64,
    numbers: impl IntoIterator<Item = usize>,
) -> (f64, usize) {
    let run = |options| SimulatedDownload::new(link, length, options).run();
    let times = numbers.into_iter().map(|number| run(fixed(number)).time);
    let best = times.min().unwrap();
    let SimulatedDownloadOutcome { time, settled, .. } = run(ConnectionControlOptions::default());
    (time.as_secs_f64() / best.as_secs_f64(), settled)
}

/// Asserts that the control takes at most this factor of the best fixed number's time, and returns the number that it settled on.
#[track_caller]
pub(crate) fn within(times: f64, link: &dyn SimulatedLink, length: u64) -> usize {
    let (ratio, settled) = race(link, length, 1..=16);
    assert!(
        ratio <= times,
        "{ratio:.3} times the best, with {settled} connections"
    );
    settled
}
