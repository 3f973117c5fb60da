//! What a process that has tunnels was told of itself: flags, and what the file says where they are silent.

use std::path::PathBuf;
use std::time::Duration;

use haul_service::listen::ListenAddress;
use haul_service::observe::{LogOptions, LogTarget};
use haul_tunnel::TunnelLogFormat;

use super::room::ConnectionCap;
use crate::args::{OptionalTimeArg, TunnelArgs};
use crate::settings::{SettingError, Sourced};

/// Threads that relay, unless told otherwise.
const THREADS: usize = 1;

/// What may be wished of the process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ProcessOptions {
    /// Connections at one time.
    pub(crate) max_connections: Option<usize>,
    /// Where connections are logged.
    pub(crate) log: Option<Sourced<LogTarget>>,
    /// What lines look like.
    pub(crate) log_format: Option<Sourced<TunnelLogFormat>>,
    /// The admin endpoint.
    pub(crate) admin: Option<Sourced<ListenAddress>>,
    /// For connections at the end.
    pub(crate) grace: Option<OptionalTimeArg>,
    /// Threads.
    pub(crate) threads: Option<usize>,
    /// Where proxies' logins may be looked up.
    pub(crate) netrc: Option<Sourced<NetrcOption>>,
}

/// Which netrc.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NetrcOption {
    /// The user's.
    Home,
    /// This one.
    File(PathBuf),
}

/// What the process was told. It stays unchanged at the start: all else is read again with the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProcessSettings {
    /// Connections at one time.
    pub(crate) max_connections: ConnectionCap,
    /// The connection log.
    pub(crate) log: Option<Sourced<LogOptions>>,
    /// What its lines look like.
    pub(crate) log_format: TunnelLogFormat,
    /// Where /healthz, /metrics and /tunnels are.
    pub(crate) admin: Option<ListenAddress>,
    /// For connections that there are at the end.
    pub(crate) grace: Duration,
    /// Threads that relay.
    pub(crate) threads: usize,
    /// Errors only.
    pub(crate) quiet: bool,
}

impl ProcessOptions {
    /// What of it means nothing where nobody listens.
    pub(super) fn of_listeners(&self) -> Vec<&'static str> {
        let given = [
            ("max-connections", self.max_connections.is_some()),
            ("log", self.log.is_some()),
            ("log-format", self.log_format.is_some()),
            ("grace", self.grace.is_some()),
            ("threads", self.threads.is_some()),
        ];
        let given = given.into_iter().filter(|(_, is_given)| *is_given);
        given.map(|(name, _)| name).collect()
    }

    /// What flags say.
    pub(super) fn of_flags(args: &TunnelArgs) -> Self {
        let (running, proxy) = (&args.running, &args.proxy);
        let home = proxy
            .netrc
            .then_some(Sourced::flag("--netrc", NetrcOption::Home));
        let file = |file: PathBuf| Sourced::flag("--netrc-file", NetrcOption::File(file));
        Self {
            max_connections: running.max_connections,
            log: running.log.clone().map(|log| Sourced::flag("--log", log)),
            log_format: running
                .log_format
                .map(|format| Sourced::flag("--log-format", format)),
            admin: running
                .admin
                .clone()
                .map(|admin| Sourced::flag("--admin", admin)),
            grace: running.grace,
            threads: running.threads,
            netrc: proxy.netrc_file.clone().map(file).or(home),
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
    pub(super) fn settled(
        &self,
        quiet: bool,
        most: ConnectionCap,
    ) -> Result<ProcessSettings, SettingError> {
        let admin = self.admin.as_ref();
        if let Some(said) = admin.filter(|said| matches!(said.value, ListenAddress::Systemd { .. }))
        {
            let told = format!("{} cannot take a socket that was handed over", said.by);
            return Err(SettingError::new(told)
                .with_hint("give it a port, as 127.0.0.1:9090, or unix:PATH"));
        }
        let unasked = (!quiet).then_some(Sourced::flag("--log", LogTarget::Stderr));
        if let (None, true, Some(format)) = (&self.log, quiet, &self.log_format) {
            return Err(format
                .by
                .wrong("there is no log with --quiet")
                .with_hint("--log FILE writes one, - to standard output"));
        }
        let options = |target| LogOptions {
            target,
            ..LogOptions::default()
        };
        Ok(ProcessSettings {
            max_connections: most,
            log: self.log.clone().or(unasked).map(|log| log.map(options)),
            log_format: self
                .log_format
                .as_ref()
                .map(|said| said.value)
                .unwrap_or_default(),
            admin: self.admin.clone().map(|said| said.value),
            grace: self.grace.and_then(|grace| grace.0).unwrap_or_default(),
            threads: self.threads.unwrap_or(THREADS),
            quiet,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::room::DescriptorNeeds;
    use super::*;

    #[test]
    fn a_log_goes_where_people_are_unless_they_want_none() {
        let target = |wishes: &ProcessOptions, quiet| {
            let most = ConnectionCap::of(None, DescriptorNeeds::default(), None);
            let log = wishes.settled(quiet, most).unwrap().log;
            log.map(|said| said.value.target)
        };
        let none = ProcessOptions::default();
        let named = ProcessOptions {
            log: Some(Sourced::flag("--log", LogTarget::Stdout)),
            ..ProcessOptions::default()
        };
        assert_eq!(target(&none, false), Some(LogTarget::Stderr));
        assert_eq!(target(&none, true), None);
        assert_eq!(target(&named, true), Some(LogTarget::Stdout));
    }
}
