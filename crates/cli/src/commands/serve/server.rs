//! The running server: its chores, what a reload does, and how it stops.

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use haul_serve::FileServer;
use haul_serve::accept::WorkerThreads;
use haul_serve::tls::{CertificateError, CertificateReload, CertificateStore};
use haul_service::{Chore, Server};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::commands::service::addresses::SocketFiles;
use crate::commands::service::command_error::CommandError;
use crate::commands::service::lifecycle::{ShutdownResult, cut_off_connections, print_grace};
use crate::message::{self, certificate_hint, print_in_background, warning_text};

/// How often unused files are closed.
const CLOSE_FILES_EVERY: Duration = Duration::from_secs(5);

/// How often expired uploads of S3 are removed.
const EXPIRE_UPLOADS_EVERY: Duration = Duration::from_secs(600);

/// How often certificates are checked: soon enough for somebody who replaces one and then looks in a browser.
const CHECK_CERTIFICATES_EVERY: Duration = Duration::from_secs(2);

/// How many connections were cut off, once the worker threads have ended.
type CutOffConnections = oneshot::Receiver<io::Result<usize>>;

/// A server whose threads accept connections.
#[derive(Debug)]
pub(super) struct RunningFileServer {
    server: Arc<FileServer>,
    /// The certificates, if there is TLS.
    certificates: Option<Arc<CertificateStore>>,
    is_quiet: bool,
    abort: CancellationToken,
    /// The worker threads, until the shutdown begins.
    workers: Option<WorkerThreads>,
    /// The result of stopping them.
    shutdown: Option<CutOffConnections>,
    /// Removed with the server.
    _files: SocketFiles,
}

/// The result of reading certificates, with the messages about it.
#[derive(Debug)]
pub(super) struct ReloadedCertificates {
    lines: Vec<String>,
    is_ok: bool,
}

impl RunningFileServer {
    pub(super) fn new(
        server: Arc<FileServer>,
        certificates: Option<Arc<CertificateStore>>,
        workers: WorkerThreads,
        files: SocketFiles,
        is_quiet: bool,
    ) -> Self {
        Self {
            server,
            certificates,
            is_quiet,
            abort: workers.abort_token(),
            workers: Some(workers),
            shutdown: None,
            _files: files,
        }
    }
}

impl Server for RunningFileServer {
    type ReloadedFiles = ReloadedCertificates;
    type Shutdown = ShutdownResult;

    fn prepare_reload(&self) -> impl FnOnce() -> ReloadedCertificates + Send + 'static {
        let (certificates, is_quiet) = (self.certificates.clone(), self.is_quiet);
        move || match certificates {
            Some(certificates) => reload_certificates(&certificates, is_quiet),
            None => ReloadedCertificates {
                lines: Vec::new(),
                is_ok: true,
            },
        }
    }

    fn apply_reload(&mut self, reloaded: ReloadedCertificates) {
        // A failure is among the lines.
        let last = (reloaded.is_ok && !self.is_quiet).then(|| "haul: reloaded".to_owned());
        reloaded
            .lines
            .into_iter()
            .chain(last)
            .for_each(print_in_background);
    }

    fn chores(&self) -> Vec<Chore> {
        let server = Arc::clone(&self.server);
        let trim_heap = Chore::trim_heap(move || server.idle_releases(), haul_allocator::purge);
        let store = Arc::clone(self.server.store());
        let close_files = Chore::new(CLOSE_FILES_EVERY, move || store.maintain());
        let is_quiet = self.is_quiet;
        let check_certificates = self.certificates.clone().map(|certificates| {
            Chore::new(CHECK_CERTIFICATES_EVERY, move || {
                if certificates.has_changed() {
                    let reloaded = reload_certificates(&certificates, is_quiet);
                    reloaded.lines.into_iter().for_each(print_in_background);
                }
            })
        });
        let server = Arc::clone(&self.server);
        let expire = Chore::new(EXPIRE_UPLOADS_EVERY, move || server.expire_uploads());
        [trim_heap, close_files, expire]
            .into_iter()
            .chain(check_certificates)
            .collect()
    }

    fn stopping(&self, grace: Duration) {
        if !self.is_quiet {
            print_grace("running requests have", grace);
        }
    }

    async fn drain(&mut self, grace: Duration) -> ShutdownResult {
        if let Some(workers) = self.workers.take() {
            self.shutdown = Some(shut_down(workers, grace)?);
        }
        let Some(result) = &mut self.shutdown else {
            return Ok(None);
        };
        let text = match result.await {
            Ok(Ok(cut_off)) => return Ok(cut_off_connections(cut_off)),
            Ok(Err(error)) => format!("a thread could not serve: {error}"),
            // The panic was reported.
            Err(_) => "a thread has panicked".to_owned(),
        };
        Err(CommandError::local(text))
    }

    async fn cut_off(&mut self) -> ShutdownResult {
        // Uploads are dropped, and their temporary files removed.
        self.abort.cancel();
        self.drain(Duration::ZERO).await
    }
}

/// Shuts the worker threads down, on a thread of its own: those of the runtime may all wait for a disk that hangs.
fn shut_down(workers: WorkerThreads, grace: Duration) -> Result<CutOffConnections, CommandError> {
    let (sender, result) = oneshot::channel();
    let thread = std::thread::Builder::new();
    let spawned = thread.spawn(move || sender.send(workers.shut_down(grace)));
    spawned
        .map(|_| result)
        .map_err(|error| CommandError::local(format!("cannot shut down: {error}")))
}

/// Reloads certificates. Blocks.
fn reload_certificates(certificates: &CertificateStore, is_quiet: bool) -> ReloadedCertificates {
    match certificates.reload() {
        Ok(reload) => {
            let is_news = reload == CertificateReload::Replaced && !is_quiet;
            let news = is_news.then(|| "haul: new connections use the new certificate".to_owned());
            let invalid = certificates.not_valid_at(SystemTime::now());
            let invalid = invalid
                .iter()
                .map(|invalid| warning_text(&message::sanitize(&invalid.to_string())));
            ReloadedCertificates {
                lines: news.into_iter().chain(invalid).collect(),
                is_ok: true,
            }
        }
        // Also if quiet: somebody who replaced a file must learn that it is not used.
        Err(error) => ReloadedCertificates {
            lines: reload_error_lines(&error),
            is_ok: false,
        },
    }
}

fn reload_error_lines(error: &CertificateError) -> Vec<String> {
    let text = message::chain_text(error);
    let warning = warning_text(&format!("the old certificate stays in use: {text}"));
    let hint = certificate_hint(error).map(|hint| message::sanitize(&format!("hint: {hint}")));
    std::iter::once(warning).chain(hint).collect()
}
