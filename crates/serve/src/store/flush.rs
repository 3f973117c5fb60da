//! All that makes bytes and names durable. In tests a disk fails here, and what was flushed is recorded.

use std::io;
use std::os::fd::AsFd;

/// Flushes a file with all its attributes, or the names in a folder.
pub(super) fn fsync(file: impl AsFd) -> io::Result<()> {
    #[cfg(test)]
    faulty_disk::before_flush(file.as_fd())?;
    Ok(rustix::fs::fsync(file)?)
}

/// Flushes a file's bytes and its length.
pub(super) fn fdatasync(file: impl AsFd) -> io::Result<()> {
    #[cfg(test)]
    faulty_disk::before_flush(file.as_fd())?;
    Ok(rustix::fs::fdatasync(file)?)
}

/// Flushes the whole file system of a folder.
pub(super) fn syncfs(folder: impl AsFd) -> io::Result<()> {
    #[cfg(test)]
    faulty_disk::before_flush(folder.as_fd())?;
    Ok(rustix::fs::syncfs(folder)?)
}

/// A disk that fails, for the thread of a test.
#[cfg(test)]
pub(super) mod faulty_disk {
    use std::cell::RefCell;
    use std::io;
    use std::os::fd::BorrowedFd;

    #[derive(Default)]
    struct FlushFaults {
        /// The inodes of all flushes.
        flushed: Vec<u64>,
        /// The number of the flush that fails, from 0.
        fails_at: Option<usize>,
    }

    thread_local! {
        static DISK: RefCell<FlushFaults> = RefCell::default();
    }

    pub(super) fn before_flush(file: BorrowedFd<'_>) -> io::Result<()> {
        DISK.with_borrow_mut(|disk| {
            disk.flushed.push(rustix::fs::fstat(file)?.st_ino);
            if disk.fails_at == Some(disk.flushed.len() - 1) {
                Err(rustix::io::Errno::IO.into())
            } else {
                Ok(())
            }
        })
    }

    /// Runs something on a disk of which one flush fails, counted from 0, and returns the inodes of all flushes.
    pub(crate) fn failing_at<T>(flush: usize, run: impl FnOnce() -> T) -> (T, Vec<u64>) {
        DISK.set(FlushFaults {
            flushed: Vec::new(),
            fails_at: Some(flush),
        });
        let result = run();
        (result, DISK.take().flushed)
    }
}
