//! A tunnel that runs: signals, and settings that are read again.
//!
//! Connections are the engine's business. Here one loop waits for what may happen; its `select!` only says what that was, and a plain
//! method decides. Files are read on a thread that may wait for a disk; listeners are brought in line here, where nobody else touches them.

use std::ops::ControlFlow;
use std::sync::Arc;

use haul_service::listen::Notify;
use haul_service::observe::Log;
use tokio::task::{JoinError, JoinSet};

use super::banner::strangers;
use super::doors::Doors;
use crate::args::TunnelArgs;
use crate::commands::service::manager::told;
use crate::commands::service::trouble::Trouble;
use crate::message::{harmless, note, warning_text};
use crate::settings::{Passwords, RunningSettings, SettingError, TunnelSettings};
use crate::signals::{ServerSignals, Wanted};

/// Settings that were read again.
type Again = Result<TunnelSettings, SettingError>;

/// What is looked after.
#[derive(Debug)]
pub(super) struct Attendant<'a> {
    /// Where is listened.
    doors: Doors,
    /// What is resolved again, with the passwords that are known.
    args: Arc<TunnelArgs>,
    passwords: Arc<Passwords>,
    /// Begun anew with each reading.
    log: Option<Arc<Log>>,
    /// Who started us may want to know.
    notify: &'a Notify,
    /// What is read on another thread.
    reading: JoinSet<Again>,
}

/// What happened.
enum Happening {
    /// A signal.
    Asked(Wanted),
    /// Settings were read, or the reader panicked.
    Read(Box<Result<Again, JoinError>>),
}

impl<'a> Attendant<'a> {
    /// Of a tunnel that runs.
    pub(super) fn new(
        doors: Doors,
        (args, passwords): (&TunnelArgs, Arc<Passwords>),
        log: Option<Arc<Log>>,
        notify: &'a Notify,
    ) -> Self {
        Self {
            doors,
            args: Arc::new(args.clone()),
            passwords,
            log,
            notify,
            reading: JoinSet::new(),
        }
    }

    /// Attends until it is asked to end. The doors are given back: what goes with them is there until connections have ended.
    pub(super) async fn attend(
        mut self,
        running: &RunningSettings,
        signals: &mut ServerSignals,
    ) -> Doors {
        loop {
            let happening = tokio::select! {
                wanted = signals.next() => Happening::Asked(wanted),
                Some(read) = self.reading.join_next() => Happening::Read(Box::new(read)),
            };
            if self.on(happening, running).is_break() {
                self.reading.detach_all();
                return self.doors;
            }
        }
    }

    fn on(&mut self, happening: Happening, running: &RunningSettings) -> ControlFlow<()> {
        match happening {
            Happening::Asked(Wanted::End) => return ControlFlow::Break(()),
            Happening::Asked(Wanted::Reload) => {
                told(self.notify.reloading());
                if let Some(log) = &self.log {
                    log.reopen();
                }
                let (args, passwords) = (Arc::clone(&self.args), Arc::clone(&self.passwords));
                self.reading
                    .spawn_blocking(move || TunnelSettings::resolve(&args, &passwords));
            }
            // Readers are never aborted here, so it panicked: the bug is passed on.
            Happening::Read(read) => match *read {
                Ok(again) => self.again(again, running),
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            },
        }
        ControlFlow::Continue(())
    }

    /// Does what new settings say, or says why not.
    fn again(&mut self, again: Again, running: &RunningSettings) {
        match again.map_err(Trouble::from).and_then(|settings| {
            let changed = self.doors.follow(&settings.tunnels)?;
            Ok((settings, changed))
        }) {
            Ok((settings, changed)) if !running.quiet => {
                for line in &changed.opened {
                    note(&format!("haul: listening on {}", harmless(line)));
                }
                for line in &changed.closed {
                    note(&format!("haul: no longer listening on {}", harmless(line)));
                }
                for warning in self.warnings(&settings, running) {
                    note(&warning_text(&harmless(&warning)));
                }
                note("haul: reloaded");
            }
            Ok(_) => {}
            Err(trouble) => {
                note(&warning_text(
                    "nothing is changed, for the new settings cannot be used",
                ));
                trouble.tell();
            }
        }
        told(self.notify.ready());
    }

    fn warnings(&self, settings: &TunnelSettings, running: &RunningSettings) -> Vec<String> {
        let mut warnings = settings.warnings.clone();
        warnings.extend(self.doors.all().iter().flat_map(strangers));
        if settings.running != *running {
            warnings.push(
                "max-connections, log, log-format, admin, grace and threads are as they were: a new start takes the new ones"
                    .to_owned(),
            );
        }
        warnings
    }
}
