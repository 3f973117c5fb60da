//! The causes of failed jobs in a few words, without a URL: a summary of a hundred thousand jobs counts them by cause. Whether another try makes
//! sense follows from them.

use haul_net::{Kind, TlsProblem};
use haul_plan::{ExceededLimit, is_busy_status};

use crate::error::{GetError, HostFailureKind};

impl GetError {
    /// Whether the same download may succeed later without anything that the user does: a host that was down, an overloaded
    /// origin.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Transport { source, .. } => source.is_transient(),
            Self::Status {
                status,
                retry_after,
                ..
            } => is_busy_status(*status) || retry_after.is_some(),
            Self::AllSourcesFailed { last, .. } => last.is_transient(),
            Self::HostGivenUp { .. }
            | Self::HostRefuses { .. }
            | Self::UnusableResponse { .. }
            | Self::ResourceChanged { .. }
            | Self::BrokenStream { .. }
            | Self::Locked { .. }
            | Self::LimitExceeded { .. }
            | Self::Interrupted { .. } => true,
            _ => false,
        }
    }

    /// The cause in a few words, the same for every job with this cause.
    #[must_use]
    pub fn cause(&self) -> String {
        let text = match self {
            Self::Transport { source, .. } if source.is_descriptor_limit() => "too many open files",
            Self::Transport { source, .. } => return transport_cause(source.kind()),
            Self::Status { status, .. } | Self::Unauthorized { status, .. } => {
                return status.to_string();
            }
            Self::HostGivenUp { kind, .. } => match kind {
                HostFailureKind::Unreachable => "host unreachable",
                HostFailureKind::ProxyUnreachable => "proxy unreachable",
                HostFailureKind::RefusesEverything => "the host refuses all requests",
            },
            Self::HostRefuses { .. } => "the host asks to wait",
            Self::LimitExceeded {
                limit: ExceededLimit::MinRate { .. },
                ..
            } => "too slow",
            Self::LimitExceeded { .. } => "not complete in time",
            Self::Archive { .. } => "cannot be put into the archive",
            Self::WrongFile { .. } => "another file than the one meant",
            Self::PieceDigest { .. } => "a piece with a wrong digest",
            Self::AllSourcesFailed { last, .. } if matches!(**last, Self::Checksum { .. }) => {
                return last.cause();
            }
            Self::AllSourcesFailed { .. } => "no source left",
            Self::UnexpectedContent { .. } => "not the file expected",
            Self::ForbiddenByRobotsTag { .. } => "forbidden by X-Robots-Tag",
            Self::FolderListing { .. } => "a folder, not a file",
            Self::UnusableResponse { .. } => "unusable responses",
            Self::ErrorPage { .. } => "a page in place of the file",
            Self::ResourceChanged { .. } => "changed while it was downloaded",
            Self::VersionChanged { .. } => "changed while it was read",
            Self::NoRandomAccess { .. } => "cannot be read at any offset",
            Self::BrokenStream { .. } => "broken off",
            Self::Checksum { .. } => "wrong checksum",
            Self::AlreadyExists { .. } => "the file exists already",
            Self::NameTaken { .. } => "the name was taken meanwhile",
            Self::PathOccupied { .. } => "something is in the way",
            Self::ReservedName { .. } => "a name of haul's own",
            Self::IsDirectory { .. } => "the name is a directory",
            Self::NameTooLong { .. } => "the name is too long",
            Self::Locked { .. } => "another haul downloads it",
            Self::DuplicateName { .. } => "the name is another URL's",
            Self::NoSpace { .. } => "no space left",
            Self::LocalIo { source, .. } | Self::OutputStream { source, .. } => {
                return source.kind().to_string();
            }
            Self::Decode { .. } => "cannot be decoded",
            Self::Interrupted { .. } => "interrupted",
        };
        text.to_owned()
    }

    /// The rest of the error, without its cause and URL. `None` if only the whole message says it.
    #[must_use]
    pub fn cause_detail(&self) -> Option<String> {
        match self {
            Self::Status { .. } => Some(String::new()),
            Self::HostGivenUp {
                attempts, reason, ..
            } => {
                let attempts_text = match attempts {
                    1 => "1 try".to_owned(),
                    attempts => format!("{attempts} tries"),
                };
                let reason = reason.as_deref().map_or_else(String::new, |reason| {
                    let reason = reason.strip_prefix("cannot connect to ").unwrap_or(reason);
                    format!(": {reason}")
                });
                Some(format!(" ({attempts_text}){reason}"))
            }
            _ => None,
        }
    }
}

fn transport_cause(kind: &Kind) -> String {
    let text = match kind {
        Kind::NoSuchHost(_) => "no such host",
        Kind::NoAddress(..) => "no address of the family wanted",
        Kind::Resolve(_) => "the name cannot be resolved",
        Kind::Connect(_) => "cannot connect",
        Kind::ConnectTimeout(_) => "no connection in time",
        Kind::UnusableProxyVariable(variable) => return format!("{variable} cannot be used"),
        Kind::ProxyRefused(Some(status)) => return format!("the proxy answered {status}"),
        Kind::ProxyRefused(None) => "the proxy refused",
        Kind::ProxyAuth(_) => "the proxy requires credentials",
        Kind::NotSocks => "the proxy speaks no SOCKS5",
        Kind::Tls(TlsProblem::Expired) => "certificate expired",
        Kind::Tls(TlsProblem::WrongHost) => "certificate for another host",
        Kind::Tls(TlsProblem::UnknownIssuer) => "certificate of an unknown issuer",
        Kind::Tls(TlsProblem::SelfSigned) => "self-signed certificate",
        Kind::Tls(TlsProblem::Revoked) => "certificate revoked",
        Kind::Tls(TlsProblem::NotTls | TlsProblem::PlainHttp) => "no TLS spoken",
        Kind::Tls(_) => "TLS failed",
        Kind::ConnectionsBusy(_) => "no room on the host's connection",
        Kind::Stall => "silent for too long",
        Kind::ResponseTimeout => "no response in time",
        Kind::Closed => "the connection was closed",
        Kind::Protocol => "not HTTP",
        Kind::Framing(_) => "unusable Transfer-Encoding or Content-Length",
        Kind::Redirect(_) => "a redirect that is not followed",
        Kind::InvalidRequest => "the request cannot be sent",
        _ => "the request failed",
    };
    text.to_owned()
}
