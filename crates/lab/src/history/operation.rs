//! One operation on one key, as its client saw it.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a body is known by. No two writes of a key have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// What has the key?
    Read,
    /// Let this version have it.
    Write(Version, Condition),
    /// Let nothing have it.
    Delete(Condition),
}

/// What must hold in the instant in which something is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// Nothing.
    Always,
    /// Nothing has the key.
    Absent,
    /// Some version has it, whichever.
    Present,
    /// This version has it.
    Is(Version),
}

/// What the client was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Of a read: this has the key, or nothing.
    Found(Option<Version>),
    /// It was done. `replaced`: whether something had the key before, if that was told. A delete that found nothing is one that was
    /// done and replaced nothing.
    Done {
        /// Whether something had the key.
        replaced: Option<bool>,
    },
    /// The condition did not hold.
    Refused,
    /// It was not done and cannot be: its body was never sent whole, or the answer was an error.
    Failed,
    /// Nothing. It may have happened at any time until it ended, or not at all.
    Unknown,
}

/// An operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// What was asked for.
    pub action: Action,
    /// Before anything of it was sent.
    pub begun: u64,
    /// When its answer was there. Of an unknown one: from when on it can no longer happen, since its server was dead;
    /// [`u64::MAX`] if that is never.
    pub ended: u64,
    /// What was answered.
    pub outcome: Outcome,
}

/// Times that are in one order for all threads, and never the same twice.
#[derive(Debug, Default)]
pub struct Ticks(AtomicU64);

impl Ticks {
    /// Now.
    pub fn now(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

impl Condition {
    /// Whether it holds for what has the key.
    pub(super) fn holds(self, current: Option<Version>) -> bool {
        match self {
            Self::Always => true,
            Self::Absent => current.is_none(),
            Self::Present => current.is_some(),
            Self::Is(version) => current == Some(version),
        }
    }
}

impl Operation {
    /// What has the key after it, if it happens now, when `current` has the key; `None` if its answer says that it did not happen now.
    pub(super) fn happen(&self, current: Option<Version>) -> Option<Option<Version>> {
        let (condition, next) = match self.action {
            Action::Read => (Condition::Always, current),
            Action::Write(version, condition) => (condition, Some(version)),
            Action::Delete(condition) => (condition, None),
        };
        let holds = condition.holds(current);
        match self.outcome {
            Outcome::Found(found) => (found == current).then_some(current),
            Outcome::Done { replaced } => {
                let is_told = replaced.is_none_or(|replaced| replaced == current.is_some());
                (holds && is_told).then_some(next)
            }
            Outcome::Refused => (!holds).then_some(current),
            Outcome::Failed => None,
            Outcome::Unknown => holds.then_some(next),
        }
    }
}
