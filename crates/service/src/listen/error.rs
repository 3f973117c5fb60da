//! Why an address cannot be listened on.

use std::io;
use std::path::PathBuf;

use super::address::ListenAddress;
use super::systemd::InheritedSocketsError;

/// Why an address cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another server listens there.
    #[error("{address} is taken by another server")]
    InUse { address: ListenAddress },
    /// A port below 1024, which needs a privilege.
    #[error("no permission to listen on {address}")]
    Privileged { address: ListenAddress },
    /// No interface of this machine has the address.
    #[error("{address} is not an address of this machine")]
    NotLocal { address: ListenAddress },
    /// The name of the host has no address.
    #[error("the name in {address} has no address")]
    Unresolved {
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
    NotASocket { path: PathBuf },
    /// The service manager handed over no such socket.
    #[error("{address}: no such socket was handed over")]
    NotInherited {
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
        address: ListenAddress,
        source: io::Error,
    },
}

impl ListenError {
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
    fn errors_of_the_system_are_told_apart() {
        let taken = error_of("127.0.0.1:8080", libc::EADDRINUSE);
        assert_eq!(
            taken.to_string(),
            "127.0.0.1:8080 is taken by another server"
        );
        let privileged = error_of(":80", libc::EACCES);
        assert_eq!(privileged.to_string(), "no permission to listen on :80");
        // A firewall refuses: the port is not the reason.
        assert!(matches!(
            error_of(":8080", libc::EACCES),
            ListenError::Io { .. }
        ));
        assert!(matches!(
            error_of("192.0.2.1:80", libc::EADDRNOTAVAIL),
            ListenError::NotLocal { .. }
        ));
    }
}
