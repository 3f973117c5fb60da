//! How threads share a port.

use std::fmt;
use std::str::FromStr;

/// Who accepts, and where connections live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcceptStrategy {
    /// One runtime; its threads take tasks from each other.
    WorkStealing,
    /// A runtime and a socket for each thread.
    ReusePort,
    /// A runtime for each thread; connections are dealt out in turn.
    RoundRobin,
    /// One thread.
    Single,
}

/// Not a way of accepting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is work-stealing, reuseport, round-robin or single")]
pub struct AcceptStrategyError;

impl Default for AcceptStrategy {
    /// The fastest: nothing is handed from one thread to another. Elsewhere than on Linux, a port's sockets do not share its connections.
    fn default() -> Self {
        if cfg!(target_os = "linux") {
            Self::ReusePort
        } else {
            Self::RoundRobin
        }
    }
}

impl AcceptStrategy {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::WorkStealing,
        Self::ReusePort,
        Self::RoundRobin,
        Self::Single,
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::WorkStealing => "work-stealing",
            Self::ReusePort => "reuseport",
            Self::RoundRobin => "round-robin",
            Self::Single => "single",
        }
    }
}

impl fmt::Display for AcceptStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for AcceptStrategy {
    type Err = AcceptStrategyError;

    fn from_str(text: &str) -> Result<Self, AcceptStrategyError> {
        Self::ALL
            .into_iter()
            .find(|accept| accept.name() == text)
            .ok_or(AcceptStrategyError)
    }
}
