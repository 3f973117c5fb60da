//! Transports that failed.

use std::ops::Range;
use std::sync::Arc;

use haul_net::Kind;
use haul_plan::{Remedy, TransferTimeLimit};

use super::ErrorClass;
use crate::cause::transport_cause;
use crate::get::ExceededLimit;

/// What failed between this machine and the origin. Display says it without the URL.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// The transport failed for good, or more often than the budget allows.
    #[error("{source}")]
    Transport {
        /// The requested range, if there was one.
        range: Option<Range<u64>>,
        source: Box<haul_net::Error>,
    },
    /// The batch gave up the host after other jobs could not reach it, or were refused.
    #[error("{}{}", GivenUpText { attempts: *.attempts, kind: *.kind }, ReasonText(.reason.as_deref()))]
    HostGivenUp {
        /// Failures in a row, at different moments.
        attempts: u32,
        /// How they failed.
        kind: HostFailureKind,
        /// The error of the last attempt, if it was kept.
        reason: Option<Arc<str>>,
    },
    /// The connection broke during a response that cannot be continued.
    #[error("broke off after {at} bytes and cannot be continued")]
    BrokenStream {
        /// Bytes written before the break.
        at: u64,
    },
    /// The download was too slow, or took too long.
    #[error("{limit}")]
    LimitExceeded { limit: ExceededLimit },
    /// The file cannot be read at any offset, and is too large to be held in memory.
    #[error("cannot be read at any offset: {reason}, and it has more than {} MiB", .limit >> 20)]
    NoRandomAccess {
        /// Why its ranges cannot be used.
        reason: &'static str,
        /// The largest file that would be held in memory, in bytes.
        limit: u64,
    },
}

/// How all requests to a host fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostFailureKind {
    /// It cannot be reached.
    Unreachable,
    /// Its proxy cannot be reached.
    ProxyUnreachable,
    /// It refuses them (429, 503), or closes their connections before a response.
    RefusesEverything,
}

impl NetworkError {
    /// Without descriptors this machine is to blame. Without a usable proxy, profile or endpoint the settings are.
    pub(super) fn class(&self) -> ErrorClass {
        let Self::Transport { source, .. } = self else {
            return ErrorClass::Network;
        };
        match source.kind() {
            _ if source.is_descriptor_limit() => ErrorClass::LocalIo,
            Kind::UnusableProxyVariable(_) => ErrorClass::Usage,
            Kind::InvalidRequest if source.url().scheme() == haul_net::SIGNED_SCHEME => {
                ErrorClass::Usage
            }
            _ => ErrorClass::Network,
        }
    }

    pub(super) fn cause(&self) -> String {
        let text = match self {
            Self::Transport { source, .. } if source.is_descriptor_limit() => "too many open files",
            Self::Transport { source, .. } => return transport_cause(source.kind()),
            Self::HostGivenUp { kind, .. } => match kind {
                HostFailureKind::Unreachable => "host unreachable",
                HostFailureKind::ProxyUnreachable => "proxy unreachable",
                HostFailureKind::RefusesEverything => "the host refuses all requests",
            },
            Self::LimitExceeded {
                limit: ExceededLimit::MinRate { .. },
            } => "too slow",
            Self::LimitExceeded { .. } => "not complete in time",
            Self::NoRandomAccess { .. } => "cannot be read at any offset",
            Self::BrokenStream { .. } => "broken off",
        };
        text.to_owned()
    }

    pub(super) fn is_transient(&self) -> bool {
        match self {
            Self::Transport { source, .. } => source.is_transient(),
            Self::NoRandomAccess { .. } => false,
            Self::HostGivenUp { .. } | Self::BrokenStream { .. } | Self::LimitExceeded { .. } => {
                true
            }
        }
    }

    pub(super) fn remedies(&self, is_resumable: bool) -> Vec<Remedy> {
        match self {
            Self::Transport { source, .. } => {
                // A server that falls silent may be slow or gone. Where it always does, the path is a black hole for large packets
                // (RFC 2923), as VPNs and tunnels may be: connections are made, and requests and small responses arrive.
                let is_silent = matches!(source.kind(), Kind::Stall | Kind::ResponseTimeout);
                let mtu = Remedy::advice(
                    "if only small files ever arrive, the path loses large packets: lower the MTU of the network interface",
                );
                let mut remedies = source.remedies();
                remedies.extend((is_silent && is_resumable).then_some(mtu));
                remedies
            }
            Self::HostGivenUp {
                kind: HostFailureKind::RefusesEverything,
                ..
            } => vec![Remedy::advice("try again later")],
            Self::HostGivenUp { .. } => vec![Remedy::advice("try again when it is up")],
            Self::BrokenStream { .. } => vec![Remedy::WriteToFile],
            Self::LimitExceeded { limit } => vec![Remedy::ExtendTimeLimit(match limit {
                ExceededLimit::MinRate { .. } => TransferTimeLimit::MinRate,
                ExceededLimit::MaxTime(_) => TransferTimeLimit::MaxTime,
            })],
            Self::NoRandomAccess { .. } => {
                vec![Remedy::advice("download it to a file, and read that")]
            }
        }
    }
}

/// Prints `its host was given up after 3 tries to reach it`.
struct GivenUpText {
    attempts: u32,
    kind: HostFailureKind,
}

impl std::fmt::Display for GivenUpText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let attempts = self.attempts;
        let tries = if attempts == 1 { "try" } else { "tries" };
        let host = match self.kind {
            HostFailureKind::Unreachable => "host",
            HostFailureKind::ProxyUnreachable => "proxy",
            HostFailureKind::RefusesEverything => {
                let times = if attempts == 1 { "time" } else { "times" };
                return write!(
                    f,
                    "its host was given up after it refused all requests, {attempts} {times} in a row"
                );
            }
        };
        write!(
            f,
            "its {host} was given up after {attempts} {tries} to reach it"
        )
    }
}

/// Prints `: why`, or nothing.
struct ReasonText<'a>(Option<&'a str>);

impl std::fmt::Display for ReasonText<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.map_or(Ok(()), |reason| write!(f, ": {reason}"))
    }
}
