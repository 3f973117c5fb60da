//! The blocks of a file that were read last, for readers that go back a little.

use std::collections::VecDeque;

use bytes::Bytes;

/// Blocks that are kept: 4 MiB. There are so few that a search looks at each.
const MAX_BLOCKS: usize = 64;

/// A block, and where it begins in the file.
type CachedBlock = (u64, Bytes);

/// The blocks that were used last.
#[derive(Debug, Default)]
pub(super) struct BlockCache {
    /// The one that was used last at the end.
    blocks: VecDeque<CachedBlock>,
}

impl BlockCache {
    /// The block that begins here.
    pub(super) fn get(&mut self, start: u64) -> Option<Bytes> {
        let found = self.remove(start)?;
        let block = found.1.clone();
        self.blocks.push_back(found);
        Some(block)
    }

    /// Keeps a block. The one that was used longest ago gives way.
    pub(super) fn insert(&mut self, start: u64, block: Bytes) {
        self.remove(start);
        if self.blocks.len() >= MAX_BLOCKS {
            self.blocks.pop_front();
        }
        self.blocks.push_back((start, block));
    }

    fn remove(&mut self, start: u64) -> Option<CachedBlock> {
        let index = self.blocks.iter().rposition(|(at, _)| *at == start)?;
        self.blocks.remove(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(number: usize) -> Bytes {
        Bytes::from(number.to_string())
    }

    #[test]
    fn the_block_that_was_used_longest_ago_gives_way() {
        let mut cache = BlockCache::default();
        for number in 0..MAX_BLOCKS {
            cache.insert(number as u64, block(number));
        }
        assert_eq!(cache.get(0), Some(block(0)));
        cache.insert(1000, block(1000));
        assert_eq!(cache.get(1), None);
        assert_eq!(cache.get(0), Some(block(0)));
        assert_eq!(cache.blocks.len(), MAX_BLOCKS);
    }

    #[test]
    fn a_block_that_was_read_again_takes_the_place_of_the_first() {
        let mut cache = BlockCache::default();
        cache.insert(0, block(1));
        cache.insert(0, block(2));
        assert_eq!((cache.get(0), cache.blocks.len()), (Some(block(2)), 1));
    }
}
