//! Computes digests behind a download, on a separate thread.
//!
//! The download publishes the length of its contiguous prefix (the *front*). The follower reads up to there, from the page
//! cache so shortly after the write, and hashes. If bytes arrive in order, it keeps up and has almost nothing left to do at
//! the end. If digests are slower than the link (MD5, SHA-512), it falls behind without slowing the sockets, and the delay
//! comes once, at the end.

use std::io;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;

use haul_plan::DigestAlgorithm;

use super::{ComputedDigest, DigestSet};
use crate::disk::PartialStorage;

/// How much is read at once, in bytes: large enough that the system call is nothing, small enough for the L2 cache.
const READ_SIZE: usize = 256 * 1024;

/// The contiguous prefix of a file: all bytes up to an offset are there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct ContiguousPrefix {
    /// Its length in bytes.
    whole: u64,
    /// Whether it is the whole file.
    complete: bool,
}

/// A thread that hashes behind a download. Dropping it ends the thread soon.
#[derive(Debug)]
pub(crate) struct DigestFollower {
    thread: JoinSet<io::Result<Vec<ComputedDigest>>>,
    /// Publishes how far the thread may read.
    front: watch::Sender<ContiguousPrefix>,
    /// The file, to start again.
    storage: Arc<dyn PartialStorage>,
    /// The algorithms, to start again.
    algorithms: Vec<DigestAlgorithm>,
}

impl DigestFollower {
    pub(crate) fn start(storage: Arc<dyn PartialStorage>, hashers: DigestSet) -> Self {
        let (kept, algorithms) = (Arc::clone(&storage), hashers.algorithms());
        let (front, changes) = watch::channel(ContiguousPrefix::default());
        let mut thread = JoinSet::new();
        let handle = Handle::current();
        thread.spawn_blocking(move || run(&*storage, hashers, changes, &handle));
        Self {
            thread,
            front,
            storage: kept,
            algorithms,
        }
    }

    /// Publishes the length of the contiguous prefix. Cheap; called a few times a second.
    pub(crate) fn advance(&self, whole: u64) {
        self.front.send_if_modified(|front| {
            let more = whole > front.whole;
            front.whole = front.whole.max(whole);
            more
        });
    }

    /// Starts again, because the beginning of the file is written anew.
    pub(crate) fn restart(self) -> Self {
        let Self {
            storage,
            algorithms,
            ..
        } = self;
        let hashers = DigestSet::new(algorithms.iter().copied());
        Self::start(storage, hashers)
    }

    /// Cancels the digests, and returns when the thread has closed the file: until then the file is locked for the next
    /// open.
    pub(crate) async fn close(self) {
        let Self {
            mut thread, front, ..
        } = self;
        drop(front);
        while thread.join_next().await.is_some() {}
    }

    /// Waits for the digests of a complete file of `length` bytes.
    ///
    /// # Errors
    /// The error of reading the file back.
    pub(crate) async fn finish(mut self, length: u64) -> io::Result<Vec<ComputedDigest>> {
        self.front.send_replace(ContiguousPrefix {
            whole: length,
            complete: true,
        });
        match self.thread.join_next().await {
            Some(Ok(result)) => result,
            // The thread is never aborted before this; a panic in it is a bug and stays one.
            Some(Err(e)) => Err(io::Error::other(e)),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// The thread: reads up to the front until the file is complete or the follower is dropped.
fn run(
    storage: &dyn PartialStorage,
    mut hashers: DigestSet,
    mut changes: watch::Receiver<ContiguousPrefix>,
    handle: &Handle,
) -> io::Result<Vec<ComputedDigest>> {
    let mut buffer = vec![0; READ_SIZE];
    let mut at = 0;
    loop {
        let front = *changes.borrow_and_update();
        while at < front.whole {
            if changes.has_changed().is_err() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let want =
                usize::try_from(front.whole - at).map_or(READ_SIZE, |left| left.min(READ_SIZE));
            let read = storage.read_at(at, &mut buffer[..want])?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            hashers.update(&buffer[..read]);
            at += read as u64;
        }
        if front.complete {
            return Ok(hashers.finish());
        }
        if handle.block_on(changes.changed()).is_err() {
            return Err(io::ErrorKind::Interrupted.into());
        }
    }
}
