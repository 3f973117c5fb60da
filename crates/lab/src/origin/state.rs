//! What all connections of an origin share, and how a request becomes a reply.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::log::{Log, Open, Place};
use super::{Asked, Reply, Resource, Rule};
use crate::content::Content;
use crate::listening::Mishap;
use crate::pace::Pace;
use crate::proxy::Upstream;
use crate::shelf::Shelf;

/// What it is.
#[derive(Debug)]
pub(crate) enum Role {
    /// Has resources, by path.
    Origin(HashMap<String, Resource>),
    /// Passes on what its rules leave alone.
    Proxy(Upstream),
}

/// The same, for many connections.
#[derive(Debug)]
pub(crate) enum Shared {
    /// Resources may be swapped.
    Origin(Mutex<HashMap<String, Resource>>),
    /// Does not change.
    Proxy(Upstream),
}

impl From<Role> for Shared {
    fn from(role: Role) -> Self {
        match role {
            Role::Origin(resources) => Self::Origin(Mutex::new(resources)),
            Role::Proxy(upstream) => Self::Proxy(upstream),
        }
    }
}

/// What all connections of an origin share.
#[derive(Debug)]
pub(crate) struct State {
    /// What it answers with.
    pub(crate) role: Shared,
    /// Has what no resource is named for.
    pub(crate) shelf: Option<Shelf>,
    /// What was asked.
    pub(crate) log: Log,
    /// Connections that are open now.
    pub(crate) open: Open,
    /// Panics of scripts.
    pub(crate) mishap: Mishap,
    /// Bytes a second for each connection.
    pub(crate) rate_per_connection: Option<u64>,
    /// What all connections share.
    pub(crate) total: Option<Pace>,
    /// Before each answer.
    pub(crate) latency: Duration,
    /// A path that nobody has breaks the test.
    pub(crate) strict: bool,
}

impl State {
    /// Records a request and makes its reply. A script that panics has its connection reset, and its test broken.
    pub(crate) fn reply(&self, asked: Asked) -> (Asked, Reply, Place) {
        let (asked, place) = self.log.enter(asked);
        // The lock is not held while scripts run: they may take their time, or panic.
        let scripted = catch_unwind(AssertUnwindSafe(|| match &self.role {
            Shared::Origin(resources) => {
                let resources = resources.lock().unwrap_or_else(PoisonError::into_inner);
                let resource = resources.get(asked.path()).cloned();
                drop(resources);
                let shelved = || Some(self.shelf.as_ref()?.resource(&asked));
                self.of_resource(&asked, resource.or_else(shelved))
            }
            Shared::Proxy(upstream) => under(&upstream.rules, &asked, upstream.reply(&asked)),
        }));
        let reply = scripted.unwrap_or_else(|payload| {
            self.mishap.keep(payload);
            Reply {
                refuse: true,
                ..Reply::empty(500)
            }
        });
        if !reply.refuse {
            self.log.answered(place, reply.status);
        }
        (asked, reply, place)
    }

    fn of_resource(&self, asked: &Asked, resource: Option<Resource>) -> Reply {
        let Some(resource) = resource else {
            assert!(
                !self.strict,
                "nothing is at {}, which was asked for",
                asked.target
            );
            let page = Resource::bare(Content::fixed("no such resource\n"));
            return Reply {
                status: 404,
                ..Reply::whole(&page)
            };
        };
        under(&resource.rules, asked, Reply::conforming(asked, &resource))
    }

    pub(crate) fn swap(&self, path: &str, resource: Resource) {
        if let Shared::Origin(resources) = &self.role {
            let mut resources = resources.lock().unwrap_or_else(PoisonError::into_inner);
            resources.insert(path.into(), resource);
        }
    }
}

/// A reply under rules.
fn under(rules: &[Rule], asked: &Asked, mut reply: Reply) -> Reply {
    for rule in rules {
        rule.apply(asked, &mut reply);
    }
    reply
}
