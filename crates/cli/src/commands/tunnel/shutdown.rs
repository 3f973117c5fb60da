//! The end of a tunnel: connections have a while if that was wished, a second signal ends that, too.
//!
//! Connections through a tunnel may live for days, so nobody waits for them unless told to: the default grace is none, and then it is no
//! fault that some are cut off. Where --grace was given, that it was not enough is one.

use std::time::Duration;

use haul_service::observe::LineLog;
use haul_tunnel::TunnelEngine;

use crate::commands::service::background_print::print_in_background;
use crate::commands::service::log;
use crate::exit::ExitReason;
use crate::message;
use crate::settings::ProcessSettings;
use crate::signals::{ServerSignal, ServerSignals};

/// For the last lines of the log, and after these for what is told. Nobody may read either, and a second signal leaves less.
const CLOSE_TIMEOUT: Duration = log::CLOSE_TIMEOUT.saturating_mul(2);

/// Ends an engine and closes its log, whose last lines come before what is told. Says how the program ends.
pub(super) async fn shut_down(
    (engine, log): (&TunnelEngine, Option<&LineLog>),
    running: &ProcessSettings,
    signals: &mut ServerSignals,
) -> ExitReason {
    let grace = running.grace;
    let there_are = engine.connection_count();
    if !running.quiet && !grace.is_zero() && there_are > 0 {
        let have = have_time_text(there_are, grace);
        // Not waited for: connections may end meanwhile.
        drop(print_in_background(format!(
            "haul: stopping; {have} to end; once more to stop at once"
        )));
    }
    let patient = unless_stopped(
        async || engine.shut_down(grace).await,
        async || signals.next().await,
    );
    let (cut, is_hurried) = match patient.await {
        Some(cut) => (cut, false),
        None => (engine.shut_down(Duration::ZERO).await, true),
    };
    let (exit, told) = outcome(cut, is_hurried, running);
    let last = async || {
        if let Some(log) = log {
            log::close(log).await;
        }
        if let Some(told) = &told {
            // It cannot fail but by a panic, which has been told.
            let _ = print_in_background(told.clone()).await;
        }
    };
    let limit = if is_hurried {
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

/// How the program ends after so many were cut off, and what is told of it.
fn outcome(
    cut: usize,
    is_hurried: bool,
    running: &ProcessSettings,
) -> (ExitReason, Option<String>) {
    let note =
        |text: &str| (!running.quiet).then(|| format!("haul: {text}; {}", cut_off_text(cut)));
    match (is_hurried, cut) {
        (true, _) => (ExitReason::Interrupted, note("stopping at once")),
        (false, 0) => (ExitReason::Done, None),
        (false, _) if running.grace.is_zero() => (ExitReason::Done, note("stopped")),
        (false, cut) => {
            let grace = seconds(running.grace);
            let told = format!("{} that took longer than {grace}", cut_off_text(cut));
            let hint = "--grace TIME gives them longer";
            (
                ExitReason::SomeFailed,
                Some(message::error_text(&told, Some(hint))),
            )
        }
    }
}

/// What an end comes to, unless a signal asks for it at once. Any other leaves it as it is: it is begun once, and so its time is.
async fn unless_stopped<T>(
    end: impl AsyncFn() -> T,
    mut next: impl AsyncFnMut() -> ServerSignal,
) -> Option<T> {
    let mut end = std::pin::pin!(end());
    loop {
        tokio::select! {
            ended = &mut end => return Some(ended),
            wanted = next() => if wanted == ServerSignal::End { return None },
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

    /// What an end comes to that takes so many looks from when it was begun, while signals come; and how often it was begun.
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
            Some(wanted) => wanted,
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
            ended(4, &[ServerSignal::Reload, ServerSignal::End]),
            (None, 1)
        );
        assert_eq!(ended(4, &[]), (Some("ended"), 1));
    }
}
