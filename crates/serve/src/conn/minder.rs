//! The timer of one connection: it fires when [`Patience`](haul_plan::serving::Patience) may have run out.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use haul_plan::serving::Tired;
use tokio::time::{Instant, Sleep};

use super::line::Line;

/// Far enough to be never, near enough for any clock.
const NEVER: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// Minds one connection.
pub(super) struct Minder<'a> {
    line: Arc<Line>,
    /// The one timer.
    sleep: Pin<&'a mut Sleep>,
    /// What the line's times are since.
    began: Instant,
    /// What the timer is set to.
    armed: Duration,
    /// Whether the wire was asked to look how much has left, since the timer fired.
    has_asked: bool,
}

/// What a minder wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wants {
    /// Nothing before something happens.
    Nothing,
    /// The connection to be polled once more, so that its wire looks how much has left.
    Look,
    /// The connection to end.
    End(Tired),
}

impl<'a> Minder<'a> {
    /// With a timer of its own.
    pub(super) fn new(line: Arc<Line>, sleep: Pin<&'a mut Sleep>) -> Self {
        let began = Instant::now()
            .checked_sub(line.now())
            .unwrap_or_else(Instant::now);
        Self {
            line,
            sleep,
            began,
            armed: Duration::MAX,
            has_asked: false,
        }
    }

    /// To be asked after each turn of the connection.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Wants {
        loop {
            let deadline = self.line.patience().deadline();
            if deadline < self.armed {
                self.arm(deadline);
            }
            if self.sleep.as_mut().poll(cx) == Poll::Pending {
                return Wants::Nothing;
            }
            if !self.has_asked {
                self.has_asked = true;
                self.line.want_look();
                return Wants::Look;
            }
            self.has_asked = false;
            let now = self.line.now();
            let verdict = self.line.patience().verdict(now);
            match verdict {
                Some(tired) => return Wants::End(tired),
                None => {
                    let deadline = self.line.patience().deadline();
                    self.arm(deadline);
                }
            }
        }
    }

    fn arm(&mut self, deadline: Duration) {
        self.armed = deadline;
        self.sleep.as_mut().reset(self.began + deadline.min(NEVER));
    }
}
