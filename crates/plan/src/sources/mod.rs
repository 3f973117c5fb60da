//! Several sources of one file: which is asked next, which is believed, which is dropped.
//!
//! The first source to give a usable answer says how long the file is, and with what its version is told. Validators of
//! different hosts usually differ and then say nothing, so every source is pinned to *its own*, from its first answer on;
//! whether that is the same file is decided when that answer comes ([`SourceSet::admit`]): the size must agree, no digest that
//! both announce may differ, and there must be something that tells. That is, strongest first: digests of the whole or of
//! pieces that what comes is compared with (`verified`); the same digest, or the same strong entity tag, from both; or the
//! same date, where the user named it as a mirror of this file. A length alone is believed of nobody: whoever wants such mirrors
//! used gives a checksum.
//!
//! A source that turns out to be another file, that does not have it, or that fails again and again is dropped, which is
//! not fatal as long as another lives. The last one that lives is not judged here: what its troubles mean is for the
//! [`FailurePolicy`](crate::FailurePolicy) to say, as for every job with one source ([`SourceRecovery::Course`]).
//!
//! Where only a digest of the whole tells, bytes of several sources may make a file that nobody has. So one whose date and tag both
//! differ waits on the bench, and when the digest is wrong, each is tried alone (`alone.rs`).
//!
//! How many connections there are in all is the [`ConnectionControl`](crate::ConnectionControl)'s to say; here it is said
//! whose they are. Each source has one at least. Another goes to where it would have most if all that a source gives were
//! shared by its connections: so those of a fast one are many, and where it is the connections that are limited, they are
//! spread evenly.
//!
//! Order of calls. [`SourceSet::first`] says whom to ask first, [`SourceSet::begin`] takes what the first usable answer said. Then,
//! as connections come and go, [`SourceSet::order`], [`SourceSet::opens`], [`SourceSet::admit`] for each source's first answer,
//! [`SourceSet::on_bytes`], [`SourceSet::closes`]; [`SourceSet::on_trouble`] after the connection that failed was closed. A few
//! times a second [`SourceSet::on_sample`]. Times are durations since the job began.

mod alone;
mod meant;
mod source;
mod verdict;

use std::time::Duration;

use crate::failure_policy::RequestFailure;
use crate::validator::ResourceVersion;
pub use alone::breaks_enough;
use meant::ExpectedContent;
pub use meant::SourceContent;
use source::SourceState;
pub use verdict::{IntegrityEvidence, PieceRetry, SourceMismatch, SourceRecovery};

/// A connection leaves its source when another would give it so many times as much: less is noise.
const BETTER: f64 = 2.0;

/// How often a piece may be bad beyond once for each source: what the last source gives, or the way to it, may still heal.
const PIECE_TRIES: u32 = 3;

/// Limits of [`SourceSet`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceSetOptions {
    /// Sources that are used at a time, the first that live: the others take the places of those that are dropped.
    pub in_play: usize,
    /// Failures without anything brought between them, after which a source is dropped.
    pub strikes: u32,
    /// So many more are forgiven one that has answered before, while no other does better: the fault may then be here, or on a
    /// stretch of the way that all have in common.
    pub patience: u32,
    /// How long a source rests after its first failure; each further one doubles it.
    pub base: Duration,
    /// The longest that it rests for a reason of our own.
    pub cap: Duration,
    /// The longest that it rests because it asks for it.
    pub retry_after_cap: Duration,
}

impl Default for SourceSetOptions {
    fn default() -> Self {
        Self {
            // As many connections as one origin is given by default: more are more handshakes than they are worth.
            in_play: 16,
            // Once may be an accident, twice a coincidence.
            strikes: 3,
            // With the rests below that is some forty seconds: a router's restart.
            patience: 7,
            // Others deliver meanwhile, so nothing is lost by waiting.
            base: Duration::from_millis(250),
            cap: Duration::from_secs(8),
            retry_after_cap: Duration::from_secs(120),
        }
    }
}

/// The sources of one file. They are known by their numbers, in the order of preference, from 0 on.
#[derive(Debug, Default)]
pub struct SourceSet {
    options: SourceSetOptions,
    sources: Vec<SourceState>,
    /// What the file is: of the source that began.
    meant: Option<ExpectedContent>,
    /// Whether one source alone brings the file, while the others wait.
    alone: bool,
    /// When rates were last taken.
    sampled: Duration,
}

