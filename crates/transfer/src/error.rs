//! The errors of a download: facts, for front ends to put into words.
//!
//! An error is of one of four kinds, which decide its [`ErrorClass`] and with it an exit code. Display has one level of the message; the chain
//! is in `source`. What the user can do is [`GetError::remedies`].

mod local;
mod network;
mod origin;
mod verification;

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::PathBuf;

use haul_net::redacted_url;
use haul_plan::Remedy;
use serde::{Deserialize, Serialize};
use url::Url;

pub use local::LocalError;
pub use network::{HostFailureKind, NetworkError};
pub use origin::OriginError;
pub(crate) use origin::wait_remedies;
pub use verification::{ErrorDocument, VerificationError};

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

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        [
            Self::Verification,
            Self::LocalIo,
            Self::Network,
            Self::Interrupted,
            Self::Usage,
        ]
        .into_iter()
        .find(|class| class.name() == name)
    }
}

/// Why a job ended without its file.
#[derive(Debug)]
pub enum GetError {
    /// The origin answered, and sent no file.
    Origin {
        url: Box<Url>,
        error: OriginError,
        /// Whether the next run resumes the download.
        resumable: bool,
    },
    /// The network, a proxy or the origin's host failed.
    Network {
        url: Box<Url>,
        /// What failed.
        error: NetworkError,
        /// Whether the next run resumes the download.
        resumable: bool,
    },
    /// The bytes are not those of the file.
    Verification {
        url: Box<Url>,
        error: VerificationError,
        /// Whether the next run resumes the download.
        resumable: bool,
    },
    /// This machine failed.
    Local {
        path: PathBuf,
        /// What failed.
        error: LocalError,
        /// Whether the next run resumes the download.
        resumable: bool,
    },
    /// Each of several sources was dropped.
    AllSourcesFailed {
        /// The sources, in the order of preference, and why each was dropped.
        dropped: Vec<(Url, String)>,
        last: Box<Self>,
    },
    /// Stopped by the caller.
    Interrupted {
        /// Whether the next run resumes the download.
        resumable: bool,
    },
}

impl GetError {
    /// Stopped by the caller. The end of the job sets `resumable`, as in every other error.
    pub(crate) const INTERRUPTED: Self = Self::Interrupted { resumable: false };

    pub(crate) fn origin(url: impl Into<Box<Url>>, error: OriginError) -> Self {
        Self::Origin {
            url: url.into(),
            error,
            resumable: false,
        }
    }

    pub(crate) fn network(url: impl Into<Box<Url>>, error: NetworkError) -> Self {
        Self::Network {
            url: url.into(),
            error,
            resumable: false,
        }
    }

    pub(crate) fn verification(url: impl Into<Box<Url>>, error: VerificationError) -> Self {
        Self::Verification {
            url: url.into(),
            error,
            resumable: false,
        }
    }

    pub(crate) fn local(path: impl Into<PathBuf>, error: LocalError) -> Self {
        Self::Local {
            path: path.into(),
            error,
            resumable: false,
        }
    }

    /// A failed system call about a file.
    pub(crate) fn io(action: &'static str, path: PathBuf, source: io::Error) -> Self {
        Self::local(path, LocalError::Io { action, source })
    }

    /// Sets whether the next run resumes the download. Nothing else sets it.
    pub(crate) fn with_resumable(mut self, is_resumable: bool) -> Self {
        match &mut self {
            Self::AllSourcesFailed { last, .. } => {
                let error = std::mem::replace(&mut **last, Self::INTERRUPTED);
                **last = error.with_resumable(is_resumable);
            }
            Self::Origin { resumable, .. }
            | Self::Network { resumable, .. }
            | Self::Verification { resumable, .. }
            | Self::Local { resumable, .. }
            | Self::Interrupted { resumable } => *resumable = is_resumable,
        }
        self
    }

    /// The status of the response that ended the job.
    #[must_use]
    pub fn status(&self) -> Option<http::StatusCode> {
        match self {
            Self::Origin {
                error: OriginError::Status { status, .. },
                ..
            }
            | Self::Verification {
                error: VerificationError::ForbiddenByRobotsTag { status, .. },
                ..
            } => Some(*status),
            Self::Verification {
                error: VerificationError::UnexpectedContent { status, .. },
                ..
            } => *status,
            _ => None,
        }
    }

