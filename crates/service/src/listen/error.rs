//! Why an address cannot be listened on, and what the user can do about it.

use std::io;
use std::path::{Path, PathBuf};

use super::address::{ListenAddress, ListenHost};
use super::systemd::InheritedSocketsError;

/// Why an address cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another server listens there.
    #[error("{address} is taken by another server")]
    InUse {
        /// The requested address.
        address: ListenAddress,
    },
    /// A port below 1024, which needs a privilege.
    #[error("no permission to listen on {address}")]
    Privileged {
        /// The requested address.
        address: ListenAddress,
    },
    /// No interface of this machine has the address.
    #[error("{address} is not an address of this machine")]
    NotLocal {
        /// The requested address.
        address: ListenAddress,
    },
    /// The name of the host has no address.
    #[error("the name in {address} has no address")]
    Unresolved {
        /// The requested address.
        address: ListenAddress,
        /// The resolver's error, if it had one.
        source: Option<io::Error>,
    },
    /// A server listens at the socket's path.
    #[error("another server listens on {}", path.display())]
    SocketInUse {
        /// The socket's file.
        path: PathBuf,
    },
    /// The socket's path exists and is not a stream socket, so it is not removed.
    #[error("{} is there already and is not a stream socket", path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// The service manager handed over no such socket.
    #[error("{address}: no such socket was handed over")]
    NotInherited {
        /// The requested address.
        address: ListenAddress,
        /// The names of the sockets that were handed over and are still free.
        others: Vec<String>,
    },
    /// A socket that was handed over cannot be used.
    #[error(transparent)]
    Inherited(#[from] InheritedSocketsError),
    /// Any other error of the system.
    #[error("cannot listen on {address}")]
    Io {
        /// The requested address.
        address: ListenAddress,
        /// The error of the system.
        source: io::Error,
    },
}

impl ListenError {
    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::InUse { address } => Some(in_use_hint(address)),
            Self::Privileged { .. } => Some(
                "ports below 1024 need a privilege: take a higher one, let systemd open the socket, or \
                 `setcap cap_net_bind_service=+ep` the binary"
                    .into(),
            ),
            Self::NotLocal { .. } => Some(
                "`ip address` lists its addresses; a port with nothing before the colon is every interface".into(),
            ),
            Self::Unresolved { .. } => {
                Some("write an IP address, or a port with nothing before the colon for every interface".into())
            }
            Self::SocketInUse { .. } => Some("is another haul running? stop it, or name another path".into()),
            Self::NotASocket { .. } => Some("remove it yourself, or name another path".into()),
            Self::NotInherited { others, .. } if others.is_empty() => Some(
                "it needs a service with a .socket unit; to try it: systemd-socket-activate -l 8080 haul serve ... -l systemd"
                    .into(),
            ),
            Self::NotInherited { others, .. } => Some(format!("systemd handed over: {}", others.join(", "))),
            Self::Io { address, source } => io_hint(address, source),
            Self::Inherited(_) => None,
        }
    }

    /// The error of the system for a TCP address.
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

/// Whether the machine lacks the address, or its address family.
pub(super) fn is_not_local(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EADDRNOTAVAIL | libc::EAFNOSUPPORT)
    )
}

fn in_use_hint(address: &ListenAddress) -> String {
    let mut text = String::from("stop it or take another port, 0 for any free one");
    if let ListenAddress::Tcp { host, port } = address {
        text = format!("{text}; `ss -ltnp sport = :{port}` shows the server");
        if is_any(host) {
            text.push_str("; [::] includes IPv4, so 0.0.0.0 cannot be listened on as well");
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
            "the user of this process must be able to write to {}",
            folder.display()
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(address: &str, code: i32) -> ListenError {
        ListenError::from_tcp(
            &address.parse().unwrap(),
            io::Error::from_raw_os_error(code),
        )
    }

    #[test]
    fn errors_of_the_system_have_hints() {
        let taken = error_of("127.0.0.1:8080", libc::EADDRINUSE);
        assert_eq!(
            taken.to_string(),
            "127.0.0.1:8080 is taken by another server"
        );
        assert_eq!(
            taken.hint().unwrap(),
            "stop it or take another port, 0 for any free one; `ss -ltnp sport = :8080` shows the server"
        );
        let any = error_of("[::]:8080", libc::EADDRINUSE).hint().unwrap();
        assert!(any.contains("includes IPv4"), "{any}");
        let privileged = error_of(":80", libc::EACCES);
        assert_eq!(privileged.to_string(), "no permission to listen on :80");
        assert!(privileged.hint().unwrap().contains("cap_net_bind_service"));
        // A firewall refuses: the port is not the reason.
        assert!(matches!(
            error_of(":8080", libc::EACCES),
            ListenError::Io { .. }
        ));
        assert!(matches!(
            error_of("192.0.2.1:80", libc::EADDRNOTAVAIL),
            ListenError::NotLocal { .. }
        ));
        let files = error_of(":8080", libc::EMFILE).hint().unwrap();
        assert!(files.contains("ulimit"), "{files}");
    }
}
