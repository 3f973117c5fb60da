//! One operation on one key, as its client saw it.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a body is known by. No two writes of a key have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BodyVersion(pub u64);

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationKind {
    /// What has the key?
    Read,
    /// Let this version have it.
    Write(BodyVersion, WriteCondition),
    /// Let nothing have it.
    Delete(WriteCondition),
}

/// What must hold in the instant in which something is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteCondition {
    /// Nothing.
    Always,
    /// Nothing has the key.
    Absent,
    /// Some version has it, whichever.
    Present,
    /// This version has it.
    Matches(BodyVersion),
}

/// What the client was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationOutcome {
    /// Of a read: this has the key, or nothing.
    Found(Option<BodyVersion>),
    /// It was done. `replaced`: whether something had the key before, if that was told. A delete that found nothing is one that was
    /// done and replaced nothing.
    Succeeded {
        /// Whether something had the key.
        replaced: Option<bool>,
    },
    /// The condition did not hold.
    ConditionFailed,
    /// It was not done and cannot be: its body was never sent whole, or the answer was an error.
    Failed,
    /// Nothing. It may have happened at any time until it ended, or not at all.
    Unknown,
}

/// An operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// What was asked for.
    pub kind: OperationKind,
    /// Before anything of it was sent.
    pub started_at: u64,
    /// When its answer was there. Of an unknown one: from when on it can no longer happen, since its server was dead;
    /// [`u64::MAX`] if that is never.
    pub finished_at: u64,
    /// What was answered.
    pub outcome: OperationOutcome,
}

/// Times that are in one order for all threads, and never the same twice.
#[derive(Debug, Default)]
pub struct LogicalClock(AtomicU64);

impl LogicalClock {
    /// Now.
    pub fn tick(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

impl WriteCondition {
    /// Whether it holds for what has the key.
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
    /// What has the key after it, if it happens now, when `current` has the key; `None` if its answer says that it did not happen now.
    pub(super) fn apply(&self, current: Option<BodyVersion>) -> Option<Option<BodyVersion>> {
        let (condition, next) = match self.kind {
            OperationKind::Read => (WriteCondition::Always, current),
            OperationKind::Write(version, condition) => (condition, Some(version)),
            OperationKind::Delete(condition) => (condition, None),
        };
        let holds = condition.holds(current);
        match self.outcome {
            OperationOutcome::Found(found) => (found == current).then_some(current),
            OperationOutcome::Succeeded { replaced } => {
                let is_told = replaced.is_none_or(|replaced| replaced == current.is_some());
                (holds && is_told).then_some(next)
            }
            OperationOutcome::ConditionFailed => (!holds).then_some(current),
            OperationOutcome::Failed => None,
            OperationOutcome::Unknown => holds.then_some(next),
        }
    }
}
