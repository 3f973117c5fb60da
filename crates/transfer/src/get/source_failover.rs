//! A job with several sources, outside the segmented road: whom the first request asks, and what follows when a source fails for
//! good - another one is turned to, as long as one lives.

use std::sync::LazyLock;
use std::time::Duration;

use haul_plan::{RetryOptions, SourceFailure, SourceRecovery, SourceSet, SourceSetOptions};
use url::Url;

use super::attempt_failure::AttemptFailure;
use super::first_request::FirstResponseContent;
use super::partial_claim::PartialClaim;
use super::piece_verifier::PieceVerifier;
use super::publish::ExpectedDigests;
use super::run::DownloadRun;
use crate::error::GetError;
use crate::event::TransferEvent;
use crate::options::DownloadJob;

/// Connections of one job in all, however many sources it has.
const MOST: usize = 64;

/// The URL that credentials are for which may be sent to a job's own source.
pub(super) fn given(job: &DownloadJob) -> &Url {
    match &job.credential_urls {
        None => &job.url,
        Some(named) => by_document(named, &job.url),
    }
}

/// The same for a source that a document named: one of its origin that the user named, or nobody's.
fn by_document<'a>(named: &'a [Url], source: &Url) -> &'a Url {
    let origin = source.origin();
    let mut known = named.iter().filter(|url| url.origin() == origin);
    known.next().unwrap_or(&NOBODY)
}

/// A URL of no origin: what is for it is for nobody.
static NOBODY: LazyLock<Url> = LazyLock::new(|| {
    let Ok(nobody) = Url::parse("about:blank") else {
        unreachable!("it is a URL")
    };
    nobody
});

