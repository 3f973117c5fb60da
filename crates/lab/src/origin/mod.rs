//! An origin under a script: conforming unless told otherwise, and then as wrong as told.
//!
//! A [`Resource`] has content, validators and a list of rules: *when* a request is like this, change the [`Reply`] like that.
//! Rules are plain functions, so that a test can break what nobody thought of; the common ones are in [`breakage`].
//! What was asked is recorded, so that a test can say what must not have been.

pub mod breakage;
mod reply;
mod request;
mod serve;

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::content::Content;
use crate::pace::Pace;
pub use reply::{Body, Framing, Reply};
pub use request::{Asked, When};

/// A rule's change.
type Change = Arc<dyn Fn(&Asked, &mut Reply) + Send + Sync>;

/// Something that an origin serves.
#[derive(Clone)]
pub struct Resource {
    pub(crate) content: Content,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) rules: Vec<(When, Change)>,
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resource")
            .field("content", &self.content)
            .field("rules", &self.rules.len())
            .finish_non_exhaustive()
    }
}

impl Resource {
    /// A resource with a strong entity tag.
    #[must_use]
    pub fn new(content: Content) -> Self {
        Self::bare(content).etag("\"v1\"")
    }

    /// One without any validator.
    #[must_use]
    pub fn bare(content: Content) -> Self {
        Self {
            content,
            headers: Vec::new(),
            rules: Vec::new(),
        }
    }

    /// Sets its entity tag, as it is written on the wire.
    #[must_use]
    pub fn etag(self, tag: &str) -> Self {
        self.header("ETag", tag)
    }

    /// Sets its Last-Modified.
    #[must_use]
    pub fn last_modified(self, date: &str) -> Self {
        self.header("Last-Modified", date)
    }

    /// Sets a header field of every answer with content.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers
            .retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Adds a rule; rules apply in the order they were added.
    #[must_use]
    pub fn rule(
        mut self,
        when: When,
        change: impl Fn(&Asked, &mut Reply) + Send + Sync + 'static,
    ) -> Self {
        self.rules.push((when, Arc::new(change)));
        self
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }
}

/// How an origin is set up.
#[derive(Debug, Default)]
pub struct OriginBuilder {
    resources: HashMap<String, Resource>,
    tls: Option<Arc<ServerConfig>>,
    rate_per_connection: Option<u64>,
    rate_total: Option<u64>,
    latency: Duration,
}

impl OriginBuilder {
    /// Serves a resource under a path.
    #[must_use]
    pub fn resource(mut self, path: &str, resource: Resource) -> Self {
        self.resources.insert(path.into(), resource);
        self
    }

    /// Speaks TLS with these settings.
    #[must_use]
    pub fn tls(mut self, config: Arc<ServerConfig>) -> Self {
        self.tls = Some(config);
        self
    }

    /// Gives each connection no more than this, in bytes a second.
    #[must_use]
    pub fn rate_per_connection(mut self, rate: u64) -> Self {
        self.rate_per_connection = Some(rate);
        self
    }

    /// Gives all connections together no more than this, in bytes a second.
    #[must_use]
    pub fn rate_total(mut self, rate: u64) -> Self {
        self.rate_total = Some(rate);
        self
    }

    /// Waits this long before each answer.
    #[must_use]
    pub fn latency(mut self, latency: Duration) -> Self {
        self.latency = latency;
        self
    }

    /// Starts it on a free port of 127.0.0.1.
    ///
    /// # Panics
    /// When there is no free port.
    pub async fn start(self) -> Origin {
        let listener = TcpListener::bind(("127.0.0.1", 0))
            .await
            .expect("a free port");
        let address = listener.local_addr().expect("a bound port");
        let state = Arc::new(State {
            resources: Mutex::new(self.resources),
            asked: Mutex::default(),
            open: Mutex::default(),
            secure: self.tls.is_some(),
            rate_per_connection: self.rate_per_connection,
            total: self.rate_total.map(Pace::new),
            latency: self.latency,
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(serve::run(listener, self.tls, Arc::clone(&state)));
        Origin {
            address,
            state,
            _tasks: tasks,
        }
    }
}

/// A running origin. Dropped, it closes all its connections.
#[derive(Debug)]
pub struct Origin {
    address: SocketAddr,
    state: Arc<State>,
    _tasks: JoinSet<()>,
}

/// What all connections of an origin share.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) resources: Mutex<HashMap<String, Resource>>,
    pub(crate) asked: Mutex<Vec<Asked>>,
    /// Connections that are open now.
    pub(crate) open: Mutex<usize>,
    pub(crate) secure: bool,
    pub(crate) rate_per_connection: Option<u64>,
    pub(crate) total: Option<Pace>,
    pub(crate) latency: Duration,
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Origin {
    /// Begins to set one up.
    #[must_use]
    pub fn builder() -> OriginBuilder {
        OriginBuilder::default()
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of a path.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        let scheme = if self.state.secure { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}{path}", self.address.port())
    }

    /// Replaces a resource: the next answer is of the new one.
    pub fn swap(&self, path: &str, resource: Resource) {
        locked(&self.state.resources).insert(path.into(), resource);
    }

    /// Everything that was asked so far, in order, with what became of it.
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        locked(&self.state.asked).clone()
    }

    /// Bytes of bodies that went out so far.
    #[must_use]
    pub fn sent(&self) -> u64 {
        locked(&self.state.asked)
            .iter()
            .map(|asked| asked.sent)
            .sum()
    }

    /// How many connections carried a request so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        let asked = locked(&self.state.asked);
        asked
            .iter()
            .map(|asked| asked.connection)
            .collect::<std::collections::HashSet<_>>()
            .len()
    }
}
