//! Handles signals and chores while the server runs.
//!
//! Requests run on worker threads. Here one loop waits for events; its `select!` only says what happened, and a synchronous method decides.
//! Work that may wait for a disk runs on a blocking thread. After the first signal [`shutdown`](super::shutdown) stops the workers.

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

/// How often unused files are closed.
const CLOSE_FILES_EVERY: Duration = Duration::from_secs(5);

/// How often certificates are checked: soon enough for somebody who replaces one and then looks in a browser.
const CHECK_CERTIFICATES_EVERY: Duration = Duration::from_secs(2);

/// How often the memory is checked.
const TRIM_HEAP_EVERY: Duration = Duration::from_millis(500);

/// The state of the loop.
#[derive(Debug)]
pub(super) struct ServeSupervisor<'a> {
    pub(super) server: Arc<FileServer>,
    pub(super) reloader: CertificateReloader,
    pub(super) notifier: &'a ServiceManagerNotifier,
    pub(super) is_quiet: bool,
    /// Blocking work in progress.
    chores: JoinSet<ServeChore>,
    /// Whether a check is running: a disk that hangs gets one check, not one more each time.
    is_checking_certificates: bool,
    is_closing_files: bool,
    heap_trimmer: HeapTrimmer,
}

/// The result of a chore.
#[derive(Debug)]
enum ServeChore {
    /// Unused files were closed.
    FilesClosed,
    /// Free memory was returned to the system.
    HeapTrimmed,
    /// Certificates were checked.
    CertificatesChecked(CertificateCheck),
    /// Everything was reloaded after a signal.
    Reloaded(CertificateCheck),
}

#[derive(Debug)]
enum ServeEvent {
    Signal(ServerSignal),
    CloseFiles,
    TrimHeap,
    CheckCertificates,
    /// A chore has ended, or panicked.
    ChoreDone(Result<ServeChore, JoinError>),
}

impl<'a> ServeSupervisor<'a> {
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

    /// Runs until a signal stops the server.
    pub(super) async fn run(mut self, signals: &mut ServerSignals) {
        let (mut close_files, mut check_certificates, mut trim_heap) = (
            ticker(CLOSE_FILES_EVERY),
            ticker(CHECK_CERTIFICATES_EVERY),
            ticker(TRIM_HEAP_EVERY),
        );
        let has_certificates = self.reloader.certificates.is_some();
        loop {
            let event = tokio::select! {
                signal = signals.next() => ServeEvent::Signal(signal),
                _ = close_files.tick() => ServeEvent::CloseFiles,
                _ = trim_heap.tick() => ServeEvent::TrimHeap,
                _ = check_certificates.tick(), if has_certificates => ServeEvent::CheckCertificates,
                Some(done) = self.chores.join_next() => ServeEvent::ChoreDone(done),
            };
            if self.handle(event).is_break() {
                // Unfinished chores do no harm.
                return self.chores.detach_all();
            }
        }
    }

    fn handle(&mut self, event: ServeEvent) -> ControlFlow<()> {
        match event {
            ServeEvent::Signal(ServerSignal::Stop) => return ControlFlow::Break(()),
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
            // Chores are never aborted here, so one panicked: the bug is passed on.
            ServeEvent::ChoreDone(Err(error)) => std::panic::resume_unwind(error.into_panic()),
        }
        ControlFlow::Continue(())
    }

    fn on_chore_done(&mut self, chore: &ServeChore) {
        match chore {
            ServeChore::FilesClosed => self.is_closing_files = false,
            ServeChore::HeapTrimmed => {}
            ServeChore::CertificatesChecked(check) => {
                self.is_checking_certificates = false;
                print_check(check, self.is_quiet);
            }
            ServeChore::Reloaded(check) => {
                print_check(check, self.is_quiet);
                warn_if_not_notified(self.notifier.ready());
                // A failure was reported.
                if !self.is_quiet && !matches!(check, Some(Err(_))) {
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
