//! Response bodies that the kernel sends from the page cache to the socket, without a buffer in
//! this process.
//!
//! hyper writes a response from slices of memory. A large body is given to it as one slice of a
//! *mapping* of its file, whose bytes are never read: before a slice is written, the connection's
//! I/O looks up its address in the [`MappingRegistry`], and if it lies in a registered mapping,
//! sends that range of the file with `sendfile(2)`. For 4 GiB that takes a tenth of the CPU time of
//! reading and writing, and it needs no HTTP implementation of our own. Any other way of writing
//! the slice would still be right, since the memory is the file's.
//!
//! If a file is truncated while it is mapped, reading the missing pages would kill the process
//! (`SIGBUS`). Nothing reads them: `sendfile` reports the end of the file, and the connection ends
//! early, which is what a client must see (row D13). That holds because such bodies are used only
//! on connections whose I/O has a registry, and hyper writes the slices there without looking at
//! them.

mod mapping;
mod prefetch;
mod sys;

pub(crate) use mapping::{MappedBody, MappedRun, MappingRegistry};
pub(crate) use prefetch::FilePrefetch;
