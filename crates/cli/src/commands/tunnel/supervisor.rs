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

use super::banner::public_listener_warnings;
use super::listeners::{ReloadError, ReloadOutcome, TunnelListenerSet};
use crate::args::TunnelArgs;
use crate::commands::service::command_error::CommandError;
use crate::commands::service::heap_trim::HeapTrimmer;
use crate::commands::service::service_manager::warn_if_not_notified;
use crate::heap;
use crate::message::{print_line, sanitize, warning_text};
use crate::settings::{ProcessSettings, PromptedPasswords, SettingError, TunnelSettings};
use crate::signals::{ServerSignal, ServerSignals};

/// How often it is looked whether memory may be given back.
const TRIM_HEAP_EVERY: Duration = Duration::from_millis(500);

/// Settings that were read again.
type ReloadedSettings = Result<TunnelSettings, SettingError>;

/// What is looked after.
#[derive(Debug)]
pub(super) struct TunnelSupervisor<'a> {
    /// Where is listened.
    listeners: TunnelListenerSet,
    /// What is resolved again, with the passwords that are known.
    args: Arc<TunnelArgs>,
    passwords: Arc<PromptedPasswords>,
    /// Begun anew with each reading.
    log: Option<Arc<LineLog>>,
    /// Who started us may want to know.
    notifier: &'a ServiceManagerNotifier,
    /// What is done on other threads.
    chores: JoinSet<TunnelChore>,
    /// Whether settings are being read or what came of that is being told, and whether they are to be read once more after that.
    is_reloading: bool,
    is_reload_pending: bool,
    /// When connections have left memory behind.
    turnover: ConnectionTurnover,
}

/// A chore that is done.
#[derive(Debug)]
enum TunnelChore {
    /// Settings were read.
    SettingsRead(Box<ReloadedSettings>),
    /// What came of them was told.
    ReloadPrinted,
    /// Memory was given back.
    HeapTrimmed,
}

/// What happened.
enum TunnelEvent {
    /// A signal.
    Signal(ServerSignal),
    /// It is time to look how calm it is.
    TrimHeap,
    /// A chore is done, or panicked.
    ChoreDone(Result<TunnelChore, JoinError>),
}

/// How connections come and go. Either leaves memory behind: what making one has needed, and what it had.
#[derive(Debug)]
struct ConnectionTurnover {
    engine: TunnelEngine,
    /// How many there were at the last look.
    last_count: usize,
    /// How many have come or gone between looks.
    changes: u64,
    heap_trimmer: HeapTrimmer,
}

impl<'a> TunnelSupervisor<'a> {
    /// Of a tunnel that runs.
    pub(super) fn new(
        (listeners, engine): (TunnelListenerSet, TunnelEngine),
        (args, passwords): (&TunnelArgs, Arc<PromptedPasswords>),
        log: Option<Arc<LineLog>>,
        notifier: &'a ServiceManagerNotifier,
    ) -> Self {
        Self {
            listeners,
            args: Arc::new(args.clone()),
            passwords,
            log,
            notifier,
            chores: JoinSet::new(),
            is_reloading: false,
            is_reload_pending: false,
            turnover: ConnectionTurnover {
                engine,
                last_count: 0,
                changes: 0,
                heap_trimmer: HeapTrimmer::default(),
            },
        }
    }

