//! One operation on one key, as its client saw it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Identifies a body. No two writes of a key have the same version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BodyVersion(pub u64);

/// What the operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationKind {
    /// Reads the key's version.
    Read,
    Write(BodyVersion, WritePrecondition),
    /// Removes the key.
    Delete(WritePrecondition),
}

/// What must be true at the instant of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WritePrecondition {
    /// No condition.
    Always,
    /// The key does not exist.
    Absent,
    /// The key exists, in any version.
    Present,
    /// The key has this version.
    Matches(BodyVersion),
}

/// The response, as the client saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationOutcome {
    /// Of a read: the key's version, or none.
    Found(Option<BodyVersion>),
    /// It was done. A delete that found no key was done and replaced nothing.
    Succeeded {
        /// Whether the key existed before, if the response says so.
        replaced: Option<bool>,
    },
    /// The condition did not hold.
    ConditionFailed,
    /// It was not done and cannot be: its body was not sent completely, or the response was an error.
    Failed,
    /// There was no response. It may have been done at any time until its end, or not at all.
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// What it does.
    pub kind: OperationKind,
    /// A time before any byte of it was sent.
    pub started_at: u64,
    /// When its response was complete. If the outcome is unknown: the time from which on it can no longer be done, since its server was
    /// dead, or [`u64::MAX`] if there is none.
    pub finished_at: u64,
    pub outcome: OperationOutcome,
}

/// A clock with one order for all threads. It never returns a time twice.
#[derive(Debug, Default)]
pub struct LogicalClock(AtomicU64);

impl LogicalClock {
    /// The next time.
    pub fn tick(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

impl WritePrecondition {
    /// Whether it holds for the key's current version.
    pub(super) fn holds(self, current: Option<BodyVersion>) -> bool {
        match self {
            Self::Always => true,
            Self::Absent => current.is_none(),
            Self::Present => current.is_some(),
            Self::Matches(version) => current == Some(version),
        }
    }
}

impl Operation {
    /// The key's version after it, if it takes effect while `current` is the version. `None` if its response excludes that.
    pub(super) fn apply(&self, current: Option<BodyVersion>) -> Option<Option<BodyVersion>> {
        let (condition, next) = match self.kind {
            OperationKind::Read => (WritePrecondition::Always, current),
            OperationKind::Write(version, condition) => (condition, Some(version)),
            OperationKind::Delete(condition) => (condition, None),
        };
        let holds = condition.holds(current);
        match self.outcome {
            OperationOutcome::Found(found) => (found == current).then_some(current),
            OperationOutcome::Succeeded { replaced } => {
                let is_consistent = replaced.is_none_or(|replaced| replaced == current.is_some());
                (holds && is_consistent).then_some(next)
            }
            OperationOutcome::ConditionFailed => (!holds).then_some(current),
            OperationOutcome::Failed => None,
            OperationOutcome::Unknown => holds.then_some(next),
        }
    }
}
