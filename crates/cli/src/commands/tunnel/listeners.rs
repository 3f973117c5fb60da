//! The listeners of a process and their tunnels. [`TunnelListenerSet::apply`] opens them at the start and changes them on a reload.

use std::sync::Arc;

use haul_service::listen::{
    BindOptions, BoundAddress, BoundListener, InheritedSockets, ListenAddress, ListenError,
    Listener, SocketFile, bind,
};
use haul_tunnel::{TunnelConfig, TunnelEngine, TunnelListener, WarmPool};

use crate::args::Sourced;
use crate::commands::service::addresses::{
    bound_addresses, is_taken_by_this_process, used_twice_error,
};
use crate::commands::service::command_error::CommandError;
use crate::settings::PlannedTunnel;

#[derive(Debug)]
pub(super) struct TunnelListenerSet {
    engine: TunnelEngine,
    /// In the order of the settings.
    open: Vec<OpenTunnelListener>,
    /// Inherited sockets that no listener uses yet.
    inherited: InheritedSockets,
    /// The addresses of the process's admin endpoint.
    other_addresses: Vec<BoundAddress>,
}

#[derive(Debug)]
pub(super) struct OpenTunnelListener {
    planned: PlannedTunnel,
    pub(super) addresses: Vec<BoundAddress>,
    pub(super) description: TunnelDescription,
    listener: Arc<TunnelListener>,
    /// Removed with the listener.
    _files: Vec<Option<SocketFile>>,
}

/// A tunnel as people read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TunnelDescription {
    /// The target, after the address: ` -> host:port`, ` -> host:port (TLS)`, ` (SOCKS5)`.
    pub(super) to: String,
    /// `via proxy:3128`, `directly`.
    pub(super) route: String,
    /// Whether clients name their targets.
    pub(super) is_proxy: bool,
}

/// The changes of a reload.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ListenerChanges {
    /// New listeners with their targets and routes.
    pub(super) opened: Vec<String>,
    pub(super) closed: Vec<String>,
}

impl TunnelListenerSet {
    /// Without listeners.
    pub(super) fn new(engine: TunnelEngine, inherited: InheritedSockets) -> Self {
        Self {
            engine,
            open: Vec::new(),
            inherited,
            other_addresses: Vec::new(),
        }
    }

    /// Sets where the process listens as well: a conflict with these is no other server's.
    pub(super) fn set_other_addresses(&mut self, addresses: Vec<BoundAddress>) {
        self.other_addresses = addresses;
    }

    /// Opens the listeners that are not open yet, then closes those that are not planned any more. Listeners that stay get their new
    /// targets; connections are not touched. On an error nothing has changed.
    pub(super) fn apply(
        &mut self,
        planned: &[PlannedTunnel],
    ) -> Result<ListenerChanges, CommandError> {
        let mut is_kept = vec![false; self.open.len()];
        // Port 0 may be planned several times: each open listener is kept for one of them.
        let kept: Vec<Option<usize>> = planned
            .iter()
            .map(|planned| {
                let open = self.open.iter().zip(&is_kept);
                let is_same = |(open, is_kept): (&OpenTunnelListener, &bool)| {
                    !is_kept && open.planned.listen.value == planned.listen.value
                };
                let index = open.into_iter().position(is_same)?;
                is_kept[index] = true;
                Some(index)
            })
            .collect();
        let new: Vec<&PlannedTunnel> = planned
            .iter()
            .zip(&kept)
            .filter(|(_, kept)| kept.is_none())
            .map(|(planned, _)| planned)
            .collect();
        self.check_inherited_sockets(&new)?;
        let mut opened = self.open_all(&new)?.into_iter();
        let mut changes = ListenerChanges::default();
        let mut old: Vec<Option<OpenTunnelListener>> = self.open.drain(..).map(Some).collect();
        for (planned, kept) in planned.iter().zip(kept) {
            let listener = match kept.and_then(|index| old[index].take()) {
                Some(listener) => Some(listener.reconfigured(planned)),
                None => opened
                    .next()
                    .inspect(|new| changes.opened.extend(new.banner_lines())),
            };
            self.open.extend(listener);
        }
        for old in old.into_iter().flatten() {
            old.listener.close();
            changes.closed.push(listener_name(&old.addresses));
        }
        Ok(changes)
    }

