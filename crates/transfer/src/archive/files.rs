//! The row of shards: which one grows, which are full and wait for their names, and which an earlier run left.

use std::collections::BTreeMap;

use super::error::ArchiveError;
use super::head::END;
use super::names::{Names, is_taken};
use super::part::Part;
use crate::disk::{Layer, Target};

/// Shards in files.
#[derive(Debug)]
pub(super) struct Files {
    names: Names,
    /// The largest that a shard may be, where there may be several.
    limit: Option<u64>,
    layer: Layer,
    /// The number of the one that grows.
    index: u64,
    /// The one that grows.
    current: Part,
    /// Full ones, ended but without their names: rows have yet to speak of what is in them.
    full: Vec<Part>,
}

impl Files {
    /// Goes on behind what is durable: for each shard by its number the end of the last entry that is known.
    pub(super) fn open(
        names: Names,
        limit: Option<u64>,
        layer: Layer,
        durable: &BTreeMap<u64, u64>,
    ) -> Result<Self, ArchiveError> {
        let mut parts = BTreeMap::new();
        for (index, end) in durable {
            if let Some(part) = left(&names, *index, *end, &layer)? {
                parts.insert(*index, part);
            }
        }
        let last = durable.keys().next_back().copied();
        let (index, current) = match last.and_then(|last| parts.remove_entry(&last)) {
            Some(growing) => growing,
            None => {
                let index = last.map_or(0, |last| last + 1);
                (index, Part::begin(Target::new(names.path(index)), &layer)?)
            }
        };
        // Those before it were full when the run ended.
        let mut full: Vec<Part> = parts.into_values().collect();
        full.iter_mut().try_for_each(Part::close)?;
        Ok(Self {
            names,
            limit,
            layer,
            index,
            current,
            full,
        })
    }

    /// The shard that grows.
    pub(super) fn current(&mut self) -> &mut Part {
        &mut self.current
    }

    /// What rows call it.
    pub(super) fn shard(&self) -> String {
        self.names.shard(self.index)
    }

    /// Begins the next shard where an entry of this many bytes would make this one too large. An entry that is too large by
    /// itself gets a shard of its own.
    pub(super) fn make_room(&mut self, bytes: u64) -> Result<(), ArchiveError> {
        let Some(limit) = self.limit else {
            return Ok(());
        };
        let with = self
            .current
            .end()
            .saturating_add(bytes)
            .saturating_add(END.len() as u64);
        if self.current.end() == 0 || with <= limit {
            return Ok(());
        }
        self.current.close()?;
        let next = Part::begin(Target::new(self.names.path(self.index + 1)), &self.layer)?;
        self.full.push(std::mem::replace(&mut self.current, next));
        self.index += 1;
        Ok(())
    }

    /// Makes what was appended durable.
    pub(super) fn sync(&mut self) -> Result<(), ArchiveError> {
        self.full.iter_mut().try_for_each(Part::sync)?;
        self.current.sync()
    }

    /// Gives the full shards that are durable their names.
    pub(super) fn settle(&mut self) -> Result<(), ArchiveError> {
        while self.full.first().is_some_and(Part::is_synced) {
            self.full[0].publish()?;
            self.full.remove(0);
        }
        Ok(())
    }

    /// Ends the last shard and gives all their names. One that nothing was put into is none, unless it is all there is.
    pub(super) fn finish(mut self) -> Result<(), ArchiveError> {
        let empty = self.current.end() == 0 && self.names.numbered() && self.index > 0;
        if empty {
            self.current.remove()?;
        } else {
            self.current.close()?;
            self.current.sync()?;
        }
        self.full.iter_mut().try_for_each(Part::sync)?;
        self.settle()?;
        if !empty {
            self.current.publish()?;
        }
        self.current.sync_directory()
    }
}

/// What an earlier run left of a shard that rows speak of; `None` when it was finished.
fn left(names: &Names, index: u64, end: u64, layer: &Layer) -> Result<Option<Part>, ArchiveError> {
    let target = Target::new(names.path(index));
    if is_taken(target.path()) {
        return Ok(None);
    }
    if is_taken(&target.part()) {
        return Part::resume(target, end, layer).map(Some);
    }
    if names.numbered() {
        // Finished and taken elsewhere, as pipelines do with shards.
        return Ok(None);
    }
    let path = target.part();
    Err(ArchiveError::Lost {
        path,
        claimed: end,
        found: 0,
    })
}