impl SourceSet {
    /// No sources yet.
    #[must_use]
    pub fn new(options: SourceSetOptions) -> Self {
        Self {
            options,
            ..Self::default()
        }
    }

    /// Adds a source after all that are there, and returns its number. `named`: the user says that it has this file.
    pub fn add(&mut self, named: bool) -> usize {
        let mut source = SourceState::new(named);
        source.benched = self.alone;
        self.sources.push(source);
        self.sources.len() - 1
    }

    /// Sources that were not dropped.
    #[must_use]
    pub fn living(&self) -> usize {
        self.sources.iter().filter(|s| s.is_living()).count()
    }

    /// Sources that are used at present.
    #[must_use]
    pub fn in_play(&self) -> usize {
        self.living().min(self.options.in_play)
    }

    /// Whether a source was not dropped.
    #[must_use]
    pub fn is_living(&self, source: usize) -> bool {
        self.sources.get(source).is_some_and(SourceState::is_living)
    }

    /// Whether a source is the only one that lives.
    #[must_use]
    pub fn is_last(&self, source: usize) -> bool {
        self.is_living(source) && self.living() == 1
    }

    /// The sources that were dropped, and why.
    pub fn dropped(&self) -> impl Iterator<Item = (usize, &str)> {
        let numbered = self.sources.iter().enumerate();
        numbered.filter_map(|(number, source)| Some((number, source.dropped.as_deref()?)))
    }

    /// Whom to ask first, and how long to wait before that. `None` when none lives.
    #[must_use]
    pub fn first(&self, now: Duration) -> Option<(usize, Duration)> {
        self.sources
            .iter()
            .enumerate()
            .filter(|(_, source)| source.is_living())
            .map(|(number, source)| (number, source.rests.saturating_sub(now)))
            .min_by_key(|(number, wait)| (*wait, *number))
    }

    /// The first usable answer came: it says what the file is. What was known of versions before, from an earlier beginning, is
    /// forgotten, and no connection is in use yet.
    pub fn begin(&mut self, source: usize, found: &SourceContent<'_>, evidence: IntegrityEvidence) {
        for other in &mut self.sources {
            other.pinned = None;
            other.connections = 0;
            other.delivered = false;
        }
        if let Some(source) = self.sources.get_mut(source) {
            source.pinned = Some(found.version.clone());
        }
        self.meant = Some(ExpectedContent {
            version: found.version.clone(),
            digests: found.digests.to_vec(),
            evidence,
        });
    }

    /// The version that a source gives; `None` as long as it has given none.
    #[must_use]
    pub fn pinned(&self, source: usize) -> Option<&ResourceVersion> {
        self.sources.get(source)?.pinned.as_ref()
    }

    /// A source answered for the first time: whether its bytes may go into the file. From now on it is pinned to this version.
    ///
    /// # Errors
    /// [`SourceMismatch`]: it is to be dropped. Where a digest of the whole would tell, one that was named is kept on the bench: it may be the
    /// one that is right.
    pub fn admit(
        &mut self,
        source: usize,
        found: &SourceContent<'_>,
    ) -> Result<(), SourceMismatch> {
        let (Some(meant), Some(source)) = (&self.meant, self.sources.get_mut(source)) else {
            return Err(SourceMismatch::Unproven);
        };
        if let Err(mismatch) = meant.compare(found, source.named) {
            source.benched = source.named && meant.evidence.verified && !meant.evidence.pieces;
            return Err(mismatch);
        }
        source.pinned = Some(found.version.clone());
        Ok(())
    }

    /// Sources that may have one connection more, best first.
    #[must_use]
    pub fn order(&self, now: Duration) -> Vec<usize> {
        let players = self.players();
        let mut open: Vec<(usize, &SourceState)> =
            players.filter(|(_, source)| source.has_room(now)).collect();
        // The first connection of each comes before the second of any.
        let value = |source: &SourceState| match source.connections {
            0 => f64::INFINITY,
            _ => source.share().unwrap_or(0.0),
        };
        open.sort_by(|(_, a), (_, b)| value(b).total_cmp(&value(a)));
        open.into_iter().map(|(number, _)| number).collect()
    }

    /// Whether a connection that is through with a claim should take another from the same source.
    #[must_use]
    pub fn stays(&self, source: usize, now: Duration) -> bool {
        let Some(own) = self.sources.get(source).filter(|s| s.is_living()) else {
            return false;
        };
        let (Some(each), true) = (own.each(), own.connections > 1) else {
            return true;
        };
        let others = self.order(now).into_iter().filter(|other| *other != source);
        let others: Vec<&SourceState> = others.map(|other| &self.sources[other]).collect();
        if others.iter().any(|other| other.connections == 0) {
            // One is without a connection, for the first time or because it rested.
            return !self.goes_first(source);
        }
        let share = others.first().and_then(|best| best.share());
        share.is_none_or(|share| share < BETTER * each)
    }