    pub(super) fn all(&self) -> &[OpenTunnelListener] {
        &self.open
    }

    pub(super) fn addresses(&self) -> Vec<BoundAddress> {
        let all = self.open.iter().flat_map(|open| &open.addresses);
        all.cloned().collect()
    }

    /// Inherited sockets that no listener uses.
    pub(super) fn unused_sockets(&self) -> Vec<String> {
        self.inherited.names()
    }

    /// Checks that the inherited sockets that these need are there. Call it before any is taken: that cannot be undone.
    fn check_inherited_sockets(&self, planned: &[&PlannedTunnel]) -> Result<(), CommandError> {
        let wanted = planned.iter().map(|planned| &planned.listen.value);
        missing_socket(wanted, self.inherited.names())
            .map_or(Ok(()), |error| Err(listen_error(error)))
    }

    /// Opens all of these, or none.
    fn open_all(
        &mut self,
        planned: &[&PlannedTunnel],
    ) -> Result<Vec<OpenTunnelListener>, CommandError> {
        let bound = self.bind_all(planned)?;
        let mut opened: Vec<OpenTunnelListener> = Vec::new();
        for (planned, bound) in planned.iter().zip(bound) {
            match self.start(planned, bound) {
                Ok(listener) => opened.push(listener),
                Err(error) => {
                    opened.iter().for_each(|opened| opened.listener.close());
                    return Err(error);
                }
            }
        }
        Ok(opened)
    }

    /// Binds all of these, or none.
    fn bind_all(
        &mut self,
        planned: &[&PlannedTunnel],
    ) -> Result<Vec<Vec<BoundListener>>, CommandError> {
        let used_twice = |address: &ListenAddress, before| {
            used_twice_error("", address, before, "every interface includes this one")
        };
        let replaced_hint = "restart haul to replace a listener by one that it overlaps";
        let open = self.addresses();
        let mut used = Vec::new();
        let mut all: Vec<Vec<BoundListener>> = planned.iter().map(|_| Vec::new()).collect();
        let is_inherited =
            |index: &usize| matches!(planned[*index].listen.value, ListenAddress::Systemd { .. });
        // Inherited sockets come last: one that was taken is lost if another address cannot be bound.
        let mut order: Vec<usize> = (0..planned.len()).collect();
        order.sort_by_key(is_inherited);
        for index in order {
            let Sourced { value, source } = &planned[index].listen;
            let bound =
                bind(value, &BindOptions::default(), &mut self.inherited).map_err(|error| {
                    let error = match &error {
                        _ if is_taken_by_this_process(&error, &open) => {
                            used_twice(value, "tunnel").with_hint(replaced_hint)
                        }
                        _ if is_taken_by_this_process(&error, &used) => used_twice(value, "tunnel"),
                        _ if is_taken_by_this_process(&error, &self.other_addresses) => {
                            used_twice(value, "--admin")
                        }
                        _ => listen_error(error),
                    };
                    error.at_source(source)
                })?;
            used.extend(bound_addresses(&bound));
            all[index] = bound;
        }
        Ok(all)
    }

    /// Starts to accept clients.
    fn start(
        &self,
        planned: &PlannedTunnel,
        bound: Vec<BoundListener>,
    ) -> Result<OpenTunnelListener, CommandError> {
        let addresses = bound_addresses(&bound);
        let tunnel = tunnel_config(planned, &listener_name(&addresses));
        let mut listeners: Vec<Listener> = Vec::new();
        let mut files = Vec::new();
        for bound in bound {
            listeners.extend(bound.listeners);
            files.push(bound.file);
        }
        let listener = self
            .engine
            .listen(listeners, tunnel)
            .map_err(|error| CommandError::local(format!("cannot accept connections: {error}")))?;
        Ok(OpenTunnelListener {
            planned: planned.clone(),
            addresses,
            description: TunnelDescription::new(planned),
            listener,
            _files: files,
        })
    }
}

impl OpenTunnelListener {
    fn reconfigured(self, planned: &PlannedTunnel) -> Self {
        let name = listener_name(&self.addresses);
        self.listener.reconfigure(tunnel_config(planned, &name));
        Self {
            planned: planned.clone(),
            description: TunnelDescription::new(planned),
            ..self
        }
    }

