//! The end of a server: requests that are under way have a while, a second signal ends that, too.

use std::io;
use std::time::Duration;

use haul_serve::accept::{ShutdownOutcome, WorkerThreads};
use tokio::task::JoinSet;

use crate::exit::ExitReason;
use crate::message::{self, print_line};
use crate::signals::{ServerSignal, ServerSignals, exit_at_once};

/// For threads to let go of what they have after a second signal.
const ABORT_AFTER: Duration = Duration::from_secs(2);

/// Ends a crew: waits for requests at most `grace`. Says how the program ends.
pub(super) async fn shut_down(
    crew: WorkerThreads,
    grace: Duration,
    signals: &mut ServerSignals,
    is_quiet: bool,
) -> ExitReason {
    if !is_quiet {
        print_line(&format!(
            "haul: stopping; requests that are under way have {} to end; once more to stop at once",
            seconds(grace)
        ));
    }
    let aborter = crew.abort_token();
    let mut ending = JoinSet::new();
    ending.spawn_blocking(move || crew.shut_down(grace));
    loop {
        tokio::select! {
            ended = ending.join_next() => return ended.map_or(ExitReason::Done, |ended| match ended {
                Ok(ended) => exit_reason(ended, grace),
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            }),
            wanted = signals.next() => if wanted == ServerSignal::End { break },
        }
    }
    if !is_quiet {
        print_line("haul: stopping at once");
    }
    aborter.cancel();
    // Uploads are dropped and their temporaries removed; what hangs in a disk is not waited for.
    match tokio::time::timeout(ABORT_AFTER, ending.join_next()).await {
        Ok(_) => ExitReason::Interrupted,
        Err(_) => exit_at_once(),
    }
}

fn exit_reason(ended: io::Result<ShutdownOutcome>, grace: Duration) -> ExitReason {
    let ending = match ended {
        Ok(ending) => ending,
        Err(error) => {
            message::print_error(&format!("a thread could not serve: {error}"), None);
            return ExitReason::LocalIo;
        }
    };
    if ending == ShutdownOutcome::Aborted {
        message::print_error(
            &format!(
                "requests were cut off that took longer than {}",
                seconds(grace)
            ),
            Some("--grace TIME gives them longer"),
        );
    }
    ExitReason::from_shutdown(ending)
}

/// `10 s`, `1.5 s`.
fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64())
}
