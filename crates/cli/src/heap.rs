//! Settings of the C library's allocator: how many heaps threads share, and when it returns memory to the system.
//!
//! By default it gives each thread a heap, up to eight a core, and each heap keeps its peak. Threads for disk work come and go here, and
//! memory that one allocates another frees: sixteen heaps held thirty megabytes that two do without, at the same speed.

/// Limits the number of heaps. Call it before a second thread starts.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "nobody wraps mallopt")]
pub(crate) fn limit_arenas() {
    /// A thread that finds one in use takes the other.
    const HEAPS: libc::c_int = 2;
    // SAFETY: mallopt takes any two numbers, and there is one thread. It ignores parameters that it does not know.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, HEAPS);
    }
}

/// Allocators of other C libraries have no such setting.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn limit_arenas() {}

/// Returns free memory to the system. The heaps are locked meanwhile, some milliseconds for a hundred megabytes. Call it after much was
/// freed and while little is going on: by itself the allocator returns only what is free at the end of a heap.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "nobody wraps malloc_trim")]
pub(crate) fn trim() {
    // SAFETY: malloc_trim may be called at any time, and touches no memory in use.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Allocators of other C libraries have no such call.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn trim() {}
