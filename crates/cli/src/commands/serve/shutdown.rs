//! Stops a server: running requests have some time, which a second signal ends.

use std::io;
use std::time::Duration;

use haul_serve::accept::{ShutdownOutcome, WorkerThreads};
use tokio::task::JoinSet;

use crate::exit::ExitReason;
use crate::message::{self, print_line};
use crate::signals::{ServerSignal, ServerSignals, exit_at_once};

/// The time for threads to stop after a second signal.
const ABORT_AFTER: Duration = Duration::from_secs(2);

/// Stops the workers; waits for requests at most `grace`. Returns how the program ends.
pub(super) async fn shut_down(
    workers: WorkerThreads,
    grace: Duration,
    signals: &mut ServerSignals,
    is_quiet: bool,
) -> ExitReason {
    if !is_quiet {
        print_line(&format!(
            "haul: stopping; running requests have {} to finish; a second signal stops at once",
            seconds(grace)
        ));
    }
    let aborter = workers.abort_token();
    let mut shutdown = JoinSet::new();
    shutdown.spawn_blocking(move || workers.shut_down(grace));
    loop {
        tokio::select! {
            outcome = shutdown.join_next() => return outcome.map_or(ExitReason::Done, |outcome| match outcome {
                Ok(outcome) => exit_reason(outcome, grace),
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            }),
            signal = signals.next() => if signal == ServerSignal::Stop { break },
        }
    }
    if !is_quiet {
        print_line("haul: stopping at once");
    }
    aborter.cancel();
    // Uploads are dropped and their temporary files removed; a hanging disk is not waited for.
    match tokio::time::timeout(ABORT_AFTER, shutdown.join_next()).await {
        Ok(_) => ExitReason::Interrupted,
        Err(_) => exit_at_once(),
    }
}

fn exit_reason(outcome: io::Result<ShutdownOutcome>, grace: Duration) -> ExitReason {
    let shutdown = match outcome {
        Ok(shutdown) => shutdown,
        Err(error) => {
            message::print_error(&format!("a thread could not serve: {error}"), None);
            return ExitReason::LocalIo;
        }
    };
    if shutdown == ShutdownOutcome::Aborted {
        message::print_error(
            &format!(
                "requests that took longer than {} were cut off",
                seconds(grace)
            ),
            Some("--grace TIME allows more time"),
        );
    }
    ExitReason::from_shutdown(shutdown)
}

/// `10 s`, `1.5 s`.
fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64())
}
