//! Whether a history of one key is one that a register can have.
//!
//! The history is gone through in the order of its events: beginnings and ends of operations. What is kept is the set of all
//! situations that the register may be in now: which version has the key, and which of the operations that are under way have happened
//! already (Lowe, *Testing for linearizability*, 2017, "just-in-time linearization"). Nothing happens until it must: when an
//! operation's answer is there, it has happened, so from each situation in which it has not yet, it happens now, after any of the others
//! that are under way, in any order. Situations in which that is impossible are dropped. One whose answer never came may have happened by
//! then or not, and both are kept. Once none is left, no order of instants explains the
//! answers, and the operation whose answer was one too many is named.
//!
//! This is exact: a history passes if and only if there is such an order. It takes time in proportion to the history's length, and
//! exponential only in how many operations are under way at once, which the driver bounds.

use std::collections::HashSet;

use super::{BodyVersion, Operation, OperationOutcome};

/// Operations that may be under way at once: bits of a [`RegisterState`].
const MAX_CONCURRENT: usize = 128;

/// Why a history is none of a register.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinearizabilityViolation {
    /// An answer that no order of instants explains.
    #[error(
        "no register answers so: {operation:?}, when {possible_versions:?} could have the key, and under way were {concurrent:?}"
    )]
    Impossible {
        /// Whose answer it is. It may be true: then one before it was not.
        operation: Operation,
        /// What could have the key just before.
        possible_versions: Vec<Option<BodyVersion>>,
        /// What was under way.
        concurrent: Vec<Operation>,
    },
    /// More was under way than this can follow.
    #[error("more than {MAX_CONCURRENT} operations under way at once")]
    TooManyConcurrent,
}

/// What the register may be in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct RegisterState {
    /// What has the key.
    current: Option<BodyVersion>,
    /// Which of those under way have happened, by their slots.
    applied: u128,
}

/// What comes next in a history. At one time, beginnings come first: who begins when another ends may be first or second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum HistoryEvent {
    Start(usize),
    Finish(usize),
}

/// Where the check has come to.
struct LinearizabilityCheck<'a> {
    /// Every one that the register may be in.
    states: HashSet<RegisterState>,
    /// Operations under way.
    concurrent: [Option<&'a Operation>; MAX_CONCURRENT],
}

/// Checks what was done to one key, from when nothing had it, in whatever order it is told.
///
/// # Errors
/// When a register cannot have answered so.
pub fn check_linearizability(history: &[Operation]) -> Result<(), LinearizabilityViolation> {
    let mut events = Vec::new();
    for (index, operation) in history.iter().enumerate() {
        // What was not done is as if it had not been asked for; so is a read that was not answered.
        if operation.outcome != OperationOutcome::Failed {
            events.push((operation.started_at, HistoryEvent::Start(index)));
            events.push((operation.finished_at, HistoryEvent::Finish(index)));
        }
    }
    events.sort_unstable();
    let nothing = RegisterState {
        current: None,
        applied: 0,
    };
    let mut check = LinearizabilityCheck {
        states: HashSet::from([nothing]),
        concurrent: [None; MAX_CONCURRENT],
    };
    let mut slots = vec![0; history.len()];
    for (_, event) in events {
        match event {
            HistoryEvent::Start(index) => slots[index] = check.start(&history[index])?,
            HistoryEvent::Finish(index) => check.finish(slots[index])?,
        }
    }
    Ok(())
}

impl<'a> LinearizabilityCheck<'a> {
    fn start(&mut self, operation: &'a Operation) -> Result<usize, LinearizabilityViolation> {
        let free = self.concurrent.iter().position(Option::is_none);
        let slot = free.ok_or(LinearizabilityViolation::TooManyConcurrent)?;
        self.concurrent[slot] = Some(operation);
        Ok(slot)
    }

    fn finish(&mut self, slot: usize) -> Result<(), LinearizabilityViolation> {
        let Some(operation) = self.concurrent[slot] else {
            return Ok(());
        };
        let mut after = self.states_after(slot);
        if operation.outcome == OperationOutcome::Unknown {
            // Later it can no longer happen; that it never did is as good.
            after.extend(self.states.drain());
        } else if after.is_empty() {
            return Err(self.violation(slot, operation));
        }
        // Its slot is another's from here on.
        let ended = after.into_iter().map(|situation| RegisterState {
            applied: situation.applied & !(1 << slot),
            ..situation
        });
        self.states = ended.collect();
        self.concurrent[slot] = None;
        Ok(())
    }

    /// The situations in which one has happened, after as few others as may be.
    fn states_after(&self, slot: usize) -> HashSet<RegisterState> {
        let (mut after, mut seen) = (HashSet::new(), HashSet::new());
        let mut open: Vec<_> = self.states.iter().copied().collect();
        while let Some(situation) = open.pop() {
            if situation.applied & (1 << slot) != 0 {
                after.insert(situation);
            } else if seen.insert(situation) {
                open.extend(self.next_states(situation));
            }
        }
        after
    }

    /// What one of those under way leads to.
    fn next_states(&self, situation: RegisterState) -> impl Iterator<Item = RegisterState> {
        let slots = self.concurrent.iter().enumerate();
        slots.filter_map(move |(slot, operation)| {
            let bit = 1 << slot;
            let current = operation
                .filter(|_| situation.applied & bit == 0)?
                .apply(situation.current)?;
            Some(RegisterState {
                current,
                applied: situation.applied | bit,
            })
        })
    }

    fn violation(&self, slot: usize, operation: &Operation) -> LinearizabilityViolation {
        let mut possible: Vec<_> = self.states.iter().map(|one| one.current).collect();
        possible.sort_unstable();
        possible.dedup();
        let others = self.concurrent.iter().enumerate();
        LinearizabilityViolation::Impossible {
            operation: *operation,
            possible_versions: possible,
            concurrent: others
                .filter_map(|(other, operation)| operation.filter(|_| other != slot).copied())
                .collect(),
        }
    }
}
