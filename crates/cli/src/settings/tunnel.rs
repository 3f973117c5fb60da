//! What `haul tunnel` was told, resolved: flags, the file of `--config`, the environment.
//!
//! What is wished of a tunnel ([`wishes`]) comes in layers, flags above what the file says of one tunnel above what it says of all;
//! [`way`] makes of it the way to targets. All of it can be resolved again while tunnels run.

mod beside;
mod chain;
mod file;
mod listeners;
mod room;
mod running;
mod table;
mod told;
mod way;
mod wishes;

use haul_net::Target;
use haul_service::listen::ListenAddress;
use haul_tunnel::{ListenerKind, TunnelSpecError, TunnelTimeouts, WarmPoolOptions};

use super::SettingError;
use super::proxy_login::PromptedPasswords;
use crate::args::TunnelArgs;
use crate::open_file_limit;
use listeners::RequestedListener;
use room::{ConnectionCap, DescriptorNeeds};
pub(crate) use running::ProcessSettings;
use told::TunnelLayers;
pub(crate) use way::TunnelUpstream;
use way::TunnelUpstreams;
use wishes::TunnelOptionsLayer;

/// How long a connection that stands ready may, unless told otherwise: proxies close idle ones after a minute or more.
const WARM_IDLE: std::time::Duration = std::time::Duration::from_secs(30);

/// What `haul tunnel` was told.
#[derive(Debug)]
pub(crate) struct TunnelSettings {
    /// Its tunnels: those of flags first, then the file's.
    pub(crate) tunnels: Vec<PlannedTunnel>,
    /// What it does besides.
    pub(crate) running: ProcessSettings,
    /// What is likely not meant, and no error.
    pub(crate) warnings: Vec<String>,
}

/// A tunnel that there is to be.
#[derive(Debug, Clone)]
pub(crate) struct PlannedTunnel {
    /// Where it listens.
    pub(crate) listen: ListenAddress,
    /// What its clients say.
    pub(crate) local: ListenerKind,
    /// How targets are reached.
    pub(crate) way: TunnelUpstream,
    /// Connections that stand ready, if there are to be any.
    pub(crate) warm: Option<WarmPoolOptions>,
    /// Its limits.
    pub(crate) options: TunnelTimeouts,
}

/// What `haul tunnel --stdio` was told.
#[derive(Debug)]
pub(crate) struct StdioSettings {
    /// The way to the target.
    pub(crate) way: TunnelUpstream,
    /// A connection on which nothing moves for so long is ended.
    pub(crate) idle: Option<std::time::Duration>,
    /// What is likely not meant.
    pub(crate) warnings: Vec<String>,
}

/// How variables are read.
type EnvironmentReader = fn(&str) -> Option<String>;

fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

impl TunnelSettings {
    /// Resolves the arguments. Reads the files they name; may ask for passwords.
    ///
    /// # Errors
    /// Flags that contradict each other, files that cannot be read or used.
    pub(crate) fn resolve(
        args: &TunnelArgs,
        passwords: &PromptedPasswords,
    ) -> Result<Self, SettingError> {
        Self::resolve_in(args, passwords, environment)
    }

