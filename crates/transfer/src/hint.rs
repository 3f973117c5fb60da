//! Hints: what the user can do about a failed download.
//!
//! A hint promises that the same command resumes only if there is something to resume.

use std::io;

use haul_net::Kind;
use http::StatusCode;
use url::Url;

use crate::error::{GetError, HostFailureKind};

impl GetError {
    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let hint = self.s3_hint().map(str::to_owned);
        hint.or_else(|| self.silence_hint())
            .or_else(|| self.general_hint())
    }

    /// Hints for a server that fell silent after some bytes.
    fn silence_hint(&self) -> Option<String> {
        match self {
            Self::Transport {
                resumable: true,
                source,
                ..
            } if matches!(source.kind(), Kind::Stall | Kind::ResponseTimeout) => {
                Some(format!("{CAN_BE_RESUMED}; {LARGE_PACKETS_LOST}"))
            }
            _ => None,
        }
    }

    /// Hints for responses that bring no file.
    fn refusal_hint(&self) -> Option<String> {
        match self {
            Self::Status {
                status: StatusCode::FORBIDDEN,
                credentials_sent: false,
                retry_after: None,
                resumable: true,
                ..
            } => Some(BLOCKED.into()),
            Self::ErrorPage { resumable, .. } => Some(error_page_hint(*resumable)),
            // The time is in the message.
            Self::Status {
                retry_after: Some(_),
                resumable,
                ..
            } => resumable.then(|| CAN_BE_RESUMED.into()),
            Self::Unauthorized {
                status,
                credentials_sent: authorized,
                ..
            }
            | Self::Status {
                status,
                credentials_sent: authorized,
                ..
            } => status_hint(*status, *authorized).map(Into::into),
            _ => None,
        }
    }

    fn general_hint(&self) -> Option<String> {
        match self {
            Self::Unauthorized { .. } | Self::Status { .. } | Self::ErrorPage { .. } => {
                self.refusal_hint()
            }
            Self::Transport {
                resumable: true, ..
            }
            | Self::LimitExceeded {
                resumable: true, ..
            }
            | Self::Interrupted { resumable: true } => Some(CAN_BE_RESUMED.into()),
            Self::UnexpectedContent { .. } => {
                Some("it may be an error page: open the URL in a browser".into())
            }
            Self::ForbiddenByRobotsTag { .. } => Some(ROBOTS_TAG_HINT.into()),
            Self::FolderListing { url } => Some(folder_hint(url)),
            Self::HostGivenUp {
                kind: HostFailureKind::RefusesEverything,
                ..
            } => Some("run the same command again later".into()),
            Self::HostGivenUp { .. } => Some("try again when it is up".into()),
            Self::HostRefuses { .. } => Some("run the same command again after that time".into()),
            // Their messages, which only a batch prints, contain the hint.
            Self::NameTaken { .. }
            | Self::Transport { .. }
            | Self::LimitExceeded { .. }
            | Self::Interrupted { .. }
            | Self::Archive { .. } => None,
            Self::UnusableResponse { .. } => Some(SERVER_AT_FAULT.into()),
            Self::WrongFile { .. } | Self::PieceDigest { .. } => Some(OTHER_VERSION.into()),
            Self::AllSourcesFailed { last, .. } => last.hint(),
            Self::ResourceChanged { .. } => Some("try again later".into()),
            Self::VersionChanged { .. } => Some("open it again".into()),
            Self::NoRandomAccess { .. } => Some("download it to a file, and read that".into()),
            Self::BrokenStream { .. } => {
                Some("-o FILE writes to a file, which can start again".into())
            }
            Self::Checksum {
                moved_to: aside, ..
            } => Some(match aside {
                Some(path) => format!("the received bytes are in {}", path.display()),
                None => "the bytes must not be used".into(),
            }),
            Self::AlreadyExists { .. } => Some(EXISTS_HINT.into()),
            Self::PathOccupied { .. } => {
                Some("move it away, or choose another name with -o".into())
            }
            Self::ReservedName { .. } => Some("choose another name with -o".into()),
            Self::IsDirectory { path } => {
                Some(format!("-d {} puts the file into it", path.display()))
            }
            Self::NameTooLong { .. } => Some("choose a shorter one with -o".into()),
            Self::Locked { .. } => Some("wait for it, or choose another name with -o".into()),
            Self::DuplicateName { .. } => Some("download it alone, with -o FILE".into()),
            Self::OutputStream { source, .. } => Some(stream_hint(source).into()),
            Self::NoSpace { .. } => Some("make room and run the same command again".into()),
            Self::LocalIo {
                source, resumable, ..
            } => local_hint(source, *resumable),
            Self::Decode { .. } => Some("without --decode it is stored as sent".into()),
        }
    }
}