impl DownloadRun<'_> {
    /// The URL that the source which is asked now was named by.
    pub(super) fn home(&self) -> &Url {
        &self.sources[self.source]
    }

    /// The URL that credentials are for which may be sent to a source: its own if the user named it, the job's if an origin did.
    /// Where a document named it, one of that origin that the user named, or nobody's.
    pub(super) fn given(&self, source: usize) -> &Url {
        let Some(named) = &self.job.credential_urls else {
            let named = self.sources[..self.named].get(source);
            return named.unwrap_or(&self.job.url);
        };
        by_document(named, &self.sources[source])
    }

    /// The sources of a job: its URL and its mirrors, each once.
    pub(super) fn sources_of(
        urls: impl IntoIterator<Item = Url>,
        retry: &RetryOptions,
    ) -> (Vec<Url>, SourceSet) {
        let options = SourceSetOptions::default();
        let mut mirrors = SourceSet::new(SourceSetOptions {
            base: retry.base_delay,
            cap: retry.max_delay,
            retry_after_cap: retry.max_retry_after,
            // What one source alone is allowed.
            patience: retry.retries.saturating_sub(options.strikes),
            ..options
        });
        let mut sources = Vec::new();
        for url in urls {
            if !sources.contains(&url) {
                sources.push(url);
                mirrors.add(true);
            }
        }
        (sources, mirrors)
    }

    /// Carries out what a failure of the first request asks for.
    pub(super) async fn divert(
        &mut self,
        failure: AttemptFailure,
        range: Option<std::ops::Range<u64>>,
    ) -> Result<(), GetError> {
        let fate = match failure.trouble() {
            Some(trouble) => {
                let place = SourceFailure {
                    source: self.source,
                    now: self.started.elapsed(),
                    flowing: 0,
                    redirected: self.url != *self.home(),
                    why: &failure.to_string(),
                    jitter: rand::random(),
                };
                self.mirrors.on_trouble(trouble, &place)
            }
            None => SourceRecovery::Course,
        };
        tracing::debug!(source = self.source, ?fate, "{failure}");
        match fate {
            SourceRecovery::Course => {
                self.heal(failure, range).await?;
            }
            SourceRecovery::ResolveAgain => self.url = self.home().clone(),
            SourceRecovery::WithoutIfRange => self.if_range = false,
            SourceRecovery::Dropped | SourceRecovery::Rests(_) | SourceRecovery::Fewer => {
                if fate == SourceRecovery::Dropped {
                    self.warn_of(self.source, &failure.to_string()).await;
                }
                let wait = self.turn().unwrap_or_default();
                if !wait.is_zero() {
                    self.wait(wait, &failure).await?;
                }
            }
        }
        Ok(())
    }

    /// A road or its beginning ended with an error. When that is the source's and another one lives, it is the next one's turn.
    pub(super) async fn forsake(&mut self, error: GetError) -> Result<(), GetError> {
        if !error.is_source_failure() || self.sources.len() == 1 {
            return Err(error);
        }
        let why = error.reason();
        self.mirrors.drop_source(self.source, &why);
        let forsaken = self.source;
        let Some(wait) = self.turn() else {
            return Err(self.of_all(error));
        };
        self.warn_of(forsaken, &why).await;
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Err(GetError::INTERRUPTED),
            () = tokio::time::sleep(wait) => Ok(()),
        }
    }

    /// Turns to the source that is to be asked next; how long to wait before that. `None` when there is none.
    pub(super) fn turn(&mut self) -> Option<Duration> {
        if self.mirrors.living() == 0 {
            self.mirrors.recall();
        }
        let (source, wait) = self.mirrors.first(self.started.elapsed())?;
        if source != self.source {
            self.totals.retries += self.course.retries();
            self.course = haul_plan::FailurePolicy::new(self.engine.options.retry.clone());
            (self.source, self.url) = (source, self.sources[source].clone());
            (self.one_stream, self.if_range) = (false, true);
        }
        Some(wait)
    }

    /// Whether the digest of the whole is wrong, and one source alone is to bring all of it next: [`DownloadRun::turn_alone`] turns to it.
    pub(super) fn goes_alone(&mut self, error: &GetError) -> bool {
        let earlier = self.totals.resumed > 0;
        let next = self
            .mirrors
            .on_wrong_whole(self.source, earlier, &error.reason());
        self.alone = next.is_some();
        self.alone
    }

    /// Begins again with one source alone. What came was thrown away.
    pub(super) async fn turn_alone(&mut self, error: GetError) {
        self.totals.resumed = 0;
        let _ = self.turn();
        self.url = self.home().clone();
        let url = haul_net::redacted_url(self.home());
        self.warn(format!("{error}: fetching all of it from {url} alone"))
            .await;
        self.wrong = Some(error);
    }

    /// The error of a job whose sources were all dropped; `last` is what the last one ended with. That a digest was wrong says more
    /// than that others could not be reached.
    pub(super) fn of_all(&mut self, last: GetError) -> GetError {
        let wrong = self.wrong.take();
        let wrong = wrong.filter(|_| !matches!(last, GetError::Checksum { .. }));
        let last = wrong.unwrap_or(last);
        let dropped = self.mirrors.dropped().map(|(source, why)| {
            let url = haul_net::without_credentials(&self.sources[source]);
            (url, why.to_owned())
        });
        GetError::AllSourcesFailed {
            dropped: dropped.collect(),
            last: Box::new(last),
        }
    }

    async fn warn_of(&self, source: usize, why: &str) {
        let url = haul_net::redacted_url(&self.sources[source]);
        self.warn(format!("{url} is used no more: {why}")).await;
    }

    /// Whether a first answer is of the file that was meant, as far as sizes tell.
    pub(super) fn meant(&self, brings: &FirstResponseContent) -> Result<(), GetError> {
        let length = match brings {
            FirstResponseContent::Part { total, .. } => Some(*total),
            FirstResponseContent::Whole {
                length,
                encoding: None,
                ..
            } => *length,
            FirstResponseContent::Empty(_) => Some(0),
            _ => None,
        };
        length.map_or(Ok(()), |length| self.is_size(length))
    }

    /// Whether the file that was meant has so many bytes.
    pub(super) fn is_size(&self, length: u64) -> Result<(), GetError> {
        let not = |why| GetError::WrongFile {
            url: Box::new(haul_net::without_credentials(&self.url)),
            reason: why,
        };
        if let Some(size) = self.job.expected_size.filter(|size| *size != length) {
            return Err(not(format!(
                "it has {length} bytes, and {size} were expected"
            )));
        }
        if self
            .pieces
            .as_ref()
            .is_some_and(|pieces| !pieces.matches_length(length))
        {
            return Err(not(format!(
                "it has {length} bytes, and the digests of pieces are those of a file of another size"
            )));
        }
        Ok(())
    }

    /// Connections that the job may have over all its sources.
    pub(super) fn most(&self) -> usize {
        let each = self.engine.options.connections.max();
        let all = each.saturating_mul(self.mirrors.in_play().max(1));
        all.min(MOST.max(each))
    }

    /// Somebody who verifies pieces of a file of so many bytes, if there are digests for them.
    pub(super) fn verifier(&self, landing: &PartialClaim, total: u64) -> Option<PieceVerifier> {
        let pieces = self.pieces.clone()?;
        let book = haul_plan::PieceChecks::new(pieces, total)?;
        Some(PieceVerifier::new(book, landing.partial.storage()))
    }

    /// Verifies the pieces of a file that came from front to back: nothing of it can be fetched again but all.
    pub(super) async fn verify_whole(
        &self,
        landing: &PartialClaim,
        bytes: u64,
    ) -> Result<(), GetError> {
        self.is_size(bytes)?;
        let Some(mut verifier) = self.verifier(landing, bytes) else {
            return Ok(());
        };
        let job = self.job.id;
        self.tell(TransferEvent::Verifying { job, bytes }).await;
        let done = std::iter::once(0..bytes).collect();
        while !verifier.is_complete() {
            verifier.start_round(&done);
            let looked = tokio::select! {
                biased;
                () = self.stop.cancelled() => {
                    verifier.close().await;
                    return Err(GetError::INTERRUPTED);
                }
                looked = verifier.next_results() => looked,
            };
            let path = || landing.partial.paths.partial();
            let looked = looked.map_err(|source| GetError::local("read", path(), source))?;
            if let Some(bad) = looked.into_iter().find(|looked| looked.bad_count > 0) {
                verifier.close().await;
                return Err(GetError::PieceDigest {
                    url: Box::new(haul_net::without_credentials(&self.url)),
                    range: bad.range,
                    algorithm: verifier.algorithm(),
                });
            }
        }
        Ok(())
    }

    /// Whether bytes that are not those of the file would be found out.
    pub(super) fn evidence(&self, wanted: &ExpectedDigests) -> haul_plan::IntegrityEvidence {
        haul_plan::IntegrityEvidence {
            verified: wanted.verifies(),
            pieces: wanted.piece_digests,
            told: self.told(),
        }
    }
}
