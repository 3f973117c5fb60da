//! What a relay has moved, and how it ended.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use super::is_departure;

/// Bytes that were handed on, each way. Read while it goes on by whoever wants to know.
#[derive(Debug, Default)]
pub struct RelayedBytes {
    /// From the client to the target.
    pub(super) up: AtomicU64,
    /// From the target to the client.
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

    /// So many bytes went to the target before the relay began.
    pub(crate) fn began(&self, up: usize) {
        self.up.fetch_add(up as u64, Ordering::Relaxed);
    }

    /// Both together.
    pub(super) fn total(&self) -> u64 {
        self.up().wrapping_add(self.down())
    }
}

/// One of the two peers of a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelaySide {
    /// Who came to the listener.
    Client,
    /// The far end, or the proxy on the way to it.
    Target,
}

/// How a relay ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RelayOutcome {
    /// Both sides have ended their streams, and all of both was handed on.
    Closed,
    /// One side went away in the middle.
    Reset(RelaySide),
    /// One side broke otherwise: a network that is gone, TLS that was cut.
    Broken(RelaySide, String),
    /// Nothing moved for too long.
    IdleTimeout,
}

impl RelayOutcome {
    /// By an error at one side.
    pub(super) fn broken(side: RelaySide, error: &io::Error) -> Self {
        match is_departure(error) {
            true => Self::Reset(side),
            false => Self::Broken(side, error.to_string()),
        }
    }

    /// Whether the sides are to see that it was no end of a stream.
    pub(super) fn is_abrupt(&self) -> bool {
        *self != Self::Closed
    }
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
