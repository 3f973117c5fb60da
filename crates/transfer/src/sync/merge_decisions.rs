//! The merge of both lists of a sync: two lists in the order of their keys go in, one decision a key comes out. What follows for one file is
//! decided by `comparison`.
//!
//! Both lists are read once, side by side, so memory does not grow with them. Where they come from, and carrying the decisions out, is
//! the business of others.

use std::cmp::Ordering;
use std::iter::Fuse;

use super::comparison::{SyncDecision, SyncEntry, SyncOptions};

/// One of the two trees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SyncSide {
    /// Where files come from.
    Source,
    /// Where they go.
    Destination,
}

/// Why a sync has no further decisions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum SyncMergeError<E> {
    /// A list failed. What it would have had is unknown, so nothing more is deleted.
    #[error(transparent)]
    List(E),
    /// A list is not in the byte order of its keys, or has a key twice: files would look as if they were missing.
    #[error("the list of the {side:?} has {key:?} in the wrong place")]
    Disordered {
        /// Whose list.
        side: SyncSide,
        /// The key that may not follow the one before.
        key: String,
    },
}

/// The decisions of a sync, in the byte order of keys. Ends after the first error.
///
/// A file is deleted only after the source's list has passed its key or ended without an error.
#[derive(Debug)]
pub(super) struct SyncMerge<S, D> {
    options: SyncOptions,
    source: OrderedEntries<S>,
    destination: OrderedEntries<D>,
    deletes: u64,
    /// The last folder of the source that was not read. The keys below it follow its own at once.
    unread_source: Option<String>,
    /// The same for the destination.
    unread_destination: Option<String>,
    has_ended: bool,
}

/// A list whose order is checked.
#[derive(Debug)]
struct OrderedEntries<I> {
    side: SyncSide,
    entries: Fuse<I>,
    next: Option<SyncEntry>,
    last_key: Option<String>,
}

impl<S, D, E> SyncMerge<S, D>
where
    S: Iterator<Item = Result<SyncEntry, E>>,
    D: Iterator<Item = Result<SyncEntry, E>>,
{
    /// Merges two lists.
    #[must_use]
    pub(super) fn new(options: SyncOptions, source: S, destination: D) -> Self {
        Self {
            options,
            source: OrderedEntries::new(SyncSide::Source, source),
            destination: OrderedEntries::new(SyncSide::Destination, destination),
            deletes: 0,
            unread_source: None,
            unread_destination: None,
            has_ended: false,
        }
    }

    fn decide(&mut self) -> Result<Option<SyncDecision>, SyncMergeError<E>> {
        let order = match (self.source.peek_key()?, self.destination.peek_key()?) {
            (None, None) => return Ok(None),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(source), Some(destination)) => source.cmp(destination),
        };
        let source = order.is_le().then(|| self.source.take());
        let destination = order.is_ge().then(|| self.destination.take());
        let (source, destination) = (source.flatten(), destination.flatten());
        remember_unread(&mut self.unread_source, source.as_ref());
        remember_unread(&mut self.unread_destination, destination.as_ref());
        Ok(match (source, destination) {
            (Some(source), _) if source.is_unread => Some(SyncDecision::LeaveOut(source)),
            (Some(source), Some(destination)) => {
                Some(self.options.decide_existing(source, destination))
            }
            (Some(source), None) => Some(self.decide_missing(source)),
            (None, Some(destination)) => Some(self.decide_extra(destination)),
            (None, None) => None,
        })
    }

    /// What becomes of a file that only the source has.
    fn decide_missing(&self, source: SyncEntry) -> SyncDecision {
        match folder_above(&self.unread_destination, &source.key) {
            Some(link) if !self.options.existing_only => SyncDecision::BehindLink {
                link: link.to_owned(),
                source,
            },
            _ => self.options.decide_missing(source),
        }
    }

    /// What becomes of a file that only the destination has.
    fn decide_extra(&mut self, destination: SyncEntry) -> SyncDecision {
        if destination.is_unread || folder_above(&self.unread_source, &destination.key).is_some() {
            return SyncDecision::Keep;
        }
        match self.options.max_deletes {
            None => SyncDecision::Keep,
            Some(most) if self.deletes >= most => SyncDecision::DeleteRefused(destination),
            Some(_) => {
                self.deletes += 1;
                SyncDecision::Delete(destination)
            }
        }
    }
}

fn remember_unread(folder: &mut Option<String>, entry: Option<&SyncEntry>) {
    let is_unread_folder = |entry: &&SyncEntry| entry.is_unread && entry.key.ends_with('/');
    if let Some(entry) = entry.filter(is_unread_folder) {
        *folder = Some(entry.key.clone());
    }
}

/// The folder, if the key is below it.
fn folder_above<'a>(folder: &'a Option<String>, key: &str) -> Option<&'a str> {
    let folder = folder.as_deref()?;
    key.starts_with(folder).then_some(folder)
}

impl<S, D, E> Iterator for SyncMerge<S, D>
where
    S: Iterator<Item = Result<SyncEntry, E>>,
    D: Iterator<Item = Result<SyncEntry, E>>,
{
    type Item = Result<SyncDecision, SyncMergeError<E>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        let decision = self.decide().transpose();
        self.has_ended = !matches!(decision, Some(Ok(_)));
        decision
    }
}

impl<I, E> OrderedEntries<I>
where
    I: Iterator<Item = Result<SyncEntry, E>>,
{
    fn new(side: SyncSide, entries: I) -> Self {
        Self {
            side,
            entries: entries.fuse(),
            next: None,
            last_key: None,
        }
    }

    /// The next key; fails if the list does, or if the key does not follow the last one.
    fn peek_key(&mut self) -> Result<Option<&str>, SyncMergeError<E>> {
        if self.next.is_none() {
            let read = self.entries.next().transpose();
            self.next = read.map_err(SyncMergeError::List)?;
            self.check_order()?;
        }
        Ok(self.next.as_ref().map(|entry| entry.key.as_str()))
    }

    fn check_order(&self) -> Result<(), SyncMergeError<E>> {
        match (&self.last_key, &self.next) {
            (Some(last), Some(entry)) if *last >= entry.key => Err(SyncMergeError::Disordered {
                side: self.side,
                key: entry.key.clone(),
            }),
            _ => Ok(()),
        }
    }

    /// Takes what was peeked at.
    fn take(&mut self) -> Option<SyncEntry> {
        let entry = self.next.take();
        self.last_key = entry.as_ref().map(|entry| entry.key.clone());
        entry
    }
}
