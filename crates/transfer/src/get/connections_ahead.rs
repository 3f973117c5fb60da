//! The other connections of a job, made before its first response says that they are needed.
//!
//! They are kept idle for the requests that follow it. One that cannot be made is made when it is needed.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use haul_net::FetchRequest;
use tokio::task::JoinSet;
use url::Url;

use super::context::JobContext;
use super::download_sources::{DownloadSource, DownloadSources};
use super::early_connections::{EarlyConnections, FirstRequestOutlook};
use crate::options::ConnectionCount;

/// The connections that the requests after the first may need.
pub(super) struct ConnectionsAhead<'a> {
    context: &'a JobContext<'a>,
    source: DownloadSource,
    early: EarlyConnections,
    number: usize,
    tasks: Mutex<JoinSet<()>>,
}

impl<'a> ConnectionsAhead<'a> {
    pub(super) fn new(
        context: &'a JobContext<'a>,
        sources: &DownloadSources,
        may_need_others: bool,
    ) -> Self {
        let connections = context.options().connections;
        let connector = context.engine.client.connector();
        Self {
            context,
            source: sources.current().clone(),
            early: EarlyConnections::new(FirstRequestOutlook {
                may_need_others,
                has_requested_connections: matches!(connections, ConnectionCount::Fixed(_)),
                has_rate_limit: connector.rate_limit().is_some(),
            }),
            number: context.max_connections(sources) - 1,
            tasks: Mutex::default(),
        }
    }

    /// The first request is on its way.
    pub(super) fn on_request_sent(&self) {
        if self.early == EarlyConnections::AtOnce {
            self.start(&self.source.location);
        }
    }

    /// A large response has begun to arrive from this URL.
    pub(super) fn on_response_begun(&self, url: &Url, round_trip: Duration) {
        if self.early.are_made_on_large_response(round_trip) {
            self.start(url);
        }
    }

    fn start(&self, url: &Url) {
        let host = self.context.engine.host_limits.host(url);
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        // Several responses may begin: refusals, and redirects with a page.
        if self.number == 0 || !tasks.is_empty() {
            return;
        }
        let free: Vec<_> = (0..self.number)
            .map_while(|_| host.try_acquire_extra())
            .collect();
        let (number, client, url) = (free.len(), self.context.engine.client.clone(), url.clone());
        let user_url = self.source.credential_url().clone();
        tasks.spawn(async move {
            let request = FetchRequest {
                user_url: &user_url,
                ..FetchRequest::get(&url)
            };
            client.connect_ahead(&request, number).await;
        });
    }

    /// The tasks that make them. Dropped, they give up. The requests of other tasks, which hold the host's permits then, wait for them.
    pub(super) fn into_tasks(self) -> JoinSet<()> {
        self.tasks
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
