//! Doubly linked lists through the entries of a slab.
//!
//! A job is in one list at a time (a queue of its host, or the jobs that await a response), and so is a host (the lists of
//! hosts whose turn may come). The [`slab`] crate stores the entries; the links live in the entries themselves. A queue of keys
//! (`VecDeque`) would not do: jobs and hosts leave from the middle all the time, which here costs no search, leaves nothing
//! behind, and needs no allocation for each host.

use slab::Slab;

/// An entry's key in its slab. It is used again after the entry is removed.
pub(super) type SlabKey = usize;

/// Stands for no entry: half the size of an `Option`.
const NONE: SlabKey = SlabKey::MAX;

/// An entry's neighbours in its list.
#[derive(Debug, Clone, Copy)]
pub(super) struct ListLinks {
    previous: SlabKey,
    next: SlabKey,
}

impl Default for ListLinks {
    fn default() -> Self {
        Self {
            previous: NONE,
            next: NONE,
        }
    }
}

/// An entry that can be in a list.
pub(super) trait ListNode {
    /// Its neighbours in the one list that it is in.
    fn links(&mut self) -> &mut ListLinks;
}

/// A list of entries of a [`Slab`].
#[derive(Debug, Clone, Copy)]
pub(super) struct SlabList {
    head: SlabKey,
    tail: SlabKey,
}

impl Default for SlabList {
    fn default() -> Self {
        Self {
            head: NONE,
            tail: NONE,
        }
    }
}

impl SlabList {
    pub(super) fn is_empty(&self) -> bool {
        self.head == NONE
    }

    pub(super) fn front(&self) -> Option<SlabKey> {
        (self.head != NONE).then_some(self.head)
    }

    pub(super) fn push_back<E: ListNode>(&mut self, slab: &mut Slab<E>, key: SlabKey) {
        *slab[key].links() = ListLinks {
            previous: self.tail,
            next: NONE,
        };
        match self.tail {
            NONE => self.head = key,
            tail => slab[tail].links().next = key,
        }
        self.tail = key;
    }

    pub(super) fn push_front<E: ListNode>(&mut self, slab: &mut Slab<E>, key: SlabKey) {
        *slab[key].links() = ListLinks {
            previous: NONE,
            next: self.head,
        };
        match self.head {
            NONE => self.tail = key,
            head => slab[head].links().previous = key,
        }
        self.head = key;
    }

    /// Removes an entry, which must be in this list.
    pub(super) fn remove<E: ListNode>(&mut self, slab: &mut Slab<E>, key: SlabKey) {
        let ListLinks { previous, next } = std::mem::take(slab[key].links());
        match previous {
            NONE => self.head = next,
            previous => slab[previous].links().next = next,
        }
        match next {
            NONE => self.tail = previous,
            next => slab[next].links().previous = previous,
        }
    }

    pub(super) fn pop_front<E: ListNode>(&mut self, slab: &mut Slab<E>) -> Option<SlabKey> {
        let key = self.front()?;
        self.remove(slab, key);
        Some(key)
    }

    pub(super) fn pop_back<E: ListNode>(&mut self, slab: &mut Slab<E>) -> Option<SlabKey> {
        let key = (self.tail != NONE).then_some(self.tail)?;
        self.remove(slab, key);
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[derive(Default)]
    struct Node(ListLinks);

    impl ListNode for Node {
        fn links(&mut self) -> &mut ListLinks {
            &mut self.0
        }
    }

    proptest! {
        #[test]
        fn a_list_keeps_the_order_of_a_deque(steps in prop::collection::vec((0u8..5, any::<prop::sample::Index>()), 0..60)) {
            let (mut slab, mut list, mut model) = (Slab::new(), SlabList::default(), VecDeque::new());
            for (step, index) in steps {
                match step {
                    0 => {
                        let key = slab.insert(Node::default());
                        list.push_back(&mut slab, key);
                        model.push_back(key);
                    }
                    1 => {
                        let key = slab.insert(Node::default());
                        list.push_front(&mut slab, key);
                        model.push_front(key);
                    }
                    2 => {
                        let key = list.pop_front(&mut slab);
                        prop_assert_eq!(key, model.pop_front());
                        key.map(|key| slab.remove(key));
                    }
                    3 => {
                        let key = list.pop_back(&mut slab);
                        prop_assert_eq!(key, model.pop_back());
                        key.map(|key| slab.remove(key));
                    }
                    _ if model.is_empty() => {}
                    _ => {
                        let key = model.remove(index.index(model.len())).unwrap();
                        list.remove(&mut slab, key);
                        slab.remove(key);
                    }
                }
                prop_assert_eq!(list.front(), model.front().copied());
                prop_assert_eq!(list.is_empty(), model.is_empty());
                prop_assert_eq!(slab.len(), model.len());
            }
        }
    }
}