    /// The same in another environment.
    fn resolve_in(
        args: &TunnelArgs,
        passwords: &PromptedPasswords,
        environment: EnvironmentReader,
    ) -> Result<Self, SettingError> {
        let told = TunnelLayers::by(args)?;
        let mut wanted = listeners::flagged(args)?;
        wanted.extend(told.config.tunnels.iter().map(|listed| RequestedListener {
            listen: listed.listen.clone(),
            local: listed.local.clone(),
            wishes: Some(told.flags.over(&listed.wishes).over(&told.config.all)),
        }));
        if wanted.is_empty() {
            return Err(SettingError::new("there is nothing to listen on")
                .with_hint(format!("a SPEC is {}", TunnelSpecError::SYNTAX)));
        }
        listeners::are_apart(&wanted)?;
        let all = told.flags.over(&told.config.all);
        let wished = wanted
            .iter()
            .map(|wanted| wanted.wishes.as_ref().unwrap_or(&all));
        told.certificates_are_used(wished.clone())?;
        told.flags_have_a_proxy(wished)?;
        let mut ways = told.ways(passwords, environment)?;
        let planned = wanted
            .into_iter()
            .map(|wanted| planned(wanted, &all, &mut ways));
        let tunnels: Vec<PlannedTunnel> = planned.collect::<Result<_, _>>()?;
        let is_warm = tunnels.iter().any(|planned| planned.warm.is_some());
        told.warmth_is_used(is_warm)?;
        let mut warnings = told.warnings();
        warnings.append(&mut ways.warnings);
        let allowed = open_file_limit::open_file_limit();
        let most = ConnectionCap::of(told.running.max_connections, besides(&tunnels), allowed);
        Ok(Self {
            tunnels,
            running: told.running.settled(args.running.quiet, most)?,
            warnings,
        })
    }
}

impl TunnelSettings {
    /// Whether there is room for these tunnels beside as many connections as the engine takes, which is settled at its start.
    pub(crate) fn room(&self, engine: &ProcessSettings) -> Option<String> {
        let most = engine.max_connections;
        most.warning(besides(&self.tunnels), open_file_limit::open_file_limit())
    }
}

impl StdioSettings {
    /// Resolves the arguments for `--stdio` to a target.
    ///
    /// # Errors
    /// As with tunnels that listen.
    pub(crate) fn resolve(args: &TunnelArgs, target: &Target) -> Result<Self, SettingError> {
        let told = TunnelLayers::by(args)?;
        told.listens_nowhere()?;
        let wishes = told.flags.over(&told.config.all);
        told.certificates_are_used(std::iter::once(&wishes))?;
        let passwords = PromptedPasswords::default();
        let mut ways = told.ways(&passwords, environment)?;
        let way = ways.of(&wishes, Some(target))?;
        let mut warnings = told.warnings();
        warnings.append(&mut ways.warnings);
        warnings.extend(told.is_for_listeners());
        Ok(Self {
            way,
            idle: wishes.idle_timeout.and_then(|time| time.0),
            warnings,
        })
    }
}

/// What needs descriptors without any client.
fn besides(tunnels: &[PlannedTunnel]) -> DescriptorNeeds {
    let ready = tunnels.iter().filter_map(|planned| planned.warm);
    DescriptorNeeds {
        listeners: tunnels.len(),
        ready: ready.map(|warm| warm.size).sum(),
    }
}

/// A listener that is wanted, of which nothing is wished that is not wished of all unless it says so.
fn planned(
    wanted: RequestedListener,
    all: &TunnelOptionsLayer,
    ways: &mut TunnelUpstreams<'_>,
) -> Result<PlannedTunnel, SettingError> {
    let RequestedListener { listen, local, .. } = wanted;
    let target = match &local {
        ListenerKind::Forward(target) => Some(target),
        ListenerKind::Socks | ListenerKind::Http => None,
    };
    let wishes = wanted.wishes.as_ref().unwrap_or(all);
    let ready = wishes.warm.unwrap_or(0);
    let warm = (ready > 0 && target.is_some()).then(|| WarmPoolOptions {
        size: ready,
        max_idle: wishes.warm_idle.unwrap_or(WARM_IDLE),
    });
    let keepalive = haul_net::ConnectorConfig::default().keepalive;
    Ok(PlannedTunnel {
        way: ways.of(wishes, target)?,
        listen: listen.value,
        local,
        warm,
        options: TunnelTimeouts {
            idle: wishes.idle_timeout.and_then(|time| time.0),
            keepalive: wishes.keepalive.map_or(keepalive, |time| time.0),
        },
    })
}

impl PlannedTunnel {
    /// Its target, if its clients do not name theirs.
    pub(crate) fn target(&self) -> Option<&Target> {
        match &self.local {
            ListenerKind::Forward(target) => Some(target),
            ListenerKind::Socks | ListenerKind::Http => None,
        }
    }
}

#[cfg(test)]
mod tests;
