//! Binds an address.
//!
//! One address may become several [`BoundListener`]s: a name may have several addresses, and a service manager may hand over several
//! sockets. Each has as many [`Listener`](super::Listener)s as the options say, so that every thread can have one of its own.

use std::io;

use super::address::ListenAddress;
use super::error::ListenError;
use super::listener::{BindOptions, BoundListener};
use super::systemd::InheritedSockets;
use super::{tcp, unix};

/// Listens on all that an address means, or on nothing. It looks up names, so it may block.
pub fn bind(
    address: &ListenAddress,
    options: &BindOptions,
    inherited: &mut InheritedSockets,
) -> Result<Vec<BoundListener>, ListenError> {
    match address {
        ListenAddress::Tcp { host, port } => tcp::bind(address, host, *port, options),
        ListenAddress::Unix { path, mode } => {
            let failed = |source| ListenError::Io {
                address: address.clone(),
                source,
            };
            let (listener, file) = unix::bind(path, *mode, options).map_err(|e| match e {
                unix::UnixBindError::Io(source) => failed(source),
                unix::UnixBindError::InUse => ListenError::SocketInUse { path: path.clone() },
                unix::UnixBindError::NotASocket => ListenError::NotASocket { path: path.clone() },
            })?;
            let bound = BoundListener::duplicates(listener, Some(file), options).map_err(failed)?;
            Ok(vec![bound])
        }
        ListenAddress::Systemd { name } => {
            let found = inherited.take_named(name.as_deref());
            if found.is_empty() {
                return Err(ListenError::NotInherited {
                    address: address.clone(),
                    others: inherited.names(),
                });
            }
            let bound = found
                .into_iter()
                .map(|listener| BoundListener::duplicates(listener, None, options));
            bound
                .collect::<io::Result<_>>()
                .map_err(|source| ListenError::Io {
                    address: address.clone(),
                    source,
                })
        }
    }
}
