//! What happened to the keys of a store, and whether it may have happened: a recorder's words and the checker that judges them.
//!
//! Whoever drives a store writes down each operation: when it was begun, when its answer was there, and what the answer was.
//! [`check_linearizability()`] then says whether one register, to which each operation happens at one instant between the two, could have answered so
//! (linearizability: Herlihy and Wing 1990). Every version that is written is written once, so a read names the write that it saw.
//! What a killed server did not answer may have happened, until the server was dead, or not at all.
//!
//! A body says itself what it is: [`StampedBody`] bytes name their key and their version, and every byte follows from those, so that
//! a torn or mixed body is detected by looking at it.
//!
//! Nothing here knows of HTTP, of files or of clocks: times are numbers from a [`LogicalClock`].

mod linearizability;
mod operation;
mod stamped_body;
#[cfg(test)]
mod tests;

pub use linearizability::{LinearizabilityViolation, check_linearizability};
pub use operation::{
    BodyVersion, LogicalClock, Operation, OperationKind, OperationOutcome, WriteCondition,
};
pub use stamped_body::{BodyCorruption, StampedBody};
