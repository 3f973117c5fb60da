//! Why we cannot listen, and what the user can do about it.

use std::io;
use std::path::{Path, PathBuf};

use super::address::{ListenAddress, ListenHost};
use super::systemd::InheritedSocketsError;

/// Why an address cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Somebody listens there.
    #[error("{address} is taken by another server")]
    InUse {
        /// As it was asked for.
        address: ListenAddress,
    },
    /// A port below 1024, which is not for everyone.
    #[error("no permission to listen on {address}")]
    Privileged {
        /// As it was asked for.
        address: ListenAddress,
    },
    /// None of this machine's interfaces has that address.
    #[error("{address} is no address of this machine")]
    NotLocal {
        /// As it was asked for.
        address: ListenAddress,
    },
    /// The name of the host has no address.
    #[error("the name in {address} has no address")]
    Unresolved {
        /// As it was asked for.
        address: ListenAddress,
        /// What the resolver said, if it said anything.
        source: Option<io::Error>,
    },
    /// A server answers at the socket's path.
    #[error("another server listens on {}", path.display())]
    SocketInUse {
        /// The socket's file.
        path: PathBuf,
    },
    /// At the socket's path is something that is not ours to remove.
    #[error("{} is there already and is not a stream socket", path.display())]
    NotASocket {
        /// What is there.
        path: PathBuf,
    },
    /// Whoever started us has handed over no such socket.
    #[error("{address}: no such socket was handed over")]
    NotInherited {
        /// As it was asked for.
        address: ListenAddress,
        /// The names of those that were, and that nobody has taken.
        others: Vec<String>,
    },
    /// What was handed over cannot be used.
    #[error(transparent)]
    Inherited(#[from] InheritedSocketsError),
    /// Everything else that the system may say.
    #[error("cannot listen on {address}")]
    Io {
        /// As it was asked for.
        address: ListenAddress,
        /// What the system said.
        source: io::Error,
    },
}

impl ListenError {
    /// What the user can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::InUse { address } => Some(in_use_hint(address)),
            Self::Privileged { .. } => Some(
                "ports below 1024 are the administrator's: take one above, let systemd open the socket, or \
                 `setcap cap_net_bind_service=+ep` the binary"
                    .into(),
            ),
            Self::NotLocal { .. } => Some(
                "`ip address` lists those it has; a port with nothing before the colon is every interface".into(),
            ),
            Self::Unresolved { .. } => {
                Some("write an IP address, or a port with nothing before the colon for every interface".into())
            }
            Self::SocketInUse { .. } => Some("is another haul running? stop it, or name another path".into()),
            Self::NotASocket { .. } => Some("it is left alone: remove it yourself, or name another path".into()),
            Self::NotInherited { others, .. } if others.is_empty() => Some(
                "it is for services with a .socket unit; to try it: systemd-socket-activate -l 8080 haul serve ... -l systemd"
                    .into(),
            ),
            Self::NotInherited { others, .. } => Some(format!("there are: {}", others.join(", "))),
            Self::Io { address, source } => io_hint(address, source),
            Self::Inherited(_) => None,
        }
    }

    /// What the system said of a TCP address.
    pub(super) fn from_tcp(address: &ListenAddress, source: io::Error) -> Self {
        let privileged = matches!(address, ListenAddress::Tcp { port: 1..1024, .. });
        let address = address.clone();
        match source.kind() {
            io::ErrorKind::AddrInUse => Self::InUse { address },
            io::ErrorKind::PermissionDenied if privileged => Self::Privileged { address },
            _ if is_not_local(&source) => Self::NotLocal { address },
            _ => Self::Io { address, source },
        }
    }
}

/// Whether the machine lacks this address, or all of its family.
pub(super) fn is_not_local(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EADDRNOTAVAIL | libc::EAFNOSUPPORT)
    )
}

fn in_use_hint(address: &ListenAddress) -> String {
    let mut text = String::from("stop it or take another port, 0 for any free one");
    if let ListenAddress::Tcp { host, port } = address {
        text = format!("{text}; `ss -ltnp sport = :{port}` shows who it is");
        if is_any(host) {
            text.push_str("; every interface includes IPv4, so that 0.0.0.0 beside it is too much");
        }
    }
    text
}

fn is_any(host: &ListenHost) -> bool {
    match host {
        ListenHost::Any => true,
        ListenHost::Ip(ip) => ip.is_ipv6() && ip.is_unspecified(),
        ListenHost::Name(_) => false,
    }
}

fn io_hint(address: &ListenAddress, source: &io::Error) -> Option<String> {
    if source.raw_os_error() == Some(libc::EMFILE) {
        return Some("ulimit -n N allows more open files, --threads N needs fewer".into());
    }
    let ListenAddress::Unix { path, .. } = address else {
        return None;
    };
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or_else(|| Path::new("."));
    match source.kind() {
        io::ErrorKind::NotFound => Some(format!("make the folder {} first", folder.display())),
        io::ErrorKind::PermissionDenied => Some(format!(
            "sockets are made in {}, which must be writable for whom the server runs as",
            folder.display()
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(address: &str, code: i32) -> ListenError {
        ListenError::from_tcp(
            &address.parse().unwrap(),
            io::Error::from_raw_os_error(code),
        )
    }

    #[test]
    fn what_the_system_says_becomes_what_to_do() {
        let taken = said("127.0.0.1:8080", libc::EADDRINUSE);
        assert_eq!(
            taken.to_string(),
            "127.0.0.1:8080 is taken by another server"
        );
        assert_eq!(
            taken.hint().unwrap(),
            "stop it or take another port, 0 for any free one; `ss -ltnp sport = :8080` shows who it is"
        );
        let every = said("[::]:8080", libc::EADDRINUSE).hint().unwrap();
        assert!(every.contains("includes IPv4"), "{every}");
        let privileged = said(":80", libc::EACCES);
        assert_eq!(privileged.to_string(), "no permission to listen on :80");
        assert!(privileged.hint().unwrap().contains("cap_net_bind_service"));
        // A firewall's word, and not the port's fault.
        assert!(matches!(
            said(":8080", libc::EACCES),
            ListenError::Io { .. }
        ));
        assert!(matches!(
            said("192.0.2.1:80", libc::EADDRNOTAVAIL),
            ListenError::NotLocal { .. }
        ));
        let files = said(":8080", libc::EMFILE).hint().unwrap();
        assert!(files.contains("ulimit"), "{files}");
    }
}
