//! Taking hold of the file that a job ends in: what lies under its names, and whether it can be gone on with.

use haul_plan::ResourceVersion;

use super::destination::{DownloadDestination, check_existing};
use super::first_request::{FirstResponse, FirstResponseContent};
use super::partial_download::PartialDownload;
use super::publish::ExpectedDigests;
use super::run::DownloadRun;
use crate::disk::{DownloadPaths, StoredValidators, blocking};
use crate::error::GetError;
use crate::event::TransferEvent;
use crate::options::{ConnectionCount, ExistingFilePolicy};

/// Why bytes of an earlier run are not gone on with.
const UNTOLD: &str =
    "nothing tells whether the origin still has the version that an earlier run left bytes of";

/// The same, of bytes that came from several hosts.
const UNVERIFIED: &str = "an earlier run left bytes of several hosts that only digests could have vouched for, and there are none now";

/// The same, where the origin has other digests for it.
const OTHER: &str = "the origin has another version than an earlier run left bytes of";

/// A file on its way: who holds its bytes, and what they must be.
#[derive(Debug)]
pub(super) struct PartialClaim {
    /// The partial file.
    pub(super) partial: PartialDownload,
    /// Which version it is of.
    pub(super) version: ResourceVersion,
    /// What its digests must be.
    pub(super) wanted: ExpectedDigests,
}

impl DownloadRun<'_> {
    /// Looks at what lies under the names, as far as they are known, and takes hold of what an earlier run left.
    pub(super) async fn prepare(
        &mut self,
        place: &DownloadDestination,
        held: &mut Option<PartialDownload>,
    ) -> Result<Option<StoredValidators>, GetError> {
        let Some(guess) = place.guessed_paths(&self.job.url) else {
            return Ok(None);
        };
        // Under a name that is only guessed nothing but this job's own bytes may be touched: the origin may name the file
        // otherwise, and what lies here may be somebody else's download.
        let known = matches!(place, DownloadDestination::File(_))
            || blocking(|| PartialDownload::is_resumable(&guess, &self.job.url));
        if known {
            self.claim(&guess)?;
        }
        let existing = self.engine.options.existing_file;
        let have = if known || existing == ExistingFilePolicy::Update {
            check_existing(&guess, existing, &self.job.url)?
        } else {
            None
        };
        if held.is_none() && known {
            *held = Some(self.open(guess).await?);
        }
        Ok(have)
    }

    /// Takes a final name, unless another job of this engine has it.
    fn claim(&self, target: &DownloadPaths) -> Result<(), GetError> {
        let Some(names) = &self.engine.reserved_names else {
            return Ok(());
        };
        names.claim(target.path(), self.job.id, &self.job.url)
    }

    async fn open(&self, target: DownloadPaths) -> Result<PartialDownload, GetError> {
        let mut partial = PartialDownload::open(target, &self.job.url, &self.engine.options)?;
        if let Some((bytes, length)) = partial.unverified_bytes() {
            let job = self.job.id;
            self.tell(TransferEvent::DestinationKnown {
                job,
                path: Some(partial.paths.path().to_owned()),
                length: Some(length),
                resumed: bytes,
            })
            .await;
            self.tell(TransferEvent::Verifying { job, bytes }).await;
            partial.verify(&self.stop).await?;
        }
        if let Some(why) = &partial.unusable_journal {
            let part = partial.paths.partial();
            self.warn(format!(
                "what an earlier run left in {} is not used: {why}",
                part.display()
            ))
            .await;
        }
        Ok(partial)
    }

    /// Takes hold of the file that the answer is for; what an earlier run left is kept only if it is of this version.
    pub(super) async fn land(
        &mut self,
        place: &DownloadDestination,
        held: Option<PartialDownload>,
        begun: &FirstResponse,
    ) -> Result<PartialDownload, GetError> {
        let named = place.paths(&self.job.url, &begun.answer.headers);
        let mut partial = match (held, named) {
            (Some(partial), Some(target))
                if partial.paths == target || matches!(place, DownloadDestination::File(_)) =>
            {
                partial
            }
            (Some(partial), None) => partial,
            (_, Some(target)) => {
                self.claim(&target)?;
                check_existing(&target, self.engine.options.existing_file, &self.job.url)?;
                self.open(target).await?
            }
            (None, None) => {
                return Err(GetError::IsDirectory {
                    path: self.path.clone(),
                });
            }
        };
        self.path = partial.paths.path().to_owned();
        if let Some(why) = self.unfit(&partial, begun) {
            self.warn(format!("{why}: starting again")).await;
            partial.clear()?;
        }
        Ok(partial)
    }

    /// Why what an earlier run left cannot be gone on with, if it cannot.
    fn unfit(&self, partial: &PartialDownload, begun: &FirstResponse) -> Option<&'static str> {
        let header = &partial.resumed.as_ref()?.header;
        let pinned = header.version();
        let own = header.has_validators_of(self.home());
        match &begun.brings {
            FirstResponseContent::Part { total, version, .. } => {
                let wanted = self.wanted(&begun.answer.headers, &begun.brings);
                if header.length != *total
                    || (own && !pinned.is_same(version))
                    || wanted.contradicts(header)
                {
                    return Some(OTHER);
                }
                let wanted = wanted.with_saved(header);
                if !wanted.supports(header.joined) {
                    Some(UNVERIFIED)
                } else if !own {
                    // Another host's validators: they prove the same file or nothing.
                    let tags = pinned.etag.as_ref().zip(version.etag.as_ref());
                    let same = tags.is_some_and(|(a, b)| a.strong_eq(b));
                    (!same && !wanted.verifies()).then_some(UNTOLD)
                } else if pinned.may_be_resumed(version, wanted.verifies()) {
                    None
                } else {
                    Some(UNTOLD)
                }
            }
            FirstResponseContent::Whole { version, .. } if !own || pinned.is_same(version) => Some(
                "the origin gives no parts of the file, so that those of an earlier run are of no use",
            ),
            _ => Some(OTHER),
        }
    }

    /// Whether the bytes of several answers may make one file (row A7).
    pub(super) fn may_join(&self, version: &ResourceVersion, wanted: &ExpectedDigests) -> bool {
        version.may_combine_responses(wanted.verifies(), self.told())
    }

    /// Whether the user asked for several connections.
    pub(super) fn told(&self) -> bool {
        matches!(self.engine.options.connections, ConnectionCount::Fixed(n) if n > 1)
    }
}
