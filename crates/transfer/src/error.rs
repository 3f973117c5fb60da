//! The errors of a download.
//!
//! There is one variant for each cause: the binary derives its exit code from [`GetError::class`] and prints
//! [`GetError::hint`] below the message. Display prints one level only; the chain is in `source`.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use haul_net::redacted_url;
use haul_plan::{DigestAlgorithm, ExceededLimit, RetryAfterText, UnexpectedContent, WaitText};
use serde::{Deserialize, Serialize};
use url::Url;

use crate::archive::ArchiveError;

/// The classes of errors, each with an exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ErrorClass {
    /// The received bytes are not those of the file.
    Verification,
    /// This machine: disk, permission, a name that exists.
    LocalIo,
    /// The network, a proxy or the origin.
    Network,
    /// Stopped by the caller; a resumable part was kept.
    Interrupted,
    /// A list entry that cannot be requested.
    Usage,
}

impl ErrorClass {
    /// The name in manifests and other results; that of the binary's JSON, too.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Verification => "verification",
            Self::LocalIo => "local_io",
            Self::Network => "network",
            Self::Interrupted => "interrupted",
            Self::Usage => "usage",
        }
    }
}

/// Why a job ended without its file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GetError {
    /// The transport failed for good, or more often than the budget allows.
    #[error("cannot fetch {}{}", redacted_url(.url), DisplayRange(.range.as_ref().filter(|_| .source.is_after_connect())))]
    Transport {
        /// The URL of the download.
        url: Box<Url>,
        /// The requested range, if there was one.
        range: Option<Range<u64>>,
        /// The error of the transport.
        source: Box<haul_net::Error>,
        /// Whether the same command resumes the download.
        resumable: bool,
    },
    /// The response has a status that ends the job.
    #[error("{} answered {status}{}", redacted_url(.url), RetryAfterText(*.retry_after))]
    Status {
        /// The URL of the download.
        url: Box<Url>,
        /// The status.
        status: http::StatusCode,
        /// Whether credentials had been sent.
        credentials_sent: bool,
        /// The time before which the origin wants no further request.
        retry_after: Option<Duration>,
        /// The first line of the response's text.
        response_text: Option<Box<str>>,
        /// Whether the same command resumes the download.
        resumable: bool,
    },
    /// The origin sends a page or an error document in place of the file whose bytes are here.
    #[error("{} sent {document} in place of the file", redacted_url(.url))]
    ErrorPage {
        /// The URL of the download.
        url: Box<Url>,
        /// The page or error document.
        document: Box<ErrorDocument>,
        /// Whether the same command resumes the download.
        resumable: bool,
    },
    /// The batch gave up the host after other jobs could not reach it, or were refused.
    #[error("cannot fetch {}: {}{}", redacted_url(.url), DisplayGivenUp { attempts: *.attempts, kind: *.kind }, DisplayReason(.reason.as_deref()))]
    HostGivenUp {
        /// The URL of the download.
        url: Box<Url>,
        /// Failures in a row, at different moments.
        attempts: u32,
        /// How they failed.
        kind: HostFailureKind,
        /// The error of the last attempt, if it was kept.
        reason: Option<Arc<str>>,
    },
    /// The host asks for a pause that is longer than a job waits. It said so in responses to other jobs of the batch.
    #[error("cannot fetch {}: its host asks to wait for {}", redacted_url(.url), WaitText(*.wait))]
    HostRefuses {
        /// The URL of the download.
        url: Box<Url>,
        /// The length of the pause.
        wait: Duration,
    },
    /// The file cannot be put into the archive.
    #[error("cannot put {} into the archive", .path.display())]
    Archive {
        /// The name of the archive entry.
        path: PathBuf,
        /// The error of the archive.
        source: Box<ArchiveError>,
    },
    /// The file has another type or size than the user expects.
    #[error("{} is not the file expected", redacted_url(.url))]
    UnexpectedContent {
        /// The URL of the download.
        url: Box<Url>,
        /// The status of the response, if it is known.
        status: Option<http::StatusCode>,
        /// The difference.
        source: UnexpectedContent,
    },
    /// The origin's X-Robots-Tag forbids the use of the file, and the user wants to respect that.
    #[error("{} must not be used: its X-Robots-Tag says {directive}", redacted_url(.url))]
    ForbiddenByRobotsTag {
        /// The URL of the download.
        url: Box<Url>,
        /// The status of the response.
        status: http::StatusCode,
        /// The directive that forbids it.
        directive: &'static str,
    },
    /// The URL is a folder of `haul serve`, and the response is the page that lists it.
    #[error("{} is a folder: its page lists files, and is not a file", redacted_url(.url))]
    FolderListing {
        /// The page's URL.
        url: Box<Url>,
    },
    /// Credentials are missing or wrong.
    #[error("{} {} {status}{}", redacted_url(.url), if *.credentials_sent { "refused the credentials:" } else { "answered" }, DisplayRealm(.realm.as_deref()))]
    Unauthorized {
        /// The URL of the download.
        url: Box<Url>,
        /// 401, or 407 where no proxy is configured.
        status: http::StatusCode,
        /// Whether credentials had been sent.
        credentials_sent: bool,
        /// The realm that the credentials are for.
        realm: Option<String>,
        /// The first line of the response's text.
        response_text: Option<Box<str>>,
    },
    /// None of the origin's responses could be used, whichever request was sent.
    #[error("{} sends responses that cannot be used: {reason}", redacted_url(.url))]
    UnusableResponse {
        /// The URL of the download.
        url: Box<Url>,
        /// Why the last response could not be used.
        reason: String,
    },
    /// The resource changed at the origin while it was fetched, more than once.
    #[error("{} keeps changing while it is downloaded", redacted_url(.url))]
    ResourceChanged {
        /// The URL of the download.
        url: Box<Url>,
    },
    /// The origin has another version than the one that was opened to be read at any offset.
    #[error("{} changed at the origin while it was read", redacted_url(.url))]
    VersionChanged {
        /// The URL of the file.
        url: Box<Url>,
    },
    /// The file cannot be read at any offset, and is too large to be held in memory.
    #[error("{} cannot be read at any offset: {reason}, and it has more than {} MiB", redacted_url(.url), .limit >> 20)]
    NoRandomAccess {
        /// The URL of the file.
        url: Box<Url>,
        /// Why its ranges cannot be used.
        reason: &'static str,
        /// The largest file that would be held in memory, in bytes.
        limit: u64,
    },
    /// The connection broke during a response that cannot be continued.
    #[error("{} broke off after {at} bytes and cannot be continued", redacted_url(.url))]
    BrokenStream {
        /// The URL of the download.
        url: Box<Url>,
        /// Bytes written before the break.
        at: u64,
    },
    /// A digest is not the one expected.
    #[error("{algorithm} of {} is {found}, where {expected_by} says {expected}", redacted_url(.url))]
    Checksum {
        /// The URL of the download.
        url: Box<Url>,
        /// Which digest.
        algorithm: DigestAlgorithm,
        /// In hexadecimal.
        expected: String,
        /// In hexadecimal.
        found: String,
        /// The source of the expected digest: the user, or a header field.
        expected_by: &'static str,
        /// The file to which the received bytes were moved.
        moved_to: Option<PathBuf>,
    },
    /// The origin has another file, for example one of another size than the job expects.
    #[error("{} is not the file meant: {reason}", redacted_url(.url))]
    WrongFile {
        /// The URL of the download.
        url: Box<Url>,
        /// How it differs.
        reason: String,
    },
    /// A piece still has the wrong digest after every retry.
    #[error("bytes {}-{} of {} are not what their {algorithm} digest says", .range.start, .range.end.saturating_sub(1), redacted_url(.url))]
    PieceDigest {
        /// The URL of the download.
        url: Box<Url>,
        /// The piece.
        range: Range<u64>,
        /// Which digest.
        algorithm: DigestAlgorithm,
    },
    /// Each of several sources was dropped.
    #[error("none of {} sources gave the file{}", .dropped.len(), DisplayDroppedSources(.dropped))]
    AllSourcesFailed {
        /// The sources, in the order of preference, and why each was dropped.
        dropped: Vec<(Url, String)>,
        /// The error of the last one.
        last: Box<Self>,
    },
    /// The final name exists.
    #[error("{} exists already", .path.display())]
    AlreadyExists {
        /// The name.
        path: PathBuf,
    },
    /// The final name was free, and another file got it during the download.
    #[error("{} was taken meanwhile by what is not known to be this URL's file: run it again", .path.display())]
    NameTaken {
        /// The name.
        path: PathBuf,
    },
    /// A file that haul must not replace has a name which the download needs.
    #[error("{} is in the way: {reason}", .path.display())]
    PathOccupied {
        /// The name.
        path: PathBuf,
        /// Why haul must not replace it.
        reason: &'static str,
    },
    /// The requested name ends like one of haul's temporary files.
    #[error("{} would look like a temporary file of haul's own", .path.display())]
    ReservedName {
        /// The name.
        path: PathBuf,
    },
    /// The output is a directory.
    #[error("{} is a directory", .path.display())]
    IsDirectory {
        /// The name.
        path: PathBuf,
    },
    /// The file system takes no name that long.
    #[error("the name {} is too long for its file system", .path.display())]
    NameTooLong {
        /// The name.
        path: PathBuf,
    },
    /// Another process is downloading to the same name.
    #[error("another haul is downloading to {}", .path.display())]
    Locked {
        /// The name.
        path: PathBuf,
    },
    /// Another job of this command has the same name.
    #[error("{} comes to the name {}, which another URL of this command has", redacted_url(.url), .path.display())]
    DuplicateName {
        /// The URL of the download.
        url: Box<Url>,
        /// The name.
        path: PathBuf,
    },
    /// The disk has too little space for the file.
    #[error("{} needs {needed} bytes and its disk has {free}", .path.display())]
    NoSpace {
        /// The path of the file.
        path: PathBuf,
        /// Bytes still to come.
        needed: u64,
        /// Bytes free for this user.
        free: u64,
    },
    /// A system call about a file failed.
    #[error("cannot {action} {}", .path.display())]
    LocalIo {
        /// The failed call: "write to", "create", "rename to" ...
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
        /// Whether the same command resumes the download.
        resumable: bool,
    },
    /// Writing to standard output, a FIFO or a device failed.
    #[error("cannot write to {}", .path.display())]
    OutputStream {
        /// Its name.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A Content-Encoding that `--decode` cannot decode, or a body that is not in its format.
    #[error("cannot decode {}", redacted_url(.url))]
    Decode {
        /// The URL of the download.
        url: Box<Url>,
        /// The error of the decoder.
        source: io::Error,
    },
    /// The download was too slow, or took too long.
    #[error("{} {limit}", redacted_url(.url))]
    LimitExceeded {
        /// The URL of the download.
        url: Box<Url>,
        /// The limit.
        limit: ExceededLimit,
        /// Whether the same command resumes the download.
        resumable: bool,
    },
    /// Stopped by the caller.
    #[error("interrupted")]
    Interrupted {
        /// Whether the same command resumes the download.
        resumable: bool,
    },
}

