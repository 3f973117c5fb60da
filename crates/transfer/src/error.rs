//! Why a download ended without its file.
//!
//! Variants are by meaning: the binary branches on [`GetError::class`] for its exit code and prints
//! [`GetError::hint`] below the message. Display says its own level only; the chain is in `source`.

use std::io;
use std::ops::Range;
use std::path::PathBuf;

use haul_net::shown;
use haul_plan::Algorithm;
use url::Url;

/// What kind of end it was: one exit code each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The bytes are not the file that was meant.
    Verification,
    /// This machine: disk, permission, a name that is taken.
    LocalIo,
    /// The network, a proxy or the origin.
    Network,
    /// Stopped by the caller; what can be resumed was kept.
    Interrupted,
}

/// Why a job ended without its file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GetError {
    /// The transport failed for good, or more often than the budget allows.
    #[error("cannot fetch {}{}", shown(.url), Bytes(.range.as_ref().filter(|_| .source.is_about_bytes())))]
    Transport {
        /// What was being fetched.
        url: Box<Url>,
        /// Which bytes, where a range was asked for.
        range: Option<Range<u64>>,
        /// What the transport said.
        source: Box<haul_net::Error>,
    },
    /// The origin answered with a status that ends the job.
    #[error("{} answered {status}", shown(.url))]
    Status {
        /// What was being fetched.
        url: Box<Url>,
        /// The answer.
        status: http::StatusCode,
        /// Whether credentials had been sent.
        authorized: bool,
    },
    /// Credentials are missing or wrong.
    #[error("{} {} {status}{}", shown(.url), if *.authorized { "refused the credentials given:" } else { "answered" }, Realm(.realm.as_deref()))]
    Unauthorized {
        /// What was being fetched.
        url: Box<Url>,
        /// 401; 407 where no proxy is known of.
        status: http::StatusCode,
        /// Whether credentials had been sent.
        authorized: bool,
        /// Whom the peer says the credentials are for.
        realm: Option<String>,
    },
    /// Answers that cannot be trusted, on every road that was tried.
    #[error("{} gives answers that cannot be used: {why}", shown(.url))]
    Refused {
        /// What was being fetched.
        url: Box<Url>,
        /// What was wrong with the last one.
        why: String,
    },
    /// The resource changed at the origin while it was fetched, more than once.
    #[error("{} keeps changing while it is downloaded", shown(.url))]
    Changed {
        /// What was being fetched.
        url: Box<Url>,
    },
    /// The stream broke where it cannot be continued.
    #[error("{} broke off after {at} bytes and cannot be continued", shown(.url))]
    BrokenStream {
        /// What was being fetched.
        url: Box<Url>,
        /// Bytes handed on before the break.
        at: u64,
    },
    /// A digest is not the one expected.
    #[error("{algorithm} of {} is {found}, not {expected} as {origin}", shown(.url))]
    Checksum {
        /// What was fetched.
        url: Box<Url>,
        /// Which digest.
        algorithm: Algorithm,
        /// In hexadecimal.
        expected: String,
        /// In hexadecimal.
        found: String,
        /// Who expected it: "given", or the header field.
        origin: &'static str,
        /// Where the bytes were set aside.
        aside: Option<PathBuf>,
    },
    /// The final name is taken.
    #[error("{} exists already", .path.display())]
    Exists {
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
    /// Another process downloads to the same name.
    #[error("another haul is downloading to {}", .path.display())]
    Locked {
        /// The name that both want.
        path: PathBuf,
    },
    /// Another job of the same engine has the name.
    #[error("{} comes to the name {}, which another URL of this command has", shown(.url), .path.display())]
    Twice {
        /// What was being fetched.
        url: Box<Url>,
        /// The name that both come to.
        path: PathBuf,
    },
    /// There is not enough room for the file.
    #[error("{} needs {needed} bytes and its disk has {free}", .path.display())]
    NoSpace {
        /// Where the file should go.
        path: PathBuf,
        /// Bytes still to come.
        needed: u64,
        /// Bytes free for this user.
        free: u64,
    },
    /// This machine's disk said no.
    #[error("cannot {action} {}", .path.display())]
    Local {
        /// What was being done: "write to", "create", "rename to" ...
        action: &'static str,
        /// To which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Standard output, a FIFO or a device took no more.
    #[error("cannot write to {}", .path.display())]
    Stream {
        /// Its name.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A Content-Encoding that `--decode` cannot undo, or a body that is not what it says.
    #[error("cannot decode {}", shown(.url))]
    Decode {
        /// What was fetched.
        url: Box<Url>,
        /// What is wrong with it.
        source: io::Error,
    },
    /// Stopped by the caller.
    #[error("interrupted")]
    Interrupted {
        /// Whether the same command goes on where this one stopped.
        resumable: bool,
    },
}

impl GetError {
    /// The kind of end, for an exit code.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Self::Changed { .. } | Self::Checksum { .. } | Self::Decode { .. } => {
                Class::Verification
            }
            Self::Exists { .. }
            | Self::IsDirectory { .. }
            | Self::NameTooLong { .. }
            | Self::Locked { .. }
            | Self::Twice { .. }
            | Self::Stream { .. }
            | Self::NoSpace { .. }
            | Self::Local { .. } => Class::LocalIo,
            Self::Transport { source, .. } if source.is_shortage() => Class::LocalIo,
            Self::Interrupted { .. } => Class::Interrupted,
            _ => Class::Network,
        }
    }

    /// What the user may do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unauthorized { status, .. } if status.as_u16() == 407 => Some(
                "give the proxy's credentials in --proxy http://user:password@host:port".into(),
            ),
            Self::Unauthorized {
                authorized: true, ..
            } => Some("check the user name and password, or the token".into()),
            Self::Unauthorized { .. } => {
                Some("give credentials with -u USER, --bearer or --netrc".into())
            }
            Self::Status {
                status, authorized, ..
            } if status.as_u16() == 403 => Some(
                if *authorized {
                    "these credentials do not open it; others go with -u USER, --bearer or --netrc"
                } else {
                    "it may want credentials (-u USER, --bearer, --netrc), or its signature has expired"
                }
                .into(),
            ),
            Self::Status { status, .. } if status.as_u16() == 404 || status.as_u16() == 410 => {
                Some("check the URL".into())
            }
            Self::Status { .. } | Self::Transport { .. } => None,
            Self::Refused { .. } => Some("-x 1 asks for the file over one connection".into()),
            Self::Changed { .. } => Some("try again when the origin is at rest".into()),
            Self::BrokenStream { .. } => {
                Some("write to a file with -o FILE: it can be resumed".into())
            }
            Self::Checksum { aside, .. } => Some(match aside {
                Some(path) => format!("what came was set aside as {}", path.display()),
                None => "what came must not be used".into(),
            }),
            Self::Exists { .. } => Some(
                "--overwrite replaces it, --update does so only if the origin has a newer one"
                    .into(),
            ),
            Self::IsDirectory { path } => {
                Some(format!("-d {} puts the file into it", path.display()))
            }
            Self::NameTooLong { .. } => Some("choose a shorter one with -o".into()),
            Self::Locked { .. } => Some("wait for it, or choose another name with -o".into()),
            Self::Twice { .. } => Some("download it by a command of its own, with -o FILE".into()),
            Self::Stream { source, .. } => Some(stream_hint(source).into()),
            Self::NoSpace { .. } => Some("make room and run the same command again".into()),
            Self::Local { source, .. } => local_hint(source),
            Self::Decode { .. } => Some("without --decode it is stored as sent".into()),
            Self::Interrupted { resumable: true } => Some("the same command goes on".into()),
            Self::Interrupted { resumable: false } => None,
        }
    }
}

/// What may be done about an output that takes no more.
fn stream_hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::BrokenPipe => "whoever read it is gone",
        io::ErrorKind::StorageFull => "where it leads to there is no room",
        _ => "-o FILE writes to a file",
    }
}

/// Disk errors that a user can mend, by what the system calls them.
fn local_hint(source: &io::Error) -> Option<String> {
    let hint = match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "make room and run the same command again: it goes on where it stopped"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "choose a place you may write to with -o or -d"
        }
        io::ErrorKind::IsADirectory => {
            "this name is for haul's own file: move the directory away, or choose another name with -o"
        }
        io::ErrorKind::NotFound => "create the directory first",
        io::ErrorKind::FileTooLarge => {
            "this file system or a limit (ulimit -f) forbids so large a file"
        }
        _ => return None,
    };
    Some(hint.into())
}

/// Prints ` (bytes a-b)`, or nothing.
struct Bytes<'a>(Option<&'a Range<u64>>);

impl std::fmt::Display for Bytes<'_> {
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

/// Prints ` for realm "x"`, or nothing.
struct Realm<'a>(Option<&'a str>);

impl std::fmt::Display for Realm<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0
            .map_or(Ok(()), |realm| write!(f, " for realm {realm:?}"))
    }
}
