//! All shard files of an archive: the growing one, and full ones that wait for their final names.

use std::collections::BTreeMap;

use super::entry_header::END;
use super::error::ArchiveError;
use super::shard_names::{ShardNames, exists};
use super::unfinished_shard::{UnfinishedShard, is_finished};
use crate::disk::{DownloadPaths, StorageWrapping};

/// The shard files of an archive.
#[derive(Debug)]
pub(super) struct ShardSet {
    names: ShardNames,
    /// The size limit of a shard; `None` for a single archive.
    limit: Option<u64>,
    wrapping: StorageWrapping,
    /// The number of the growing shard.
    index: u64,
    /// The growing shard. `None` while that is a finished archive of an earlier run for which no new entry has come.
    current: Option<UnfinishedShard>,
    /// The end of the last entry of that finished archive.
    reopen_at: u64,
    /// Full shards with their end written, but still under temporary names: their rows are not written yet.
    full: Vec<UnfinishedShard>,
}

impl ShardSet {
    /// Opens the archive behind its durable entries. `durable` maps the number of a shard to the end of the last entry
    /// that a row records.
    pub(super) fn open(
        names: ShardNames,
        limit: Option<u64>,
        wrapping: StorageWrapping,
        durable: &BTreeMap<u64, u64>,
    ) -> Result<Self, ArchiveError> {
        let mut unfinished = BTreeMap::new();
        for (index, end) in durable {
            if let Some(shard) = resume_unfinished(&names, *index, *end, &wrapping)? {
                unfinished.insert(*index, shard);
            }
        }
        let last = durable.last_key_value().map(|(index, end)| (*index, *end));
        let next = match last {
            // A single archive is extended. In a series, a finished shard counts as full.
            Some(only) if !names.is_numbered() => only,
            Some((last, _)) => (last + 1, 0),
            None => (0, 0),
        };
        let growing = last.and_then(|(last, _)| unfinished.remove_entry(&last));
        let (index, current) = match growing {
            Some((index, shard)) => (index, Some(shard)),
            None => (
                next.0,
                create_unless_extendable(&names, next.0, next.1, unfinished.is_empty(), &wrapping)?,
            ),
        };
        // The other unfinished shards were full when the earlier run ended.
        let mut full: Vec<UnfinishedShard> = unfinished.into_values().collect();
        full.iter_mut().try_for_each(UnfinishedShard::write_end)?;
        Ok(Self {
            names,
            limit,
            wrapping,
            index,
            current,
            reopen_at: next.1,
            full,
        })
    }

    /// The name of the growing shard in manifest rows.
    pub(super) fn current_name(&self) -> String {
        self.names.name(self.index)
    }

    /// The shard for an entry of this many bytes. When the entry would make the growing shard too large, the next shard
    /// is begun. An entry that exceeds the limit by itself gets a shard of its own.
    pub(super) fn shard_for(&mut self, bytes: u64) -> Result<&mut UnfinishedShard, ArchiveError> {
        let mut current = match self.current.take() {
            Some(current) => current,
            None => {
                UnfinishedShard::reopen(self.target(self.index), self.reopen_at, &self.wrapping)?
            }
        };
        let with = current
            .end()
            .saturating_add(bytes)
            .saturating_add(END.len() as u64);
        let full = current.end() > 0 && self.limit.is_some_and(|limit| with > limit);
        let next = full.then(|| {
            current.write_end()?;
            UnfinishedShard::create(self.target(self.index + 1), &self.wrapping)
        });
        let (current, failed) = match next {
            None => (current, None),
            // The entries that were appended before stay intact.
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

    /// Makes the appended entries durable.
    pub(super) fn sync(&mut self) -> Result<(), ArchiveError> {
        self.full.iter_mut().try_for_each(UnfinishedShard::sync)?;
        self.current.as_mut().map_or(Ok(()), UnfinishedShard::sync)
    }

    /// Renames the full shards that are durable.
    pub(super) fn publish_full(&mut self) -> Result<(), ArchiveError> {
        while self.full.first().is_some_and(UnfinishedShard::is_synced) {
            self.full[0].publish()?;
            self.full.remove(0);
        }
        Ok(())
    }

    /// Like [`finish`](Self::finish), but removes an archive without any entry.
    pub(super) fn finish_unless_empty(mut self) -> Result<(), ArchiveError> {
        let empty = self.index == 0 && self.full.is_empty();
        match self.current.take_if(|shard| empty && shard.end() == 0) {
            Some(shard) => shard.remove(),
            None => self.finish(),
        }
    }

    /// Writes the end of the last shard and renames all shards. An empty last shard is removed, unless it is the only
    /// one. A finished archive that was not reopened stays as it is.
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

/// Creates a shard, unless a finished archive that can be extended has the name: one that ends where the rows say, or
/// an empty one. That archive is opened with its first new entry, so that a run without new entries leaves it alone.
fn create_unless_extendable(
    names: &ShardNames,
    index: u64,
    end: u64,
    is_only: bool,
    wrapping: &StorageWrapping,
) -> Result<Option<UnfinishedShard>, ArchiveError> {
    let target = DownloadPaths::new(names.path(index));
    if is_only && is_finished(&target, end) {
        return Ok(None);
    }
    UnfinishedShard::create(target, wrapping).map(Some)
}

/// Reopens the unfinished shard that an earlier run left and that rows record; `None` when the shard is finished.
fn resume_unfinished(
    names: &ShardNames,
    index: u64,
    end: u64,
    wrapping: &StorageWrapping,
) -> Result<Option<UnfinishedShard>, ArchiveError> {
    let target = DownloadPaths::new(names.path(index));
    if exists(target.path()) {
        return Ok(None);
    }
    if exists(&target.partial()) {
        return UnfinishedShard::resume(target, end, wrapping).map(Some);
    }
    if names.is_numbered() {
        // It was finished and then moved away, as pipelines do with shards.
        return Ok(None);
    }
    let path = target.partial();
    Err(ArchiveError::MissingEntries {
        path,
        claimed: end,
        found: 0,
    })
}