/// A page or an error document that came in place of a file (row A35).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorDocument {
    /// Its media type, without parameters.
    pub media_type: Option<Box<str>>,
    /// Its length in bytes, if the response has one.
    pub length: Option<u64>,
    /// The first line of its text: mostly its title.
    pub text: Option<Box<str>>,
}

/// Prints `text/html of 88 bytes ("Sign in")`.
impl std::fmt::Display for ErrorDocument {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        /// The most characters of the text.
        const SHOWN: usize = 80;
        match (self.length, self.media_type.as_deref()) {
            (Some(0), _) => return f.write_str("an empty response"),
            (_, Some(media_type)) => f.write_str(media_type)?,
            (_, None) => f.write_str("a document")?,
        }
        if let Some(length) = self.length {
            write!(f, " of {length} bytes")?;
        }
        match &self.text {
            Some(text) => write!(f, " ({:?})", text.chars().take(SHOWN).collect::<String>()),
            None => Ok(()),
        }
    }
}

impl GetError {
    /// Stopped by the caller. The end of the job sets `resumable`, as in every other error.
    pub(crate) const INTERRUPTED: Self = Self::Interrupted { resumable: false };

    /// An error about a file.
    pub(crate) fn local(action: &'static str, path: PathBuf, source: io::Error) -> Self {
        Self::LocalIo {
            action,
            path,
            source,
            resumable: false,
        }
    }

