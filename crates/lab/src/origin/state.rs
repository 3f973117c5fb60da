//! What all connections of an origin share, and how a request becomes a reply.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::request_log::{LogPosition, OpenCounter, RequestLog};
use super::{OriginResource, OriginResponse, RecordedRequest, ResponseRule};
use crate::bandwidth_limit::BandwidthLimit;
use crate::content::ResourceContent;
use crate::generated_files::GeneratedFiles;
use crate::proxy::ForwardingProxyState;
use crate::running_listener::FirstPanic;

/// What it is.
#[derive(Debug)]
pub(crate) enum ServerRole {
    /// Has resources, by path.
    Origin(HashMap<String, OriginResource>),
    /// Passes on what its rules leave alone.
    Proxy(ForwardingProxyState),
}

/// The same, for many connections.
#[derive(Debug)]
pub(crate) enum OriginRoleState {
    /// Resources may be swapped.
    Origin(Mutex<HashMap<String, OriginResource>>),
    /// Does not change.
    Proxy(ForwardingProxyState),
}

impl From<ServerRole> for OriginRoleState {
    fn from(role: ServerRole) -> Self {
        match role {
            ServerRole::Origin(resources) => Self::Origin(Mutex::new(resources)),
            ServerRole::Proxy(upstream) => Self::Proxy(upstream),
        }
    }
}

/// What all connections of an origin share.
#[derive(Debug)]
pub(crate) struct OriginState {
    /// What it answers with.
    pub(crate) role: OriginRoleState,
    /// Has what no resource is named for.
    pub(crate) generated_files: Option<GeneratedFiles>,
    /// What was asked.
    pub(crate) log: RequestLog,
    /// Connections that are open now.
    pub(crate) open_connections: OpenCounter,
    /// Panics of scripts.
    pub(crate) first_panic: FirstPanic,
    /// Bytes a second for each connection.
    pub(crate) rate_per_connection: Option<u64>,
    /// What all connections share.
    pub(crate) total_rate: Option<BandwidthLimit>,
    /// Before each answer.
    pub(crate) latency: Duration,
    /// A path that nobody has breaks the test.
    pub(crate) strict: bool,
}

impl OriginState {
    /// Records a request and makes its reply. A script that panics has its connection reset, and its test broken.
    pub(crate) fn respond(
        &self,
        asked: RecordedRequest,
    ) -> (RecordedRequest, OriginResponse, LogPosition) {
        let (asked, place) = self.log.record(asked);
        // The lock is not held while scripts run: they may take their time, or panic.
        let scripted = catch_unwind(AssertUnwindSafe(|| match &self.role {
            OriginRoleState::Origin(resources) => {
                let resources = resources.lock().unwrap_or_else(PoisonError::into_inner);
                let resource = resources.get(asked.path()).cloned();
                drop(resources);
                let shelved = || Some(self.generated_files.as_ref()?.resource(&asked));
                self.respond_with_resource(&asked, resource.or_else(shelved))
            }
            OriginRoleState::Proxy(upstream) => {
                apply_rules(&upstream.rules, &asked, upstream.respond(&asked))
            }
        }));
        let reply = scripted.unwrap_or_else(|payload| {
            self.first_panic.store(payload);
            OriginResponse {
                reset_connection: true,
                ..OriginResponse::empty(500)
            }
        });
        if !reply.reset_connection {
            self.log.set_status(place, reply.status);
        }
        (asked, reply, place)
    }

    fn respond_with_resource(
        &self,
        asked: &RecordedRequest,
        resource: Option<OriginResource>,
    ) -> OriginResponse {
        let Some(resource) = resource else {
            assert!(
                !self.strict,
                "nothing is at {}, which was asked for",
                asked.target
            );
            let page =
                OriginResource::without_validator(ResourceContent::fixed("no such resource\n"));
            return OriginResponse {
                status: 404,
                ..OriginResponse::whole(&page)
            };
        };
        apply_rules(
            &resource.rules,
            asked,
            OriginResponse::conforming(asked, &resource),
        )
    }

    pub(crate) fn replace_resource(&self, path: &str, resource: OriginResource) {
        if let OriginRoleState::Origin(resources) = &self.role {
            let mut resources = resources.lock().unwrap_or_else(PoisonError::into_inner);
            resources.insert(path.into(), resource);
        }
    }
}

/// A reply under rules.
fn apply_rules(
    rules: &[ResponseRule],
    asked: &RecordedRequest,
    mut reply: OriginResponse,
) -> OriginResponse {
    for rule in rules {
        rule.apply(asked, &mut reply);
    }
    reply
}
