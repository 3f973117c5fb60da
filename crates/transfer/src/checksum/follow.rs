//! Digests computed behind a download, on a thread of their own.
//!
//! The download publishes how far the file is whole from its first byte on (its *front*); the follower reads up to
//! there, which is the page cache so shortly after the write, and hashes. Where bytes arrive in order it keeps up and
//! has next to nothing left to do at the end. Where digests are slower than the link (MD5, SHA-512) it falls behind, and the
//! sockets do not notice: the price is paid once, at the end.

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

/// How far a file is whole from its first byte on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct ContiguousPrefix {
    /// Bytes.
    whole: u64,
    /// Whether that is all of the file.
    complete: bool,
}

/// A thread that hashes behind a download. Dropping it makes the thread end soon.
#[derive(Debug)]
pub(crate) struct DigestFollower {
    /// Owns the thread.
    thread: JoinSet<io::Result<Vec<ComputedDigest>>>,
    /// Tells the thread how far it may read.
    front: watch::Sender<ContiguousPrefix>,
    /// What is read, to begin again.
    storage: Arc<dyn PartialStorage>,
    /// What is computed, to begin again.
    algorithms: Vec<DigestAlgorithm>,
}

impl DigestFollower {
    /// Starts the thread.
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

    /// Says how far the file is whole now. Cheap; called a few times a second.
    pub(crate) fn advance(&self, whole: u64) {
        self.front.send_if_modified(|front| {
            let more = whole > front.whole;
            front.whole = front.whole.max(whole);
            more
        });
    }

    /// Begins again: the file's beginning is written anew.
    pub(crate) fn restart(self) -> Self {
        let Self {
            storage,
            algorithms,
            ..
        } = self;
        let hashers = DigestSet::new(algorithms.iter().copied());
        Self::start(storage, hashers)
    }

    /// Gives up, and returns when the thread has let go of the file: until then the next open finds it locked.
    pub(crate) async fn close(self) {
        let Self {
            mut thread, front, ..
        } = self;
        drop(front);
        while thread.join_next().await.is_some() {}
    }

    /// Waits for the digests of a file of `length` bytes, all of which are in place.
    ///
    /// # Errors
    /// The result of reading the file back.
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

/// The thread: reads behind the front until the file is complete or nobody wants the digests any more.
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
