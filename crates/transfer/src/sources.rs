//! The sources of one file: which of them have it, and which gets the next connection.
//!
//! The first source with a usable response says how long the file is, and how its version is recognised. Validators of different
//! hosts usually differ and then say nothing, so every source is pinned to *its own*, from its first response on. Whether it has
//! the same file is decided when that response comes ([`SourceSet::admit`]): the size must agree, no digest that both announce may
//! differ, and something must show that the files are equal. That is, strongest first: digests of the whole file or of pieces that
//! the bytes are compared with (`verified`); the same digest, or the same strong entity tag, from both; or the same date, where the
//! user named the source as a mirror of this file. An equal length alone proves nothing: a user who wants such mirrors used gives a
//! checksum.
//!
//! If the only check is a digest of the whole file, a mix of several sources' bytes may fail it. So a source whose date and tag both
//! differ is on standby, until the [`RecoveryPolicy`](crate::recovery::RecoveryPolicy) tries each source alone.
//!
//! The [`ConnectionControl`](crate::connection_control::ConnectionControl) says how many connections there are in all; a [`SourceSet`] says which
//! source each of them goes to. Each source has one at least. Another goes to the source where it would bring most if all that a
//! source sends were shared by its connections. So a fast source has many; where the single connection is limited, they are spread
//! evenly.
//!
//! The [`RecoveryPolicy`](crate::recovery::RecoveryPolicy), which owns the set, decides what follows a failure.
//!
//! Order of calls. [`SourceSet::begin`] takes the content of the first usable response. Then, as connections come and go,
//! [`SourceSet::candidates`], [`SourceSet::connection_opened`], [`SourceSet::admit`] for each source's first response, and
//! [`SourceSet::connection_closed`]. A few times a second [`SourceSet::on_sample`]. Times are durations since the job began.

mod expected_content;
mod source;

use std::time::Duration;

use expected_content::ExpectedContent;
pub(crate) use expected_content::{IntegrityEvidence, SourceContent, SourceMismatch};
use haul_plan::ResourceVersion;
use source::SourceState;

/// Sources that are used at a time: the first live ones. The others replace those that are dropped. It is the default number of
/// connections to one origin: more handshakes are not worth it.
const MAX_ACTIVE: usize = 16;

/// A connection moves to another source if that would multiply its rate by this; less is noise.
const MIN_GAIN: f64 = 2.0;

/// The sources of one file. Their numbers are their order of preference, from 0 on.
#[derive(Debug, Default)]
pub(crate) struct SourceSet {
    sources: Vec<SourceState>,
    /// The content of the first usable response.
    expected: Option<ExpectedContent>,
    /// Whether one source alone fetches the file, while the others are on standby.
    single_source: bool,
    /// When rates were last sampled.
    sampled_at: Duration,
}

/// The source to request from next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NextSource {
    /// The number of the source.
    pub source: usize,
    /// How long to wait before the request.
    pub wait: Duration,
}

impl SourceSet {
    /// Adds a source after all others, and returns its number. `user_named`: the user named it as a source of this file.
    pub(crate) fn add(&mut self, user_named: bool) -> usize {
        let mut source = SourceState::new(user_named);
        source.on_standby = self.single_source;
        self.sources.push(source);
        self.sources.len() - 1
    }

    /// All sources, the dropped ones among them.
    #[must_use]
    pub(crate) fn count(&self) -> usize {
        self.sources.len()
    }

    /// Sources that are neither dropped nor on standby.
    #[must_use]
    pub(crate) fn live_count(&self) -> usize {
        self.sources
            .iter()
            .filter(|source| source.is_live())
            .count()
    }

    /// Sources that are used at present.
    #[must_use]
    pub(crate) fn active_count(&self) -> usize {
        self.live_count().min(MAX_ACTIVE)
    }

    /// Whether a source is neither dropped nor on standby.
    #[must_use]
    pub(crate) fn is_live(&self, source: usize) -> bool {
        self.sources.get(source).is_some_and(SourceState::is_live)
    }

    /// The sources that were dropped, and why.
    pub(crate) fn dropped(&self) -> impl Iterator<Item = (usize, &str)> {
        let numbered = self.sources.iter().enumerate();
        numbered.filter_map(|(number, source)| Some((number, source.dropped.as_deref()?)))
    }

    /// The live source that may be used soonest, and of several the first. `None` if none is live.
    #[must_use]
    pub(crate) fn soonest(&self, now: Duration) -> Option<NextSource> {
        let numbered = self.sources.iter().enumerate();
        let live = numbered.filter(|(_, source)| source.is_live());
        live.map(|(number, source)| NextSource {
            source: number,
            wait: source.paused_until.saturating_sub(now),
        })
        .min_by_key(|next| (next.wait, next.source))
    }

