//! The running server: its chores, what a reload does, and how it stops.

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use haul_serve::FileServer;
use haul_serve::accept::{ShutdownOutcome, WorkerThreads};
use haul_serve::tls::{CertificateError, CertificateReload, CertificateStore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::commands::service::addresses::SocketFiles;
use crate::commands::service::chores::Chore;
use crate::commands::service::command_error::CommandError;
use crate::commands::service::lifecycle::Server;
use crate::message::{self, print_line, warning_text};

/// How often unused files are closed.
const CLOSE_FILES_EVERY: Duration = Duration::from_secs(5);

/// How often certificates are checked: soon enough for somebody who replaces one and then looks in a browser.
const CHECK_CERTIFICATES_EVERY: Duration = Duration::from_secs(2);

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
    shutdown: JoinSet<io::Result<ShutdownOutcome>>,
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
            shutdown: JoinSet::new(),
            _files: files,
        }
    }
}

impl Server for RunningFileServer {
    type ReloadedFiles = ReloadedCertificates;

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

    fn apply_reload(&mut self, reloaded: ReloadedCertificates) -> Vec<String> {
        let mut lines = reloaded.lines;
        // A failure is among the lines.
        if reloaded.is_ok && !self.is_quiet {
            lines.push("haul: reloaded".to_owned());
        }
        lines
    }

    fn chores(&self) -> Vec<Chore> {
        let server = Arc::clone(&self.server);
        let trim_heap = Chore::trim_heap(move || server.idle_releases());
        let store = Arc::clone(self.server.store());
        let close_files = Chore::new(CLOSE_FILES_EVERY, move || store.maintain());
        let is_quiet = self.is_quiet;
        let check_certificates = self.certificates.clone().map(|certificates| {
            Chore::new(CHECK_CERTIFICATES_EVERY, move || {
                if certificates.has_changed() {
                    let reloaded = reload_certificates(&certificates, is_quiet);
                    reloaded.lines.iter().for_each(|line| print_line(line));
                }
            })
        });
        [trim_heap, close_files]
            .into_iter()
            .chain(check_certificates)
            .collect()
    }

    fn unfinished(&self) -> Option<String> {
        Some("running requests have".to_owned())
    }

    async fn drain(&mut self, grace: Duration) -> Result<Option<String>, CommandError> {
        match self.workers.take() {
            Some(workers) => {
                self.shutdown
                    .spawn_blocking(move || workers.shut_down(grace));
            }
            // The second call. Uploads are dropped, and their temporary files removed.
            None => self.abort.cancel(),
        }
        match self.shutdown.join_next().await {
            Some(Ok(Ok(ShutdownOutcome::Aborted))) => {
                Ok(Some("unfinished requests were".to_owned()))
            }
            Some(Ok(Ok(ShutdownOutcome::Clean))) | None => Ok(None),
            Some(Ok(Err(error))) => Err(CommandError::local(format!(
                "a thread could not serve: {error}"
            ))),
            Some(Err(error)) => std::panic::resume_unwind(error.into_panic()),
        }
    }
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
    let hint = error
        .hint()
        .map(|hint| message::sanitize(&format!("hint: {hint}")));
    std::iter::once(warning).chain(hint).collect()
}