    /// `127.0.0.1:9993 -> imap.example.com:993 via proxy:3128`, for each address.
    pub(super) fn banner_lines(&self) -> impl Iterator<Item = String> {
        let TunnelDescription { to, route, .. } = &self.description;
        self.addresses
            .iter()
            .map(move |address| format!("{address}{to} {route}"))
    }
}

impl TunnelDescription {
    fn new(planned: &PlannedTunnel) -> Self {
        let target = planned.target();
        let has_tls = planned.upstream.upstream.has_target_tls();
        Self {
            to: match (target, has_tls) {
                (Some(target), false) => format!(" -> {target}"),
                (Some(target), true) => format!(" -> {target} (TLS)"),
                (None, false) => format!(" ({})", planned.kind),
                (None, true) => format!(" ({}, TLS with targets)", planned.kind),
            },
            route: planned.upstream.route_text(target),
            is_proxy: target.is_none(),
        }
    }
}

/// A listener's name in logs and tables.
fn listener_name(addresses: &[BoundAddress]) -> String {
    let names: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    names.join(",")
}

/// The configuration of the engine's tunnel.
fn tunnel_config(planned: &PlannedTunnel, name: &str) -> TunnelConfig {
    let upstream = &planned.upstream.upstream;
    let warm = |options, target: &haul_net::Target| {
        Arc::new(WarmPool::new(Arc::clone(upstream), target.clone(), options))
    };
    TunnelConfig {
        name: name.into(),
        kind: planned.kind.clone(),
        upstream: Arc::clone(upstream),
        warm_pool: planned
            .warm
            .zip(planned.target())
            .map(|(options, target)| warm(options, target)),
        timeouts: planned.timeouts,
    }
}

/// The first inherited socket that is needed and not among these, or not any more after those before it.
fn missing_socket<'a>(
    wanted: impl IntoIterator<Item = &'a ListenAddress>,
    mut names: Vec<String>,
) -> Option<ListenError> {
    wanted.into_iter().find_map(|address| {
        let ListenAddress::Systemd { name: wanted } = address else {
            return None;
        };
        let is_meant = |name: &str| wanted.as_deref().is_none_or(|wanted| wanted == name);
        let count_before = names.len();
        names.retain(|name| !is_meant(name));
        (names.len() == count_before).then(|| ListenError::NotInherited {
            address: address.clone(),
            others: names.clone(),
        })
    })
}

/// The error about an address that haul cannot listen on.
fn listen_error(error: ListenError) -> CommandError {
    let is_nothing =
        matches!(&error, ListenError::NotInherited { others, .. } if others.is_empty());
    let command_error = CommandError::from(error);
    if is_nothing {
        command_error.with_hint(
            "systemd needs a .socket unit; to try it: systemd-socket-activate -l 9993 haul tunnel ... systemd:HOST:PORT",
        )
    } else {
        command_error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_inherited_socket_is_for_one_listener() {
        let missing = |wanted: &[&str], there: &[&str]| {
            let wanted: Vec<ListenAddress> =
                wanted.iter().map(|text| text.parse().unwrap()).collect();
            let names = there.iter().map(ToString::to_string).collect();
            missing_socket(&wanted, names).map(|error| match error {
                ListenError::NotInherited { address, others } => (address.to_string(), others),
                other => panic!("{other:?}"),
            })
        };
        let lacks = |name: &str, others: &[&str]| {
            let others = others.iter().map(ToString::to_string).collect();
            Some((name.to_owned(), others))
        };
        assert_eq!(missing(&["9993"], &[]), None);
        assert_eq!(missing(&["systemd:a", "systemd:b"], &["b", "a"]), None);
        assert_eq!(missing(&["systemd"], &["a", "b"]), None);
        assert_eq!(
            missing(&["systemd:a", "systemd:c"], &["a", "b"]),
            lacks("systemd:c", &["b"])
        );
        assert_eq!(
            missing(&["systemd:a", "systemd:a"], &["a"]),
            lacks("systemd:a", &[])
        );
        assert_eq!(
            missing(&["systemd", "systemd:a"], &["a"]),
            lacks("systemd:a", &[])
        );
    }
}
