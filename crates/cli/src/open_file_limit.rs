//! The limit of open files.

/// Raises the soft limit to the hard one.
///
/// The low default of 1024 protects programs that use select(2), which haul does not; sixteen files from sixteen origins over sixteen
/// connections each need more.
pub(crate) fn raise_open_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // No limit at all, or nothing to gain.
    if current.is_none() || current == maximum {
        return;
    }
    // If this is refused, the soft limit has to do.
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: maximum,
            maximum,
        },
    );
}

/// Checks that a runtime gets the descriptors it needs: it panics without them.
///
/// # Errors
/// The system's.
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
