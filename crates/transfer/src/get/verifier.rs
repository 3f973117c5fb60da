//! Compares pieces with their digests as they become whole, on a thread of its own: the bytes are read from the page cache, where
//! they are so shortly after they were written, and the sockets do not notice.
//!
//! Which pieces are due `plan::PieceChecks` says; what follows from a bad one is the caller's.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use haul_plan::{DigestAlgorithm, PieceChecks, RangeSet};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::checksum::DigestSet;
use crate::disk::PartialStorage;

/// How much is read at once, in bytes.
const READ: usize = 256 * 1024;

/// Bytes that are looked at before the result is told: some tenths of a second.
const ROUND: u64 = 64 << 20;

/// Verifies pieces behind a download.
#[derive(Debug)]
pub(super) struct PieceVerifier {
    /// What is known of them.
    book: PieceChecks,
    /// What is read.
    storage: Arc<dyn PartialStorage>,
    /// The round that runs.
    running: JoinSet<io::Result<Vec<(u64, bool)>>>,
    /// Ends it early.
    stop: CancellationToken,
}

/// A piece whose digest was compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CheckedPiece {
    /// Its bytes.
    pub(super) range: Range<u64>,
    /// How often it has been bad by now; 0 when it is right.
    pub(super) bad: u32,
}

/// A piece that is to be looked at.
struct PieceToCheck {
    piece: u64,
    range: Range<u64>,
    digest: Vec<u8>,
}

impl PieceVerifier {
    /// One that has looked at nothing yet.
    pub(super) fn new(book: PieceChecks, storage: Arc<dyn PartialStorage>) -> Self {
        Self {
            book,
            storage,
            running: JoinSet::new(),
            stop: CancellationToken::new(),
        }
    }

    /// Begins to look at what is whole, unless a round runs already.
    pub(super) fn begin(&mut self, done: &RangeSet) {
        if !self.running.is_empty() {
            return;
        }
        let pieces = self.book.pieces();
        let most = usize::try_from(ROUND / pieces.length()).unwrap_or(usize::MAX);
        let algorithm = pieces.algorithm();
        let ready = self.book.take_ready(done, most.max(1));
        let due: Vec<PieceToCheck> = ready.into_iter().map(|piece| self.due(piece)).collect();
        if !due.is_empty() {
            let (storage, stop) = (Arc::clone(&self.storage), self.stop.clone());
            self.running
                .spawn_blocking(move || round(&*storage, algorithm, &due, &stop));
        }
    }

    fn due(&self, piece: u64) -> PieceToCheck {
        let digest = self.book.pieces().digest(piece).unwrap_or_default();
        PieceToCheck {
            piece,
            range: self.book.range(piece),
            digest: digest.to_vec(),
        }
    }

    /// Waits for the round that runs; never returns when none does. Cancel safe.
    ///
    /// # Errors
    /// What reading the file back said.
    pub(super) async fn ended(&mut self) -> io::Result<Vec<CheckedPiece>> {
        let looked = match self.running.join_next().await {
            Some(Ok(looked)) => looked?,
            Some(Err(e)) => return Err(io::Error::other(e)),
            None => std::future::pending().await,
        };
        let book = &mut self.book;
        let told = looked.into_iter().map(|(piece, good)| CheckedPiece {
            bad: book.on_checked(piece, good),
            range: book.range(piece),
        });
        Ok(told.collect())
    }

    /// Which digests are compared.
    pub(super) fn algorithm(&self) -> DigestAlgorithm {
        self.book.pieces().algorithm()
    }

    /// Whether every piece was found right.
    pub(super) fn is_complete(&self) -> bool {
        self.book.is_complete()
    }

    /// How far the file is known to be right from its first byte on.
    pub(super) fn front(&self) -> u64 {
        self.book.verified_prefix()
    }

    /// Ends the round that runs and waits until it has let go of the file.
    pub(super) async fn close(&mut self) {
        self.stop.cancel();
        while self.running.join_next().await.is_some() {}
    }
}

/// Looks at some pieces.
fn round(
    storage: &dyn PartialStorage,
    algorithm: DigestAlgorithm,
    due: &[PieceToCheck],
    stop: &CancellationToken,
) -> io::Result<Vec<(u64, bool)>> {
    let mut buffer = vec![0; READ];
    let mut looked = Vec::with_capacity(due.len());
    for due in due {
        let mut hashers = DigestSet::new([algorithm]);
        let mut at = due.range.start;
        while at < due.range.end {
            if stop.is_cancelled() {
                return Ok(looked);
            }
            let left = usize::try_from(due.range.end - at).unwrap_or(READ);
            let read = storage.read_at(at, &mut buffer[..left.min(READ)])?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            hashers.update(&buffer[..read]);
            at += read as u64;
        }
        let found = hashers.finish();
        looked.push((due.piece, found.iter().all(|d| d.digest == due.digest)));
    }
    Ok(looked)
}
