//! The listeners of a process, and the tunnels that they lead into: opened at the start, and brought in line when settings are read again
//! ([`following`]).

mod reload;

use std::sync::Arc;

use haul_service::listen::{
    BindOptions, BoundAddress, BoundListener, InheritedSockets, ListenAddress, ListenError,
    Listener, SocketFile, bind,
};
use haul_tunnel::{TunnelConfig, TunnelEngine, TunnelListener, WarmPool};

use crate::commands::service::address_conflicts::{is_taken_by_this_process, used_twice_error};
use crate::commands::service::addresses::bound_addresses;
use crate::commands::service::command_error::CommandError;
use crate::settings::PlannedTunnel;
pub(super) use reload::{ReloadError, ReloadOutcome};

/// Everything that is listened on.
#[derive(Debug)]
pub(super) struct TunnelListenerSet {
    /// Who lets clients in.
    engine: TunnelEngine,
    /// Those that are open, in the order of their settings.
    open: Vec<OpenTunnelListener>,
    /// Sockets that were handed over and that no address is yet.
    inherited: InheritedSockets,
    /// Where the process listens besides: its admin endpoint.
    other_addresses: Vec<BoundAddress>,
}

/// An address that is listened on.
#[derive(Debug)]
pub(super) struct OpenTunnelListener {
    /// As it was asked for, with where it leads.
    planned: PlannedTunnel,
    /// Where that came to be.
    pub(super) addresses: Vec<BoundAddress>,
    /// What there is to say of it.
    pub(super) description: TunnelDescription,
    listener: Arc<TunnelListener>,
    /// Go with it.
    files: Vec<Option<SocketFile>>,
}

/// A tunnel in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TunnelDescription {
    /// Where it leads, after the address: ` -> host:port`, ` -> host:port (TLS)`, ` (SOCKS5)`.
    pub(super) to: String,
    /// `via proxy:3128`, `directly`.
    pub(super) route: String,
    /// Whether its clients name their targets.
    pub(super) is_proxy: bool,
}

impl TunnelListenerSet {
    /// None is open yet.
    pub(super) fn new(engine: TunnelEngine, inherited: InheritedSockets) -> Self {
        Self {
            engine,
            open: Vec::new(),
            inherited,
            other_addresses: Vec::new(),
        }
    }

    /// The process listens here as well: it is no other server that has taken these.
    pub(super) fn set_other_addresses(&mut self, besides: Vec<BoundAddress>) {
        self.other_addresses = besides;
    }

    /// Opens them all, or none.
    pub(super) fn open(&mut self, planned: &[PlannedTunnel]) -> Result<(), CommandError> {
        let each: Vec<&PlannedTunnel> = planned.iter().collect();
        self.check_inherited_sockets(&each)?;
        self.open = self.open_listeners(&each, &[])?;
        Ok(())
    }

    /// Those that are open.
    pub(super) fn all(&self) -> &[OpenTunnelListener] {
        &self.open
    }

    /// Where they are.
    pub(super) fn addresses(&self) -> Vec<BoundAddress> {
        let open = self.open.iter().filter(|open| !open.listener.is_closed());
        let all = open.flat_map(|open| &open.addresses);
        all.cloned().collect()
    }

    /// Sockets that were handed over in vain.
    pub(super) fn unused_sockets(&self) -> Vec<String> {
        self.inherited.names()
    }

    /// Whether the sockets that these want of those handed over are all there. To be asked before any is taken: that cannot be undone.
    fn check_inherited_sockets(&self, planned: &[&PlannedTunnel]) -> Result<(), CommandError> {
        let wanted = planned.iter().map(|planned| &planned.listen);
        missing_socket(wanted, self.inherited.names())
            .map_or(Ok(()), |error| Err(listen_error(error)))
    }

    /// Listens on all of these, beside some that are open already, and lets clients in; or on none.
    fn open_listeners(
        &mut self,
        planned: &[&PlannedTunnel],
        beside: &[OpenTunnelListener],
    ) -> Result<Vec<OpenTunnelListener>, CommandError> {
        let mut taken = self.addresses();
        taken.extend(
            beside
                .iter()
                .flat_map(|open| open.addresses.iter().cloned()),
        );
        let bound = self.bind(planned, taken)?;
        let mut begun: Vec<OpenTunnelListener> = Vec::new();
        for (planned, bound) in planned.iter().zip(bound) {
            match self.start(planned, bound) {
                Ok(opened) => begun.push(opened),
                Err(trouble) => {
                    begun.iter().for_each(|opened| opened.listener.close());
                    return Err(trouble);
                }
            }
        }
        Ok(begun)
    }

