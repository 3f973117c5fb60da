//! What the C library's allocator is told: how its heaps are shared among threads, and when it is to give memory back.
//!
//! It gives each thread a heap of its own, up to eight a core, and keeps what each has had at its peak. Here threads come and go with
//! the disk, and what one takes another gives back: sixteen heaps held thirty megabytes that two do without, at the same speed.

/// Bounds the heaps. To be called before there is a second thread.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "nobody wraps mallopt")]
pub(crate) fn limit_arenas() {
    /// A thread that finds one of them in use takes the other.
    const HEAPS: libc::c_int = 2;
    // SAFETY: it takes any two numbers, and there is one thread. What it does not know it leaves as it is.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, HEAPS);
    }
}

/// Other allocators share by themselves.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn bound() {}

/// Gives the system what is free. The heaps are locked meanwhile, some milliseconds for a hundred megabytes. To be called when much was
/// freed and little is going on: by itself the allocator gives back only what is free at a heap's end.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "nobody wraps malloc_trim")]
pub(crate) fn trim() {
    // SAFETY: it may be called at any time, and touches nothing that is in use.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Other allocators do so by themselves.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn give_back() {}