impl GetError {
    /// What the user can do about a failed request to an S3 store.
    fn s3_hint(&self) -> Option<&'static str> {
        match self {
            Self::Transport { source, .. } if *source.kind() == Kind::Signing => Some(SIGNING_HINT),
            Self::Status { url, status, .. } if url.scheme() == "s3" => s3_status_hint(*status),
            _ => None,
        }
    }
}

/// For requests that could not be signed.
const SIGNING_HINT: &str = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, choose a profile with --profile, or read a public \
    bucket with --no-sign-request";

/// Hints for a store's statuses.
fn s3_status_hint(status: StatusCode) -> Option<&'static str> {
    match status.as_u16() {
        403 => {
            Some("the credentials do not allow it, or the requester has to pay (--request-payer)")
        }
        404 => Some("haul ls s3://BUCKET/PREFIX shows what is there"),
        _ => None,
    }
}

/// Hints for statuses that end a job.
fn status_hint(status: StatusCode, authorized: bool) -> Option<&'static str> {
    Some(match (status.as_u16(), authorized) {
        (407, _) => "give the proxy's credentials in --proxy http://user:password@host:port",
        (401, true) => "check the user name and password, or the token",
        (401, false) => "give credentials with -u USER, --bearer or --netrc",
        (403, true) => {
            "these credentials do not open it; others go with -u USER, --bearer or --netrc"
        }
        (403, false) => {
            "the link may have expired, or the origin blocks this client: open the URL in a browser"
        }
        (404 | 410, _) => "check the URL",
        (202, _) => "the server is not done with its work: try again later",
        _ => return None,
    })
}

/// How to download the files of a folder.
fn folder_hint(url: &Url) -> String {
    let mut list = url.clone();
    list.set_query(Some("format=jsonl"));
    let list = haul_net::redacted_url(&list);
    format!("haul get -o - '{list}' | haul get -i - downloads its files; -o FILE saves the page")
}

/// For files whose use an origin forbids.
const ROBOTS_TAG_HINT: &str = "--robots-tag ignore downloads it all the same";

/// For names that are taken.
const EXISTS_HINT: &str =
    "--overwrite replaces it, --update does so only if the origin has a newer one";

/// For responses that cannot be used.
const SERVER_AT_FAULT: &str = "the server, or a proxy before it, is at fault: try again later";

/// For a file of the wrong size or with a wrong digest.
const OTHER_VERSION: &str =
    "the given digest or size may be of another version, or the origin's file is damaged";

/// For a 403 in the middle of a download.
const BLOCKED: &str = "the origin blocks this client for now, or the link has expired: the same command, later or with a new link, resumes the download";

/// Hints for pages in place of files.
fn error_page_hint(resumable: bool) -> String {
    let hint = "the link or the login may have expired: get a new one";
    match resumable {
        true => format!("{hint}, and the same command resumes the download"),
        false => hint.to_owned(),
    }
}

/// Only for downloads that can be resumed.
const CAN_BE_RESUMED: &str = "the same command resumes the download";

/// A server that falls silent may be slow or gone. Where it always does, the path is a black hole for large packets (RFC 2923), as VPNs and
/// tunnels may be: connections are made, and requests and small responses arrive.
const LARGE_PACKETS_LOST: &str = "if only small files ever arrive, the path loses large packets: lower the MTU of the network interface";

/// Hints for errors of standard output, FIFOs and devices.
fn stream_hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::BrokenPipe => "its reader has closed it",
        io::ErrorKind::Unsupported => "-o FILE writes it to a file; | cat shows it anyway",
        io::ErrorKind::StorageFull => "there is no space left where it is written",
        _ => "-o FILE writes to a file",
    }
}

/// Hints for errors of the disk that a user can mend.
fn local_hint(source: &io::Error, resumable: bool) -> Option<String> {
    let hint = match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded if resumable => {
            "make room and run the same command again: it resumes the download"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "make room and run the same command again"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "choose a place you may write to with -o or -d"
        }
        io::ErrorKind::NotFound => "create the directory first",
        io::ErrorKind::FileTooLarge => {
            "this file system or a limit (ulimit -f) forbids so large a file"
        }
        _ => return None,
    };
    Some(hint.into())
}