    /// Sets whether the same command resumes the download. Nothing else sets it.
    pub(crate) fn with_resumable(mut self, is_resumable: bool) -> Self {
        if let Self::AllSourcesFailed { last, .. } = &mut self {
            let error = std::mem::replace(&mut **last, Self::INTERRUPTED);
            **last = error.with_resumable(is_resumable);
        }
        if let Self::Transport { resumable, .. }
        | Self::Status { resumable, .. }
        | Self::ErrorPage { resumable, .. }
        | Self::LocalIo { resumable, .. }
        | Self::LimitExceeded { resumable, .. }
        | Self::Interrupted { resumable } = &mut self
        {
            *resumable = is_resumable;
        }
        self
    }

    /// The first line of the text of a response that refused the request.
    #[must_use]
    pub fn response_text(&self) -> Option<&str> {
        match self {
            Self::Status { response_text, .. } | Self::Unauthorized { response_text, .. } => {
                response_text.as_deref()
            }
            Self::AllSourcesFailed { last, .. } => last.response_text(),
            _ => None,
        }
    }

    /// Whether another source may have the file, so that trying the next one makes sense.
    pub(crate) fn is_source_failure(&self) -> bool {
        matches!(
            self,
            Self::Transport { .. }
                | Self::Status { .. }
                | Self::Unauthorized { .. }
                | Self::UnusableResponse { .. }
                | Self::ErrorPage { .. }
                | Self::ForbiddenByRobotsTag { .. }
                | Self::ResourceChanged { .. }
                | Self::WrongFile { .. }
                | Self::PieceDigest { .. }
        )
    }

