//! Where a server listens, and with what connections are met there.

use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;

use haul_serve::FileServer;
use haul_serve::accept::WorkerThreads;
use haul_serve::tls::{CertificateError, CertificatePair, ServerTls, local_names};
use haul_service::ServerNames;
use haul_service::listen::{BindOptions, BoundAddress, BoundListener, InheritedSockets, bind};

use crate::commands::service::address_conflicts::{is_taken_by_this_process, used_twice_error};
use crate::commands::service::addresses::{SocketFiles, bound_addresses, is_public};
use crate::commands::service::command_error::CommandError;
use crate::settings::{ServeSettings, TlsSettings};

/// Everything that is listened on.
#[derive(Debug)]
pub(super) struct ServeListeners {
    /// The sockets.
    bound: Vec<BoundListener>,
    /// How connections are secured.
    pub(super) tls: Option<ServerTls>,
    /// Sockets that were handed over and that no address is.
    pub(super) unused_sockets: Vec<String>,
}

impl ServeListeners {
    /// Listens, and gets the certificates ready.
    pub(super) fn open(settings: &ServeSettings) -> Result<Self, CommandError> {
        let options = BindOptions {
            sockets: NonZeroUsize::new(settings.workers.sockets_per_address())
                .unwrap_or(NonZeroUsize::MIN),
            ..BindOptions::default()
        };
        // Files are read first: a certificate that is not there is told of before ports are taken.
        let tls = match &settings.tls {
            TlsSettings::Files(pairs) => Some(tls_from_files(pairs)?),
            TlsSettings::Off | TlsSettings::SelfSigned => None,
        };
        let mut handed = InheritedSockets::take()?;
        let mut bound = Vec::new();
        for address in &settings.listen {
            let more = bind(address, &options, &mut handed);
            let more = more.map_err(|error| {
                match is_taken_by_this_process(&error, &bound_addresses(&bound)) {
                    true => used_twice_error(
                        ("-l", address),
                        "-l",
                        "every interface includes each of them",
                    ),
                    false => error.into(),
                }
            })?;
            bound.extend(more);
        }
        let mut doors = Self {
            bound,
            tls,
            unused_sockets: handed.names(),
        };
        if settings.tls == TlsSettings::SelfSigned {
            doors.tls = Some(ServerTls::self_signed(local_names(&doors.addresses()))?);
        }
        Ok(doors)
    }

    /// Where they are.
    pub(super) fn addresses(&self) -> Vec<BoundAddress> {
        bound_addresses(&self.bound)
    }

    /// The names that it goes by, if nothing but the name keeps a stranger's page out: see [`ServerNames`].
    pub(super) fn server_names(&self, settings: &ServeSettings) -> Option<ServerNames> {
        let is_private = !self.bound.iter().any(|bound| is_public(&bound.local));
        let is_trusting = self.tls.is_none() && settings.server.access.allows_anonymous();
        let allowed = settings
            .allowed_hosts
            .clone()
            .filter(|_| is_private && is_trusting)?;
        let own = local_names(&[]);
        // As it is called by multicast DNS.
        let local = own
            .iter()
            .map(|name| name.split('.').next().unwrap_or(name));
        let local: Vec<String> = local.map(|name| format!("{name}.local")).collect();
        Some(ServerNames::new(
            allowed.into_iter().chain(own).chain(local),
        ))
    }

    /// Lets a crew in.
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
        let crew = WorkerThreads::start(sockets, server, &settings.workers)
            .map_err(|error| thread_error(&error))?;
        Ok((crew, files))
    }
}

/// What a thread needs that the system did not give.
fn thread_error(error: &io::Error) -> CommandError {
    let told = CommandError::local(format!("cannot start threads: {error}"));
    match error.raw_os_error() {
        Some(libc::EMFILE) => {
            told.with_hint("ulimit -n N allows more open files, --threads N needs fewer")
        }
        _ => told,
    }
}

/// Certificates from files. That a key is missing where none was named has a simpler cause than the library can know.
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
                CommandError::from(error).with_hint("--key FILE names the file that its key is in")
            }
            _ => error.into(),
        }
    })
}
