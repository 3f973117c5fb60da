//! A tunnel that runs: signals, and settings that are read again.
//!
//! Connections are the engine's business. Here one loop waits for what may happen; its `select!` only says what that was, and a plain
//! method decides. Files are read on a thread that may wait for a disk; listeners are brought in line here, where nobody else touches them.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use haul_service::listen::Notify;
use haul_service::observe::Log;
use haul_tunnel::Engine;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{MissedTickBehavior, interval};

use super::banner::strangers;
use super::doors::{Changed, Doors, NotFollowed};
use crate::args::TunnelArgs;
use crate::commands::service::ebb::Ebb;
use crate::commands::service::manager::told;
use crate::commands::service::trouble::Trouble;
use crate::heap;
use crate::message::{harmless, note, warning_text};
use crate::settings::{Passwords, RunningSettings, SettingError, TunnelSettings};
use crate::signals::{ServerSignals, Wanted};

/// How often it is looked whether memory may be given back.
const CALM: Duration = Duration::from_millis(500);

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
    /// What is done on other threads.
    chores: JoinSet<Chore>,
    /// Whether settings are being read or what came of that is being told, and whether they are to be read once more after that.
    is_reading: bool,
    is_wanted: bool,
    /// When connections have left memory behind.
    tide: Tide,
}

/// A chore that is done.
#[derive(Debug)]
enum Chore {
    /// Settings were read.
    Read(Box<Again>),
    /// What came of them was told.
    Told,
    /// Memory was given back.
    GivenBack,
}

/// What happened.
enum Happening {
    /// A signal.
    Asked(Wanted),
    /// It is time to look how calm it is.
    Calm,
    /// A chore is done, or panicked.
    Done(Result<Chore, JoinError>),
}

/// How connections come and go. Either leaves memory behind: what making one has needed, and what it had.
#[derive(Debug)]
struct Tide {
    engine: Engine,
    /// How many there were at the last look.
    there_were: usize,
    /// How many have come or gone between looks.
    turns: u64,
    ebb: Ebb,
}

impl<'a> Attendant<'a> {
    /// Of a tunnel that runs.
    pub(super) fn new(
        (doors, engine): (Doors, Engine),
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
            chores: JoinSet::new(),
            is_reading: false,
            is_wanted: false,
            tide: Tide {
                engine,
                there_were: 0,
                turns: 0,
                ebb: Ebb::default(),
            },
        }
    }

    /// Attends until it is asked to end. The doors are given back: what goes with them is there until connections have ended.
    pub(super) async fn attend(
        mut self,
        running: &RunningSettings,
        signals: &mut ServerSignals,
    ) -> Doors {
        let mut calm = interval(CALM);
        calm.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let happening = tokio::select! {
                wanted = signals.next() => Happening::Asked(wanted),
                _ = calm.tick() => Happening::Calm,
                Some(done) = self.chores.join_next() => Happening::Done(done),
            };
            if self.on(happening, running).await.is_break() {
                // What a chore still does harms nobody.
                self.chores.detach_all();
                return self.doors;
            }
        }
    }

    async fn on(&mut self, happening: Happening, running: &RunningSettings) -> ControlFlow<()> {
        match happening {
            Happening::Asked(Wanted::End) => return ControlFlow::Break(()),
            // What was read may be older than the signal.
            Happening::Asked(Wanted::Reload) if self.is_reading => self.is_wanted = true,
            Happening::Asked(Wanted::Reload) => self.read(),
            Happening::Calm if self.tide.has_gone() => {
                self.chores.spawn_blocking(|| {
                    heap::give_back();
                    Chore::GivenBack
                });
            }
            Happening::Calm | Happening::Done(Ok(Chore::GivenBack)) => {}
            Happening::Done(Ok(Chore::Read(again))) => self.again(*again, running).await,
            Happening::Done(Ok(Chore::Told)) => {
                self.is_reading = false;
                if std::mem::take(&mut self.is_wanted) {
                    self.read();
                }
            }
            // Chores are never aborted here, so it panicked: the bug is passed on.
            Happening::Done(Err(error)) => std::panic::resume_unwind(error.into_panic()),
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
            Chore::Read(Box::new(TunnelSettings::resolve(&args, &passwords)))
        });
    }

    /// Does what new settings say, or says why not. Nobody may read that: it is told on a thread that may wait, and in turn.
    async fn again(&mut self, again: Again, running: &RunningSettings) {
        match self.follow(again).await {
            Ok((settings, changed)) => {
                let lines = match running.quiet {
                    true => Vec::new(),
                    false => self.news(&changed, &settings, running),
                };
                self.tell(move || lines.iter().for_each(|line| note(line)));
            }
            Err(why) => self.tell(move || not_followed(why)),
        }
        told(self.notify.ready());
    }

    fn tell(&mut self, tell: impl FnOnce() + Send + 'static) {
        self.chores.spawn_blocking(move || {
            tell();
            Chore::Told
        });
    }

    /// What came of new settings, in lines.
    fn news(
        &self,
        changed: &Changed,
        settings: &TunnelSettings,
        running: &RunningSettings,
    ) -> Vec<String> {
        let opened = changed.opened.iter();
        let opened = opened.map(|line| format!("haul: listening on {}", harmless(line)));
        let closed = changed.closed.iter();
        let closed = closed.map(|line| format!("haul: no longer listening on {}", harmless(line)));
        let warnings = self.warnings(settings, running).into_iter();
        let warnings = warnings.map(|warning| warning_text(&harmless(&warning)));
        let last = std::iter::once("haul: reloaded".to_owned());
        opened.chain(closed).chain(warnings).chain(last).collect()
    }

    async fn follow(&mut self, again: Again) -> Result<(TunnelSettings, Changed), NotFollowed> {
        let settings = again.map_err(Trouble::from)?;
        let changed = self.doors.follow(&settings.tunnels).await?;
        Ok((settings, changed))
    }

    fn warnings(&self, settings: &TunnelSettings, running: &RunningSettings) -> Vec<String> {
        let mut warnings = settings.warnings.clone();
        warnings.extend(settings.room(running));
        warnings.extend(self.doors.all().iter().flat_map(strangers));
        warnings.extend(as_they_were(&settings.running, running));
        warnings
    }
}

/// Says why new settings were not followed, and what that has cost.
fn not_followed(NotFollowed { why, lost }: NotFollowed) {
    let but = if lost.is_empty() { "" } else { " else" };
    note(&warning_text(&format!(
        "nothing{but} is changed, for the new settings cannot be used"
    )));
    why.tell();
    for (place, trouble) in lost {
        let place = harmless(&place);
        note(&warning_text(&format!("no longer listening on {place}")));
        trouble.tell();
    }
}

/// What is of the process, and is not what the settings say by now.
fn as_they_were(wanted: &RunningSettings, running: &RunningSettings) -> Option<String> {
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

impl Tide {
    /// Whether many came or went, and hardly any do now.
    fn has_gone(&mut self) -> bool {
        let there_are = self.engine.connections();
        self.turns += there_are.abs_diff(self.there_were) as u64;
        self.there_were = there_are;
        self.ebb.is_time(self.turns)
    }
}
