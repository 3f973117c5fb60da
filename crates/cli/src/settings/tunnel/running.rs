//! What a process that has tunnels was told of itself: flags, and what the file says where they are silent.

use std::path::PathBuf;
use std::time::Duration;

use haul_service::listen::Address;
use haul_service::observe::{LogOptions, LogTarget};
use haul_tunnel::LogFormat;

use super::room::Most;
use crate::args::{MaybeTime, TunnelArgs};
use crate::settings::SettingError;

/// Threads that relay, unless told otherwise.
const THREADS: usize = 1;

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
    pub(crate) max_connections: Most,
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
    pub(super) fn settled(&self, quiet: bool, most: Most) -> Result<RunningSettings, SettingError> {
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
            max_connections: most,
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
}

#[cfg(test)]
mod tests {
    use super::super::room::Besides;
    use super::*;

    #[test]
    fn a_log_goes_where_people_are_unless_they_want_none() {
        let target = |wishes: &RunningWishes, quiet| {
            let most = Most::of(None, Besides::default(), None);
            let log = wishes.settled(quiet, most).unwrap().log;
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
