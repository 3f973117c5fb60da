//! How many connections a process may have at one time: the given number, or as many as there are descriptors for.
//!
//! Descriptors are counted at their most: both ends of each connection, the pipes of those that move much, listeners, and warm connections. A
//! low limit is a warning at the start, not first when a client is refused.

use haul_tunnel::TunnelEngineOptions;
use haul_tunnel::relay::MAX_PIPE_DESCRIPTORS;

use super::PlannedTunnel;

/// A lower limit is worth a warning: a browser alone may need as many.
const FEW: usize = 256;

/// Descriptors of the process: standard streams, the runtime's, logs, the admin endpoint, name lookups.
const OF_PROCESS: u64 = 32;

/// Descriptors of a listener: `localhost` and every interface may be two sockets.
const OF_LISTENER: u64 = 2;

/// Descriptors of a connection.
const OF_CONNECTION: u64 = 2;

/// Descriptors of the pipes that a connection may have: two for each direction.
const OF_PIPES: u64 = 4;

const REMEDY: &str = "ulimit -n N, or LimitNOFILE=N of a systemd unit, allows more";

#[derive(Debug, Clone)]
pub(crate) struct ConnectionLimit {
    pub(crate) connections: usize,
    /// The reason of the limit, for the log.
    pub(crate) set_by: String,
    /// The limit of open files, if that is the reason.
    open_files: Option<u64>,
}

impl ConnectionLimit {
    /// The given limit, else the default, or less if that is more than `allowed` descriptors permit. `reserved` ones are not for clients.
    pub(super) fn new(given: Option<usize>, reserved: u64, allowed: Option<u64>) -> Self {
        let default = TunnelEngineOptions::default().max_connections;
        let open_files = allowed.filter(|files| needed(reserved, default) > *files);
        let (connections, set_by, open_files) = match (given, open_files) {
            (Some(given), _) => (given, "--max-connections".to_owned(), None),
            (None, Some(files)) => {
                let set_by = format!("ulimit -n ({files} open files)");
                (connections_within(reserved, files), set_by, open_files)
            }
            (None, None) => (default, "the default of --max-connections".to_owned(), None),
        };
        Self {
            connections,
            set_by,
            open_files,
        }
    }

    /// The error if no connection is possible.
    pub(crate) fn shortage(&self) -> Option<String> {
        let files = self.open_files.filter(|_| self.connections == 0)?;
        Some(format!(
            "no connection is possible: the system allows {files} open files (ulimit -n)"
        ))
    }

    /// A warning if the limit is low, or if there are not enough descriptors for it: because too much was requested, or because other use of
    /// descriptors has grown since.
    pub(super) fn warning(&self, reserved: u64, allowed: Option<u64>) -> Option<String> {
        let connections = self.connections;
        let needed = needed(reserved, connections);
        if let Some(files) = allowed.filter(|files| needed > *files) {
            return Some(format!(
                "{connections} connections at one time may need {needed} open files, and the system allows {files}: {REMEDY}"
            ));
        }
        let files = self.open_files.filter(|_| connections < FEW)?;
        let plural = if connections == 1 { "" } else { "s" };
        Some(format!(
            "only {connections} connection{plural} at one time: the system allows {files} open files; {REMEDY}"
        ))
    }
}

/// Descriptors without clients.
pub(super) fn reserved_descriptors(tunnels: &[PlannedTunnel]) -> u64 {
    let warm = tunnels.iter().filter_map(|tunnel| tunnel.warm);
    let warm = warm.map(|warm| warm.size as u64).sum::<u64>();
    OF_PROCESS + tunnels.len() as u64 * OF_LISTENER + warm
}

/// The open files that this number of connections needs.
fn needed(reserved: u64, connections: usize) -> u64 {
    let connections = connections as u64;
    let pipes = connections.saturating_mul(OF_PIPES);
    let ends = connections.saturating_mul(OF_CONNECTION);
    reserved
        .saturating_add(ends)
        .saturating_add(pipes.min(MAX_PIPE_DESCRIPTORS))
}

