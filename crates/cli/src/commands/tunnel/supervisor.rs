//! Handles signals and reloads while the tunnel runs.
//!
//! The engine handles connections. Here one loop waits for events; its `select!` only says what happened, and a method decides. Files are
//! read on a blocking thread; listeners are changed here, where nothing else touches them.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use haul_service::listen::ServiceManagerNotifier;
use haul_service::observe::LineLog;
use haul_tunnel::TunnelEngine;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{MissedTickBehavior, interval};

use super::banner::public_listener_warnings;
use super::listeners::{ListenerChanges, TunnelListenerSet};
use crate::args::TunnelArgs;
use crate::commands::service::command_error::CommandError;
use crate::commands::service::heap_trim::HeapTrimmer;
use crate::commands::service::service_manager::warn_if_not_notified;
use crate::heap;
use crate::message::{print_line, sanitize, warning_text};
use crate::settings::{ProcessSettings, PromptedPasswords, SettingError, TunnelSettings};
use crate::signals::{ServerSignal, ServerSignals};

/// How often the memory is checked.
const TRIM_HEAP_EVERY: Duration = Duration::from_millis(500);

type ReloadedSettings = Result<TunnelSettings, SettingError>;

/// The state of the loop.
#[derive(Debug)]
pub(super) struct TunnelSupervisor<'a> {
    listeners: TunnelListenerSet,
    /// Resolved again on a reload, with the known passwords.
    args: Arc<TunnelArgs>,
    passwords: Arc<PromptedPasswords>,
    /// Reopened on a reload.
    log: Option<Arc<LineLog>>,
    notifier: &'a ServiceManagerNotifier,
    /// Blocking work in progress.
    chores: JoinSet<TunnelChore>,
    /// Whether a reload is in progress, its messages included, and whether another one follows.
    is_reloading: bool,
    is_reload_pending: bool,
    turnover: ConnectionTurnover,
}

/// The result of a chore.
#[derive(Debug)]
enum TunnelChore {
    SettingsRead(Box<ReloadedSettings>),
    /// The result of a reload was printed.
    ReloadPrinted,
    /// Free memory was returned to the system.
    HeapTrimmed,
}

enum TunnelEvent {
    Signal(ServerSignal),
    TrimHeap,
    /// A chore has ended, or panicked.
    ChoreDone(Result<TunnelChore, JoinError>),
}

/// Counts connections that start or end. Both leave memory behind: what making a connection has needed, and what it had.
#[derive(Debug)]
struct ConnectionTurnover {
    engine: TunnelEngine,
    last_count: usize,
    /// Starts and ends seen between checks.
    changes: u64,
    heap_trimmer: HeapTrimmer,
}

impl<'a> TunnelSupervisor<'a> {
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

    /// Runs until a signal stops the tunnel. Returns the listeners: socket files stay until connections have ended.
    pub(super) async fn run(
        mut self,
        running: &ProcessSettings,
        signals: &mut ServerSignals,
    ) -> TunnelListenerSet {
        let mut calm = interval(TRIM_HEAP_EVERY);
        calm.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let event = tokio::select! {
                wanted = signals.next() => TunnelEvent::Signal(wanted),
                _ = calm.tick() => TunnelEvent::TrimHeap,
                Some(done) = self.chores.join_next() => TunnelEvent::ChoreDone(done),
            };
            if self.handle(event, running).is_break() {
                // Unfinished chores do no harm.
                self.chores.detach_all();
                return self.listeners;
            }
        }
    }

    fn handle(&mut self, event: TunnelEvent, running: &ProcessSettings) -> ControlFlow<()> {
        match event {
            TunnelEvent::Signal(ServerSignal::Stop) => return ControlFlow::Break(()),
            // The settings being read may be older than the signal.
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
            TunnelEvent::ChoreDone(Ok(TunnelChore::SettingsRead(reloaded))) => {
                self.finish_reload(*reloaded, running)
            }
            TunnelEvent::ChoreDone(Ok(TunnelChore::ReloadPrinted)) => {
                self.is_reloading = false;
                if std::mem::take(&mut self.is_reload_pending) {
                    self.start_reload();
                }
            }
            // Chores are never aborted here, so one panicked: the bug is passed on.
            TunnelEvent::ChoreDone(Err(error)) => std::panic::resume_unwind(error.into_panic()),
        }
        ControlFlow::Continue(())
    }

    /// Starts to read the settings again, and reopens the log.
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

    /// Applies new settings, or reports why not. Messages are printed in order on a blocking thread, since nobody may read them.
    fn finish_reload(&mut self, reloaded: ReloadedSettings, running: &ProcessSettings) {
        let applied = reloaded.map_err(CommandError::from).and_then(|settings| {
            let changes = self.listeners.apply(&settings.tunnels)?;
            Ok((settings, changes))
        });
        match applied {
            Ok((settings, changes)) => {
                let lines = match running.quiet {
                    true => Vec::new(),
                    false => self.reload_lines(&changes, &settings, running),
                };
                self.print_reload(move || lines.iter().for_each(|line| print_line(line)));
            }
            Err(error) => self.print_reload(move || {
                let text = "nothing has changed: the new settings cannot be used";
                print_line(&warning_text(text));
                error.report();
            }),
        }
        warn_if_not_notified(self.notifier.ready());
    }

    fn print_reload(&mut self, print: impl FnOnce() + Send + 'static) {
        self.chores.spawn_blocking(move || {
            print();
            TunnelChore::ReloadPrinted
        });
    }

    /// The messages about applied settings.
    fn reload_lines(
        &self,
        changes: &ListenerChanges,
        settings: &TunnelSettings,
        running: &ProcessSettings,
    ) -> Vec<String> {
        let opened = changes.opened.iter();
        let opened = opened.map(|line| format!("haul: listening on {}", sanitize(line)));
        let closed = changes.closed.iter();
        let closed = closed.map(|line| format!("haul: no longer listening on {}", sanitize(line)));
        let warnings = self.warnings(settings, running).into_iter();
        let warnings = warnings.map(|warning| warning_text(&sanitize(&warning)));
        let last = std::iter::once("haul: reloaded".to_owned());
        opened.chain(closed).chain(warnings).chain(last).collect()
    }

    fn warnings(&self, settings: &TunnelSettings, running: &ProcessSettings) -> Vec<String> {
        let mut warnings = settings.warnings.clone();
        warnings.extend(settings.descriptor_warning(running));
        warnings.extend(
            self.listeners
                .all()
                .iter()
                .flat_map(public_listener_warnings),
        );
        warnings.extend(restart_warning(&settings.process.differences(running)));
        warnings
    }
}

/// A warning about options that differ from the new settings and need a restart.
fn restart_warning(names: &[&str]) -> Option<String> {
    let (last, others) = names.split_last()?;
    Some(match others {
        [] => format!("{last} stays unchanged until haul is restarted"),
        _ => {
            let others = others.join(", ");
            format!("{others} and {last} stay unchanged until haul is restarted")
        }
    })
}

impl ConnectionTurnover {
    /// Whether many connections started or ended, and hardly any do now.
    fn has_settled(&mut self) -> bool {
        let count = self.engine.connection_count();
        self.changes += count.abs_diff(self.last_count) as u64;
        self.last_count = count;
        self.heap_trimmer.is_due(self.changes)
    }
}