    /// The first line of the text of a response that refused the request.
    #[must_use]
    pub fn response_text(&self) -> Option<&str> {
        match self {
            Self::Origin {
                error: OriginError::Status { response_text, .. },
                ..
            } => response_text.as_deref(),
            Self::AllSourcesFailed { last, .. } => last.response_text(),
            _ => None,
        }
    }

    /// Whether another source may have the file, so that trying the next one makes sense.
    pub(crate) fn is_source_failure(&self) -> bool {
        match self {
            Self::Origin { error, .. } => matches!(
                error,
                OriginError::Status { .. } | OriginError::UnusableResponse { .. }
            ),
            Self::Network { error, .. } => matches!(error, NetworkError::Transport { .. }),
            Self::Verification { error, .. } => error.is_source_failure(),
            _ => false,
        }
    }

    /// The class of the error, for an exit code.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Origin { .. } => ErrorClass::Network,
            Self::Network { error, .. } => error.class(),
            Self::Verification { .. } => ErrorClass::Verification,
            Self::Local { .. } => ErrorClass::LocalIo,
            Self::AllSourcesFailed { last, .. } => last.class(),
            Self::Interrupted { .. } => ErrorClass::Interrupted,
        }
    }

    /// Whether the same download may succeed later without anything that the user does: a host that was down, an overloaded
    /// origin.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Origin { error, .. } => error.is_transient(),
            Self::Network { error, .. } => error.is_transient(),
            Self::Verification { error, .. } => {
                matches!(error, VerificationError::ResourceChanged)
            }
            Self::Local { error, .. } => matches!(error, LocalError::Locked),
            Self::AllSourcesFailed { last, .. } => last.is_transient(),
            Self::Interrupted { .. } => true,
        }
    }

    /// Whether a digest of the file is not the one expected.
    pub(crate) fn is_checksum(&self) -> bool {
        let Self::Verification { error, .. } = self else {
            return false;
        };
        matches!(error, VerificationError::Checksum { .. })
    }

    /// The cause in a few words, the same for every job with this cause: a summary of a hundred thousand jobs counts them by cause.
    #[must_use]
    pub fn cause(&self) -> String {
        match self {
            Self::Origin { error, .. } => error.cause(),
            Self::Network { error, .. } => error.cause(),
            Self::Verification { error, .. } => error.cause().to_owned(),
            Self::Local { error, .. } => error.cause(),
            Self::AllSourcesFailed { last, .. } if last.is_checksum() => last.cause(),
            Self::AllSourcesFailed { .. } => "no source left".to_owned(),
            Self::Interrupted { .. } => "interrupted".to_owned(),
        }
    }

    /// The rest of the error, without its cause and URL. `None` if only the whole message says it.
    #[must_use]
    pub fn cause_detail(&self) -> Option<String> {
        match self {
            Self::Origin {
                error: error @ OriginError::Status { .. },
                ..
            } => (!error.is_unauthorized()).then(String::new),
            Self::Network {
                error:
                    NetworkError::HostGivenUp {
                        attempts, reason, ..
                    },
                ..
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

    /// What the user can do about it.
    #[must_use]
    pub fn remedies(&self) -> Vec<Remedy> {
        let (mut remedies, is_resumable) = match self {
            Self::Origin {
                url,
                error,
                resumable,
            } => (error.remedies(url, *resumable), *resumable),
            Self::Network {
                error, resumable, ..
            } => (error.remedies(*resumable), *resumable),
            Self::Verification {
                url,
                error,
                resumable,
            } => (error.remedies(url), *resumable),
            Self::Local {
                path,
                error,
                resumable,
            } => (error.remedies(path), *resumable),
            Self::AllSourcesFailed { last, .. } => return last.remedies(),
            Self::Interrupted { resumable } => (Vec::new(), *resumable),
        };
        let may_resume = match self {
            // The bytes on disk may be another process's, or are not what is wrong.
            Self::Local { error, .. } => {
                matches!(error, LocalError::Io { .. } | LocalError::NoSpace { .. })
            }
            Self::Verification { error, .. } => {
                matches!(error, VerificationError::ErrorPage { .. })
            }
            _ => true,
        };
        remedies.extend((is_resumable && may_resume).then_some(Remedy::Resume));
        remedies
    }

    /// The error without its URL, for messages that name the URL elsewhere.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Origin {
                error: OriginError::UnusableResponse { reason },
                ..
            } => reason.clone(),
            Self::Origin {
                error: OriginError::Status { status, .. },
                ..
            } if matches!(status.as_u16(), 401 | 407) => format!("answered {status}"),
            Self::Origin { error, .. } => error.to_string(),
            Self::Network { error, .. } => error.to_string(),
            Self::Verification { error, .. } => error.reason(),
            other => other.to_string(),
        }
    }
}

