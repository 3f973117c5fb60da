//! What a process that has tunnels was told of itself: flags, and what the file says where they are silent.

use std::path::PathBuf;
use std::time::Duration;

use haul_service::listen::Address;
use haul_service::observe::{LogOptions, LogTarget};
use haul_tunnel::LogFormat;

use crate::args::{MaybeTime, TunnelArgs};
use crate::limits;
use crate::settings::SettingError;

/// Threads that relay, unless told otherwise.
const THREADS: usize = 1;

/// Connections at one time, if the system has room for so many.
const CONNECTIONS: usize = 65_536;

/// Descriptors that are no connection's: threads' own, standard streams, listeners, logs.
const OTHER_FILES: u64 = 64;

/// Descriptors that a connection needs.
const FILES_EACH: u64 = 2;

/// What may be wished of the process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RunningWishes {
    /// Connections at one time.
    pub(crate) max_connections: Option<usize>,
    /// Where connections are logged.
    pub(crate) log: Option<LogTarget>,
    /// What lines look like.
    pub(crate) log_format: Option<LogFormat>,
    /// The admin endpoint.
    pub(crate) admin: Option<Address>,
    /// For connections at the end.
    pub(crate) grace: Option<MaybeTime>,
    /// Threads.
    pub(crate) threads: Option<usize>,
    /// Where proxies' logins may be looked up.
    pub(crate) netrc: Option<NetrcWish>,
}

/// Which netrc.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NetrcWish {
    /// The user's.
    Home,
    /// This one.
    File(PathBuf),
}

/// What the process was told. It stays as it was at the start: all else is read again with the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunningSettings {
    /// Connections at one time.
    pub(crate) max_connections: usize,
    /// The connection log.
    pub(crate) log: Option<LogOptions>,
    /// What its lines look like.
    pub(crate) log_format: LogFormat,
    /// Where /healthz, /metrics and /tunnels are.
    pub(crate) admin: Option<Address>,
    /// For connections that there are at the end.
    pub(crate) grace: Duration,
    /// Threads that relay.
    pub(crate) threads: usize,
    /// Errors only.
    pub(crate) quiet: bool,
}

impl RunningWishes {
    /// What flags say.
    pub(super) fn of_flags(args: &TunnelArgs) -> Self {
        let (running, proxy) = (&args.running, &args.proxy);
        let home = proxy.netrc.then_some(NetrcWish::Home);
        Self {
            max_connections: running.max_connections,
            log: running.log.clone(),
            log_format: running.log_format,
            admin: running.admin.clone(),
            grace: running.grace,
            threads: running.threads,
            netrc: proxy.netrc_file.clone().map(NetrcWish::File).or(home),
        }
    }

    /// These, and what they leave open as others have it.
    pub(super) fn over(self, below: Self) -> Self {
        Self {
            max_connections: self.max_connections.or(below.max_connections),
            log: self.log.or(below.log),
            log_format: self.log_format.or(below.log_format),
            admin: self.admin.or(below.admin),
            grace: self.grace.or(below.grace),
            threads: self.threads.or(below.threads),
            netrc: self.netrc.or(below.netrc),
        }
    }

    /// With what holds where nothing is wished.
    pub(super) fn settled(&self, quiet: bool) -> Result<RunningSettings, SettingError> {
        if let Some(Address::Systemd { .. }) = &self.admin {
            return Err(
                SettingError::new("--admin cannot take a socket that was handed over")
                    .hint("give it a port of its own, as 127.0.0.1:9090, or unix:PATH"),
            );
        }
        let unasked = (!quiet).then_some(LogTarget::Stderr);
        if self.log.is_none() && quiet && self.log_format.is_some() {
            return Err(SettingError::new("--log-format, and --quiet has no log")
                .hint("--log FILE writes one, - to standard output"));
        }
        Ok(RunningSettings {
            max_connections: self
                .max_connections
                .unwrap_or_else(|| room(limits::open_files())),
            log: self.log.clone().or(unasked).map(|target| LogOptions {
                target,
                ..LogOptions::default()
            }),
            log_format: self.log_format.unwrap_or_default(),
            admin: self.admin.clone(),
            grace: self.grace.and_then(|grace| grace.0).unwrap_or_default(),
            threads: self.threads.unwrap_or(THREADS),
            quiet,
        })
    }

    /// Whether as many connections as were asked for can come about.
    pub(super) fn descriptors(&self, allowed: Option<u64>) -> Option<String> {
        let wanted = u64::try_from(self.max_connections?).unwrap_or(u64::MAX);
        let needed = wanted
            .saturating_mul(FILES_EACH)
            .saturating_add(OTHER_FILES);
        let allowed = allowed.filter(|allowed| *allowed < needed)?;
        Some(format!(
            "{wanted} connections may need {needed} open files, and the system allows {allowed} (ulimit -n)"
        ))
    }
}

/// How many connections there is room for.
fn room(allowed: Option<u64>) -> usize {
    let fit = |allowed: u64| allowed.saturating_sub(OTHER_FILES) / FILES_EACH;
    let fit = allowed.map_or(CONNECTIONS, |allowed| {
        usize::try_from(fit(allowed)).unwrap_or(CONNECTIONS)
    });
    fit.clamp(1, CONNECTIONS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_room_for_the_rest() {
        assert_eq!(room(None), CONNECTIONS);
        assert_eq!(room(Some(1024)), 480);
        assert_eq!(room(Some(20)), 1);
        assert_eq!(room(Some(1 << 30)), CONNECTIONS);
    }

    #[test]
    fn more_than_there_is_room_for_is_told() {
        let wishes = |most| RunningWishes {
            max_connections: Some(most),
            ..RunningWishes::default()
        };
        assert_eq!(wishes(480).descriptors(Some(1024)), None);
        assert_eq!(wishes(480).descriptors(None), None);
        let told = wishes(481).descriptors(Some(1024)).unwrap();
        assert!(told.contains("1026") && told.contains("1024"), "{told}");
        assert_eq!(RunningWishes::default().descriptors(Some(10)), None);
    }

    #[test]
    fn a_log_goes_where_people_are_unless_they_want_none() {
        let target = |wishes: &RunningWishes, quiet| {
            let log = wishes.settled(quiet).unwrap().log;
            log.map(|options| options.target)
        };
        let none = RunningWishes::default();
        let named = RunningWishes {
            log: Some(LogTarget::Stdout),
            ..RunningWishes::default()
        };
        assert_eq!(target(&none, false), Some(LogTarget::Stderr));
        assert_eq!(target(&none, true), None);
        assert_eq!(target(&named, true), Some(LogTarget::Stdout));
    }
}
