//! The allocator of the command and of the extension module: jemalloc, its settings, and when it returns memory to the system.
//!
//! Memory that one thread allocates here another frees: jobs, rows, bodies. In glibc's allocator those threads wait for each other at every
//! second small file. jemalloc takes 0.9 of its time for small files over plain HTTP and over TLS, and 0.85 of its CPU time.
#![expect(
    unsafe_code,
    reason = "jemalloc finds its settings by the name of a symbol, and nobody wraps its purge"
)]

use std::ffi::{CStr, c_char};
use std::ptr::null_mut;

use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// Two heaps, since each keeps its peak until it is used again some seconds later: for bodies of 1 MB eight held 150 megabytes where two
/// held 77 to 96, at the same speed. Both were measured on two processors.
// SAFETY: the name is that of a variable of jemalloc, which is a pointer to text that ends with a zero.
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static SETTINGS: Option<&'static c_char> = {
    let text = c"narenas:2";
    // SAFETY: a text has at least its zero.
    Some(unsafe { &*text.as_ptr() })
};

/// Returns free memory to the system. Call it after much was freed and while little is going on: by itself the allocator does so some
/// seconds later, and only while it is used.
pub fn purge() {
    /// The number stands for all heaps.
    const COMMAND: &CStr = c"arena.4096.purge";
    // SAFETY: the name ends with a zero, and nothing is read or written through null pointers.
    let result = unsafe {
        tikv_jemalloc_sys::mallctl(COMMAND.as_ptr(), null_mut(), null_mut(), null_mut(), 0)
    };
    debug_assert_eq!(result, 0, "jemalloc has arena.<i>.purge");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jemalloc_has_read_the_settings() {
        let (mut heaps, mut length) = (0u32, size_of::<u32>());
        // SAFETY: the name ends with a zero, and the number has the length that is said.
        let result = unsafe {
            tikv_jemalloc_sys::mallctl(
                c"opt.narenas".as_ptr(),
                (&raw mut heaps).cast(),
                &raw mut length,
                null_mut(),
                0,
            )
        };
        assert_eq!((result, heaps), (0, 2));
    }

    #[test]
    fn free_memory_returns_to_the_system() {
        let resident = || {
            let pages = std::fs::read_to_string("/proc/self/statm")
                .unwrap()
                .split(' ')
                .nth(1)
                .unwrap()
                .parse::<usize>();
            pages.unwrap() * 4096
        };
        let blocks: Vec<Vec<u8>> = (0..4096).map(|_| vec![1; 16 * 1024]).collect();
        let before = resident();
        drop(blocks);
        purge();
        let after = resident();
        assert!(after + 32 * 1024 * 1024 < before, "{before} {after}");
    }
}
