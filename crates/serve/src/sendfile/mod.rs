//! Bodies that the kernel sends: from the page cache to the socket, through no buffer of this process.
//!
//! hyper writes a response from slices of memory. A large body is given to it as one slice of a *mapping* of its file, which nobody reads:
//! before a slice is written, the connection's end of the wire asks its [`MappingRegistry`] whether the address is in a mapping that it was
//! lent, and if so sends that range of the file with `sendfile(2)`. For 4 GiB that is a tenth of the CPU that reading and writing
//! takes, and it needs no HTTP of our own. All other ways of writing would still be right, since the memory is the file's.
//!
//! A file that was cut short behind its mapping would end the process at the first look at the missing pages (`SIGBUS`). Nothing looks:
//! `sendfile` says that there is no more, and the connection ends short, which is what a client must see (row D13). That holds
//! because bodies of this kind are handed out on connections alone whose wire has a ledger, and hyper writes slices there as they are.

mod mapped;
mod mapping_registry;
mod sys;

pub(crate) use mapped::MappedBody;
pub(crate) use mapping_registry::{MappedRun, MappingRegistry};