    /// Attends until it is asked to end. The doors are given back: what goes with them is there until connections have ended.
    pub(super) async fn run(
        mut self,
        running: &ProcessSettings,
        signals: &mut ServerSignals,
    ) -> TunnelListenerSet {
        let mut calm = interval(TRIM_HEAP_EVERY);
        calm.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let happening = tokio::select! {
                wanted = signals.next() => TunnelEvent::Signal(wanted),
                _ = calm.tick() => TunnelEvent::TrimHeap,
                Some(done) = self.chores.join_next() => TunnelEvent::ChoreDone(done),
            };
            if self.handle(happening, running).await.is_break() {
                // What a chore still does harms nobody.
                self.chores.detach_all();
                return self.listeners;
            }
        }
    }

    async fn handle(
        &mut self,
        happening: TunnelEvent,
        running: &ProcessSettings,
    ) -> ControlFlow<()> {
        match happening {
            TunnelEvent::Signal(ServerSignal::End) => return ControlFlow::Break(()),
            // What was read may be older than the signal.
            TunnelEvent::Signal(ServerSignal::Reload) if self.is_reloading => {
                self.is_reload_pending = true
            }
            TunnelEvent::Signal(ServerSignal::Reload) => self.start_reload(),
            TunnelEvent::TrimHeap if self.turnover.has_settled() => {
                self.chores.spawn_blocking(|| {
                    heap::trim();
                    TunnelChore::HeapTrimmed
                });
            }
            TunnelEvent::TrimHeap | TunnelEvent::ChoreDone(Ok(TunnelChore::HeapTrimmed)) => {}
            TunnelEvent::ChoreDone(Ok(TunnelChore::SettingsRead(again))) => {
                self.finish_reload(*again, running).await
            }
            TunnelEvent::ChoreDone(Ok(TunnelChore::ReloadPrinted)) => {
                self.is_reloading = false;
                if std::mem::take(&mut self.is_reload_pending) {
                    self.start_reload();
                }
            }
            // Chores are never aborted here, so it panicked: the bug is passed on.
            TunnelEvent::ChoreDone(Err(error)) => std::panic::resume_unwind(error.into_panic()),
        }
        ControlFlow::Continue(())
    }

    /// Begins to read settings again, and a new log.
    fn start_reload(&mut self) {
        warn_if_not_notified(self.notifier.reloading());
        if let Some(log) = &self.log {
            log.reopen();
        }
        self.is_reloading = true;
        let (args, passwords) = (Arc::clone(&self.args), Arc::clone(&self.passwords));
        self.chores.spawn_blocking(move || {
            TunnelChore::SettingsRead(Box::new(TunnelSettings::resolve(&args, &passwords)))
        });
    }

    /// Does what new settings say, or says why not. Nobody may read that: it is told on a thread that may wait, and in turn.
    async fn finish_reload(&mut self, again: ReloadedSettings, running: &ProcessSettings) {
        match self.apply(again).await {
            Ok((settings, changed)) => {
                let lines = match running.quiet {
                    true => Vec::new(),
                    false => self.reload_lines(&changed, &settings, running),
                };
                self.print_reload(move || lines.iter().for_each(|line| print_line(line)));
            }
            Err(why) => self.print_reload(move || print_reload_error(why)),
        }
        warn_if_not_notified(self.notifier.ready());
    }

    fn print_reload(&mut self, tell: impl FnOnce() + Send + 'static) {
        self.chores.spawn_blocking(move || {
            tell();
            TunnelChore::ReloadPrinted
        });
    }

    /// What came of new settings, in lines.
    fn reload_lines(
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

    async fn apply(
        &mut self,
        again: ReloadedSettings,
    ) -> Result<(TunnelSettings, ReloadOutcome), ReloadError> {
        let settings = again.map_err(CommandError::from)?;
        let changed = self.listeners.follow(&settings.tunnels).await?;
        Ok((settings, changed))
    }

    fn warnings(&self, settings: &TunnelSettings, running: &ProcessSettings) -> Vec<String> {
        let mut warnings = settings.warnings.clone();
        warnings.extend(settings.room(running));
        warnings.extend(
            self.listeners
                .all()
                .iter()
                .flat_map(public_listener_warnings),
        );
        warnings.extend(unchanged_options_warning(&settings.running, running));
        warnings
    }
}

/// Says why new settings were not followed, and what that has cost.
fn print_reload_error(ReloadError { why, lost }: ReloadError) {
    let but = if lost.is_empty() { "" } else { " else" };
    print_line(&warning_text(&format!(
        "nothing{but} is changed, for the new settings cannot be used"
    )));
    why.report();
    for (place, trouble) in lost {
        let place = sanitize(&place);
        print_line(&warning_text(&format!("no longer listening on {place}")));
        trouble.report();
    }
}

/// What is of the process, and is not what the settings say by now.
fn unchanged_options_warning(
    wanted: &ProcessSettings,
    running: &ProcessSettings,
) -> Option<String> {
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
    fn has_settled(&mut self) -> bool {
        let there_are = self.engine.connection_count();
        self.changes += there_are.abs_diff(self.last_count) as u64;
        self.last_count = there_are;
        self.heap_trimmer.is_due(self.changes)
    }
}
