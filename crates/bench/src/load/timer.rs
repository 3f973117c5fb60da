//! Waits of a slot: until a request is due, and at most until a request times out.
//!
//! tokio's timers have steps of a millisecond, which is longer than a request on loopback: latencies at a fixed arrival rate would be those of
//! the timer. So the wait until a request is due is the kernel's `timerfd`. A time limit needs no such precision, but it must cost next to nothing, as
//! almost no request reaches it.

use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::OwnedFd;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, Sleep};

use super::sys::register_readable;

const MAX_SLEEP: Duration = Duration::from_secs(3600);

/// Sleeps to the microsecond. It takes a descriptor at the first sleep.
#[derive(Debug, Default)]
pub(super) struct PreciseTimer(Option<AsyncFd<OwnedFd>>);

impl PreciseTimer {
    /// Sleeps. A sleep that is dropped leaves nothing behind.
    pub(super) async fn sleep(&mut self, duration: Duration) -> io::Result<()> {
        if duration.is_zero() {
            return Ok(());
        }
        let timer = match &mut self.0 {
            Some(timer) => timer,
            none => {
                let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
                let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
                none.insert(register_readable(timer)?)
            }
        };
        let zero = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let setting = Itimerspec {
            it_interval: zero,
            // A time that the kernel cannot count is waited for in parts.
            it_value: Timespec::try_from(duration.min(MAX_SLEEP))
                .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?,
        };
        timerfd_settime(timer.get_ref(), TimerfdTimerFlags::empty(), &setting)?;
        loop {
            let mut guard = timer.readable().await?;
            let read = guard.try_io(|timer| Ok(rustix::io::read(timer.get_ref(), &mut [0; 8])?));
            if let Ok(read) = read {
                return read.map(drop);
            }
        }
    }
}

/// A time limit. Its timer is set once for many futures: when it fires for one that is over, it is set again for the current one.
#[derive(Debug)]
pub(super) struct TimeLimit(Pin<Box<Sleep>>);

impl TimeLimit {
    pub(super) fn new(limit: Duration) -> Self {
        Self(Box::pin(tokio::time::sleep(limit)))
    }

    /// Runs a future until it is ready, at most until `deadline`: then `None`. The deadlines of a `TimeLimit` must not go back.
    pub(super) async fn run<F: Future>(
        &mut self,
        deadline: Instant,
        future: F,
    ) -> Option<F::Output> {
        let mut future = pin!(future);
        poll_fn(|cx| {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(Some(output));
            }
            while self.0.as_mut().poll(cx).is_ready() {
                if self.0.deadline() >= deadline {
                    return Poll::Ready(None);
                }
                self.0.as_mut().reset(deadline);
            }
            Poll::Pending
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_time_limit_serves_many_futures() {
        let mut limit = TimeLimit::new(Duration::from_millis(10));
        let soon = || Instant::now() + Duration::from_millis(20);
        assert_eq!(limit.run(soon(), std::future::ready(1)).await, Some(1));
        let begin = Instant::now();
        let ended = limit.run(soon(), std::future::pending::<()>()).await;
        assert_eq!(ended, None);
        assert!(begin.elapsed() >= Duration::from_millis(20));
        assert_eq!(limit.run(soon(), std::future::pending::<()>()).await, None);
    }

    #[tokio::test]
    async fn a_precise_timer_is_used_again_after_a_wait_that_was_dropped() {
        let mut timer = PreciseTimer::default();
        timer.sleep(Duration::ZERO).await.unwrap();
        let dropped = timer.sleep(Duration::from_millis(1));
        let _ = tokio::time::timeout(Duration::ZERO, dropped).await;
        let begin = Instant::now();
        timer.sleep(Duration::from_millis(30)).await.unwrap();
        assert!(begin.elapsed() >= Duration::from_millis(30));
    }
}
