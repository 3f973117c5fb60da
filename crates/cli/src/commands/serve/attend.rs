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

use super::reload::{CertificateCheck, CertificateReloader, tell};
use crate::commands::service::ebb::HeapTrimmer;
use crate::commands::service::manager::told;
use crate::heap;
use crate::message::print_line;
use crate::signals::{ServerSignal, ServerSignals};

/// How often files that nobody asks for any more are closed.
const SWEEP: Duration = Duration::from_secs(5);

/// How often certificates are looked at: whoever replaced one sees it in use before the next look at a browser.
const LOOK: Duration = Duration::from_secs(2);

/// How often it is looked whether memory may be given back.
const CALM: Duration = Duration::from_millis(500);

/// What is looked after.
#[derive(Debug)]
pub(super) struct ServeSupervisor<'a> {
    /// Has files to close, and connections that come to rest.
    pub(super) server: Arc<FileServer>,
    /// What may change.
    pub(super) reload: CertificateReloader,
    /// Who started us may want to know.
    pub(super) notify: &'a ServiceManagerNotifier,
    /// Errors only.
    pub(super) is_quiet: bool,
    /// What is done on other threads.
    chores: JoinSet<ServeChore>,
    /// Whether the certificates are being looked at: a disk that hangs gets one look and not one more each time.
    is_looking: bool,
    /// Whether files are being closed.
    is_sweeping: bool,
    /// When connections have left memory behind.
    ebb: HeapTrimmer,
}

/// A chore that is done.
#[derive(Debug)]
enum ServeChore {
    /// Files were closed.
    Swept,
    /// Memory was given back.
    GivenBack,
    /// Certificates were looked at.
    Looked(CertificateCheck),
    /// Everything was read again, as a signal wanted.
    Again(CertificateCheck),
}

/// What happened.
#[derive(Debug)]
enum ServeEvent {
    /// A signal.
    Asked(ServerSignal),
    /// It is time to close files.
    Sweep,
    /// It is time to look how calm it is.
    Calm,
    /// It is time to look at certificates.
    Look,
    /// A chore is done, or panicked.
    Done(Result<ServeChore, JoinError>),
}

impl<'a> ServeSupervisor<'a> {
    /// Of a server that runs.
    pub(super) fn new(
        server: Arc<FileServer>,
        reload: CertificateReloader,
        notify: &'a ServiceManagerNotifier,
        is_quiet: bool,
    ) -> Self {
        Self {
            server,
            reload,
            notify,
            is_quiet,
            chores: JoinSet::new(),
            is_looking: false,
            is_sweeping: false,
            ebb: HeapTrimmer::default(),
        }
    }

    /// Attends until the server is asked to end.
    pub(super) async fn attend(mut self, signals: &mut ServerSignals) {
        let (mut sweep, mut look, mut calm) = (every(SWEEP), every(LOOK), every(CALM));
        let has_certificates = self.reload.certificates.is_some();
        loop {
            let happening = tokio::select! {
                wanted = signals.next() => ServeEvent::Asked(wanted),
                _ = sweep.tick() => ServeEvent::Sweep,
                _ = calm.tick() => ServeEvent::Calm,
                _ = look.tick(), if has_certificates => ServeEvent::Look,
                Some(done) = self.chores.join_next() => ServeEvent::Done(done),
            };
            if self.on(happening).is_break() {
                // What a chore still does harms nobody.
                return self.chores.detach_all();
            }
        }
    }

    fn on(&mut self, happening: ServeEvent) -> ControlFlow<()> {
        match happening {
            ServeEvent::Asked(ServerSignal::End) => return ControlFlow::Break(()),
            ServeEvent::Asked(ServerSignal::Reload) => {
                told(self.notify.reloading());
                let reload = self.reload.clone();
                self.chores
                    .spawn_blocking(move || ServeChore::Again(reload.again()));
            }
            ServeEvent::Sweep if !self.is_sweeping => {
                self.is_sweeping = true;
                let store = Arc::clone(self.server.store());
                self.chores.spawn_blocking(move || {
                    store.sweep();
                    ServeChore::Swept
                });
            }
            ServeEvent::Calm if self.ebb.is_time(self.server.rests()) => {
                self.chores.spawn_blocking(|| {
                    heap::trim();
                    ServeChore::GivenBack
                });
            }
            ServeEvent::Look if !self.is_looking => {
                self.is_looking = true;
                let reload = self.reload.clone();
                self.chores
                    .spawn_blocking(move || ServeChore::Looked(reload.look()));
            }
            ServeEvent::Sweep | ServeEvent::Calm | ServeEvent::Look => {}
            ServeEvent::Done(Ok(chore)) => self.done(&chore),
            // Chores are never aborted here, so it panicked: the bug is passed on.
            ServeEvent::Done(Err(error)) => std::panic::resume_unwind(error.into_panic()),
        }
        ControlFlow::Continue(())
    }

    fn done(&mut self, chore: &ServeChore) {
        match chore {
            ServeChore::Swept => self.is_sweeping = false,
            ServeChore::GivenBack => {}
            ServeChore::Looked(looked) => {
                self.is_looking = false;
                tell(looked, self.is_quiet);
            }
            ServeChore::Again(looked) => {
                tell(looked, self.is_quiet);
                told(self.notify.ready());
                // Of what failed it was told why.
                if !self.is_quiet && !matches!(looked, Some(Err(_))) {
                    print_line("haul: reloaded");
                }
            }
        }
    }
}

fn every(period: Duration) -> Interval {
    let mut interval = interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}
