//! What the workers of one job share: the plan under a lock, the file, where to ask.
//!
//! The lock is held for bookkeeping only, never across an await or a system call.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use haul_net::{Answer, Client};
use haul_plan::{Claim, ClaimId, SegmentPlan, Verdict, Version};
use http::HeaderMap;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::ask::Ask;
use super::crew::Crew;
use super::failure::Failure;
use super::hosts::{Host, Hosts};
use super::ledger::Ledger;
use crate::disk::Storage;
use crate::journal::Span;

/// What all workers of a job read and write.
#[derive(Debug)]
pub(super) struct Shared {
    /// Makes requests.
    pub(super) client: Client,
    /// The partial file.
    pub(super) storage: Arc<dyn Storage>,
    /// The version that every answer must be of.
    pub(super) pinned: Version,
    /// The moment that the plan's durations count from.
    pub(super) epoch: Instant,
    /// The URL the user gave.
    pub(super) first_url: Url,
    /// Where requests go.
    site: Mutex<Site>,
    /// Knows the limits of hosts.
    hosts: Hosts,
    /// The plan and what goes with it.
    table: Mutex<Table>,
    /// How many workers there are and should be.
    pub(super) crew: Crew,
    /// Whether If-Range is understood by this origin (row A4).
    pub(super) if_range: AtomicBool,
    /// Bytes that came over the wire, in this run and for this job.
    pub(super) fetched: AtomicU64,
    /// Requests that brought bytes.
    pub(super) segments: AtomicU64,
}

/// Where requests go.
#[derive(Debug)]
struct Site {
    /// Where redirects led, asked directly by all but the first request.
    url: Url,
    /// The host there, whose limit counts.
    host: Arc<Host>,
}

/// What is under the lock.
#[derive(Debug)]
pub(super) struct Table {
    /// Who fetches what.
    pub(super) plan: SegmentPlan,
    /// What was written since the last checkpoint.
    pub(super) ledger: Ledger,
    /// Stops the worker that holds a claim, when another took all of it.
    cuts: HashMap<ClaimId, CancellationToken>,
    /// Workers in the middle of a body.
    pub(super) flowing: usize,
}

/// A claim and the means by which its holder learns that nothing is left of it.
#[derive(Debug)]
pub(super) struct Held {
    /// Which range, under which number.
    pub(super) claim: Claim,
    /// Cancelled when the whole rest was taken over.
    pub(super) cut: CancellationToken,
}

impl Shared {
    /// Shared state at the start of a segmented download.
    pub(super) fn new(client: Client, storage: Arc<dyn Storage>, start: Start) -> Self {
        Self {
            client,
            storage,
            pinned: start.pinned,
            epoch: start.epoch,
            first_url: start.first_url,
            site: Mutex::new(Site {
                host: start.hosts.of(&start.url),
                url: start.url,
            }),
            hosts: start.hosts,
            table: Mutex::new(Table {
                plan: start.plan,
                ledger: Ledger::default(),
                cuts: HashMap::new(),
                flowing: 0,
            }),
            crew: Crew::default(),
            if_range: AtomicBool::new(start.if_range),
            fetched: AtomicU64::new(0),
            segments: AtomicU64::new(0),
        }
    }

    /// The lock. A panic under it is a bug that the panicking task reports; the others may still save what they have.
    pub(super) fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Time since the plan's beginning.
    pub(super) fn now(&self) -> Duration {
        self.epoch.elapsed()
    }

    /// Where requests go now.
    pub(super) fn url(&self) -> Url {
        self.site().url.clone()
    }

    /// The host that requests go to now.
    pub(super) fn host(&self) -> Arc<Host> {
        Arc::clone(&self.site().host)
    }

    fn site(&self) -> MutexGuard<'_, Site> {
        self.site.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes that came over the wire.
    pub(super) fn fetched(&self) -> u64 {
        self.fetched.load(Ordering::Relaxed)
    }

    /// Requests that brought bytes.
    pub(super) fn segments(&self) -> u64 {
        self.segments.load(Ordering::Relaxed)
    }

    /// Sends requests elsewhere from now on.
    pub(super) fn set_url(&self, url: Url) {
        let host = self.hosts.of(&url);
        *self.site() = Site { url, host };
    }

    /// The next claim for an idle worker; cuts a victim that is left with nothing.
    pub(super) fn claim(&self) -> Option<Held> {
        let now = self.now();
        let mut table = self.table();
        let claim = table.plan.claim(now)?;
        if let Some(over) = claim.taken_from.as_ref().filter(|over| over.voided)
            && let Some(cut) = table.cuts.get(&over.victim)
        {
            cut.cancel();
        }
        Some(table.hold(claim))
    }

    /// The claim that belongs to the job's first request, sent before there was a plan.
    pub(super) fn adopt(&self, range: Range<u64>) -> Option<Held> {
        let now = self.now();
        let mut table = self.table();
        let claim = table.plan.adopt(range, now)?;
        Some(table.hold(claim))
    }

    /// A claim's holder is through with it, for whatever reason.
    pub(super) fn release(&self, id: ClaimId) {
        let mut table = self.table();
        table.cuts.remove(&id);
        table.plan.release(id);
    }

    /// Asks for a range and judges the head of what comes; only an answer whose bytes may go into the file returns.
    pub(super) async fn ask(&self, range: Range<u64>) -> Result<(Answer, Range<u64>), Failure> {
        let url = self.url();
        let ask = Ask {
            client: &self.client,
            url: &url,
            given: &self.first_url,
            range: Some(range),
            pinned: Some(&self.pinned),
            if_range: self.if_range.load(Ordering::Relaxed),
            conditions: HeaderMap::new(),
        };
        let (answer, verdict) = ask.send().await?;
        match verdict {
            Verdict::Part { range, .. } => {
                if answer.redirected {
                    self.set_url(answer.url.clone());
                }
                Ok((answer, range))
            }
            verdict => {
                let failure = Failure::from_verdict(verdict, &answer);
                answer.discard().await;
                Err(failure)
            }
        }
    }
}

impl Table {
    fn hold(&mut self, claim: Claim) -> Held {
        let cut = CancellationToken::new();
        self.cuts.insert(claim.id, cut.clone());
        Held { claim, cut }
    }

    /// A claim's bytes are in the file.
    pub(super) fn wrote(&mut self, id: ClaimId, piece: Span) {
        self.plan.wrote(id, piece.end - piece.start);
        self.ledger.add(piece);
    }
}

/// What a segmented download begins with.
#[derive(Debug)]
pub(super) struct Start {
    /// The version that every answer must be of.
    pub(super) pinned: Version,
    /// The moment that durations count from.
    pub(super) epoch: Instant,
    /// The URL the user gave.
    pub(super) first_url: Url,
    /// Where redirects led.
    pub(super) url: Url,
    /// Knows the limits of hosts.
    pub(super) hosts: Hosts,
    /// Who fetches what.
    pub(super) plan: SegmentPlan,
    /// Whether If-Range may be sent.
    pub(super) if_range: bool,
}