/// The most connections that need no more than `allowed` descriptors.
fn connections_within(reserved: u64, allowed: u64) -> usize {
    let left = allowed.saturating_sub(reserved);
    let with_all_pipes = left.saturating_sub(MAX_PIPE_DESCRIPTORS) / OF_CONNECTION;
    let with_own_pipes = left / (OF_CONNECTION + OF_PIPES);
    usize::try_from(with_all_pipes.max(with_own_pipes)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE_LISTENER: u64 = OF_PROCESS + OF_LISTENER;

    fn default_limit(allowed: Option<u64>) -> ConnectionLimit {
        ConnectionLimit::new(None, ONE_LISTENER, allowed)
    }

    #[test]
    fn the_default_leaves_descriptors_for_everything_else() {
        let default = TunnelEngineOptions::default().max_connections;
        assert_eq!(default_limit(None).connections, default);
        assert_eq!(default_limit(Some(1 << 30)).connections, default);
        assert_eq!(default_limit(Some(20)).connections, 0);
        // Of 1024, the process and its listener need 34, and pipes 256; of 64 they need 34.
        assert_eq!(default_limit(Some(1024)).connections, 367);
        assert_eq!(default_limit(Some(64)).connections, 5);
        let limit = ConnectionLimit::new(None, ONE_LISTENER + 100, Some(1024));
        assert_eq!(limit.connections, default_limit(Some(924)).connections);
    }

    #[test]
    fn the_most_connections_within_a_limit_need_no_more_than_it() {
        for reserved in [OF_PROCESS, ONE_LISTENER, ONE_LISTENER + 33] {
            for allowed in 100..2000 {
                let connections = connections_within(reserved, allowed);
                assert!(needed(reserved, connections) <= allowed, "{allowed}");
                assert!(needed(reserved, connections + 1) > allowed, "{allowed}");
            }
        }
    }

    #[test]
    fn a_low_limit_is_a_warning_with_a_remedy() {
        let warning = |allowed| default_limit(Some(allowed)).warning(ONE_LISTENER, Some(allowed));
        let low = warning(64).unwrap();
        for words in ["64 open files", "ulimit -n", "LimitNOFILE="] {
            assert!(low.contains(words), "{low}");
        }
        assert_eq!(warning(4096), None);
        assert_eq!(default_limit(None).warning(ONE_LISTENER, None), None);
    }

    #[test]
    fn a_given_limit_above_the_descriptors_is_a_warning() {
        let limit_and_warning = |given, allowed| {
            let limit = ConnectionLimit::new(Some(given), ONE_LISTENER, allowed);
            let warning = limit.warning(ONE_LISTENER, allowed);
            (limit.connections, warning)
        };
        let possible = connections_within(ONE_LISTENER, 1024);
        assert_eq!(limit_and_warning(possible, Some(1024)), (possible, None));
        assert_eq!(limit_and_warning(possible, None), (possible, None));
        let (limit, warning) = limit_and_warning(possible + 1, Some(1024));
        assert_eq!(limit, possible + 1);
        let warning = warning.unwrap();
        assert!(
            warning.contains("1026") || warning.contains("1025"),
            "{warning}"
        );
        assert!(warning.contains("1024"), "{warning}");
        // A low limit that was given is wanted.
        assert_eq!(limit_and_warning(1, Some(64)), (1, None));
    }

    #[test]
    fn more_warm_connections_after_a_reload_are_a_warning() {
        for limit in [default_limit(Some(1024)), default_limit(Some(140_000))] {
            let allowed = needed(ONE_LISTENER, limit.connections);
            assert_eq!(limit.warning(ONE_LISTENER, Some(allowed)), None);
            let warning = limit.warning(ONE_LISTENER + 100, Some(allowed)).unwrap();
            let start = format!("{} connections at one time may", limit.connections);
            assert!(warning.starts_with(&start), "{warning}");
        }
    }

    #[test]
    fn the_log_has_the_reason_of_a_limit() {
        let given = ConnectionLimit::new(Some(7), ONE_LISTENER, None);
        assert_eq!(given.set_by, "--max-connections");
        assert_eq!(
            default_limit(None).set_by,
            "the default of --max-connections"
        );
        assert_eq!(default_limit(Some(64)).set_by, "ulimit -n (64 open files)");
    }
}
