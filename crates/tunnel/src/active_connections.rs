//! The connections that are open now.
//!
//! A connection has one record in the log, and a client of an HTTP listener one for each of its requests. [`ActiveConnection`] holds the
//! next record, and counts the bytes of all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use haul_net::Target;
use tokio::time::Instant;

use crate::config::{ClientAddress, TunnelConfig};
use crate::log_record::TunnelRecord;
use crate::relay::RelayedBytes;
use crate::status::ConnectionStatus;

/// One open connection of a client.
#[derive(Debug)]
pub(crate) struct ActiveConnection {
    pub(crate) config: Arc<TunnelConfig>,
    client: ClientAddress,
    /// Bytes of its whole life.
    bytes: RelayedBytes,
    next_record: Mutex<PendingLogRecord>,
}

/// What the next line of the log will contain.
#[derive(Debug)]
struct PendingLogRecord {
    /// Whether there is to be a line. Between two requests there is nothing to log.
    is_wanted: bool,
    /// For people.
    started_at: SystemTime,
    /// For durations.
    started: Instant,
    target: Option<Target>,
    via: Option<Arc<str>>,
    /// Bytes to the target and to the client that earlier records have.
    recorded_bytes: (u64, u64),
}

impl ActiveConnection {
    pub(crate) fn new(config: Arc<TunnelConfig>, client: ClientAddress) -> Self {
        Self {
            config,
            client,
            bytes: RelayedBytes::default(),
            next_record: Mutex::new(PendingLogRecord {
                is_wanted: true,
                started_at: SystemTime::now(),
                started: Instant::now(),
                target: None,
                via: None,
                recorded_bytes: (0, 0),
            }),
        }
    }

    /// A request of an HTTP client begins: what was known of the one before no longer holds.
    pub(crate) fn begin_request(&self) {
        let mut record = self.lock();
        *record = PendingLogRecord {
            is_wanted: true,
            started_at: SystemTime::now(),
            started: Instant::now(),
            target: None,
            via: None,
            recorded_bytes: record.recorded_bytes,
        };
    }

    /// The client has named its target.
    pub(crate) fn set_target(&self, target: &Target) {
        self.lock().target = Some(target.clone());
    }

    /// The target was reached through these proxies.
    pub(crate) fn set_via(&self, via: &Arc<str>) {
        self.lock().via = Some(Arc::clone(via));
    }

    pub(crate) fn bytes(&self) -> &RelayedBytes {
        &self.bytes
    }

    /// Bytes to the target and to the client that no record has yet.
    pub(crate) fn unrecorded_bytes(&self) -> (u64, u64) {
        self.lock().unrecorded(&self.bytes)
    }

    /// Takes the next record, and whether there is to be a line for it. Its bytes are in no later record.
    pub(crate) fn take_record(&self) -> (TunnelRecord, bool) {
        let mut next = self.lock();
        let (up, down) = next.unrecorded(&self.bytes);
        let record = TunnelRecord {
            started_at: next.started_at,
            listener: Arc::clone(&self.config.name),
            client: self.client,
            target: next.target.as_ref().map(ToString::to_string),
            via: next.via.clone(),
            up,
            down,
            duration: next.started.elapsed(),
        };
        next.recorded_bytes = (next.recorded_bytes.0 + up, next.recorded_bytes.1 + down);
        (record, std::mem::take(&mut next.is_wanted))
    }

    /// As `haul tunnel status` shows it.
    pub(crate) fn status(&self, id: u64) -> ConnectionStatus {
        let next = self.lock();
        let (up, down) = next.unrecorded(&self.bytes);
        ConnectionStatus {
            id,
            listen: self.config.name.to_string(),
            client: self.client.to_string(),
            target: next.target.as_ref().map(ToString::to_string),
            via: next.via.as_deref().map(str::to_owned),
            up,
            down,
            ms: u64::try_from(next.started.elapsed().as_millis()).unwrap_or(u64::MAX),
        }
    }

    fn lock(&self) -> MutexGuard<'_, PendingLogRecord> {
        self.next_record
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingLogRecord {
    fn unrecorded(&self, bytes: &RelayedBytes) -> (u64, u64) {
        let (up, down) = self.recorded_bytes;
        (
            bytes.up().saturating_sub(up),
            bytes.down().saturating_sub(down),
        )
    }
}

/// All open connections, each with a number of its own.
#[derive(Debug, Default)]
pub(crate) struct ActiveConnections(Mutex<ActiveConnectionsTable>);

#[derive(Debug, Default)]
struct ActiveConnectionsTable {
    /// Numbers are never given twice.
    next_id: u64,
    connections: HashMap<u64, Arc<ActiveConnection>>,
}

/// Removes a connection from the table when it is dropped.
#[derive(Debug)]
pub(crate) struct ActiveConnectionGuard {
    table: Arc<ActiveConnections>,
    id: u64,
}

impl ActiveConnections {
    /// Adds a connection, unless there are `limit` already.
    pub(crate) fn insert(
        self: &Arc<Self>,
        connection: &Arc<ActiveConnection>,
        limit: usize,
    ) -> Option<ActiveConnectionGuard> {
        let mut table = self.lock();
        if table.connections.len() >= limit {
            return None;
        }
        let id = table.next_id;
        table.next_id += 1;
        table.connections.insert(id, Arc::clone(connection));
        Some(ActiveConnectionGuard {
            table: Arc::clone(self),
            id,
        })
    }

    pub(crate) fn count(&self) -> usize {
        self.lock().connections.len()
    }

    /// Calls `f` with all connections while the table is locked.
    pub(crate) fn with_all<T>(
        &self,
        f: impl FnOnce(&mut dyn Iterator<Item = &Arc<ActiveConnection>>) -> T,
    ) -> T {
        f(&mut self.lock().connections.values())
    }

    /// As `haul tunnel status` shows them, the oldest first.
    pub(crate) fn statuses(&self) -> Vec<ConnectionStatus> {
        let table = self.lock();
        let connections = table.connections.iter();
        let mut all: Vec<_> = connections
            .map(|(id, connection)| (*id, Arc::clone(connection)))
            .collect();
        drop(table);
        all.sort_unstable_by_key(|(id, _)| *id);
        all.into_iter()
            .map(|(id, connection)| connection.status(id))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, ActiveConnectionsTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ActiveConnectionGuard {
    fn drop(&mut self) {
        let connections = &mut self.table.lock().connections;
        connections.remove(&self.id);
        // What many connections at once have needed is not kept for ever.
        let (count, capacity) = (connections.len(), connections.capacity());
        if capacity > 1024 && count < capacity / 8 {
            connections.shrink_to(count * 2);
        }
    }
}
