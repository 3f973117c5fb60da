//! Bytes that grow to gigabytes.
#![expect(
    unsafe_code,
    reason = "the kernel moves pages of memory that grows, where an allocator may copy them"
)]

use std::alloc::{Layout, handle_alloc_error};

use memmap2::{Advice, MmapMut, RemapOptions};

/// Memory for the first bytes.
const MIN_CAPACITY: usize = 256 << 10;

/// Bytes that the kernel makes ready at once. A page that is made ready when it is written to takes twice as long; with more of
/// them at once the first ones have left the processor's cache before they are written to, as those of a large body have.
const POPULATED_AT_ONCE: usize = 256 << 10;

/// Bytes that can only be added to.
#[derive(Default)]
pub(crate) struct GrowingBuffer {
    /// Memory for them; none at the beginning.
    memory: Option<MmapMut>,
    length: usize,
    /// Bytes that the kernel has made ready.
    populated: usize,
}

impl GrowingBuffer {
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Adds bytes. Ends the process where there is no memory for them, as a vector does.
    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        let end = self.length + bytes.len();
        let mut memory = match self.memory.take() {
            Some(memory) if end <= memory.len() => memory,
            memory => with_capacity(memory, end.next_power_of_two().max(MIN_CAPACITY)),
        };
        while self.populated < end {
            let count = POPULATED_AT_ONCE.min(memory.len() - self.populated);
            // Older kernels cannot do it, and pages are made ready when they are written to.
            let _ = memory.advise_range(Advice::PopulateWrite, self.populated, count);
            self.populated += count;
        }
        memory[self.length..end].copy_from_slice(bytes);
        self.length = end;
        self.memory = Some(memory);
    }
}

impl AsRef<[u8]> for GrowingBuffer {
    fn as_ref(&self) -> &[u8] {
        let memory = self.memory.as_deref().unwrap_or_default();
        &memory[..self.length]
    }
}

/// The same memory, or new memory, with room for so many bytes.
fn with_capacity(memory: Option<MmapMut>, capacity: usize) -> MmapMut {
    let grown = match memory {
        None => MmapMut::map_anon(capacity),
        Some(mut memory) => {
            // SAFETY: the memory is not that of a file, and nobody has a reference into it.
            let grown = unsafe { memory.remap(capacity, RemapOptions::new().may_move(true)) };
            grown.map(|()| memory)
        }
    };
    grown.unwrap_or_else(|_| {
        handle_alloc_error(Layout::array::<u8>(capacity).unwrap_or(Layout::new::<u8>()))
    })
}
