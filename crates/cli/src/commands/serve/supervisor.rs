//! A server that runs: signals, chores every few seconds, and the end.
//!
//! Requests are the crew's business, on threads of its own. Here one loop waits for what may happen; its `select!` only says
//! what that was, and a plain method decides. What waits for a disk is a chore on a thread that may. At the first signal the
//! crew is asked to end, and [`ending`](super::ending) waits for it.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use haul_serve::FileServer;
use haul_service::listen::ServiceManagerNotifier;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::certificate_reload::{CertificateCheck, CertificateReloader, print_check};
use crate::commands::service::heap_trim::HeapTrimmer;
use crate::commands::service::service_manager::warn_if_not_notified;
use crate::heap;
use crate::message::print_line;
use crate::signals::{ServerSignal, ServerSignals};

/// How often files that nobody asks for any more are closed.
const CLOSE_FILES_EVERY: Duration = Duration::from_secs(5);

/// How often certificates are looked at: whoever replaced one sees it in use before the next look at a browser.
const CHECK_CERTIFICATES_EVERY: Duration = Duration::from_secs(2);

/// How often it is looked whether memory may be given back.
const TRIM_HEAP_EVERY: Duration = Duration::from_millis(500);

/// What is looked after.
#[derive(Debug)]
pub(super) struct ServeSupervisor<'a> {
    /// Has files to close, and connections that come to rest.
    pub(super) server: Arc<FileServer>,
    /// What may change.
    pub(super) reloader: CertificateReloader,
    /// Who started us may want to know.
    pub(super) notifier: &'a ServiceManagerNotifier,
    /// Errors only.
    pub(super) is_quiet: bool,
    /// What is done on other threads.
    chores: JoinSet<ServeChore>,
    /// Whether the certificates are being looked at: a disk that hangs gets one look and not one more each time.
    is_checking_certificates: bool,
    /// Whether files are being closed.
    is_closing_files: bool,
    /// When connections have left memory behind.
    heap_trimmer: HeapTrimmer,
}

/// A chore that is done.
#[derive(Debug)]
enum ServeChore {
    /// Files were closed.
    FilesClosed,
    /// Memory was given back.
    HeapTrimmed,
    /// Certificates were looked at.
    CertificatesChecked(CertificateCheck),
    /// Everything was read again, as a signal wanted.
    Reloaded(CertificateCheck),
}

/// What happened.
#[derive(Debug)]
enum ServeEvent {
    /// A signal.
    Signal(ServerSignal),
    /// It is time to close files.
    CloseFiles,
    /// It is time to look how calm it is.
    TrimHeap,
    /// It is time to look at certificates.
    CheckCertificates,
    /// A chore is done, or panicked.
    ChoreDone(Result<ServeChore, JoinError>),
}

impl<'a> ServeSupervisor<'a> {
    /// Of a server that runs.
    pub(super) fn new(
        server: Arc<FileServer>,
        reloader: CertificateReloader,
        notifier: &'a ServiceManagerNotifier,
        is_quiet: bool,
    ) -> Self {
        Self {
            server,
            reloader,
            notifier,
            is_quiet,
            chores: JoinSet::new(),
            is_checking_certificates: false,
            is_closing_files: false,
            heap_trimmer: HeapTrimmer::default(),
        }
    }

    /// Attends until the server is asked to end.
    pub(super) async fn run(mut self, signals: &mut ServerSignals) {
        let (mut sweep, mut look, mut calm) = (
            ticker(CLOSE_FILES_EVERY),
            ticker(CHECK_CERTIFICATES_EVERY),
            ticker(TRIM_HEAP_EVERY),
        );
        let has_certificates = self.reloader.certificates.is_some();
        loop {
            let happening = tokio::select! {
                wanted = signals.next() => ServeEvent::Signal(wanted),
                _ = sweep.tick() => ServeEvent::CloseFiles,
                _ = calm.tick() => ServeEvent::TrimHeap,
                _ = look.tick(), if has_certificates => ServeEvent::CheckCertificates,
                Some(done) = self.chores.join_next() => ServeEvent::ChoreDone(done),
            };
            if self.handle(happening).is_break() {
                // What a chore still does harms nobody.
                return self.chores.detach_all();
            }
        }
    }

    fn handle(&mut self, happening: ServeEvent) -> ControlFlow<()> {
        match happening {
            ServeEvent::Signal(ServerSignal::End) => return ControlFlow::Break(()),
            ServeEvent::Signal(ServerSignal::Reload) => {
                warn_if_not_notified(self.notifier.reloading());
                let reload = self.reloader.clone();
                self.chores
                    .spawn_blocking(move || ServeChore::Reloaded(reload.reload()));
            }
            ServeEvent::CloseFiles if !self.is_closing_files => {
                self.is_closing_files = true;
                let store = Arc::clone(self.server.store());
                self.chores.spawn_blocking(move || {
                    store.maintain();
                    ServeChore::FilesClosed
                });
            }
            ServeEvent::TrimHeap if self.heap_trimmer.is_due(self.server.idle_releases()) => {
                self.chores.spawn_blocking(|| {
                    heap::trim();
                    ServeChore::HeapTrimmed
                });
            }
            ServeEvent::CheckCertificates if !self.is_checking_certificates => {
                self.is_checking_certificates = true;
                let reload = self.reloader.clone();
                self.chores.spawn_blocking(move || {
                    ServeChore::CertificatesChecked(reload.reload_if_changed())
                });
            }
            ServeEvent::CloseFiles | ServeEvent::TrimHeap | ServeEvent::CheckCertificates => {}
            ServeEvent::ChoreDone(Ok(chore)) => self.on_chore_done(&chore),
            // Chores are never aborted here, so it panicked: the bug is passed on.
            ServeEvent::ChoreDone(Err(error)) => std::panic::resume_unwind(error.into_panic()),
        }
        ControlFlow::Continue(())
    }

    fn on_chore_done(&mut self, chore: &ServeChore) {
        match chore {
            ServeChore::FilesClosed => self.is_closing_files = false,
            ServeChore::HeapTrimmed => {}
            ServeChore::CertificatesChecked(looked) => {
                self.is_checking_certificates = false;
                print_check(looked, self.is_quiet);
            }
            ServeChore::Reloaded(looked) => {
                print_check(looked, self.is_quiet);
                warn_if_not_notified(self.notifier.ready());
                // Of what failed it was told why.
                if !self.is_quiet && !matches!(looked, Some(Err(_))) {
                    print_line("haul: reloaded");
                }
            }
        }
    }
}

fn ticker(period: Duration) -> Interval {
    let mut interval = interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}