    /// The first usable response arrived, whose version all others must match. Versions from before a restart are forgotten, and no
    /// connection is in use yet.
    pub(crate) fn begin(
        &mut self,
        source: usize,
        content: &SourceContent<'_>,
        evidence: IntegrityEvidence,
    ) {
        for other in &mut self.sources {
            other.pinned = None;
            other.connections = 0;
            other.has_sent = false;
        }
        if let Some(source) = self.sources.get_mut(source) {
            source.pinned = Some(content.version.clone());
        }
        self.expected = Some(ExpectedContent {
            version: content.version.clone(),
            digests: content.digests.to_vec(),
            evidence,
        });
    }

    /// The version that a source sends; `None` as long as it has sent none.
    #[must_use]
    pub(crate) fn pinned_version(&self, source: usize) -> Option<&ResourceVersion> {
        self.sources.get(source)?.pinned.as_ref()
    }

    /// The first response of a source arrived. If its bytes may go into the file, the source is pinned to this version from now on.
    ///
    /// # Errors
    /// [`SourceMismatch`]: the caller drops the source. If a digest of the whole file can be checked, a source that the user named is put on
    /// standby instead: its file may be the right one.
    pub(crate) fn admit(
        &mut self,
        source: usize,
        content: &SourceContent<'_>,
    ) -> Result<(), SourceMismatch> {
        let (Some(expected), Some(source)) = (&self.expected, self.sources.get_mut(source)) else {
            return Err(SourceMismatch::Unproven);
        };
        if let Err(mismatch) = expected.check(content, source.user_named) {
            let evidence = expected.evidence;
            source.on_standby = source.user_named && evidence.verified && !evidence.piece_digests;
            return Err(mismatch);
        }
        source.pinned = Some(content.version.clone());
        Ok(())
    }

    /// Sources that may have one connection more, best first.
    #[must_use]
    pub(crate) fn candidates(&self, now: Duration) -> Vec<usize> {
        let active = self.active();
        let mut open: Vec<(usize, &SourceState)> =
            active.filter(|(_, source)| source.has_room(now)).collect();
        // Each source gets its first connection before any gets a second one.
        let value = |source: &SourceState| match source.connections {
            0 => f64::INFINITY,
            _ => source.rate_with_one_more().unwrap_or(0.0),
        };
        open.sort_by(|(_, a), (_, b)| value(b).total_cmp(&value(a)));
        open.into_iter().map(|(number, _)| number).collect()
    }

    /// Whether a connection that has finished a claim should take another from the same source.
    #[must_use]
    pub(crate) fn should_stay(&self, source: usize, now: Duration) -> bool {
        let Some(own) = self.sources.get(source).filter(|s| s.is_live()) else {
            return false;
        };
        let (Some(rate), true) = (own.connection_rate(), own.connections > 1) else {
            return true;
        };
        let candidates = self.candidates(now).into_iter();
        let others: Vec<&SourceState> = candidates
            .filter(|other| *other != source)
            .map(|other| &self.sources[other])
            .collect();
        if others.iter().any(|other| other.connections == 0) {
            // A source is without a connection: a new one, or one that was paused.
            return !self.should_release(source);
        }
        let best = others.first().and_then(|best| best.rate_with_one_more());
        best.is_none_or(|best| best < MIN_GAIN * rate)
    }

    /// Whether this source should give up a connection if there is one too many: among the sources with several connections, it is
    /// the one whose connections bring least.
    #[must_use]
    pub(crate) fn should_release(&self, source: usize) -> bool {
        let live = || {
            self.sources
                .iter()
                .filter(|s| s.is_live() && s.connections > 0)
        };
        let several = live().any(|s| s.connections > 1);
        let counts = |s: &&SourceState| s.connections > 1 || !several;
        let rate = |s: &SourceState| s.connection_rate().unwrap_or(0.0);
        let worst = live().filter(counts).map(rate).min_by(f64::total_cmp);
        match self.sources.get(source).filter(|s| s.is_live()) {
            Some(own) => counts(&own) && worst.is_none_or(|worst| rate(own) <= worst),
            None => true,
        }
    }

    /// Connections to a source that are in use.
    #[must_use]
    #[cfg(test)]
    pub(crate) fn connections(&self, source: usize) -> usize {
        self.sources.get(source).map_or(0, |s| s.connections)
    }

    /// A connection to a source is in use from now on.
    pub(crate) fn connection_opened(&mut self, source: usize) {
        if let Some(source) = self.sources.get_mut(source) {
            source.connections += 1;
        }
    }

    /// A connection to a source is no longer in use.
    pub(crate) fn connection_closed(&mut self, source: usize) {
        if let Some(source) = self.sources.get_mut(source) {
            source.connections = source.connections.saturating_sub(1);
        }
    }

