//! A tunnel that runs: signals, and settings that are read again.
//!
//! Connections are the engine's business. Here one loop waits for what may happen; its `select!` only says what that was, and a plain
//! method decides. Files are read on a thread that may wait for a disk; listeners are brought in line here, where nobody else touches them.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use haul_service::listen::ServiceManagerNotifier;
use haul_service::observe::LineLog;
use haul_tunnel::TunnelEngine;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{MissedTickBehavior, interval};

use super::banner::strangers;
use super::doors::{ReloadError, ReloadOutcome, TunnelListenerSet};
use crate::args::TunnelArgs;
use crate::commands::service::ebb::HeapTrimmer;
use crate::commands::service::manager::told;
use crate::commands::service::trouble::CommandError;
use crate::heap;
use crate::message::{print_line, sanitize, warning_text};
use crate::settings::{ProcessSettings, PromptedPasswords, SettingError, TunnelSettings};
use crate::signals::{ServerSignal, ServerSignals};

/// How often it is looked whether memory may be given back.
const CALM: Duration = Duration::from_millis(500);

/// Settings that were read again.
type ReloadedSettings = Result<TunnelSettings, SettingError>;

/// What is looked after.
#[derive(Debug)]
pub(super) struct TunnelSupervisor<'a> {
    /// Where is listened.
    doors: TunnelListenerSet,
    /// What is resolved again, with the passwords that are known.
    args: Arc<TunnelArgs>,
    passwords: Arc<PromptedPasswords>,
    /// Begun anew with each reading.
    log: Option<Arc<LineLog>>,
    /// Who started us may want to know.
    notify: &'a ServiceManagerNotifier,
    /// What is done on other threads.
    chores: JoinSet<TunnelChore>,
    /// Whether settings are being read or what came of that is being told, and whether they are to be read once more after that.
    is_reading: bool,
    is_wanted: bool,
    /// When connections have left memory behind.
    tide: ConnectionTurnover,
}

/// A chore that is done.
#[derive(Debug)]
enum TunnelChore {
    /// Settings were read.
    Read(Box<ReloadedSettings>),
    /// What came of them was told.
    Told,
    /// Memory was given back.
    GivenBack,
}

/// What happened.
enum TunnelEvent {
    /// A signal.
    Asked(ServerSignal),
    /// It is time to look how calm it is.
    Calm,
    /// A chore is done, or panicked.
    Done(Result<TunnelChore, JoinError>),
}

/// How connections come and go. Either leaves memory behind: what making one has needed, and what it had.
#[derive(Debug)]
struct ConnectionTurnover {
    engine: TunnelEngine,
    /// How many there were at the last look.
    there_were: usize,
    /// How many have come or gone between looks.
    turns: u64,
    ebb: HeapTrimmer,
}

impl<'a> TunnelSupervisor<'a> {
    /// Of a tunnel that runs.
    pub(super) fn new(
        (doors, engine): (TunnelListenerSet, TunnelEngine),
        (args, passwords): (&TunnelArgs, Arc<PromptedPasswords>),
        log: Option<Arc<LineLog>>,
        notify: &'a ServiceManagerNotifier,
    ) -> Self {
        Self {
            doors,
            args: Arc::new(args.clone()),
            passwords,
            log,
            notify,
            chores: JoinSet::new(),
            is_reading: false,
            is_wanted: false,
            tide: ConnectionTurnover {
                engine,
                there_were: 0,
                turns: 0,
                ebb: HeapTrimmer::default(),
            },
        }
    }

