//! The allocator of the module, beside Python's own.
#![expect(
    unsafe_code,
    reason = "jemalloc finds its settings by the name of a symbol"
)]

use std::ffi::c_char;

use tikv_jemallocator::Jemalloc;

/// What one thread allocates here another frees: rows, jobs and bodies go from thread to thread. In glibc's allocator those threads wait
/// for each other, every second small file.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// Two heaps, since each keeps its peak until it is used again some seconds later: for bodies of 1 MB eight held 150 megabytes where two
/// held 77 to 96, at the same speed. Both were measured on two processors.
// SAFETY: the name is that of a variable of jemalloc, which is a pointer to text that ends with a zero.
#[unsafe(export_name = "_rjem_malloc_conf")]
pub(crate) static SETTINGS: Option<&'static c_char> = {
    let text = c"narenas:2";
    // SAFETY: a text has at least its zero.
    Some(unsafe { &*text.as_ptr() })
};
