//! The running tunnel: what a reload does, and how it stops.
//!
//! A reload reads the files again on a thread that may block; listeners are changed by the one loop of the process, where nothing else
//! touches them. Connections may live for days, so haul waits for them only with --grace.

use std::sync::Arc;
use std::time::Duration;

use haul_service::{Chore, Server};
use haul_tunnel::{ListenerChanges, TunnelEngine, TunnelListenerSet};

use super::banner::public_warnings;
use super::listeners::{apply, banner_lines};
use crate::args::TunnelArgs;
use crate::commands::service::command_error::CommandError;
use crate::commands::service::lifecycle::{ShutdownResult, cut_off_connections, print_grace};
use crate::message::{print_in_background, sanitize, warning_text};
use crate::settings::{ProcessSettings, PromptedPasswords, SettingError, TunnelSettings};

/// A tunnel whose listeners accept connections.
#[derive(Debug)]
pub(super) struct TunnelServer {
    /// Socket files stay until connections have ended.
    pub(super) listeners: TunnelListenerSet,
    pub(super) engine: TunnelEngine,
    /// Resolved again on a reload, with the known passwords.
    pub(super) args: Arc<TunnelArgs>,
    pub(super) passwords: Arc<PromptedPasswords>,
    /// The settings of the start, which a reload does not change.
    pub(super) process: ProcessSettings,
}

impl Server for TunnelServer {
    type ReloadedFiles = Result<TunnelSettings, SettingError>;
    type Shutdown = ShutdownResult;

    fn prepare_reload(&self) -> impl FnOnce() -> Self::ReloadedFiles + Send + 'static {
        let (args, passwords) = (Arc::clone(&self.args), Arc::clone(&self.passwords));
        move || TunnelSettings::resolve(&args, &passwords)
    }

    fn apply_reload(&mut self, settings: Self::ReloadedFiles) {
        let applied = settings.map_err(CommandError::from).and_then(|settings| {
            let changes = apply(&mut self.listeners, &settings.tunnels)?;
            Ok((settings, changes))
        });
        let lines = match applied {
            Ok(_) if self.process.quiet => Vec::new(),
            Ok((settings, changes)) => self.reload_lines(&changes, &settings),
            Err(error) => {
                let text = "nothing has changed: the new settings cannot be used";
                vec![warning_text(text), error.printed()]
            }
        };
        lines.into_iter().for_each(print_in_background);
    }

    fn chores(&self) -> Vec<Chore> {
        let engine = self.engine.clone();
        let (mut last_count, mut changes) = (0, 0);
        // Starts and ends both leave memory behind: what making a connection has needed, and what it had.
        let rests = move || {
            let count = engine.connection_count();
            changes += count.abs_diff(last_count) as u64;
            last_count = count;
            changes
        };
        vec![Chore::trim_heap(rests, haul_allocator::purge)]
    }

    fn stopping(&self, grace: Duration) {
        match self.engine.connection_count() {
            0 => {}
            _ if self.process.quiet => {}
            1 => print_grace("1 connection has", grace),
            count => print_grace(&format!("{count} connections have"), grace),
        }
    }

    async fn drain(&mut self, grace: Duration) -> ShutdownResult {
        Ok(cut_off_connections(self.engine.shut_down(grace).await))
    }

    async fn cut_off(&mut self) -> ShutdownResult {
        self.drain(Duration::ZERO).await
    }
}

impl TunnelServer {
    /// The messages about applied settings.
    fn reload_lines(&self, changes: &ListenerChanges, settings: &TunnelSettings) -> Vec<String> {
        let all: Vec<_> = settings
            .tunnels
            .iter()
            .zip(self.listeners.addresses())
            .collect();
        let opened = changes
            .opened
            .iter()
            .flat_map(|index| banner_lines(all[*index].0, all[*index].1))
            .map(|line| format!("haul: listening on {}", sanitize(&line)));
        let closed = changes
            .closed
            .iter()
            .map(|line| format!("haul: no longer listening on {}", sanitize(line)));
        let warnings = self
            .warnings(settings)
            .into_iter()
            .map(|warning| warning_text(&sanitize(&warning)));
        let last = std::iter::once("haul: reloaded".to_owned());
        opened.chain(closed).chain(warnings).chain(last).collect()
    }

    fn warnings(&self, settings: &TunnelSettings) -> Vec<String> {
        let mut warnings = settings.warnings.clone();
        warnings.extend(settings.descriptor_warning(&self.process));
        let all = settings.tunnels.iter().zip(self.listeners.addresses());
        warnings.extend(all.flat_map(|(planned, addresses)| public_warnings(planned, addresses)));
        warnings.extend(restart_warning(
            &settings.process.differences(&self.process),
        ));
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