    /// Whether, when one connection is too many, it should be one of this source: of those that have more than one, one that
    /// brings least.
    #[must_use]
    pub fn goes_first(&self, source: usize) -> bool {
        let living = || {
            self.sources
                .iter()
                .filter(|s| s.is_living() && s.connections > 0)
        };
        let several = living().any(|s| s.connections > 1);
        let counts = |s: &&SourceState| s.connections > 1 || !several;
        let each = |s: &SourceState| s.each().unwrap_or(0.0);
        let worst = living().filter(counts).map(each).min_by(f64::total_cmp);
        match self.sources.get(source).filter(|s| s.is_living()) {
            Some(own) => counts(&own) && worst.is_none_or(|worst| each(own) <= worst),
            None => true,
        }
    }

    /// A connection to a source is in use from now on.
    pub fn opens(&mut self, source: usize) {
        if let Some(source) = self.sources.get_mut(source) {
            source.connections += 1;
        }
    }

    /// It is no more.
    pub fn closes(&mut self, source: usize) {
        if let Some(source) = self.sources.get_mut(source) {
            source.connections = source.connections.saturating_sub(1);
        }
    }

    /// Bytes of a source went into the file.
    pub fn on_bytes(&mut self, source: usize, bytes: u64) {
        if let Some(source) = self.sources.get_mut(source) {
            source.brought(bytes);
        }
    }

    /// Takes a look at the rates.
    pub fn on_sample(&mut self, now: Duration) {
        let during = now.saturating_sub(self.sampled);
        self.sampled = now;
        for source in &mut self.sources {
            source.sample(during);
        }
    }

    /// Bytes a second that one connection of a source brings, where there are others to compare it with.
    #[must_use]
    pub fn rate(&self, source: usize) -> Option<f64> {
        let several = self.living() > 1;
        self.sources.get(source).filter(|_| several)?.each()
    }

    /// A source is asked no more, whatever it has. One that is on the bench was not asked, and stays there.
    pub fn drop_source(&mut self, source: usize, why: &str) {
        if let Some(source) = self.sources.get_mut(source).filter(|s| !s.benched) {
            source.dropped.get_or_insert_with(|| why.to_owned());
        }
    }

    /// Something went wrong with a request to a source: `why` in words. `jitter` is random in 0..1.
    pub fn on_trouble(
        &mut self,
        trouble: RequestFailure,
        at: &SourceFailure<'_>,
    ) -> SourceRecovery {
        if self.living() < 2 && self.is_living(at.source) {
            return SourceRecovery::Course;
        }
        let Some(source) = self.sources.get_mut(at.source).filter(|s| s.is_living()) else {
            return SourceRecovery::Dropped;
        };
        // Those that wait for an answer vouch for nothing: of a dead source, each would for the others.
        let others = at.flowing > 0;
        match trouble {
            RequestFailure::IfRangeMisread => return SourceRecovery::WithoutIfRange,
            // Where a redirect led is no longer good: the mirror itself may know a better place, once.
            RequestFailure::Denied { .. } if at.redirected && !source.resolved => {
                source.resolved = true;
                return SourceRecovery::ResolveAgain;
            }
            RequestFailure::Denied { status: 403 }
            | RequestFailure::Transport {
                transient: true,
                answered: false,
            } if others => {
                source.limited(at.now);
                return SourceRecovery::Fewer;
            }
            RequestFailure::Busy { retry_after } if others => {
                source.limited(at.now);
                let wait = retry_after.unwrap_or_default();
                source.rests = at.now + wait.min(self.options.retry_after_cap);
                return SourceRecovery::Fewer;
            }
            RequestFailure::Transport {
                transient: true, ..
            }
            | RequestFailure::Garbled
            | RequestFailure::Busy { .. }
            | RequestFailure::RangeIgnored
            | RequestFailure::Refused => {
                let strikes = source.strike();
                if strikes < self.allowed(at.source) {
                    let wait = self.rest(strikes, trouble, at.jitter);
                    self.sources[at.source].rests = at.now + wait;
                    return SourceRecovery::Rests(wait);
                }
            }
            RequestFailure::Transport { .. }
            | RequestFailure::Denied { .. }
            | RequestFailure::Unauthorized
            | RequestFailure::Changed
            | RequestFailure::PastEnd => {}
        }
        self.drop_source(at.source, at.why);
        SourceRecovery::Dropped
    }