    /// The error without its URL, for messages that name the URL elsewhere.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Transport { source, .. } => source.to_string(),
            Self::Status {
                status,
                retry_after,
                ..
            } => format!("answered {status}{}", RetryAfterText(*retry_after)),
            Self::Unauthorized { status, .. } => format!("answered {status}"),
            Self::UnusableResponse { reason, .. } | Self::WrongFile { reason, .. } => {
                reason.clone()
            }
            Self::ErrorPage { document, .. } => format!("sent {document} in place of the file"),
            Self::ForbiddenByRobotsTag { directive, .. } => {
                format!("its X-Robots-Tag says {directive}")
            }
            Self::ResourceChanged { .. } => "it keeps changing".into(),
            Self::Checksum {
                algorithm,
                expected,
                found,
                expected_by,
                ..
            } => format!(
                "its {algorithm} is {}, where {expected_by} says {}",
                shortened(found),
                shortened(expected)
            ),
            Self::HostGivenUp {
                attempts,
                kind,
                reason,
                ..
            } => format!(
                "{}{}",
                DisplayGivenUp {
                    attempts: *attempts,
                    kind: *kind
                },
                DisplayReason(reason.as_deref())
            ),
            Self::HostRefuses { wait, .. } => {
                format!("its host asks to wait for {}", WaitText(*wait))
            }
            Self::LimitExceeded { limit, .. } => limit.to_string(),
            Self::PieceDigest { range, .. } => {
                let last = range.end.saturating_sub(1);
                format!(
                    "bytes {}-{last} are not what their digest says",
                    range.start
                )
            }
            other => other.to_string(),
        }
    }

    /// The class of the error, for an exit code.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match self {
            // Nothing was verified: the origin applied an unknown coding that was not accepted.
            Self::Decode { source, .. } if source.kind() == io::ErrorKind::Unsupported => {
                ErrorClass::Network
            }
            Self::ResourceChanged { .. }
            | Self::VersionChanged { .. }
            | Self::ErrorPage { .. }
            | Self::Checksum { .. }
            | Self::Decode { .. }
            | Self::UnexpectedContent { .. }
            | Self::ForbiddenByRobotsTag { .. }
            | Self::FolderListing { .. }
            | Self::WrongFile { .. }
            | Self::PieceDigest { .. } => ErrorClass::Verification,
            Self::AllSourcesFailed { last, .. } => last.class(),
            Self::AlreadyExists { .. }
            | Self::NameTaken { .. }
            | Self::PathOccupied { .. }
            | Self::ReservedName { .. }
            | Self::IsDirectory { .. }
            | Self::NameTooLong { .. }
            | Self::Locked { .. }
            | Self::DuplicateName { .. }
            | Self::OutputStream { .. }
            | Self::NoSpace { .. }
            | Self::Archive { .. }
            | Self::LocalIo { .. } => ErrorClass::LocalIo,
            Self::Transport { source, .. } if source.is_descriptor_limit() => ErrorClass::LocalIo,
            Self::Transport { source, .. } if is_usage(source) => ErrorClass::Usage,
            Self::Interrupted { .. } => ErrorClass::Interrupted,
            _ => ErrorClass::Network,
        }
    }
}

