//! Running lookups. Each is a task of its own, so that its result is remembered also when no connection waits for it any more.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::name_servers::{NameServerClient, NameServerError};
use super::{FAILURE_TTL, LookupError, LookupResult, system_resolver};
use crate::connector::config::{ConnectorConfig, ResolverChoice};

/// How many names are looked up at once: name servers at home drop packets of larger bursts, and the system's resolver takes a
/// thread for each name.
pub(super) const MAX_LOOKUPS: usize = 64;

#[derive(Debug, Clone)]
pub(super) enum LookupState {
    /// It waits for other lookups to end.
    Queued,
    /// A resolver is asked.
    Running,
    /// The result, and when it expires. The time counts from the end of the lookup: a typical failure takes longer than it is
    /// remembered.
    Finished(LookupResult, Instant),
}

/// Runs lookups. Dropped, it abandons those that run.
#[derive(Debug)]
pub(super) struct NameLookups {
    context: Arc<LookupContext>,
    tasks: Mutex<JoinSet<()>>,
}

/// What each lookup needs.
#[derive(Debug)]
struct LookupContext {
    resolver: ResolverChoice,
    dns_servers: Vec<SocketAddr>,
    /// The built-in resolver, if the settings and the system allow it; made at the first lookup.
    name_servers: OnceLock<Option<NameServerClient>>,
    /// A thread of the system's resolver keeps its permit until it ends, also after its lookup was abandoned.
    permits: Arc<Semaphore>,
    /// The longest that a lookup may run.
    timeout: Duration,
}

impl NameLookups {
    pub(super) fn new(config: &ConnectorConfig) -> Self {
        let context = LookupContext {
            resolver: config.resolver,
            dns_servers: config.dns_servers.clone(),
            name_servers: OnceLock::new(),
            permits: Arc::new(Semaphore::new(MAX_LOOKUPS)),
            // Less than connecting may take, so that a connection that waits sees the lookup's error and not its own timeout.
            timeout: config.connect_timeout / 4 * 3,
        };
        Self {
            context: Arc::new(context),
            tasks: Mutex::default(),
        }
    }

    /// Starts a lookup, which reports its state to `state`. It is abandoned if no connection waits for it when its turn comes.
    pub(super) fn start(&self, host: String, state: watch::Sender<LookupState>) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(Arc::clone(&self.context).look_up(host, state));
    }

    /// Keeps all lookups queued until the result is dropped.
    #[cfg(test)]
    pub(super) async fn block_lookups(&self) -> impl Drop {
        let all = u32::try_from(MAX_LOOKUPS).unwrap();
        let permits = Arc::clone(&self.context.permits);
        permits.acquire_many_owned(all).await.unwrap()
    }

    /// How many tasks there are, including those that have ended since the last lookup started.
    #[cfg(test)]
    pub(super) fn task_count(&self) -> usize {
        self.tasks.lock().unwrap().len()
    }
}

impl LookupContext {
    async fn look_up(self: Arc<Self>, host: String, state: watch::Sender<LookupState>) {
        // The semaphore is never closed.
        let Ok(permit) = Arc::clone(&self.permits).acquire_owned().await else {
            return;
        };
        // One receiver is the cache's.
        if state.receiver_count() <= 1 {
            return;
        }
        state.send_replace(LookupState::Running);
        let result = timeout(self.timeout, self.resolve(&host, permit)).await;
        let result =
            result.unwrap_or_else(|_| Err(LookupError::transient(io::ErrorKind::TimedOut)));
        let ttl = result.as_ref().map_or(FAILURE_TTL, |found| found.ttl);
        state.send_replace(LookupState::Finished(result, Instant::now() + ttl));
    }

    async fn resolve(&self, host: &str, permit: system_resolver::LookupPermit) -> LookupResult {
        let name_servers = self
            .name_servers
            .get_or_init(|| NameServerClient::new(self.resolver, &self.dns_servers));
        let Some(name_servers) = name_servers else {
            return system_resolver::resolve(host, permit).await;
        };
        match name_servers.resolve(host).await {
            Ok(found) => Ok(found),
            Err(NameServerError::Final(error)) => Err(error),
            Err(NameServerError::LeaveToSystem | NameServerError::Unavailable) => {
                system_resolver::resolve(host, permit).await
            }
        }
    }
}
