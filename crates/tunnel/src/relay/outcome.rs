//! What a relay has moved, and how it ended.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that were relayed in each direction. They can be read while the relay runs.
#[derive(Debug, Default)]
pub struct RelayedBytes {
    pub(super) up: AtomicU64,
    pub(super) down: AtomicU64,
}

impl RelayedBytes {
    /// Bytes from the client to the target.
    #[must_use]
    pub fn up(&self) -> u64 {
        self.up.load(Ordering::Relaxed)
    }

    /// Bytes from the target to the client.
    #[must_use]
    pub fn down(&self) -> u64 {
        self.down.load(Ordering::Relaxed)
    }

    /// Counts bytes that were sent to the target without a relay.
    pub(crate) fn add_up(&self, count: usize) {
        self.up.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Counts bytes that were sent to the client without a relay.
    pub(crate) fn add_down(&self, count: usize) {
        self.down.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(super) fn total(&self) -> u64 {
        self.up().wrapping_add(self.down())
    }
}

/// One of the two peers of a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelaySide {
    /// The client of the listener.
    Client,
    /// The target, or a proxy that leads to it.
    Target,
}

/// How a relay ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RelayOutcome {
    /// Both peers have ended their streams, and all of both was passed on.
    Closed,
    /// One peer went away in the middle.
    Reset(RelaySide),
    /// One peer failed otherwise: the network is gone, TLS was cut off.
    Broken(RelaySide, String),
    /// No byte moved for too long.
    IdleTimeout,
}

impl RelayOutcome {
    pub(crate) fn broken(side: RelaySide, error: &io::Error) -> Self {
        if is_departure(error) {
            Self::Reset(side)
        } else {
            Self::Broken(side, error.to_string())
        }
    }
}

/// Whether a peer causes this error by going away.
pub(super) fn is_departure(error: &io::Error) -> bool {
    use io::ErrorKind as E;
    matches!(
        error.kind(),
        E::ConnectionReset | E::BrokenPipe | E::ConnectionAborted | E::NotConnected
    )
}

impl fmt::Display for RelaySide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Client => "client",
            Self::Target => "target",
        })
    }
}

impl fmt::Display for RelayOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("closed"),
            Self::Reset(side) => write!(f, "reset by {side}"),
            Self::Broken(side, error) => write!(f, "{side} broke: {error}"),
            Self::IdleTimeout => f.write_str("idle"),
        }
    }
}
