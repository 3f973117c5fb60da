//! The end of a tunnel: connections have a while if that was wished, a second signal ends that, too.
//!
//! Connections through a tunnel may live for days, so nobody waits for them unless told to: the default grace is none, and then it is no
//! fault that some are cut off. Where --grace was given, that it was not enough is one.

use std::time::Duration;

use haul_tunnel::Engine;

use crate::exit::Exit;
use crate::message::{self, note};
use crate::settings::RunningSettings;
use crate::signals::{ServerSignals, Wanted};

/// Ends an engine. Says how the program ends.
pub(super) async fn end(
    engine: &Engine,
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
    let ended = loop {
        tokio::select! {
            cut = engine.end(grace) => break Some(cut),
            wanted = signals.next() => if wanted == Wanted::End { break None },
        }
    };
    match ended {
        Some(0) => Exit::Done,
        Some(cut) if grace.is_zero() => {
            if !running.quiet {
                note(&format!("haul: stopped; {}", were(cut)));
            }
            Exit::Done
        }
        Some(cut) => {
            let told = format!("{} that took longer than {}", were(cut), seconds(grace));
            message::error(&told, Some("--grace TIME gives them longer"));
            Exit::SomeFailed
        }
        None => {
            let cut = engine.end(Duration::ZERO).await;
            if !running.quiet {
                note(&format!("haul: stopping at once; {}", were(cut)));
            }
            Exit::Interrupted
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
