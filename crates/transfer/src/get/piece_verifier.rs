//! Compares pieces with their digests as they become whole, on a thread of its own: the bytes are read from the page cache, where
//! they are so shortly after they were written, and the sockets do not notice.
//!
//! Which pieces are due [`PieceChecks`] says; what follows from a bad one is the caller's.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use haul_plan::DigestAlgorithm;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::PieceChecks;
use crate::checksum::DigestSet;
use crate::disk::PartialStorage;
use crate::error::{GetError, VerificationError};
use crate::range_set::RangeSet;

/// How much is read at once, in bytes.
const READ_SIZE: usize = 256 * 1024;

/// Bytes that are looked at before the result is reported: some tenths of a second.
const ROUND_BYTES: u64 = 64 << 20;

/// Verifies pieces behind a download.
#[derive(Debug)]
pub(super) struct PieceVerifier {
    /// What is known of them.
    checks: PieceChecks,
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
    pub(super) range: Range<u64>,
    /// How often it has been bad by now; 0 when it is right.
    pub(super) bad_count: u32,
    algorithm: DigestAlgorithm,
}

impl CheckedPiece {
    /// The error of a source whose bytes are not what the piece's digest says.
    pub(super) fn error(&self, url: &Url) -> GetError {
        let (range, algorithm) = (self.range.clone(), self.algorithm);
        let error = VerificationError::PieceDigest { range, algorithm };
        GetError::verification(haul_net::without_credentials(url), error)
    }
}

/// A piece that is to be looked at.
struct PieceToCheck {
    piece: u64,
    range: Range<u64>,
    digest: Vec<u8>,
}

impl PieceVerifier {
    /// One that has looked at nothing yet.
    pub(super) fn new(checks: PieceChecks, storage: Arc<dyn PartialStorage>) -> Self {
        Self {
            checks,
            storage,
            running: JoinSet::new(),
            stop: CancellationToken::new(),
        }
    }

    /// Starts to check pieces that are complete, unless a round is running.
    pub(super) fn start_round(&mut self, done: &RangeSet) {
        if !self.running.is_empty() {
            return;
        }
        let pieces = self.checks.pieces();
        let most = usize::try_from(ROUND_BYTES / pieces.length()).unwrap_or(usize::MAX);
        let algorithm = pieces.algorithm();
        let ready = self.checks.take_ready(done, most.max(1));
        let pieces: Vec<PieceToCheck> = ready
            .into_iter()
            .map(|piece| self.piece_to_check(piece))
            .collect();
        if !pieces.is_empty() {
            let (storage, stop) = (Arc::clone(&self.storage), self.stop.clone());
            self.running
                .spawn_blocking(move || check_pieces(&*storage, algorithm, &pieces, &stop));
        }
    }

    fn piece_to_check(&self, piece: u64) -> PieceToCheck {
        let digest = self.checks.pieces().digest(piece).unwrap_or_default();
        PieceToCheck {
            piece,
            range: self.checks.range(piece),
            digest: digest.to_vec(),
        }
    }

    /// Waits for the results of the running round; pending if there is none. Cancel safe.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(super) async fn next_results(&mut self) -> io::Result<Vec<CheckedPiece>> {
        let results = match self.running.join_next().await {
            Some(Ok(results)) => results?,
            Some(Err(e)) => return Err(io::Error::other(e)),
            None => std::future::pending().await,
        };
        let checks = &mut self.checks;
        let checked = results.into_iter().map(|(piece, good)| CheckedPiece {
            bad_count: checks.on_checked(piece, good),
            range: checks.range(piece),
            algorithm: checks.pieces().algorithm(),
        });
        Ok(checked.collect())
    }

    /// Whether every piece matches its digest.
    pub(super) fn is_complete(&self) -> bool {
        self.checks.is_complete()
    }

    /// How many bytes at the beginning of the file are verified.
    pub(super) fn verified_prefix(&self) -> u64 {
        self.checks.verified_prefix()
    }

    /// Stops the running round and waits until it has stopped using the file.
    pub(super) async fn close(&mut self) {
        self.stop.cancel();
        while self.running.join_next().await.is_some() {}
    }
}

/// Reads pieces back and compares their digests. Returns for each whether it matches.
fn check_pieces(
    storage: &dyn PartialStorage,
    algorithm: DigestAlgorithm,
    pieces: &[PieceToCheck],
    stop: &CancellationToken,
) -> io::Result<Vec<(u64, bool)>> {
    let mut buffer = vec![0; READ_SIZE];
    let mut results = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let mut hashers = DigestSet::new([algorithm]);
        let mut at = piece.range.start;
        while at < piece.range.end {
            if stop.is_cancelled() {
                return Ok(results);
            }
            let left = usize::try_from(piece.range.end - at).unwrap_or(READ_SIZE);
            let read = storage.read_at(at, &mut buffer[..left.min(READ_SIZE)])?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            hashers.update(&buffer[..read]);
            at += read as u64;
        }
        let computed = hashers.finish();
        let is_good = computed.iter().all(|found| found.digest == piece.digest);
        results.push((piece.piece, is_good));
    }
    Ok(results)
}
