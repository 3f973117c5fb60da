//! The listeners of a process. [`TunnelListenerSet::apply`] opens them at the start and changes them on a reload.

use std::io;
use std::sync::Arc;

use haul_service::listen::{
    BindOptions, BoundAddress, BoundListener, InheritedSockets, ListenAddress, ListenError,
    Listener, SocketFile, bind, bound_addresses, is_taken_by_this_process,
};

use crate::config::{ListenerKind, TunnelConfig, TunnelTimeouts};
use crate::engine::{TunnelEngine, TunnelListener};
use crate::upstream::Upstream;
use crate::warm_pool::{WarmPool, WarmPoolOptions};

/// A listener as settings have it.
#[derive(Debug, Clone)]
pub struct ListenerSettings {
    pub listen: ListenAddress,
    pub kind: ListenerKind,
    pub upstream: Arc<Upstream>,
    /// For a listener with a target of its own.
    pub warm: Option<WarmPoolOptions>,
    pub timeouts: TunnelTimeouts,
}

#[derive(Debug)]
pub struct TunnelListenerSet {
    engine: TunnelEngine,
    /// In the order of the settings.
    open: Vec<OpenTunnelListener>,
    /// Inherited sockets that no listener uses yet.
    inherited: InheritedSockets,
    /// Where the process listens as well.
    other_addresses: Vec<BoundAddress>,
}

#[derive(Debug)]
struct OpenTunnelListener {
    listen: ListenAddress,
    addresses: Vec<BoundAddress>,
    listener: Arc<TunnelListener>,
    /// Removed with the listener.
    _files: Vec<Option<SocketFile>>,
}

/// The changes of a reload.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ListenerChanges {
    /// Which of the settings have a new listener.
    pub opened: Vec<usize>,
    /// The names of listeners that were closed.
    pub closed: Vec<String>,
}

/// Why listeners cannot be changed.
#[derive(Debug, thiserror::Error)]
pub enum ListenerSetError {
    /// A socket was not handed over.
    #[error(transparent)]
    NotInherited(ListenError),
    #[error("cannot open a listener")]
    Bind {
        /// Which of the settings has the address.
        index: usize,
        /// What uses the address, if this process does.
        holder: Option<AddressHolder>,
        source: ListenError,
    },
    #[error("cannot accept connections")]
    Accept(#[source] io::Error),
}

/// What uses an address in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressHolder {
    /// A listener from before a reload.
    OpenListener,
    /// Another listener of the new settings.
    NewListener,
    /// Something that is no listener of a tunnel.
    OtherEndpoint,
}

impl TunnelListenerSet {
    /// Without listeners.
    #[must_use]
    pub fn new(engine: TunnelEngine, inherited: InheritedSockets) -> Self {
        Self {
            engine,
            open: Vec::new(),
            inherited,
            other_addresses: Vec::new(),
        }
    }

    /// Sets where the process listens as well: a conflict with these is no other server's.
    pub fn set_other_addresses(&mut self, addresses: Vec<BoundAddress>) {
        self.other_addresses = addresses;
    }

    /// Opens the listeners that are not open yet, then closes those that are not planned any more. Listeners that stay get their new
    /// targets; connections are not touched. On an error nothing has changed.
    pub fn apply(
        &mut self,
        planned: &[ListenerSettings],
    ) -> Result<ListenerChanges, ListenerSetError> {
        let mut is_kept = vec![false; self.open.len()];
        // Port 0 may be planned several times: each open listener is kept for one of them.
        let kept: Vec<Option<usize>> = planned
            .iter()
            .map(|planned| {
                let open = self.open.iter().zip(&is_kept);
                let is_same = |(open, is_kept): (&OpenTunnelListener, &bool)| {
                    !is_kept && open.listen == planned.listen
                };
                let index = open.into_iter().position(is_same)?;
                is_kept[index] = true;
                Some(index)
            })
            .collect();
        let new: Vec<usize> = (0..planned.len())
            .filter(|index| kept[*index].is_none())
            .collect();
        // Before any is taken: that cannot be undone.
        let wanted = new.iter().map(|index| &planned[*index].listen);
        if let Some(missing) = missing_socket(wanted, self.inherited.names()) {
            return Err(ListenerSetError::NotInherited(missing));
        }
        let mut opened = self.open_all(planned, &new)?.into_iter();
        let mut old: Vec<Option<OpenTunnelListener>> = self.open.drain(..).map(Some).collect();
        for (planned, kept) in planned.iter().zip(kept) {
            let listener = match kept.and_then(|index| old[index].take()) {
                Some(listener) => Some(listener.reconfigured(planned)),
                None => opened.next(),
            };
            self.open.extend(listener);
        }
        let closed = old.into_iter().flatten().map(|old| {
            old.listener.close();
            listener_name(&old.addresses)
        });
        Ok(ListenerChanges {
            closed: closed.collect(),
            opened: new,
        })
    }

