//! Resolves the arguments of `haul tunnel`, the file of `--config` and the environment.
//!
//! The options of a tunnel come in layers: flags go over the tunnel's table in the file, and both over the top of the file. [`layers`] merges
//! them as [`GivenOptions`], the parser of the command line makes [`LayeredOptions`] of the result, and [`upstream`] builds from these how
//! targets are reached. Everything can be resolved again while tunnels run.

mod config_file;
mod connection_limit;
mod layers;
#[cfg(test)]
mod tests;
mod upstream;

use std::sync::Arc;
use std::time::Duration;

use haul_net::Target;
use haul_service::listen::{ListenAddress, ListenAddressError};
use haul_service::observe::{LogOptions, LogTarget};
use haul_tunnel::{
    ListenerKind, ListenerSettings, TunnelSpec, TunnelSpecError, TunnelTimeouts, WarmPoolOptions,
};

use super::proxy_login::PromptedPasswords;
use super::{EnvironmentReader, SettingError, environment};
use crate::args::{
    GivenOptions, LayeredOptions, OptionSource, ProcessOptions, Sourced, TunnelArgs, option_names,
};
use connection_limit::{ConnectionLimit, reserved_descriptors};
use layers::{MergedOptions, TunnelLayers};
pub(crate) use upstream::TunnelUpstream;
use upstream::Upstreams;

/// The resolved settings of a tunnel process.
#[derive(Debug)]
pub(crate) struct TunnelSettings {
    /// The tunnels of flags, then those of the file.
    pub(crate) tunnels: Vec<PlannedTunnel>,
    pub(crate) process: ProcessSettings,
    pub(crate) warnings: Vec<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct PlannedTunnel {
    pub(crate) listen: Sourced<ListenAddress>,
    pub(crate) kind: ListenerKind,
    pub(crate) upstream: TunnelUpstream,
    /// For a tunnel with a target of its own.
    pub(crate) warm: Option<WarmPoolOptions>,
    pub(crate) timeouts: TunnelTimeouts,
}

/// The settings of the process. A reload does not change them.
#[derive(Debug, Clone)]
pub(crate) struct ProcessSettings {
    pub(crate) options: ProcessOptions,
    /// As they were given, to compare them after a reload.
    given: GivenOptions,
    pub(crate) max_connections: ConnectionLimit,
    /// The connection log and where it is given, unless there is none.
    pub(crate) log: Option<Sourced<LogOptions>>,
    pub(crate) grace: Duration,
    /// Print errors only.
    pub(crate) quiet: bool,
}

/// The resolved settings of `haul tunnel --stdio`.
#[derive(Debug)]
pub(crate) struct StdioSettings {
    pub(crate) upstream: TunnelUpstream,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) warnings: Vec<String>,
}

impl TunnelSettings {
    /// Resolves the arguments. Reads the files they name; may ask for passwords.
    ///
    /// # Errors
    /// Options that contradict each other, files that cannot be read or used.
    pub(crate) fn resolve(
        args: &TunnelArgs,
        passwords: &PromptedPasswords,
    ) -> Result<Self, SettingError> {
        Self::resolve_in(args, passwords, environment)
    }

    fn resolve_in(
        args: &TunnelArgs,
        passwords: &PromptedPasswords,
        environment: EnvironmentReader,
    ) -> Result<Self, SettingError> {
        let layers = TunnelLayers::read(args)?;
        let of_flags = layers.merged(None);
        let mut requested = Vec::new();
        for (listen, kind) in listeners_of_flags(args)? {
            requested.push((listen, kind, of_flags.clone()));
        }
        for table in &layers.file.tunnels {
            let merged = layers.merged(Some(&table.given));
            requested.push((table.listen.clone(), table.kind.clone(), merged));
        }
        if requested.is_empty() {
            let mut text = "there is nothing to listen on".to_owned();
            if let Some(path) = &args.config {
                text = format!("{text}: {} has no [[tunnel]]", path.display());
            }
            let hint = format!("a SPEC is {}", TunnelSpecError::SYNTAX);
            return Err(SettingError::new(text).with_hint(hint));
        }
        let merged: Vec<&MergedOptions> = requested.iter().map(|(.., merged)| merged).collect();
        layers.check_proxy_flags(&merged)?;
        layers.check_target_tls(&merged)?;
        let mut upstreams = Upstreams::new(&layers, passwords, environment)?;
        let tunnels = requested
            .into_iter()
            .map(|(listen, kind, merged)| plan(listen, kind, &merged, &mut upstreams))
            .collect::<Result<Vec<_>, _>>()?;
        layers.check_warm_flags(tunnels.iter().any(|tunnel| tunnel.warm.is_some()))?;
        let mut warnings = layers.warnings();
        warnings.append(&mut upstreams.warnings);
        Ok(Self {
            process: ProcessSettings::resolve(&layers, &tunnels, args.quiet)?,
            tunnels,
            warnings,
        })
    }

    /// A warning if there are too few descriptors for these tunnels and the limit of connections of `running`, the process as it started.
    pub(crate) fn descriptor_warning(&self, running: &ProcessSettings) -> Option<String> {
        let limit = &running.max_connections;
        limit.warning(
            reserved_descriptors(&self.tunnels),
            haul_transfer::batch::open_file_limit(),
        )
    }
}