/// Whether the settings are to blame. An s3:// URL that has no request is one: the profile or endpoint cannot be used.
fn is_usage(error: &haul_net::Error) -> bool {
    match error.kind() {
        haul_net::Kind::UnusableProxyVariable(_) => true,
        haul_net::Kind::InvalidRequest => error.url().scheme() == haul_net::SIGNED_SCHEME,
        _ => false,
    }
}

/// Prints ` (bytes a-b)`, or nothing.
struct DisplayRange<'a>(Option<&'a Range<u64>>);

impl std::fmt::Display for DisplayRange<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(range) if range.end == u64::MAX => write!(f, " (from byte {})", range.start),
            Some(range) => write!(
                f,
                " (bytes {}-{})",
                range.start,
                range.end.saturating_sub(1)
            ),
            None => Ok(()),
        }
    }
}

/// The beginning of a digest, which is enough to compare it by eye.
fn shortened(digest: &str) -> String {
    const SHOWN: usize = 12;
    match digest.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &digest[..end]),
        None => digest.to_owned(),
    }
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

/// Prints `its host was given up after 3 tries to reach it`.
struct DisplayGivenUp {
    attempts: u32,
    kind: HostFailureKind,
}

impl std::fmt::Display for DisplayGivenUp {
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

/// Prints `: URL: why; URL, URL: why`: sources that were dropped for the same reason together.
struct DisplayDroppedSources<'a>(&'a [(Url, String)]);

impl std::fmt::Display for DisplayDroppedSources<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut separator = ": ";
        for sources in self.0.chunk_by(|(_, reason), (_, other)| reason == other) {
            for (url, _) in sources {
                write!(f, "{separator}{}", redacted_url(url))?;
                separator = ", ";
            }
            if let Some((_, reason)) = sources.first() {
                write!(f, ": {reason}")?;
            }
            separator = "; ";
        }
        Ok(())
    }
}

/// Prints `: why`, or nothing.
struct DisplayReason<'a>(Option<&'a str>);

impl std::fmt::Display for DisplayReason<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.map_or(Ok(()), |reason| write!(f, ": {reason}"))
    }
}

/// Prints ` for realm "x"`, or nothing.
struct DisplayRealm<'a>(Option<&'a str>);

impl std::fmt::Display for DisplayRealm<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0
            .map_or(Ok(()), |realm| write!(f, " for realm {realm:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_is_in_the_message_once_and_digests_are_shortened() {
        let url = |host: &str| Url::parse(&format!("http://{host}.test/f")).unwrap();
        let given_up = GetError::HostGivenUp {
            url: Box::new(url("a")),
            attempts: 1,
            kind: HostFailureKind::Unreachable,
            reason: Some("cannot connect to a.test:80".into()),
        };
        let reason = given_up.reason();
        assert_eq!(
            reason,
            "its host was given up after 1 try to reach it: cannot connect to a.test:80"
        );
        assert_eq!(
            given_up.to_string(),
            format!("cannot fetch http://a.test/f: {reason}")
        );
        let wrong = GetError::Checksum {
            url: Box::new(url("c")),
            algorithm: DigestAlgorithm::Sha256,
            expected: "0123456789abcdef".repeat(4),
            found: "f".repeat(64),
            expected_by: "the given checksum",
            moved_to: None,
        };
        let dropped = vec![
            (url("a"), reason.clone()),
            (url("b"), reason.clone()),
            (url("c"), wrong.reason()),
        ];
        let all = GetError::AllSourcesFailed {
            dropped,
            last: Box::new(wrong),
        };
        assert_eq!(
            all.to_string(),
            format!(
                "none of 3 sources gave the file: http://a.test/f, http://b.test/f: {reason}; \
                 http://c.test/f: its sha256 is ffffffffffff..., where the given checksum says 0123456789ab..."
            )
        );
    }
}