    /// Listens on all of these, or on none.
    fn bind(
        &mut self,
        planned: &[&PlannedTunnel],
        mut taken: Vec<BoundAddress>,
    ) -> Result<Vec<Vec<BoundListener>>, CommandError> {
        let mut all: Vec<Vec<BoundListener>> = planned.iter().map(|_| Vec::new()).collect();
        // Sockets that were handed over come last: what was taken of them is gone if another address cannot be had.
        let is_handed = |at: &usize| matches!(planned[*at].listen, ListenAddress::Systemd { .. });
        let mut order: Vec<usize> = (0..planned.len()).collect();
        order.sort_by_key(is_handed);
        for at in order {
            let address = &planned[at].listen;
            let bound = bind(address, &BindOptions::default(), &mut self.inherited);
            let every = "every interface includes each of them";
            let bound = bound.map_err(|error| match &error {
                _ if is_taken_by_this_process(&error, &taken) => {
                    used_twice_error(("", address), "tunnel", every)
                }
                _ if is_taken_by_this_process(&error, &self.other_addresses) => {
                    used_twice_error(("", address), "--admin", every)
                }
                _ => listen_error(error),
            })?;
            taken.extend(bound_addresses(&bound));
            all[at] = bound;
        }
        Ok(all)
    }

    /// Lets clients in.
    fn start(
        &self,
        planned: &PlannedTunnel,
        bound: Vec<BoundListener>,
    ) -> Result<OpenTunnelListener, CommandError> {
        let locals = bound_addresses(&bound);
        let tunnel = tunnel_config(planned, &listener_name(&locals));
        let mut listeners: Vec<Listener> = Vec::new();
        let mut files = Vec::new();
        for bound in bound {
            listeners.extend(bound.listeners);
            files.push(bound.file);
        }
        let door = self.engine.listen(listeners, tunnel).map_err(|error| {
            CommandError::local(format!("cannot wait for connections: {error}"))
        })?;
        Ok(OpenTunnelListener {
            planned: planned.clone(),
            addresses: locals,
            description: TunnelDescription::new_description(planned),
            listener: door,
            files,
        })
    }
}

impl OpenTunnelListener {
    /// `127.0.0.1:9993 -> imap.example.com:993 via proxy:3128`, for each address.
    pub(super) fn banner_lines(&self) -> impl Iterator<Item = String> {
        let TunnelDescription { to, route: way, .. } = &self.description;
        self.addresses
            .iter()
            .map(move |local| format!("{local}{to} {way}"))
    }
}

impl TunnelDescription {
    fn new_description(planned: &PlannedTunnel) -> Self {
        let target = planned.target();
        let has_tls = planned.way.upstream.has_target_tls();
        Self {
            to: match (target, has_tls) {
                (Some(target), false) => format!(" -> {target}"),
                (Some(target), true) => format!(" -> {target} (TLS)"),
                (None, false) => format!(" ({})", planned.local),
                (None, true) => format!(" ({}, TLS with targets)", planned.local),
            },
            route: planned.way.to(target),
            is_proxy: target.is_none(),
        }
    }
}

/// What logs and tables call a listener.
fn listener_name(locals: &[BoundAddress]) -> String {
    let names: Vec<String> = locals.iter().map(ToString::to_string).collect();
    names.join(",")
}

/// What a listener does with its clients.
fn tunnel_config(planned: &PlannedTunnel, name: &str) -> TunnelConfig {
    let upstream = &planned.way.upstream;
    let warm = |options, target: &haul_net::Target| {
        Arc::new(WarmPool::new(Arc::clone(upstream), target.clone(), options))
    };
    TunnelConfig {
        name: name.into(),
        kind: planned.local.clone(),
        upstream: Arc::clone(upstream),
        warm_pool: planned
            .warm
            .zip(planned.target())
            .map(|(options, target)| warm(options, target)),
        timeouts: planned.options,
    }
}

/// The first that is wanted of handed sockets and is not among these, or no longer after those before it have taken theirs.
fn missing_socket<'a>(
    wanted: impl IntoIterator<Item = &'a ListenAddress>,
    mut names: Vec<String>,
) -> Option<ListenError> {
    wanted.into_iter().find_map(|address| {
        let ListenAddress::Systemd { name: wanted } = address else {
            return None;
        };
        let is_meant = |name: &str| wanted.as_deref().is_none_or(|wanted| wanted == name);
        let there_were = names.len();
        names.retain(|name| !is_meant(name));
        (names.len() == there_were).then(|| ListenError::NotHanded {
            address: address.clone(),
            others: names.clone(),
        })
    })
}

/// An address that cannot be listened on.
fn listen_error(error: ListenError) -> CommandError {
    let is_nothing = matches!(&error, ListenError::NotHanded { others, .. } if others.is_empty());
    let trouble = CommandError::from(error);
    match is_nothing {
        true => trouble.with_hint(
            "it is for services with a .socket unit; to try it: systemd-socket-activate -l 9993 haul tunnel ... systemd:HOST:PORT",
        ),
        false => trouble,
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
                ListenError::NotHanded { address, others } => (address.to_string(), others),
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
