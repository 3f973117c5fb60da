//! Look-ups under way: each in a task of its own, so that what it comes to is known though nobody waited for the end of it.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::name_servers::{NameServerClient, NameServerError};
use super::{FAILURE_TTL, LookupError, LookupResult, system_resolver};
use crate::connector::config::ResolverChoice;

/// How many are looked up at once: name servers at home drop what comes in larger heaps, and the system's resolver takes a
/// thread for each.
pub(super) const MAX_LOOKUPS: usize = 64;

/// How far a name's look-up is.
#[derive(Debug, Clone)]
pub(super) enum LookupState {
    /// Others go first.
    Queued,
    /// Somebody is asked.
    Running,
    /// It is over. What came holds until then, which counts from when it came: the usual failure takes longer to come than it
    /// is remembered.
    Finished(LookupResult, Instant),
}

/// Who is asked, and for how long.
#[derive(Debug)]
struct LookupContext {
    /// What is to be asked, as it was set.
    settings: (ResolverChoice, Vec<SocketAddr>),
    /// The resolver of our own, if it is to be asked; made at the first look-up.
    name_servers: OnceLock<Option<NameServerClient>>,
    /// Look-ups at once. A thread of the system's resolver keeps its permit until it ends, whoever has given it up.
    permits: Arc<Semaphore>,
    /// The longest that one may take, once it has begun.
    limit: Duration,
}

/// Asks for names. Dropped, it gives up what is under way.
#[derive(Debug)]
pub(super) struct NameLookups {
    context: Arc<LookupContext>,
    tasks: Mutex<JoinSet<()>>,
}

impl NameLookups {
    /// `connect_timeout` is what a whole connection may take: who waits for one is to see what became of its name.
    pub(super) fn new(
        settings: (ResolverChoice, Vec<SocketAddr>),
        connect_timeout: Duration,
    ) -> Self {
        let whom = LookupContext {
            settings,
            name_servers: OnceLock::new(),
            permits: Arc::new(Semaphore::new(MAX_LOOKUPS)),
            // The rest is for the way there.
            limit: connect_timeout / 4 * 3,
        };
        Self {
            context: Arc::new(whom),
            tasks: Mutex::default(),
        }
    }

    /// Begins a look-up, and tells how far it is. Where nobody wants it any more when its turn comes, it ends without a word.
    pub(super) fn start(&self, host: String, told: watch::Sender<LookupState>) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(Arc::clone(&self.context).look_up(host, told));
    }
}

impl LookupContext {
    async fn look_up(self: Arc<Self>, host: String, told: watch::Sender<LookupState>) {
        // It is never closed.
        let Ok(permit) = Arc::clone(&self.permits).acquire_owned().await else {
            return;
        };
        // One receiver is that of the cache.
        if told.receiver_count() <= 1 {
            return;
        }
        told.send_replace(LookupState::Running);
        let asked = timeout(self.limit, self.resolve(&host, permit)).await;
        let answer = asked.unwrap_or_else(|_| Err(LookupError::transient(io::ErrorKind::TimedOut)));
        let life = answer.as_ref().map_or(FAILURE_TTL, |found| found.ttl);
        told.send_replace(LookupState::Finished(answer, Instant::now() + life));
    }

    /// Asks whoever is to be asked.
    async fn resolve(&self, host: &str, permit: system_resolver::LookupPermit) -> LookupResult {
        let (resolver, servers) = &self.settings;
        let own = self
            .name_servers
            .get_or_init(|| NameServerClient::new(*resolver, servers));
        let Some(own) = own else {
            return system_resolver::resolve(host, permit).await;
        };
        match own.resolve(host).await {
            Ok(found) => Ok(found),
            Err(NameServerError::Final(failure)) => Err(failure),
            Err(NameServerError::LeaveToSystem | NameServerError::Unavailable) => {
                system_resolver::resolve(host, permit).await
            }
        }
    }
}

#[cfg(test)]
impl NameLookups {
    /// Lets nobody begin until this is dropped.
    pub(super) async fn block_lookups(&self) -> impl Drop {
        let all = u32::try_from(MAX_LOOKUPS).unwrap();
        let permits = Arc::clone(&self.context.permits);
        permits.acquire_many_owned(all).await.unwrap()
    }

    /// How many tasks there are, those among them that nobody has looked after yet.
    pub(super) fn task_count(&self) -> usize {
        self.tasks.lock().unwrap().len()
    }
}
