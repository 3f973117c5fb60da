//! TLS sessions that are remembered from one load to the next. rustls keeps eight tickets for a server, which are used up when a hundred
//! connections begin at once: the others would be full handshakes under the name of resumed ones.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::{
    ClientSessionMemoryCache, ClientSessionStore, Resumption, Tls12ClientSessionValue,
    Tls13ClientSessionValue,
};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, NamedGroup};

/// The most tickets of a server.
const MAX_TICKETS: usize = 4096;

/// Servers of whose TLS 1.2 sessions and key exchanges something is remembered.
const SERVERS: usize = 256;

/// The settings, with a memory for sessions. Loads with the same settings share it.
#[must_use]
pub fn with_session_memory(config: &ClientConfig) -> Arc<ClientConfig> {
    let mut config = config.clone();
    config.resumption = Resumption::store(Arc::new(SessionMemory {
        others: ClientSessionMemoryCache::new(SERVERS),
        tickets: Mutex::default(),
    }));
    Arc::new(config)
}

/// Tickets of TLS 1.3, each of which is used once (RFC 8446 C.4), the newest first; and what rustls remembers of TLS 1.2.
#[derive(Debug)]
struct SessionMemory {
    others: ClientSessionMemoryCache,
    tickets: Mutex<HashMap<ServerName<'static>, Vec<Tls13ClientSessionValue>>>,
}

impl ClientSessionStore for SessionMemory {
    fn set_kx_hint(&self, server: ServerName<'static>, group: NamedGroup) {
        self.others.set_kx_hint(server, group);
    }

    fn kx_hint(&self, server: &ServerName<'_>) -> Option<NamedGroup> {
        self.others.kx_hint(server)
    }

    fn set_tls12_session(&self, server: ServerName<'static>, session: Tls12ClientSessionValue) {
        self.others.set_tls12_session(server, session);
    }

    fn tls12_session(&self, server: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.others.tls12_session(server)
    }

    fn remove_tls12_session(&self, server: &ServerName<'static>) {
        self.others.remove_tls12_session(server);
    }

    fn insert_tls13_ticket(&self, server: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        let mut tickets_by_server = self.tickets.lock().unwrap_or_else(PoisonError::into_inner);
        let tickets = tickets_by_server.entry(server).or_default();
        if tickets.len() < MAX_TICKETS {
            tickets.push(ticket);
        }
    }

    fn take_tls13_ticket(&self, server: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        let mut tickets = self.tickets.lock().unwrap_or_else(PoisonError::into_inner);
        tickets.get_mut(server)?.pop()
    }
}
