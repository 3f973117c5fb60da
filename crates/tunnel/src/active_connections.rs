//! The connections that there are now.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::SystemTime;

use haul_net::Target;
use tokio::time::Instant;

use crate::relay::RelayedBytes;
use crate::session::{ClientAddress, TunnelConfig};

/// A connection that is there.
#[derive(Debug)]
pub(crate) struct ActiveConnection {
    pub(crate) tunnel: Arc<TunnelConfig>,
    pub(crate) peer: ClientAddress,
    /// When it came, for people.
    pub(crate) when: SystemTime,
    /// When it came, for what is counted.
    pub(crate) since: Instant,
    /// Where it wants to go, once it has said so.
    target: OnceLock<Target>,
    /// By which way it is there.
    via: OnceLock<Arc<str>>,
    /// What has gone which way.
    moved: RelayedBytes,
}

impl ActiveConnection {
    pub(crate) fn new(tunnel: Arc<TunnelConfig>, peer: ClientAddress) -> Self {
        Self {
            tunnel,
            peer,
            when: SystemTime::now(),
            since: Instant::now(),
            target: OnceLock::new(),
            via: OnceLock::new(),
            moved: RelayedBytes::default(),
        }
    }

    /// It has said where to.
    pub(crate) fn asked(&self, target: &Target) {
        let _ = self.target.set(target.clone());
    }

    /// It is there.
    pub(crate) fn reached(&self, via: &Arc<str>) {
        let _ = self.via.set(Arc::clone(via));
    }

    pub(crate) fn target(&self) -> Option<&Target> {
        self.target.get()
    }

    pub(crate) fn via(&self) -> Option<&str> {
        self.via.get().map(AsRef::as_ref)
    }

    pub(crate) fn moved(&self) -> &RelayedBytes {
        &self.moved
    }
}

/// All of them, by a number each.
#[derive(Debug, Default)]
pub(crate) struct ActiveConnections(Mutex<ActiveConnectionsTable>);

#[derive(Debug, Default)]
struct ActiveConnectionsTable {
    /// Numbers are given once.
    next: u64,
    entries: HashMap<u64, Arc<ActiveConnection>>,
}

/// A connection's place in the table, which it leaves when this is dropped.
#[derive(Debug)]
pub(crate) struct ActiveConnectionGuard {
    live: Arc<ActiveConnections>,
    number: u64,
}

impl ActiveConnections {
    /// Enters a connection, unless there are so many already.
    pub(crate) fn enter(
        self: &Arc<Self>,
        entry: &Arc<ActiveConnection>,
        most: usize,
    ) -> Option<ActiveConnectionGuard> {
        let mut table = self.lock();
        if table.entries.len() >= most {
            return None;
        }
        let number = table.next;
        table.next += 1;
        table.entries.insert(number, Arc::clone(entry));
        Some(ActiveConnectionGuard {
            live: Arc::clone(self),
            number,
        })
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.lock().entries.len()
    }

    /// Looks at all of them while none comes or goes.
    pub(crate) fn standing<T>(
        &self,
        look: impl FnOnce(&mut dyn Iterator<Item = &Arc<ActiveConnection>>) -> T,
    ) -> T {
        look(&mut self.lock().entries.values())
    }

    /// All that are there now, the oldest first, each with its number.
    pub(crate) fn all(&self) -> Vec<(u64, Arc<ActiveConnection>)> {
        let table = self.lock();
        let mut all: Vec<_> = table
            .entries
            .iter()
            .map(|(number, entry)| (*number, Arc::clone(entry)))
            .collect();
        drop(table);
        all.sort_unstable_by_key(|(number, _)| *number);
        all
    }

    fn lock(&self) -> MutexGuard<'_, ActiveConnectionsTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ActiveConnectionGuard {
    /// Leaves the table, and does what has to be seen together with that.
    pub(crate) fn leave(self, and: impl FnOnce()) {
        let live = Arc::clone(&self.live);
        let mut table = live.lock();
        table.remove(self.number);
        and();
        drop(table);
        // It has left.
        drop(self);
    }
}

impl Drop for ActiveConnectionGuard {
    fn drop(&mut self) {
        self.live.lock().remove(self.number);
    }
}

impl ActiveConnectionsTable {
    fn remove(&mut self, number: u64) {
        let table = self;
        table.entries.remove(&number);
        // What many at once have needed is not kept for ever.
        let (count, room) = (table.entries.len(), table.entries.capacity());
        if room > 1024 && count < room / 8 {
            table.entries.shrink_to(count * 2);
        }
    }
}