    /// The addresses of each listener, in the order of the settings.
    pub fn addresses(&self) -> impl Iterator<Item = &[BoundAddress]> + Clone {
        self.open.iter().map(|open| open.addresses.as_slice())
    }

    /// Inherited sockets that no listener uses.
    #[must_use]
    pub fn unused_sockets(&self) -> Vec<String> {
        self.inherited.names()
    }

    /// Opens these of the settings, or none.
    fn open_all(
        &mut self,
        planned: &[ListenerSettings],
        indexes: &[usize],
    ) -> Result<Vec<OpenTunnelListener>, ListenerSetError> {
        let bound = self.bind_all(planned, indexes)?;
        let mut opened: Vec<OpenTunnelListener> = Vec::new();
        for (index, bound) in indexes.iter().zip(bound) {
            match self.start(&planned[*index], bound) {
                Ok(listener) => opened.push(listener),
                Err(error) => {
                    opened.iter().for_each(|opened| opened.listener.close());
                    return Err(ListenerSetError::Accept(error));
                }
            }
        }
        Ok(opened)
    }

    /// Binds these of the settings, or none.
    fn bind_all(
        &mut self,
        planned: &[ListenerSettings],
        indexes: &[usize],
    ) -> Result<Vec<Vec<BoundListener>>, ListenerSetError> {
        let open = self.addresses().flatten().cloned().collect::<Vec<_>>();
        let mut used = Vec::new();
        let mut all: Vec<Vec<BoundListener>> = indexes.iter().map(|_| Vec::new()).collect();
        let is_inherited = |position: &usize| {
            matches!(
                planned[indexes[*position]].listen,
                ListenAddress::Systemd { .. }
            )
        };
        // Inherited sockets come last: one that was taken is lost if another address cannot be bound.
        let mut order: Vec<usize> = (0..indexes.len()).collect();
        order.sort_by_key(is_inherited);
        for position in order {
            let index = indexes[position];
            let listen = &planned[index].listen;
            let result = bind(listen, &BindOptions::default(), &mut self.inherited);
            let bound = result.map_err(|source| {
                let holders = [
                    (AddressHolder::OpenListener, &open),
                    (AddressHolder::NewListener, &used),
                    (AddressHolder::OtherEndpoint, &self.other_addresses),
                ];
                let holder = holders
                    .into_iter()
                    .find(|(_, addresses)| is_taken_by_this_process(&source, addresses));
                ListenerSetError::Bind {
                    index,
                    holder: holder.map(|(holder, _)| holder),
                    source,
                }
            })?;
            used.extend(bound_addresses(&bound));
            all[position] = bound;
        }
        Ok(all)
    }

    /// Starts to accept clients.
    fn start(
        &self,
        planned: &ListenerSettings,
        bound: Vec<BoundListener>,
    ) -> io::Result<OpenTunnelListener> {
        let addresses = bound_addresses(&bound);
        let config = planned.config(&listener_name(&addresses));
        let mut listeners: Vec<Listener> = Vec::new();
        let mut files = Vec::new();
        for bound in bound {
            listeners.extend(bound.listeners);
            files.push(bound.file);
        }
        Ok(OpenTunnelListener {
            listen: planned.listen.clone(),
            addresses,
            listener: self.engine.listen(listeners, config)?,
            _files: files,
        })
    }
}

impl OpenTunnelListener {
    fn reconfigured(self, planned: &ListenerSettings) -> Self {
        let name = listener_name(&self.addresses);
        self.listener.reconfigure(planned.config(&name));
        self
    }
}

impl ListenerSettings {
    fn config(&self, name: &str) -> TunnelConfig {
        let target = match &self.kind {
            ListenerKind::Forward(target) => Some(target),
            ListenerKind::Socks | ListenerKind::Http => None,
        };
        let warm = self.warm.zip(target).map(|(options, target)| {
            Arc::new(WarmPool::new(
                Arc::clone(&self.upstream),
                target.clone(),
                options,
            ))
        });
        TunnelConfig {
            name: name.into(),
            kind: self.kind.clone(),
            upstream: Arc::clone(&self.upstream),
            warm_pool: warm,
            timeouts: self.timeouts,
        }
    }
}

/// A listener's name in logs and tables.
fn listener_name(addresses: &[BoundAddress]) -> String {
    let names: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    names.join(",")
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
