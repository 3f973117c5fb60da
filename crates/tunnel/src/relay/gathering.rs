//! Bytes of a bulk stream that are left to gather: a reader that is woken for each little spends more on waking than on moving.
//!
//! The kernel wakes the reader when enough has come (`SO_RCVLOWAT`), at the end of the stream and for an error. For all else there is a
//! moment's patience, after which what has come is taken as it is; if nothing has, the mark goes down again.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use super::socket::RelaySocket;

/// The longest that bytes which are there wait for more.
const PATIENCE: Duration = Duration::from_millis(1);

/// What one direction waits for.
#[derive(Debug, Default)]
pub(super) struct ReadLowWater {
    /// Where the kernel has the mark; 0 is as good as 1.
    mark: u32,
    /// When patience is over. Made when there is first any.
    timer: Option<Pin<Box<Sleep>>>,
    /// Whether it runs.
    is_waiting: bool,
}

impl ReadLowWater {
    /// Nothing is there, or not enough to be woken for: lets up to `mark` bytes gather. Ready when patience is over.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        from: RelaySocket<'_>,
        mark: u32,
    ) -> Poll<()> {
        if mark <= 1 {
            return Poll::Pending;
        }
        self.set(from, mark);
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(sleep_until(Instant::now())));
        if !self.is_waiting {
            self.is_waiting = true;
            timer.as_mut().reset(Instant::now() + PATIENCE);
        }
        timer.as_mut().poll(cx)
    }

    /// Something has come.
    pub(super) fn came(&mut self) {
        self.is_waiting = false;
    }

    /// Every byte counts again.
    pub(super) fn end(&mut self, from: RelaySocket<'_>) {
        self.is_waiting = false;
        if self.mark > 1 {
            self.set(from, 1);
        }
    }

    fn set(&mut self, from: RelaySocket<'_>, mark: u32) {
        if self.mark != mark {
            self.mark = mark;
            // Not to be heard is no harm: then the reader is woken more often.
            let _ = haul_net::set_low_water(from.fd(), mark);
        }
    }
}