impl fmt::Display for GetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Origin { url, error, .. } => write!(f, "{} {error}", redacted_url(url)),
            Self::Network { url, error, .. } => {
                let url = redacted_url(url);
                match error {
                    NetworkError::Transport { range, source } => {
                        let range = range.as_ref().filter(|_| source.is_after_connect());
                        write!(f, "cannot fetch {url}{}", RangeText(range))
                    }
                    NetworkError::HostGivenUp { .. } => write!(f, "cannot fetch {url}: {error}"),
                    _ => write!(f, "{url} {error}"),
                }
            }
            Self::Verification { url, error, .. } => write!(f, "{} {error}", redacted_url(url)),
            Self::Local { path, error, .. } => {
                f.write_str(&error.message(&path.display().to_string()))
            }
            Self::AllSourcesFailed { dropped, .. } => {
                write!(f, "none of {} sources gave the file", dropped.len())?;
                fmt_dropped(f, dropped)
            }
            Self::Interrupted { .. } => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for GetError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Origin { error, .. } => error.source(),
            Self::Network { error, .. } => error.source(),
            Self::Verification { error, .. } => error.source(),
            Self::Local { error, .. } => error.source(),
            Self::AllSourcesFailed { .. } | Self::Interrupted { .. } => None,
        }
    }
}

/// Prints ` (bytes a-b)`, or nothing.
struct RangeText<'a>(Option<&'a Range<u64>>);

impl fmt::Display for RangeText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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

/// Prints `: URL: why; URL, URL: why`: sources that were dropped for the same reason together.
fn fmt_dropped(f: &mut fmt::Formatter<'_>, dropped: &[(Url, String)]) -> fmt::Result {
    let mut separator = ": ";
    for sources in dropped.chunk_by(|(_, reason), (_, other)| reason == other) {
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

#[cfg(test)]
mod tests {
    use haul_plan::DigestAlgorithm;

    use super::*;

    #[test]
    fn only_errors_after_which_the_download_goes_on_say_that_it_resumes() {
        let says = |error: GetError| {
            let remedies = error.with_resumable(true).remedies();
            remedies.contains(&Remedy::Resume)
        };
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        assert!(says(GetError::io("write to", "f".into(), full())));
        assert!(says(GetError::INTERRUPTED));
        assert!(!says(GetError::local("f", LocalError::Locked)));
        assert!(!says(GetError::local("f", LocalError::AlreadyExists)));
        let url = Url::parse("http://h.test/f").unwrap();
        let changed = VerificationError::ResourceChanged;
        assert!(!says(GetError::verification(url, changed)));
    }

    #[test]
    fn each_cause_is_in_the_message_once_and_digests_are_shortened() {
        let url = |host: &str| Url::parse(&format!("http://{host}.test/f")).unwrap();
        let given_up = GetError::network(
            url("a"),
            NetworkError::HostGivenUp {
                attempts: 1,
                kind: HostFailureKind::Unreachable,
                reason: Some("cannot connect to a.test:80".into()),
            },
        );
        let reason = given_up.reason();
        assert_eq!(
            reason,
            "its host was given up after 1 try to reach it: cannot connect to a.test:80"
        );
        assert_eq!(
            given_up.to_string(),
            format!("cannot fetch http://a.test/f: {reason}")
        );
        let wrong = GetError::verification(
            url("c"),
            VerificationError::Checksum {
                algorithm: DigestAlgorithm::Sha256,
                expected: "0123456789abcdef".repeat(4),
                found: "f".repeat(64),
                expected_by: "the given checksum",
                moved_to: None,
            },
        );
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