    /// No connection is in use any more.
    pub(crate) fn all_connections_closed(&mut self) {
        for source in &mut self.sources {
            source.connections = 0;
        }
    }

    pub(crate) fn on_bytes(&mut self, source: usize, bytes: u64) {
        if let Some(source) = self.sources.get_mut(source) {
            source.on_bytes(bytes);
        }
    }

    /// Samples the rates.
    pub(crate) fn on_sample(&mut self, now: Duration) {
        let elapsed = now.saturating_sub(self.sampled_at);
        self.sampled_at = now;
        for source in &mut self.sources {
            source.sample(elapsed);
        }
    }

    /// Bytes a second that one connection of a source brings, where there are other sources to compare it with.
    #[must_use]
    pub(crate) fn connection_rate(&self, source: usize) -> Option<f64> {
        let several = self.live_count() > 1;
        let source = self.sources.get(source).filter(|_| several)?;
        source.connection_rate()
    }

    /// Ends the use of a source. Has no effect on a standby source.
    pub(crate) fn drop_source(&mut self, source: usize, reason: &str) {
        if let Some(source) = self.sources.get_mut(source).filter(|s| !s.on_standby) {
            source.dropped.get_or_insert_with(|| reason.to_owned());
        }
    }

    /// Sends no new request to a source before this moment.
    pub(crate) fn pause(&mut self, source: usize, until: Duration) {
        if let Some(source) = self.sources.get_mut(source) {
            source.paused_until = source.paused_until.max(until);
        }
    }

    /// Limits a source to its present number of connections for a while.
    pub(crate) fn limit_connections(&mut self, source: usize, now: Duration) {
        if let Some(source) = self.sources.get_mut(source) {
            source.limit_connections(now);
        }
    }

    /// Whether there are digests of pieces, which show which bytes are bad.
    pub(crate) fn has_piece_digests(&self) -> bool {
        let expected = self.expected.as_ref();
        expected.is_some_and(|expected| expected.evidence.piece_digests)
    }

    /// From now on a digest alone, and no validator, shows at the end that a source's bytes are those of the file. Returns false if
    /// there is no digest to verify them with, or no validator left.
    pub(crate) fn ignore_validators(&mut self, source: usize) -> bool {
        let expected = self.expected.as_ref();
        let is_verified = expected.is_some_and(|expected| expected.evidence.verified);
        let source = self.sources.get_mut(source).filter(|_| is_verified);
        let pinned = source.and_then(|source| source.pinned.as_mut());
        let Some(pinned) = pinned.filter(|pinned| pinned.has_validator()) else {
            return false;
        };
        *pinned = pinned.without_validators();
        true
    }

    /// Takes the list of the sources that sent bytes since the download began or restarted.
    pub(crate) fn take_senders(&mut self) -> Vec<usize> {
        let numbered = self.sources.iter_mut().enumerate();
        numbered
            .filter_map(|(number, source)| std::mem::take(&mut source.has_sent).then_some(number))
            .collect()
    }

    /// Puts every live source on standby.
    pub(crate) fn put_all_on_standby(&mut self) {
        for source in &mut self.sources {
            source.on_standby |= source.dropped.is_none();
        }
    }

    /// Activates the next standby source that the user named. From now on one source alone fetches the file.
    pub(crate) fn activate_standby(&mut self) -> Option<usize> {
        let on_standby = |source: &SourceState| source.on_standby && source.user_named;
        let next = self.sources.iter().position(on_standby)?;
        self.single_source = true;
        self.sources[next].on_standby = false;
        Some(next)
    }

    /// The active source that should send a bad piece of these senders again. Preferred, in this order: a source that is not paused; one
    /// that the user named (if its bytes are bad, too, the digest may be wrong); one that is not a sender; one that has responded; the
    /// fastest; the first. A source that is not active gets no requests.
    pub(crate) fn best_for_piece(&self, senders: &[usize], now: Duration) -> Option<usize> {
        let rank = |number: usize, source: &SourceState| {
            let wait = source.paused_until.saturating_sub(now);
            let unknown = source.pinned.is_none();
            (wait, !source.user_named, senders.contains(&number), unknown)
        };
        let rate = |source: &SourceState| source.connection_rate().unwrap_or(0.0);
        let best = self.active().min_by(|(a, x), (b, y)| {
            // Of equals the first is returned.
            let ranked = rank(*a, x).cmp(&rank(*b, y));
            ranked.then(rate(y).total_cmp(&rate(x)))
        });
        best.map(|(number, _)| number)
    }

    /// The sources that are used at present.
    fn active(&self) -> impl Iterator<Item = (usize, &SourceState)> {
        let numbered = self.sources.iter().enumerate();
        let live = numbered.filter(|(_, source)| source.is_live());
        live.take(MAX_ACTIVE)
    }
}

#[cfg(test)]
mod tests;
