//! The row of shards: which one grows, which are full and wait for their names, and which an earlier run left.

use std::collections::BTreeMap;

use super::entry_header::END;
use super::error::ArchiveError;
use super::shard_names::{ShardNames, exists};
use super::unfinished_shard::{UnfinishedShard, is_finished};
use crate::disk::{DownloadPaths, StorageLayer};

/// Shards in files.
#[derive(Debug)]
pub(super) struct ShardSet {
    names: ShardNames,
    /// The largest that a shard may be, where there may be several.
    limit: Option<u64>,
    layer: StorageLayer,
    /// The number of the one that grows.
    index: u64,
    /// The one that grows; `None` while it is one that an earlier run finished and nothing more came for.
    current: Option<UnfinishedShard>,
    /// Where the last entry of that one ends.
    reopen_at: u64,
    /// Full ones, ended but without their names: rows have yet to speak of what is in them.
    full: Vec<UnfinishedShard>,
}

impl ShardSet {
    /// Goes on behind what is durable: for each shard by its number the end of the last entry that is known.
    pub(super) fn open(
        names: ShardNames,
        limit: Option<u64>,
        layer: StorageLayer,
        durable: &BTreeMap<u64, u64>,
    ) -> Result<Self, ArchiveError> {
        let mut parts = BTreeMap::new();
        for (index, end) in durable {
            if let Some(part) = resume_unfinished(&names, *index, *end, &layer)? {
                parts.insert(*index, part);
            }
        }
        let last = durable.last_key_value().map(|(index, end)| (*index, *end));
        let next = match last {
            // One archive takes whatever comes; of several, one that is finished is full.
            Some(only) if !names.is_numbered() => only,
            Some((last, _)) => (last + 1, 0),
            None => (0, 0),
        };
        let growing = last.and_then(|(last, _)| parts.remove_entry(&last));
        let (index, current) = match growing {
            Some((index, part)) => (index, Some(part)),
            None => (next.0, begin(&names, next, parts.is_empty(), &layer)?),
        };
        // Those before it were full when the run ended.
        let mut full: Vec<UnfinishedShard> = parts.into_values().collect();
        full.iter_mut().try_for_each(UnfinishedShard::write_end)?;
        Ok(Self {
            names,
            limit,
            layer,
            index,
            current,
            reopen_at: next.1,
            full,
        })
    }

    /// What rows call it.
    pub(super) fn current_name(&self) -> String {
        self.names.name(self.index)
    }

    /// The shard that an entry of this many bytes goes into: the next one where it would make this one too large. An entry that is too
    /// large by itself gets a shard of its own.
    pub(super) fn shard_for(&mut self, bytes: u64) -> Result<&mut UnfinishedShard, ArchiveError> {
        let mut current = match self.current.take() {
            Some(current) => current,
            None => UnfinishedShard::reopen(self.target(self.index), self.reopen_at, &self.layer)?,
        };
        let with = current
            .end()
            .saturating_add(bytes)
            .saturating_add(END.len() as u64);
        let full = current.end() > 0 && self.limit.is_some_and(|limit| with > limit);
        let next = full.then(|| {
            current.write_end()?;
            UnfinishedShard::create(self.target(self.index + 1), &self.layer)
        });
        let (current, failed) = match next {
            None => (current, None),
            // What was appended before stays good.
            Some(Err(error)) => (current, Some(error)),
            Some(Ok(next)) => {
                self.full.push(current);
                self.index += 1;
                (next, None)
            }
        };
        let current = self.current.insert(current);
        failed.map_or(Ok(current), Err)
    }

    fn target(&self, index: u64) -> DownloadPaths {
        DownloadPaths::new(self.names.path(index))
    }

    /// Makes what was appended durable.
    pub(super) fn sync(&mut self) -> Result<(), ArchiveError> {
        self.full.iter_mut().try_for_each(UnfinishedShard::sync)?;
        self.current.as_mut().map_or(Ok(()), UnfinishedShard::sync)
    }

    /// Gives the full shards that are durable their names.
    pub(super) fn publish_full(&mut self) -> Result<(), ArchiveError> {
        while self.full.first().is_some_and(UnfinishedShard::is_synced) {
            self.full[0].publish()?;
            self.full.remove(0);
        }
        Ok(())
    }

    /// The same, unless nothing was put into any of them.
    pub(super) fn finish_unless_empty(mut self) -> Result<(), ArchiveError> {
        let empty = self.index == 0 && self.full.is_empty();
        match self.current.take_if(|part| empty && part.end() == 0) {
            Some(part) => part.remove(),
            None => self.finish(),
        }
    }

    /// Ends the last shard and gives all their names. One that nothing was put into is none, unless it is all there is; one that was
    /// finished before, and that nothing more came for, is as it was.
    pub(super) fn finish(mut self) -> Result<(), ArchiveError> {
        let Some(mut current) = self.current.take() else {
            return Ok(());
        };
        let empty = current.end() == 0 && self.names.is_numbered() && self.index > 0;
        if empty {
            current.remove()?;
        } else {
            current.write_end()?;
            current.sync()?;
        }
        self.full.iter_mut().try_for_each(UnfinishedShard::sync)?;
        self.publish_full()?;
        if !empty {
            current.publish()?;
        }
        current.sync_directory()
    }
}

/// Begins a shard, unless what an earlier run finished lies there and takes more: an archive that ends where rows say, or one of
/// nothing. That is opened with its first entry, so that a run with nothing to do leaves it alone.
fn begin(
    names: &ShardNames,
    (index, end): (u64, u64),
    alone: bool,
    layer: &StorageLayer,
) -> Result<Option<UnfinishedShard>, ArchiveError> {
    let target = DownloadPaths::new(names.path(index));
    if alone && is_finished(&target, end) {
        return Ok(None);
    }
    UnfinishedShard::create(target, layer).map(Some)
}

/// What an earlier run left of a shard that rows speak of; `None` when it was finished.
fn resume_unfinished(
    names: &ShardNames,
    index: u64,
    end: u64,
    layer: &StorageLayer,
) -> Result<Option<UnfinishedShard>, ArchiveError> {
    let target = DownloadPaths::new(names.path(index));
    if exists(target.path()) {
        return Ok(None);
    }
    if exists(&target.partial()) {
        return UnfinishedShard::resume(target, end, layer).map(Some);
    }
    if names.is_numbered() {
        // Finished and taken elsewhere, as pipelines do with shards.
        return Ok(None);
    }
    let path = target.partial();
    Err(ArchiveError::MissingEntries {
        path,
        claimed: end,
        found: 0,
    })
}
