//! The kind of file system that a file is on, which says whether a call may block.
//!
//! A reactor must not wait for a disk. Most requests are for files in the page cache, and handing a
//! read to another thread costs more than the read. So reads are attempted in a way that fails
//! instead of waiting (`RWF_NOWAIT`). Only some file systems support that. On others, and where
//! even `stat` may go over a network, everything runs on threads that may wait.

use std::os::fd::AsFd;

/// Kinds of file systems.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilesystemKind {
    /// Everything is in memory: no call blocks.
    Memory,
    /// A disk of this machine behind the page cache.
    LocalDisk,
    /// A network, a user-space program, or unknown: any call may block.
    Remote,
}

/// The numbers of `statfs(2)` (linux/magic.h).
mod magic {
    pub(super) const MEMORY: [u64; 2] =
        [0x0102_1994 /* tmpfs */, 0x8584_58f6 /* ramfs */];
    pub(super) const CACHED: [u64; 8] = [
        0xef53,      // ext2, ext3, ext4
        0x5846_5342, // xfs
        0x9123_683e, // btrfs
        0xf2f5_2010, // f2fs
        0xca45_1a4e, // bcachefs
        0x2fc1_2fc1, // zfs
        0x794c_7630, // overlayfs
        0x7371_7368, // squashfs
    ];
}

impl FilesystemKind {
    /// The kind of file system that an open file is on.
    #[must_use]
    pub fn of_file(file: impl AsFd) -> Self {
        let Ok(found) = rustix::fs::fstatfs(file) else {
            return Self::Remote;
        };
        // A signed word on most architectures; its lower half counts.
        #[expect(clippy::cast_sign_loss, reason = "the numbers are bit patterns")]
        let kind = found.f_type as u64 & 0xffff_ffff;
        match kind {
            _ if magic::MEMORY.contains(&kind) => Self::Memory,
            _ if magic::CACHED.contains(&kind) => Self::LocalDisk,
            _ => Self::Remote,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn unknown_file_systems_may_block() {
        let proc = File::open("/proc/self/status").expect("this process");
        assert_eq!(FilesystemKind::of_file(&proc), FilesystemKind::Remote);
        let shm = File::open("/dev/shm").expect("shared memory");
        assert_eq!(FilesystemKind::of_file(&shm), FilesystemKind::Memory);
    }
}
