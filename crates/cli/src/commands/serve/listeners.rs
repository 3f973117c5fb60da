//! The listeners of a server and their TLS.

use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;

use haul_serve::FileServer;
use haul_serve::accept::WorkerThreads;
use haul_serve::tls::{CertificateError, CertificatePair, ServerTls, local_names};
use haul_service::ServerNames;
use haul_service::listen::{
    BindOptions, BoundAddress, BoundListener, InheritedSockets, bind, bound_addresses,
    is_taken_by_this_process,
};

use crate::commands::service::addresses::{SocketFiles, is_public, used_twice_error};
use crate::commands::service::command_error::CommandError;
use crate::settings::{ServeSettings, TlsSettings};

#[derive(Debug)]
pub(super) struct ServeListeners {
    bound: Vec<BoundListener>,
    pub(super) tls: Option<ServerTls>,
    /// Inherited sockets that no address uses.
    pub(super) unused_sockets: Vec<String>,
}

impl ServeListeners {
    /// Listens, and loads the certificates.
    pub(super) fn open(settings: &ServeSettings) -> Result<Self, CommandError> {
        let options = BindOptions {
            sockets: NonZeroUsize::new(settings.workers.sockets_per_address())
                .unwrap_or(NonZeroUsize::MIN),
            ..BindOptions::default()
        };
        // Files are read first: a missing certificate is reported before ports are taken.
        let tls = match &settings.tls {
            TlsSettings::Files(pairs) => Some(tls_from_files(pairs)?),
            TlsSettings::Off | TlsSettings::SelfSigned => None,
        };
        let mut inherited = InheritedSockets::take()?;
        let mut bound = Vec::new();
        for address in &settings.listen {
            let more = bind(address, &options, &mut inherited).map_err(|error| {
                if is_taken_by_this_process(&error, &bound_addresses(&bound)) {
                    used_twice_error("-l", address, "-l", "every interface includes this one")
                } else {
                    error.into()
                }
            })?;
            bound.extend(more);
        }
        let mut listeners = Self {
            bound,
            tls,
            unused_sockets: inherited.names(),
        };
        if settings.tls == TlsSettings::SelfSigned {
            listeners.tls = Some(ServerTls::self_signed(local_names(&listeners.addresses()))?);
        }
        Ok(listeners)
    }

    pub(super) fn addresses(&self) -> Vec<BoundAddress> {
        bound_addresses(&self.bound)
    }

    /// The host names of the server, if requests for other names must be refused: see [`ServerNames`].
    pub(super) fn server_names(&self, settings: &ServeSettings) -> Option<ServerNames> {
        let is_private = !self.bound.iter().any(|bound| is_public(&bound.local));
        let is_trusting = self.tls.is_none() && settings.server.access.allows_anonymous();
        let allowed = settings
            .allowed_hosts
            .clone()
            .filter(|_| is_private && is_trusting)?;
        let names = local_names(&[]);
        // The names of multicast DNS.
        let local: Vec<String> = names
            .iter()
            .map(|name| name.split('.').next().unwrap_or(name))
            .map(|name| format!("{name}.local"))
            .collect();
        Some(ServerNames::new(
            allowed.into_iter().chain(names).chain(local),
        ))
    }

    /// Starts the worker threads.
    pub(super) fn start_workers(
        self,
        server: &Arc<FileServer>,
        settings: &ServeSettings,
    ) -> Result<(WorkerThreads, SocketFiles), CommandError> {
        let mut files = Vec::new();
        let mut sockets = Vec::new();
        for bound in self.bound {
            let config = self.tls.as_ref().map(|tls| Arc::clone(&tls.config));
            sockets.push((bound.listeners, config));
            files.push(bound.file);
        }
        let workers = WorkerThreads::start(sockets, server, &settings.workers)
            .map_err(|error| thread_error(&error))?;
        Ok((workers, files))
    }
}

/// Why threads could not start.
fn thread_error(error: &io::Error) -> CommandError {
    let command_error = CommandError::local(format!("cannot start threads: {error}"));
    match error.raw_os_error() {
        Some(libc::EMFILE) => {
            command_error.with_hint("raise the limit with ulimit -n N, or use fewer --threads")
        }
        _ => command_error,
    }
}

/// Certificates from files. If no --key was given, a missing key has a simpler cause than the library can know.
fn tls_from_files(pairs: &[CertificatePair]) -> Result<ServerTls, CommandError> {
    ServerTls::from_files(pairs.to_vec()).map_err(|error| {
        let is_unnamed = |path| {
            let mut both = pairs.iter().filter(|pair| pair.key == pair.certificate);
            both.any(|pair| &pair.key == path)
        };
        match &error {
            CertificateError::NoKey {
                path,
                has_certificate: true,
            } if is_unnamed(path) => {
                CommandError::from(error).with_hint("name the file of its key with --key FILE")
            }
            _ => error.into(),
        }
    })
}
