//! The end of a tunnel: connections have a while if that was wished, a second signal ends that, too.
//!
//! Connections through a tunnel may live for days, so nobody waits for them unless told to: the default grace is none, and then it is no
//! fault that some are cut off. Where --grace was given, that it was not enough is one.

use std::time::Duration;

use haul_service::observe::Log;
use haul_tunnel::Engine;

use crate::commands::service::log;
use crate::exit::Exit;
use crate::message::{self, note};
use crate::settings::RunningSettings;
use crate::signals::{ServerSignals, Wanted};

/// Ends an engine and closes its log, whose last lines come before what is told. Says how the program ends.
pub(super) async fn end(
    (engine, log): (&Engine, Option<&Log>),
    running: &RunningSettings,
    signals: &mut ServerSignals,
) -> Exit {
    let grace = running.grace;
    let there_are = engine.connections();
    if !running.quiet && !grace.is_zero() && there_are > 0 {
        note(&format!(
            "haul: stopping; {} to end; once more to stop at once",
            have(there_are, grace)
        ));
    }
    let patient = unless_asked(
        async || engine.end(grace).await,
        async || signals.next().await,
    );
    let (cut, is_hurried) = match patient.await {
        Some(cut) => (cut, false),
        None => (engine.end(Duration::ZERO).await, true),
    };
    if let Some(log) = log {
        log::close(log).await;
    }
    match (is_hurried, cut) {
        (true, cut) => {
            if !running.quiet {
                note(&format!("haul: stopping at once; {}", were(cut)));
            }
            Exit::Interrupted
        }
        (false, 0) => Exit::Done,
        (false, cut) if grace.is_zero() => {
            if !running.quiet {
                note(&format!("haul: stopped; {}", were(cut)));
            }
            Exit::Done
        }
        (false, cut) => {
            let told = format!("{} that took longer than {}", were(cut), seconds(grace));
            message::error(&told, Some("--grace TIME gives them longer"));
            Exit::SomeFailed
        }
    }
}

/// What an end comes to, unless a signal asks for it at once. Any other leaves it as it is: it is begun once, and so its time is.
async fn unless_asked<T>(
    end: impl AsyncFn() -> T,
    mut next: impl AsyncFnMut() -> Wanted,
) -> Option<T> {
    let mut end = std::pin::pin!(end());
    loop {
        tokio::select! {
            ended = &mut end => return Some(ended),
            wanted = next() => if wanted == Wanted::End { return None },
        }
    }
}

fn have(count: usize, grace: Duration) -> String {
    let (s, have) = if count == 1 {
        ("", "has")
    } else {
        ("s", "have")
    };
    format!("{count} connection{s} {have} {}", seconds(grace))
}

fn were(count: usize) -> String {
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
    fn ended(looks: usize, signals: &[Wanted]) -> (Option<&'static str>, usize) {
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
        let ended = runtime.unwrap().block_on(unless_asked(end, next));
        (ended, begun.get())
    }

    #[test]
    fn a_hang_up_gives_no_more_time_and_a_second_signal_takes_it() {
        assert_eq!(ended(4, &[Wanted::Reload; 3]), (Some("ended"), 1));
        assert_eq!(ended(4, &[Wanted::Reload, Wanted::End]), (None, 1));
        assert_eq!(ended(4, &[]), (Some("ended"), 1));
    }
}