    /// After how many strikes a source is dropped.
    fn allowed(&self, source: usize) -> u32 {
        let does_well = |(number, other): (usize, &SourceState)| {
            number != source && other.is_living() && other.pinned.is_some() && other.strikes == 0
        };
        let others = self.sources.iter().enumerate().any(does_well);
        let patience = match self.pinned(source) {
            Some(_) if !others => self.options.patience,
            _ => 0,
        };
        self.options.strikes + patience
    }

    /// How long a source rests after so many failures.
    fn rest(&self, strikes: u32, trouble: RequestFailure, jitter: f64) -> Duration {
        let doubled = self.options.base.saturating_mul(1 << (strikes - 1).min(16));
        let jitter = if jitter.is_finite() {
            jitter.clamp(0.0, 1.0)
        } else {
            0.5
        };
        let own = doubled.min(self.options.cap).mul_f64(0.5 + jitter / 2.0);
        match trouble {
            RequestFailure::Busy { retry_after } => own.max(
                retry_after
                    .unwrap_or_default()
                    .min(self.options.retry_after_cap),
            ),
            _ => own,
        }
    }

    /// A piece is not what its digest says, for the `times`-th time. `by`: the sources that its bytes came from in this run, each
    /// once. One that brought all of it is to blame and is dropped, unless it is the last.
    ///
    /// Where several brought it nobody can tell whose bytes were bad; so one brings all of it the next time, and either it is
    /// right then or that one is to blame. Every round therefore ends with a good piece or one source less. The one is of those in
    /// play ([`SourceSet::order`]), and rests only where all of them do, and then not longer than any.
    pub fn on_bad_piece(&mut self, by: &[usize], times: u32, now: Duration) -> PieceRetry {
        if let [only] = *by
            && self.is_living(only)
            && self.living() > 1
        {
            self.drop_source(only, "a piece that it gave is not what its digest says");
        }
        let sources = u32::try_from(self.sources.len()).unwrap_or(u32::MAX);
        if times >= PIECE_TRIES.saturating_add(sources) {
            return PieceRetry::GiveUp;
        }
        if by.len() < 2 || self.living() < 2 {
            return PieceRetry::FromAny;
        }
        self.best_for(by, now)
            .map_or(PieceRetry::FromAny, PieceRetry::FromOne)
    }

    /// Of the sources in play the best to bring what these have not: one that could begin now, then one that the user named (when
    /// its bytes are bad, too, the digest may be what is wrong), then another than these, then one that is known, then the
    /// fastest, then the first. One that is not in play would never be asked.
    fn best_for(&self, by: &[usize], now: Duration) -> Option<usize> {
        let rank = |number: usize, source: &SourceState| {
            let rests = source.rests.saturating_sub(now);
            let unknown = source.pinned.is_none();
            (rests, !source.named, by.contains(&number), unknown)
        };
        let each = |source: &SourceState| source.each().unwrap_or(0.0);
        let best = self.players().min_by(|(a, x), (b, y)| {
            // Of equals the first is returned.
            let ranked = rank(*a, x).cmp(&rank(*b, y));
            ranked.then(each(y).total_cmp(&each(x)))
        });
        best.map(|(number, _)| number)
    }

    /// The sources in play.
    fn players(&self) -> impl Iterator<Item = (usize, &SourceState)> {
        let numbered = self.sources.iter().enumerate();
        let living = numbered.filter(|(_, source)| source.is_living());
        living.take(self.options.in_play)
    }
}

/// Where something went wrong, and when.
#[derive(Debug, Clone, Copy)]
pub struct SourceFailure<'a> {
    /// Which source.
    pub source: usize,
    /// When.
    pub now: Duration,
    /// Connections of this source that deliver, the failed one not counted.
    pub flowing: usize,
    /// Whether the request went to where a redirect of the source had led.
    pub redirected: bool,
    /// What, in words, for whoever asks why it was dropped.
    pub why: &'a str,
    /// Random, in 0..1.
    pub jitter: f64,
}

#[cfg(test)]
mod alone_tests;
#[cfg(test)]
mod asked_tests;
#[cfg(test)]
mod pieces_tests;
#[cfg(test)]
mod tests;
