//! Histories of operations on the keys of a store, and a checker for them.
//!
//! A test that drives a store records each operation: when it was started, when its response arrived, and the response.
//! [`check_linearizability()`] then checks whether the responses can be those of one register, on which each operation takes effect at one
//! instant between its start and its response (linearizability: Herlihy and Wing 1990). Each version is written only once, so a read
//! identifies the write that it saw. An operation whose response is missing because its server was killed may have taken effect at any time
//! until the server was dead, or not at all.
//!
//! [`StampedBody`] is a body that contains its key and its version, and all other bytes follow from them, so that a torn or mixed body is
//! detected without other data.
//!
//! This module knows nothing of HTTP, files or clocks: times are numbers from a [`LogicalClock`].

mod linearizability;
mod operation;
mod stamped_body;
#[cfg(test)]
mod tests;

pub use linearizability::{LinearizabilityViolation, check_linearizability};
pub use operation::{
    BodyVersion, LogicalClock, Operation, OperationKind, OperationOutcome, WritePrecondition,
};
pub use stamped_body::{BodyCorruption, StampedBody};
