//! The end of `--update` when the origin has nothing newer: the file that is there is the result, and is verified as one.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::destination::DownloadDestination;
use super::publish::ExpectedDigests;
use super::run::DownloadRun;
use crate::checksum::{ComputedDigest, DigestSet};
use crate::disk::blocking;
use crate::error::GetError;
use crate::event::TransferEvent;
use crate::options::DownloadOutcome;

/// Bytes that are read between two looks at whether the job is to stop.
const STEP: usize = 1 << 20;

impl DownloadRun<'_> {
    /// The file that is there, and its digests if the user wants any.
    pub(super) async fn not_modified(
        &self,
        place: &DownloadDestination,
    ) -> Result<DownloadOutcome, GetError> {
        let path = place
            .guessed_paths(&self.job.url)
            .map(|target| target.path().to_owned());
        let mut outcome = DownloadOutcome {
            not_modified: true,
            ..self.outcome(0)
        };
        if let Some(path) = &path {
            outcome.bytes = path.metadata().map_or(0, |found| found.len());
            let wanted = ExpectedDigests {
                user: self.job.checksums.clone(),
                announced: Vec::new(),
                piece_digests: false,
            };
            let found = self.digests_of(path, &wanted, outcome.bytes).await?;
            wanted.verify(&self.url, &found)?;
            outcome.checksums = wanted.report(&found);
        }
        Ok(DownloadOutcome { path, ..outcome })
    }

    async fn digests_of(
        &self,
        path: &Path,
        wanted: &ExpectedDigests,
        bytes: u64,
    ) -> Result<Vec<ComputedDigest>, GetError> {
        let mut hashers = DigestSet::new(wanted.algorithms());
        if hashers.is_empty() {
            return Ok(Vec::new());
        }
        let job = self.job.id;
        self.tell(TransferEvent::Verifying { job, bytes }).await;
        let local = |source: io::Error| GetError::local("read", path.to_owned(), source);
        let mut file = blocking(|| File::open(path)).map_err(local)?;
        let mut buffer = vec![0; STEP];
        loop {
            if self.stop.is_cancelled() {
                return Err(GetError::INTERRUPTED);
            }
            let read = blocking(|| {
                let read = file.read(&mut buffer)?;
                hashers.update(&buffer[..read]);
                Ok::<_, io::Error>(read)
            });
            if read.map_err(local)? == 0 {
                return Ok(hashers.finish());
            }
            tokio::task::yield_now().await;
        }
    }
}
