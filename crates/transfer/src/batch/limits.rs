//! How many requests and open files a batch may have: as many as the user wants and the process has descriptors for.

use super::dispatch::{HostRequestLimit, JobDispatcherOptions};
use super::options::CommitGroupOptions;
use crate::options::ConnectionCount;

/// How many descriptors the process may have, if that is limited.
#[must_use]
pub fn open_file_limit() -> Option<u64> {
    use rustix::process::{Resource, getrlimit};
    getrlimit(Resource::Nofile).current
}

/// This part of the descriptors.
fn share_of_descriptors(part: u64) -> usize {
    let share = open_file_limit().map(|most| usize::try_from(most / part).unwrap_or(usize::MAX));
    share.unwrap_or(usize::MAX)
}

/// How many files at once. A number of files above the limit of one origin raises that limit, too.
#[must_use]
pub fn dispatcher_options(
    jobs: Option<u16>,
    total: Option<u16>,
    connections: ConnectionCount,
) -> JobDispatcherOptions {
    let defaults = JobDispatcherOptions::default();
    let (jobs, total) = (jobs.map(usize::from), total.map(usize::from));
    JobDispatcherOptions {
        max_jobs: jobs,
        per_host: match connections {
            ConnectionCount::Fixed(n) => HostRequestLimit::Fixed(n),
            ConnectionCount::Auto { .. } => HostRequestLimit::Auto {
                max: defaults.per_host.max().max(jobs.unwrap_or(0)),
            },
        },
        request_slots: total.unwrap_or_else(|| {
            let fixed = match connections {
                ConnectionCount::Fixed(n) => n,
                ConnectionCount::Auto { .. } => 0,
            };
            let wanted = defaults.request_slots.max(jobs.unwrap_or(0)).max(fixed);
            // A quarter of the descriptors: files need as many again.
            wanted.min(share_of_descriptors(4).max(1))
        }),
        ..defaults
    }
}

impl CommitGroupOptions {
    /// The default, with fewer files where the process has few descriptors: each file stays open until its group is synced, and so do those
    /// of the previous group. Connections need descriptors, too.
    #[must_use]
    pub fn for_open_files() -> Self {
        let defaults = Self::default();
        Self {
            max_files: share_of_descriptors(8).clamp(4, defaults.max_files),
            ..defaults
        }
    }
}
