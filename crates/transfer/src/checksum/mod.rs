//! Digests of what was downloaded, and the CRC that guards partial files.
//!
//! [`Hashers`] feeds several algorithms at once; [`follow`] computes them on a thread of its own behind the download,
//! reading the page cache as the contiguous front of the file grows, so that hashing never slows the sockets.

mod crc;
mod follow;
mod hashers;

pub(crate) use crc::{Crc32c, combine, crc32c};
pub(crate) use follow::Follower;
pub(crate) use hashers::{Digested, Hashers, hex};
