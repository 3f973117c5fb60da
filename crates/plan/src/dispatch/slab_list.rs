//! Slots that are used again, and lists that run through them.
//!
//! A job is in one list at a time (its host's queue, or those still connecting), and so is a host (those whose turn may come).
//! The lists' links live in the things themselves, so that taking one out of the middle costs no search, nothing is ever left
//! behind in a queue, and a host that is merely there costs no allocation but its name.

use std::ops::{Index, IndexMut};

/// A slot's number. It is used again when the slot is.
pub(super) type SlabKey = u32;

/// No slot.
const NONE: SlabKey = SlabKey::MAX;

/// Who stands before and after in a list.
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

/// What can stand in a list.
pub(super) trait ListNode {
    /// Its place in the one list that it is in.
    fn links(&mut self) -> &mut ListLinks;
}

/// Things by number.
#[derive(Debug)]
pub(super) struct Slab<E> {
    slots: Vec<Option<E>>,
    free: Vec<SlabKey>,
}

impl<E> Slab<E> {
    pub(super) fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }

    /// How many things there are.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn insert(&mut self, thing: E) -> SlabKey {
        if let Some(id) = self.free.pop() {
            self.slots[id as usize] = Some(thing);
            return id;
        }
        let id =
            SlabKey::try_from(self.slots.len()).expect("so many slots do not fit into any memory");
        self.slots.push(Some(thing));
        id
    }

    pub(super) fn remove(&mut self, id: SlabKey) -> Option<E> {
        let thing = self.slots.get_mut(id as usize)?.take()?;
        self.free.push(id);
        Some(thing)
    }

    pub(super) fn get(&self, id: SlabKey) -> Option<&E> {
        self.slots.get(id as usize)?.as_ref()
    }
}

impl<E> Index<SlabKey> for Slab<E> {
    type Output = E;

    fn index(&self, id: SlabKey) -> &E {
        self.get(id).expect("a number of our own names a thing")
    }
}

impl<E> IndexMut<SlabKey> for Slab<E> {
    fn index_mut(&mut self, id: SlabKey) -> &mut E {
        let slot = self.slots.get_mut(id as usize).and_then(Option::as_mut);
        slot.expect("a number of our own names a thing")
    }
}

/// A list through a [`Slab`]. Whoever holds it knows who is in it.
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

    pub(super) fn push_back<E: ListNode>(&mut self, slab: &mut Slab<E>, id: SlabKey) {
        *slab[id].links() = ListLinks {
            previous: self.tail,
            next: NONE,
        };
        match self.tail {
            NONE => self.head = id,
            tail => slab[tail].links().next = id,
        }
        self.tail = id;
    }

    pub(super) fn push_front<E: ListNode>(&mut self, slab: &mut Slab<E>, id: SlabKey) {
        *slab[id].links() = ListLinks {
            previous: NONE,
            next: self.head,
        };
        match self.head {
            NONE => self.tail = id,
            head => slab[head].links().previous = id,
        }
        self.head = id;
    }

    /// Takes out one that is in this list.
    pub(super) fn remove<E: ListNode>(&mut self, slab: &mut Slab<E>, id: SlabKey) {
        let ListLinks {
            previous: before,
            next: after,
        } = std::mem::take(slab[id].links());
        match before {
            NONE => self.head = after,
            before => slab[before].links().next = after,
        }
        match after {
            NONE => self.tail = before,
            after => slab[after].links().previous = before,
        }
    }

    pub(super) fn pop_front<E: ListNode>(&mut self, slab: &mut Slab<E>) -> Option<SlabKey> {
        let id = self.front()?;
        self.remove(slab, id);
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[derive(Default)]
    struct Thing(ListLinks);

    impl ListNode for Thing {
        fn links(&mut self) -> &mut ListLinks {
            &mut self.0
        }
    }

    proptest! {
        /// A list does what a deque does that is searched.
        #[test]
        fn a_list_keeps_its_order(steps in prop::collection::vec((0u8..4, any::<prop::sample::Index>()), 0..60)) {
            let (mut slab, mut list, mut model) = (Slab::new(), SlabList::default(), VecDeque::new());
            for (step, which) in steps {
                match step {
                    0 => {
                        let id = slab.insert(Thing::default());
                        list.push_back(&mut slab, id);
                        model.push_back(id);
                    }
                    1 => {
                        let id = slab.insert(Thing::default());
                        list.push_front(&mut slab, id);
                        model.push_front(id);
                    }
                    2 => {
                        let id = list.pop_front(&mut slab);
                        prop_assert_eq!(id, model.pop_front());
                        id.map(|id| slab.remove(id));
                    }
                    _ if model.is_empty() => {}
                    _ => {
                        let id = model.remove(which.index(model.len())).unwrap();
                        list.remove(&mut slab, id);
                        slab.remove(id);
                    }
                }
                prop_assert_eq!(list.front(), model.front().copied());
                prop_assert_eq!(list.is_empty(), model.is_empty());
                prop_assert_eq!(slab.len(), model.len());
            }
        }
    }
}
