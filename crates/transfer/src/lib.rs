//! The engine: moves one resource from its origin to this machine and never leaves a wrong file.
//!
//! [`Engine`] takes [`Job`]s and gives [`Outcome`]s; what happens meanwhile it tells as [`Event`]s. `plan` decides, `net`
//! fetches, this crate writes: partial files and their journals ([`disk`], [`journal`]), digests, the final rename. It is
//! also the one layer that tries again. Of a batch there is the record of what came of each job ([`manifest`]), and tar shards in
//! place of files ([`archive`]).

pub mod archive;
pub mod batch;
mod cause;
mod checksum;
pub mod disk;
mod error;
mod event;
mod get;
mod hint;
pub mod journal;
pub mod list;
pub mod manifest;
mod options;

pub use error::{Class, GetError};
pub use event::{Event, EventSender};
pub use get::Engine;
pub use options::{Connections, Existing, GetOptions, Job, Outcome, Output};
