//! The state that all connections of an origin share, and the choice of responses.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::request_log::{LogPosition, RequestLog};
use super::{OriginResource, OriginResponse, RecordedRequest, ResponseRule};
use crate::bandwidth_limit::BandwidthLimit;
use crate::content::ResourceContent;
use crate::generated_files::GeneratedFiles;
use crate::open_counter::OpenCounter;
use crate::proxy::ForwardingProxyState;
use crate::running_listener::FirstPanic;

#[derive(Debug)]
pub(crate) enum ServerRole {
    /// Has resources, by path; they may be replaced.
    Origin(Mutex<HashMap<String, OriginResource>>),
    /// Forwards the requests that its rules leave alone.
    Proxy(ForwardingProxyState),
}

/// The state that all connections of an origin share.
#[derive(Debug)]
pub(crate) struct OriginState {
    pub(crate) role: ServerRole,
    /// The files for paths without a resource.
    pub(crate) generated_files: Option<GeneratedFiles>,
    pub(crate) log: RequestLog,
    pub(crate) open_connections: OpenCounter,
    pub(crate) active_requests: OpenCounter,
    /// Panics of scripts.
    pub(crate) first_panic: FirstPanic,
    /// Bytes a second for each connection.
    pub(crate) rate_per_connection: Option<u64>,
    /// The rate that all connections share.
    pub(crate) total_rate: Option<BandwidthLimit>,
    /// The wait before each response.
    pub(crate) latency: Duration,
    /// A request for an unknown path fails the test.
    pub(crate) strict: bool,
}

impl OriginState {
    /// Records a request and makes its response. If a script panics, the connection is reset, and its test fails.
    pub(crate) fn respond(
        &self,
        request: RecordedRequest,
    ) -> (RecordedRequest, OriginResponse, LogPosition) {
        let (request, position) = self.log.record(request);
        // No lock is held while scripts run: they may take their time, or panic.
        let scripted = catch_unwind(AssertUnwindSafe(|| match &self.role {
            ServerRole::Origin(resources) => {
                let resources = resources.lock().unwrap_or_else(PoisonError::into_inner);
                let resource = resources.get(request.path()).cloned();
                drop(resources);
                let generated = || Some(self.generated_files.as_ref()?.resource(&request));
                self.respond_with_resource(&request, resource.or_else(generated))
            }
            ServerRole::Proxy(proxy) => {
                apply_rules(&proxy.rules, &request, proxy.respond(&request))
            }
        }));
        let response = scripted.unwrap_or_else(|payload| {
            self.first_panic.store(payload);
            OriginResponse {
                reset_connection: true,
                ..OriginResponse::empty(500)
            }
        });
        if !response.reset_connection {
            self.log.set_status(position, response.status);
        }
        (request, response, position)
    }

    fn respond_with_resource(
        &self,
        request: &RecordedRequest,
        resource: Option<OriginResource>,
    ) -> OriginResponse {
        let Some(resource) = resource else {
            assert!(
                !self.strict,
                "nothing is at {}, which was requested",
                request.target
            );
            let page =
                OriginResource::without_validator(ResourceContent::fixed("no such resource\n"));
            return OriginResponse {
                status: 404,
                ..OriginResponse::whole(&page)
            };
        };
        let response = OriginResponse::conforming(request, &resource);
        apply_rules(&resource.rules, request, response)
    }

    pub(crate) fn replace_resource(&self, path: &str, resource: OriginResource) {
        if let ServerRole::Origin(resources) = &self.role {
            let mut resources = resources.lock().unwrap_or_else(PoisonError::into_inner);
            resources.insert(path.into(), resource);
        }
    }
}

fn apply_rules(
    rules: &[ResponseRule],
    request: &RecordedRequest,
    mut response: OriginResponse,
) -> OriginResponse {
    for rule in rules {
        rule.apply(request, &mut response);
    }
    response
}
