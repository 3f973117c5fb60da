//! What is told of what a server does: numbers, lines, and an address to ask at.
//!
//! All of it is called on the path of every request, from several threads at once, and so costs a few uncontended atomic
//! operations, takes no lock that another thread may hold for long, waits for no disk, and keeps a stated amount at most:
//!
//! - [`Sharded`] counts in shards, of which each thread has its own; they are summed when somebody asks. A [`Histogram`] is made of them.
//! - [`Log`] takes lines into a bounded buffer; a thread of its own writes the buffers out. When the disk does not keep up, lines are
//!   dropped and counted.
//! - [`serve_admin`] answers `/healthz` and `/metrics`, the latter from any number of [`Source`]s, and what [`Page`]s its owner adds.
//!
//! Nothing here knows what is served, and there is no global registry: whoever has something to tell implements [`Source`] and is put
//! in the list that [`Admin`] is made of. Each command brings sources of its own; [`Process`] is everybody's.

mod admin;
mod exposition;
mod failing;
mod histogram;
mod log;
mod moment;
mod process;
mod sharded;

pub use admin::{Admin, AdminListener, Page, serve_admin};
pub use exposition::{Exposition, Family, FamilyKind, Source, render};
pub use failing::Failing;
pub use histogram::Histogram;
pub use log::{Log, LogError, LogNews, LogOptions, LogSink, LogTarget};
pub use moment::{Moment, number};
pub use process::Process;
pub use sharded::Sharded;