impl ProcessSettings {
    fn resolve(
        layers: &TunnelLayers,
        tunnels: &[PlannedTunnel],
        quiet: bool,
    ) -> Result<Self, SettingError> {
        let names = option_names::<ProcessOptions>();
        let given = layers
            .merged(None)
            .given
            .filtered(|name| names.iter().any(|process| process == name));
        let options = given.parse::<ProcessOptions>()?;
        if quiet && options.log.is_none() && given.contains("log-format") {
            let error = SettingError::at(
                &given.source("log-format"),
                "--quiet without --log has no log",
            );
            return Err(error.with_hint("write one with --log FILE, or - for standard output"));
        }
        let default_log = (!quiet).then_some(LogTarget::Stderr);
        let log = options.log.clone().or(default_log).map(|target| Sourced {
            value: LogOptions {
                target,
                ..LogOptions::default()
            },
            source: given.source("log"),
        });
        let allowed = haul_transfer::batch::open_file_limit();
        Ok(Self {
            max_connections: ConnectionLimit::new(
                options.max_connections,
                reserved_descriptors(tunnels),
                allowed,
            ),
            log,
            grace: options.grace.0.unwrap_or_default(),
            quiet,
            given,
            options,
        })
    }

    /// The options that differ and need a restart.
    pub(crate) fn differences<'a>(&'a self, other: &'a Self) -> Vec<&'a str> {
        let mut names = self.given.differences(&other.given);
        names.retain(|name| !name.starts_with("netrc"));
        names
    }
}

impl StdioSettings {
    /// Resolves the arguments for `--stdio` to a target.
    ///
    /// # Errors
    /// As for tunnels that listen.
    pub(crate) fn resolve(args: &TunnelArgs, target: &Target) -> Result<Self, SettingError> {
        let layers = TunnelLayers::read(args)?;
        layers.check_no_listeners()?;
        let merged = layers.merged(None);
        layers.check_target_tls(&[&merged])?;
        let passwords = PromptedPasswords::default();
        let mut upstreams = Upstreams::new(&layers, &passwords, environment)?;
        let options = merged.given.parse::<LayeredOptions>()?.tunnel;
        let upstream = upstreams.build(&merged, &options, Some(target))?;
        let mut warnings = layers.warnings();
        warnings.append(&mut upstreams.warnings);
        warnings.extend(layers.listener_options_warning());
        Ok(Self {
            upstream,
            idle_timeout: options.connection.idle_timeout.0,
            warnings,
        })
    }
}

impl PlannedTunnel {
    /// The target, unless clients name theirs.
    pub(crate) fn target(&self) -> Option<&Target> {
        target_of(&self.kind)
    }

    pub(crate) fn listener(&self) -> ListenerSettings {
        ListenerSettings {
            listen: self.listen.value.clone(),
            kind: self.kind.clone(),
            upstream: Arc::clone(&self.upstream.upstream),
            warm: self.warm,
            timeouts: self.timeouts,
        }
    }
}

fn target_of(kind: &ListenerKind) -> Option<&Target> {
    match kind {
        ListenerKind::Forward(target) => Some(target),
        ListenerKind::Socks | ListenerKind::Http => None,
    }
}

fn plan(
    listen: Sourced<ListenAddress>,
    kind: ListenerKind,
    merged: &MergedOptions,
    upstreams: &mut Upstreams<'_>,
) -> Result<PlannedTunnel, SettingError> {
    let options = merged.given.parse::<LayeredOptions>()?.tunnel;
    let connection = &options.connection;
    let warm = WarmPoolOptions {
        size: connection.warm,
        max_idle: connection.warm_idle.0,
    };
    let target = target_of(&kind);
    Ok(PlannedTunnel {
        upstream: upstreams.build(merged, &options, target)?,
        warm: (warm.size > 0 && target.is_some()).then_some(warm),
        timeouts: TunnelTimeouts {
            idle: connection.idle_timeout.0,
            keepalive: connection.keepalive.0,
        },
        listen,
        kind,
    })
}

/// The listeners of SPECs, --socks and --http.
fn listeners_of_flags(
    args: &TunnelArgs,
) -> Result<Vec<(Sourced<ListenAddress>, ListenerKind)>, SettingError> {
    let listener = |name: &str, value: ListenAddress, kind: ListenerKind| {
        let source = OptionSource::Flag(name.into());
        (Sourced { value, source }, kind)
    };
    let mut listeners = Vec::new();
    for (text, number) in args.specs.iter().chain(&args.forwards).zip(1..) {
        if text == "status" {
            let error = SettingError::new("status is not a SPEC");
            return Err(error.with_hint("haul tunnel status takes only --admin and --json"));
        }
        let spec: TunnelSpec = text.parse().map_err(|error| spec_error(number, &error))?;
        listeners.push(listener(
            "SPEC",
            spec.listen,
            ListenerKind::Forward(spec.target),
        ));
    }
    for address in &args.socks {
        listeners.push(listener("--socks", address.clone(), ListenerKind::Socks));
    }
    for address in &args.http {
        listeners.push(listener("--http", address.clone(), ListenerKind::Http));
    }
    Ok(listeners)
}

/// The error of a SPEC. It does not repeat the SPEC, which may be a login whose flag was forgotten.
fn spec_error(number: usize, error: &TunnelSpecError) -> SettingError {
    use ListenAddressError as Listen;
    let text = match error {
        TunnelSpecError::Url => "this is a URL; name a proxy with -p".to_owned(),
        TunnelSpecError::Listener(Listen::Port(port))
            if !port.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            "the listener: the port must be a number from 0 to 65535".to_owned()
        }
        TunnelSpecError::Listener(
            Listen::Port(_)
            | Listen::Path
            | Listen::Option(_)
            | Listen::Mode(_)
            | Listen::SystemdName,
        ) => error.to_string(),
        TunnelSpecError::Listener(_) => {
            "the listener must be PORT or BIND:PORT, with IPv6 addresses in brackets".to_owned()
        }
        _ => error.to_string(),
    };
    SettingError::new(format!("SPEC {number}: {text}"))
        .with_hint(format!("a SPEC is {}", TunnelSpecError::SYNTAX))
}
