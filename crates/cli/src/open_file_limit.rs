//! The limit of open files.

/// Raises the soft limit to the hard one.
///
/// The low default of 1024 protects programs that use select(2), which haul does not; sixteen files from sixteen origins over sixteen
/// connections each need more.
#[cfg(unix)]
pub(crate) fn raise_open_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    /// What macOS takes although it names no limit (`OPEN_MAX`).
    const OPEN_MAX: u64 = 10_240;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // No limit at all, or nothing to gain.
    if current.is_none() || current == maximum {
        return;
    }
    let raised = |current| Rlimit { current, maximum };
    if setrlimit(Resource::Nofile, raised(maximum)).is_err() {
        let most = maximum.unwrap_or(OPEN_MAX).min(OPEN_MAX);
        // Where that is refused too, what there is must do.
        if current.is_some_and(|current| current < most) {
            let _ = setrlimit(Resource::Nofile, raised(Some(most)));
        }
    }
}

/// The limit, if there is one.
#[cfg(unix)]
pub(crate) fn open_file_limit() -> Option<u64> {
    use rustix::process::{Resource, getrlimit};
    getrlimit(Resource::Nofile).current
}

/// It is not known here.
#[cfg(not(unix))]
pub(crate) fn open_files() -> Option<u64> {
    None
}

/// Checks that a runtime gets the descriptors it needs: it panics without them.
///
/// # Errors
/// The system's.
#[cfg(unix)]
pub(crate) fn check_free_descriptors() -> std::io::Result<()> {
    /// Descriptors of a runtime for timers, wake-ups and signals, and one more.
    const NEEDED: usize = 6;
    let open = || std::fs::File::open("/dev/null");
    let all: std::io::Result<Vec<_>> = (0..NEEDED).map(|_| open()).collect();
    match all {
        Err(error) if haul_net::is_descriptor_limit(&error) => Err(error),
        _ => Ok(()),
    }
}

/// There is no such limit here.
#[cfg(not(unix))]
pub(crate) fn raise_open_files() {}

/// It is not known here.
#[cfg(not(unix))]
pub(crate) fn room_to_begin() -> std::io::Result<()> {
    Ok(())
}
