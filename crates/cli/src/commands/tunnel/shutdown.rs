//! Stops a tunnel: connections have some time with --grace, which a second signal ends.
//!
//! Connections through a tunnel may live for days, so haul waits for them only with --grace; without it, cutting them off is no failure.
//! With it, connections that outlast it are one.

use std::time::Duration;

use haul_service::observe::LineLog;
use haul_tunnel::TunnelEngine;

use crate::commands::service::background_print::print_in_background;
use crate::commands::service::log;
use crate::exit::ExitReason;
use crate::message;
use crate::settings::ProcessSettings;
use crate::signals::{ServerSignal, ServerSignals};

/// The time limit for the last lines of the log and the last message. Nobody may read either. A second signal leaves less.
const CLOSE_TIMEOUT: Duration = log::CLOSE_TIMEOUT.saturating_mul(2);

/// Stops the engine and closes its log, whose last lines come before the last message. Returns how the program ends.
pub(super) async fn shut_down(
    (engine, log): (&TunnelEngine, Option<&LineLog>),
    running: &ProcessSettings,
    signals: &mut ServerSignals,
) -> ExitReason {
    let grace = running.grace;
    let count = engine.connection_count();
    if !running.quiet && !grace.is_zero() && count > 0 {
        let have = have_time_text(count, grace);
        // Not awaited: connections may end meanwhile.
        drop(print_in_background(format!(
            "haul: stopping; {have} to finish; a second signal stops at once"
        )));
    }
    let graceful = unless_stopped(
        async || engine.shut_down(grace).await,
        async || signals.next().await,
    );
    let (cut, is_immediate) = match graceful.await {
        Some(cut) => (cut, false),
        None => (engine.shut_down(Duration::ZERO).await, true),
    };
    let (exit, message) = outcome(cut, is_immediate, running);
    let last = async || {
        if let Some(log) = log {
            log::close(log).await;
        }
        if let Some(message) = &message {
            // This fails only after a panic, which was reported.
            let _ = print_in_background(message.clone()).await;
        }
    };
    let limit = if is_immediate {
        log::CLOSE_TIMEOUT
    } else {
        CLOSE_TIMEOUT
    };
    let last = unless_stopped(
        async || tokio::time::timeout(limit, last()).await,
        async || signals.next().await,
    );
    match last.await {
        Some(_) => exit,
        None => ExitReason::Interrupted,
    }
}

/// How the program ends after so many connections were cut off, and the last message.
fn outcome(
    cut: usize,
    is_immediate: bool,
    running: &ProcessSettings,
) -> (ExitReason, Option<String>) {
    let note =
        |text: &str| (!running.quiet).then(|| format!("haul: {text}; {}", cut_off_text(cut)));
    match (is_immediate, cut) {
        (true, _) => (ExitReason::Interrupted, note("stopping at once")),
        (false, 0) => (ExitReason::Done, None),
        (false, _) if running.grace.is_zero() => (ExitReason::Done, note("stopped")),
        (false, cut) => {
            let grace = seconds(running.grace);
            let message = format!("{} after {grace}", cut_off_text(cut));
            let hint = "--grace TIME allows more time";
            (
                ExitReason::SomeFailed,
                Some(message::error_text(&message, Some(hint))),
            )
        }
    }
}

/// Awaits `end`, unless a signal to stop arrives. Other signals do not restart it or extend its time.
async fn unless_stopped<T>(
    end: impl AsyncFn() -> T,
    mut next: impl AsyncFnMut() -> ServerSignal,
) -> Option<T> {
    let mut end = std::pin::pin!(end());
    loop {
        tokio::select! {
            ended = &mut end => return Some(ended),
            signal = next() => if signal == ServerSignal::Stop { return None },
        }
    }
}

fn have_time_text(count: usize, grace: Duration) -> String {
    let (s, have) = if count == 1 {
        ("", "has")
    } else {
        ("s", "have")
    };
    format!("{count} connection{s} {have} {}", seconds(grace))
}

fn cut_off_text(count: usize) -> String {
    let (s, were) = if count == 1 {
        ("", "was")
    } else {
        ("s", "were")
    };
    format!("{count} connection{s} {were} cut off")
}

/// `10 s`, `1.5 s`.
fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::VecDeque;
    use std::future::{pending, poll_fn};
    use std::task::Poll;

    use super::*;

    /// The result of an end that takes so many polls while signals arrive, and how often it was started.
    fn ended(looks: usize, signals: &[ServerSignal]) -> (Option<&'static str>, usize) {
        let begun = Cell::new(0);
        let end = || {
            begun.set(begun.get() + 1);
            let mut left = looks;
            poll_fn(move |cx| {
                cx.waker().wake_by_ref();
                left = left.saturating_sub(1);
                if left == 0 {
                    Poll::Ready("ended")
                } else {
                    Poll::Pending
                }
            })
        };
        let mut signals = VecDeque::from(signals.to_vec());
        let next = async || match signals.pop_front() {
            Some(signal) => signal,
            None => pending().await,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let ended = runtime.unwrap().block_on(unless_stopped(end, next));
        (ended, begun.get())
    }

    #[test]
    fn a_hang_up_does_not_extend_the_grace_and_a_second_signal_ends_it() {
        assert_eq!(ended(4, &[ServerSignal::Reload; 3]), (Some("ended"), 1));
        assert_eq!(
            ended(4, &[ServerSignal::Reload, ServerSignal::Stop]),
            (None, 1)
        );
        assert_eq!(ended(4, &[]), (Some("ended"), 1));
    }
}
