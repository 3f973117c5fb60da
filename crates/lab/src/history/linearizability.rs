//! Checks whether a history of one key can be that of a register.
//!
//! The check goes through the events of the history in order: starts and finishes of operations. It keeps the set of all states that
//! the register may be in: the key's version, and which of the concurrent operations have taken effect already (Lowe, *Testing for
//! linearizability*, 2017, "just-in-time linearization"). An operation takes effect as late as possible: by its finish it must have done so,
//! so in each state in which it has not, it does now, after any of the other concurrent operations, in any order. States in which that is
//! impossible are dropped. An operation without a response may have taken effect by then or not, and both states are kept. When no state is
//! left, no order of instants explains the responses, and the error names the operation whose response was not possible.
//!
//! This is exact: a history passes if and only if there is such an order. The time is linear in the history's length, and exponential only
//! in the number of concurrent operations, which the driver limits.

use std::collections::HashSet;

use super::{BodyVersion, Operation, OperationOutcome};

/// The maximum number of concurrent operations: bits of a [`PossibleKeyState`].
const MAX_CONCURRENT: usize = 128;

/// Why a history is not that of a register.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinearizabilityViolation {
    /// A response that no order of instants explains.
    #[error(
        "no register has this history: {operation:?}, while the key had one of the versions {possible_versions:?}, concurrent with {concurrent:?}"
    )]
    Impossible {
        /// The operation with that response. It may be right: then an earlier response was wrong.
        operation: Operation,
        /// The versions that the key may have had just before.
        possible_versions: Vec<Option<BodyVersion>>,
        concurrent: Vec<Operation>,
    },
    /// More operations were concurrent than can be checked.
    #[error("more than {MAX_CONCURRENT} concurrent operations")]
    TooManyConcurrent,
}

/// A state that the register may be in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct PossibleKeyState {
    /// The key's version.
    current: Option<BodyVersion>,
    /// A bit for each slot: whether its operation has taken effect.
    applied: u128,
}

/// An event of a history. At equal times starts come first: an operation that starts when another finishes may take effect before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum HistoryEvent {
    Start(usize),
    Finish(usize),
}

/// The check, up to some event.
struct LinearizabilityCheck<'a> {
    /// All states that the register may be in.
    states: HashSet<PossibleKeyState>,
    /// The concurrent operations, in slots.
    concurrent: [Option<&'a Operation>; MAX_CONCURRENT],
}

/// Checks the operations on one key, which did not exist at first. They may be in any order.
///
/// # Errors
/// When a register cannot have this history.
pub fn check_linearizability(history: &[Operation]) -> Result<(), LinearizabilityViolation> {
    let mut events = Vec::new();
    for (index, operation) in history.iter().enumerate() {
        // An operation that was not done has no effect.
        if operation.outcome != OperationOutcome::Failed {
            events.push((operation.started_at, HistoryEvent::Start(index)));
            events.push((operation.finished_at, HistoryEvent::Finish(index)));
        }
    }
    events.sort_unstable();
    let absent = PossibleKeyState {
        current: None,
        applied: 0,
    };
    let mut check = LinearizabilityCheck {
        states: HashSet::from([absent]),
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
            // It cannot take effect later. It may never have.
            after.extend(self.states.drain());
        } else if after.is_empty() {
            return Err(self.violation(slot, operation));
        }
        // The slot is free for another operation.
        let ended = after.into_iter().map(|state| PossibleKeyState {
            applied: state.applied & !(1 << slot),
            ..state
        });
        self.states = ended.collect();
        self.concurrent[slot] = None;
        Ok(())
    }

    /// The states in which an operation has taken effect, after as few others as possible.
    fn states_after(&self, slot: usize) -> HashSet<PossibleKeyState> {
        let (mut after, mut seen) = (HashSet::new(), HashSet::new());
        let mut open: Vec<_> = self.states.iter().copied().collect();
        while let Some(state) = open.pop() {
            if state.applied & (1 << slot) != 0 {
                after.insert(state);
            } else if seen.insert(state) {
                open.extend(self.next_states(state));
            }
        }
        after
    }

    /// The states after one more of the concurrent operations.
    fn next_states(&self, state: PossibleKeyState) -> impl Iterator<Item = PossibleKeyState> {
        let slots = self.concurrent.iter().enumerate();
        slots.filter_map(move |(slot, operation)| {
            let bit = 1 << slot;
            let current = operation
                .filter(|_| state.applied & bit == 0)?
                .apply(state.current)?;
            Some(PossibleKeyState {
                current,
                applied: state.applied | bit,
            })
        })
    }

    fn violation(&self, slot: usize, operation: &Operation) -> LinearizabilityViolation {
        let mut possible: Vec<_> = self.states.iter().map(|state| state.current).collect();
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
