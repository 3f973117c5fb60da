//! SIGINT and SIGTERM: the first asks the jobs to stop and keep their state, the second does not wait for them.

use tokio_util::sync::CancellationToken;

use crate::exit::Exit;

/// Waits for signals for as long as it is polled. Cancels `stop` at the first; ends the process at the second.
pub(crate) async fn watch(stop: CancellationToken) {
    signal().await;
    stop.cancel();
    signal().await;
    leave();
}

/// The one way out that does not go through `main`: asked for twice, nothing is waited for.
#[expect(clippy::exit, reason = "the second signal does not wait; journals are crash-safe")]
fn leave() {
    std::process::exit(Exit::Interrupted as i32);
}

#[cfg(unix)]
async fn signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) else {
        // Without handlers a signal ends the process at once, which the journal survives.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

#[cfg(not(unix))]
async fn signal() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
