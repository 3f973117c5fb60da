//! Listeners brought in line with new settings: all of it is done, or nothing has changed.
//!
//! New ones are opened before old ones are closed, so that a mistake in the settings disturbs nobody. An old one that is to go may stand in
//! the way of a new one, as 9993 in that of *:9993: such a one is closed first, and opened again if the new one cannot be had after all.
//! Connections are not touched by any of this.

use haul_service::listen::{ListenAddress, SocketFile};

use super::{
    CommandError, OpenTunnelListener, TunnelDescription, TunnelListenerSet, listener_name,
    tunnel_config,
};
use crate::commands::service::address_conflicts::conflicts;
use crate::commands::tunnel::listener_changes::{ListenerChangeOrder, ListenerChanges, same_port};
use crate::settings::PlannedTunnel;

/// What came of settings that were read again.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::commands::tunnel) struct ReloadOutcome {
    /// Where it listens now and did not before, with where that leads.
    pub(in crate::commands::tunnel) opened: Vec<String>,
    /// Where it did before.
    pub(in crate::commands::tunnel) closed: Vec<String>,
}

/// New settings that could not be followed.
#[derive(Debug)]
pub(in crate::commands::tunnel) struct ReloadError {
    /// Why.
    pub(in crate::commands::tunnel) why: CommandError,
    /// What had made room and could not be opened again: where that was, and why not. All else is as it was.
    pub(in crate::commands::tunnel) lost: Vec<(String, CommandError)>,
}

impl From<CommandError> for ReloadError {
    fn from(why: CommandError) -> Self {
        let lost = Vec::new();
        Self { why, lost }
    }
}

impl TunnelListenerSet {
    /// Brings what is open in line with new settings. When an address cannot be listened on, nothing has changed.
    pub(in crate::commands::tunnel) async fn follow(
        &mut self,
        planned: &[PlannedTunnel],
    ) -> Result<ReloadOutcome, ReloadError> {
        let are: Vec<&ListenAddress> = self.open.iter().map(|open| &open.planned.listen).collect();
        let wanted: Vec<&ListenAddress> = planned.iter().map(|planned| &planned.listen).collect();
        let change = ListenerChanges::between(&are, &wanted);
        let new: Vec<&PlannedTunnel> = change.open.iter().map(|at| &planned[*at]).collect();
        self.check_inherited_sockets(&new)?;
        let is_met = |old: usize, new: usize| self.open[old].is_met(&planned[new]);
        // What is taken of handed sockets is gone for good if another address cannot be had.
        let is_handed = |new: usize| matches!(planned[new].listen, ListenAddress::Systemd { .. });
        let order = change.order(is_met, is_handed);
        let begun = match order.first.is_empty() {
            true => self.open_listeners(&new, &[])?,
            false => self.begin_instead(&new, &order).await?,
        };
        Ok(self.settle(change, planned, begun))
    }

    /// Opens these after some others were closed: first those that need not wait for that.
    async fn begin_instead(
        &mut self,
        new: &[&PlannedTunnel],
        order: &ListenerChangeOrder,
    ) -> Result<Vec<OpenTunnelListener>, ReloadError> {
        let of = |kind: bool| {
            let some = new.iter().zip(&order.waits);
            let some = some.filter(|(_, waits)| **waits == kind);
            some.map(|(new, _)| *new).collect::<Vec<_>>()
        };
        let at_once = self.open_listeners(&of(false), &[])?;
        for at in &order.first {
            let old = &mut self.open[*at];
            old.listener.close();
            old.listener.wait_closed().await;
            old.files.clear();
        }
        match self.open_listeners(&of(true), &at_once) {
            Ok(later) => {
                let (mut at_once, mut later) = (at_once.into_iter(), later.into_iter());
                let each = order.waits.iter().filter_map(|waits| match waits {
                    true => later.next(),
                    false => at_once.next(),
                });
                Ok(each.collect())
            }
            Err(why) => {
                at_once.iter().for_each(|opened| opened.listener.close());
                let lost = self.open_again(&order.first);
                Err(ReloadError { why, lost })
            }
        }
    }

    /// Opens again what has made room in vain. Which of them could not be.
    fn open_again(&mut self, closed: &[usize]) -> Vec<(String, CommandError)> {
        let mut lost = Vec::new();
        for at in closed {
            let was = &self.open[*at];
            let planned = PlannedTunnel {
                listen: same_port(&was.planned.listen, &was.addresses),
                ..was.planned.clone()
            };
            let name = listener_name(&was.addresses);
            match self.open_listeners(&[&planned], &[]) {
                Ok(begun) => {
                    for mut opened in begun {
                        let was = &mut self.open[*at];
                        // Port 0 is what the settings say.
                        opened.planned.listen = was.planned.listen.clone();
                        *was = opened;
                    }
                }
                Err(trouble) => lost.push((name, trouble)),
            }
        }
        self.open.retain(|open| !open.listener.is_closed());
        lost
    }

    /// Has those that stay lead where they are to, closes those that are to go, and puts all in their order.
    fn settle(
        &mut self,
        change: ListenerChanges,
        planned: &[PlannedTunnel],
        begun: Vec<OpenTunnelListener>,
    ) -> ReloadOutcome {
        let mut changed = ReloadOutcome::default();
        let mut before: Vec<Option<OpenTunnelListener>> = self.open.drain(..).map(Some).collect();
        let mut now: Vec<Option<OpenTunnelListener>> = planned.iter().map(|_| None).collect();
        for (old, new) in change.stay {
            let Some(mut opened) = before[old].take() else {
                continue;
            };
            let name = listener_name(&opened.addresses);
            opened
                .listener
                .reconfigure(tunnel_config(&planned[new], &name));
            opened.description = TunnelDescription::new_description(&planned[new]);
            opened.planned = planned[new].clone();
            now[new] = Some(opened);
        }
        for (new, opened) in change.open.into_iter().zip(begun) {
            changed.opened.extend(opened.banner_lines());
            now[new] = Some(opened);
        }
        for opened in before.into_iter().flatten() {
            opened.listener.close();
            changed.closed.push(listener_name(&opened.addresses));
        }
        self.open = now.into_iter().flatten().collect();
        changed
    }
}

impl OpenTunnelListener {
    /// Whether that cannot be listened on beside this, and can be after this was closed. A socket that was handed over is whoever's who did
    /// it; where a file was put in the place of ours, that one is in the way, and closing would only lose what is open.
    fn is_met(&self, new: &PlannedTunnel) -> bool {
        let is_ours = !matches!(self.planned.listen, ListenAddress::Systemd { .. });
        is_ours
            && self
                .addresses
                .iter()
                .any(|local| conflicts(&new.listen, local))
            && self.files.iter().flatten().all(SocketFile::exists)
    }
}
