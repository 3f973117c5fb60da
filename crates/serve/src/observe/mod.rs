//! What is told of what the server does: numbers, a line for each request, and an address to ask at.
//!
//! All of it is called on the path of every request, from several threads at once, and so costs a few uncontended atomic
//! operations, takes no lock that another thread may hold for long, waits for no disk, and keeps a stated amount at most:
//!
//! - [`Metrics`] counts in shards ([`Sharded`]), of which each thread has its own; they are summed when somebody asks.
//! - [`AccessLog`] renders a [`Record`] as a [`LogFormat`] into a bounded buffer; a thread of its own writes the buffers out.
//!   When the disk does not keep up, lines are dropped and counted.
//! - [`serve_admin`] answers `/healthz` and `/metrics` from any number of [`Source`]s.
//!
//! Nothing here knows the store or HTTP's service, and there is no global registry: whoever has something to tell implements
//! [`Source`] and is put in the list that [`Admin`] is made of. Another command brings sources of its own.

mod admin;
mod exposition;
mod format;
mod log;
mod metrics;
mod process;
mod record;
mod sharded;

pub use admin::{Admin, AdminListener, serve_admin};
pub use exposition::{Exposition, Family, FamilyKind, Source, render};
pub use format::{LogFormat, LogFormatError};
pub use log::{AccessLog, LogError, LogOptions, LogSink, LogTarget};
pub use metrics::{BodyRefusal, Fault, Held, Histogram, Metrics};
pub use process::Process;
pub use record::Record;
pub use sharded::Sharded;