    /// Attends until it is asked to end. The doors are given back: what goes with them is there until connections have ended.
    pub(super) async fn attend(
        mut self,
        running: &ProcessSettings,
        signals: &mut ServerSignals,
    ) -> TunnelListenerSet {
        let mut calm = interval(CALM);
        calm.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let happening = tokio::select! {
                wanted = signals.next() => TunnelEvent::Asked(wanted),
                _ = calm.tick() => TunnelEvent::Calm,
                Some(done) = self.chores.join_next() => TunnelEvent::Done(done),
            };
            if self.on(happening, running).await.is_break() {
                // What a chore still does harms nobody.
                self.chores.detach_all();
                return self.doors;
            }
        }
    }

    async fn on(&mut self, happening: TunnelEvent, running: &ProcessSettings) -> ControlFlow<()> {
        match happening {
            TunnelEvent::Asked(ServerSignal::End) => return ControlFlow::Break(()),
            // What was read may be older than the signal.
            TunnelEvent::Asked(ServerSignal::Reload) if self.is_reading => self.is_wanted = true,
            TunnelEvent::Asked(ServerSignal::Reload) => self.read(),
            TunnelEvent::Calm if self.tide.has_gone() => {
                self.chores.spawn_blocking(|| {
                    heap::trim();
                    TunnelChore::GivenBack
                });
            }
            TunnelEvent::Calm | TunnelEvent::Done(Ok(TunnelChore::GivenBack)) => {}
            TunnelEvent::Done(Ok(TunnelChore::Read(again))) => self.again(*again, running).await,
            TunnelEvent::Done(Ok(TunnelChore::Told)) => {
                self.is_reading = false;
                if std::mem::take(&mut self.is_wanted) {
                    self.read();
                }
            }
            // Chores are never aborted here, so it panicked: the bug is passed on.
            TunnelEvent::Done(Err(error)) => std::panic::resume_unwind(error.into_panic()),
        }
        ControlFlow::Continue(())
    }

    /// Begins to read settings again, and a new log.
    fn read(&mut self) {
        told(self.notify.reloading());
        if let Some(log) = &self.log {
            log.reopen();
        }
        self.is_reading = true;
        let (args, passwords) = (Arc::clone(&self.args), Arc::clone(&self.passwords));
        self.chores.spawn_blocking(move || {
            TunnelChore::Read(Box::new(TunnelSettings::resolve(&args, &passwords)))
        });
    }

    /// Does what new settings say, or says why not. Nobody may read that: it is told on a thread that may wait, and in turn.
    async fn again(&mut self, again: ReloadedSettings, running: &ProcessSettings) {
        match self.follow(again).await {
            Ok((settings, changed)) => {
                let lines = match running.quiet {
                    true => Vec::new(),
                    false => self.news(&changed, &settings, running),
                };
                self.tell(move || lines.iter().for_each(|line| print_line(line)));
            }
            Err(why) => self.tell(move || not_followed(why)),
        }
        told(self.notify.ready());
    }

    fn tell(&mut self, tell: impl FnOnce() + Send + 'static) {
        self.chores.spawn_blocking(move || {
            tell();
            TunnelChore::Told
        });
    }

    /// What came of new settings, in lines.
    fn news(
        &self,
        changed: &ReloadOutcome,
        settings: &TunnelSettings,
        running: &ProcessSettings,
    ) -> Vec<String> {
        let opened = changed.opened.iter();
        let opened = opened.map(|line| format!("haul: listening on {}", sanitize(line)));
        let closed = changed.closed.iter();
        let closed = closed.map(|line| format!("haul: no longer listening on {}", sanitize(line)));
        let warnings = self.warnings(settings, running).into_iter();
        let warnings = warnings.map(|warning| warning_text(&sanitize(&warning)));
        let last = std::iter::once("haul: reloaded".to_owned());
        opened.chain(closed).chain(warnings).chain(last).collect()
    }

    async fn follow(
        &mut self,
        again: ReloadedSettings,
    ) -> Result<(TunnelSettings, ReloadOutcome), ReloadError> {
        let settings = again.map_err(CommandError::from)?;
        let changed = self.doors.follow(&settings.tunnels).await?;
        Ok((settings, changed))
    }

    fn warnings(&self, settings: &TunnelSettings, running: &ProcessSettings) -> Vec<String> {
        let mut warnings = settings.warnings.clone();
        warnings.extend(settings.room(running));
        warnings.extend(self.doors.all().iter().flat_map(strangers));
        warnings.extend(as_they_were(&settings.running, running));
        warnings
    }
}

/// Says why new settings were not followed, and what that has cost.
fn not_followed(ReloadError { why, lost }: ReloadError) {
    let but = if lost.is_empty() { "" } else { " else" };
    print_line(&warning_text(&format!(
        "nothing{but} is changed, for the new settings cannot be used"
    )));
    why.tell();
    for (place, trouble) in lost {
        let place = sanitize(&place);
        print_line(&warning_text(&format!("no longer listening on {place}")));
        trouble.tell();
    }
}

/// What is of the process, and is not what the settings say by now.
fn as_they_were(wanted: &ProcessSettings, running: &ProcessSettings) -> Option<String> {
    let differ = [
        (
            "max-connections",
            wanted.max_connections != running.max_connections,
        ),
        ("log", wanted.log != running.log),
        ("log-format", wanted.log_format != running.log_format),
        ("admin", wanted.admin != running.admin),
        ("grace", wanted.grace != running.grace),
        ("threads", wanted.threads != running.threads),
    ];
    let names = differ.into_iter().filter(|(_, differs)| *differs);
    let names: Vec<&str> = names.map(|(name, _)| name).collect();
    let (last, before) = names.split_last()?;
    let (names, stay) = match before {
        [] => ((*last).to_owned(), "stays as it was"),
        _ => (
            format!("{} and {last}", before.join(", ")),
            "stay as they were",
        ),
    };
    Some(format!(
        "{names} {stay}: stop haul and start it again for what the settings say now"
    ))
}

impl ConnectionTurnover {
    /// Whether many came or went, and hardly any do now.
    fn has_gone(&mut self) -> bool {
        let there_are = self.engine.connection_count();
        self.turns += there_are.abs_diff(self.there_were) as u64;
        self.there_were = there_are;
        self.ebb.is_time(self.turns)
    }
}
