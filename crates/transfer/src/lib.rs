//! The engine: moves one resource from its origin to this machine and never leaves a wrong file.

mod error;
mod event;
mod options;

pub use error::{Class, GetError};
pub use event::{Event, EventSender};
pub use options::{Connections, Existing, GetOptions, Job, Outcome, Output};
