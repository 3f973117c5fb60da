//! `haul tunnel --stdio`: connects standard input and output to a target, for ssh's ProxyCommand. Nothing else goes to standard output.
//!
//! When the target has sent everything, haul closes standard output, so that its reader sees the end; the other direction continues, except
//! on a terminal, where the user could not type anything useful any more. In every case haul writes what it has accepted for standard
//! output before it ends, and reports an error in doing so.

use std::future::poll_fn;
use std::io::{self, IsTerminal as _};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use haul_net::Target;
use haul_tunnel::relay::{RelayOutcome, RelaySide, RelayStream};
use haul_tunnel::{UpstreamConnectError, relay_to_target};
use rustix::fs::{OFlags, fcntl_getfl};
use tokio::io::AsyncWrite;
use tokio_util::sync::CancellationToken;

use crate::args::TunnelArgs;
use crate::commands::service::command_error::CommandError;
use crate::commands::service::lifecycle::start_runtime;
use crate::exit::ExitReason;
use crate::message::{self, JsonOutputs, print_line, sanitize, warning_text};
use crate::output;
use crate::settings::StdioSettings;

/// How long haul waits for a slow reader when the relay has ended.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// Relays until both directions have ended.
pub(super) fn run(args: &TunnelArgs, target: &Target) -> Result<ExitReason, CommandError> {
    let settings = StdioSettings::resolve(args, target)?;
    if !args.quiet {
        for warning in &settings.warnings {
            print_line(&warning_text(&sanitize(warning)));
        }
    }
    output::check_stdout().map_err(|error| {
        let (text, hint) = output::explain_write_error(&error);
        CommandError::local(text).with_hint(hint)
    })?;
    // Otherwise a stream that cannot be used looks like one that has ended, or that is never read.
    for (stream, wrong_mode, name) in [
        (
            rustix::stdio::stdin(),
            OFlags::WRONLY,
            "standard input is open for writing only",
        ),
        (
            rustix::stdio::stdout(),
            OFlags::RDONLY,
            "standard output is open for reading only",
        ),
    ] {
        let mode = fcntl_getfl(stream).map(|flags| flags & OFlags::RWMODE);
        if mode == Ok(wrong_mode) {
            let hint = "haul reads data for the target from there, and writes data from the target";
            return Err(CommandError::local(name).with_hint(hint));
        }
    }
    let runtime = start_runtime(&mut super::runtime(1))?;
    let exit = runtime.block_on(join_streams(&settings, target));
    // A thread may be waiting for standard input.
    runtime.shutdown_background();
    Ok(exit)
}

async fn join_streams(settings: &StdioSettings, target: &Target) -> ExitReason {
    let target_closed = CancellationToken::new();
    let stdout = StdioOutput::new(tokio::io::stdout(), target_closed.clone());
    let client = RelayStream::Other(Box::new(tokio::io::join(
        tokio::io::stdin(),
        stdout.clone(),
    )));
    let upstream = &settings.upstream.upstream;
    let terminal_end = async {
        target_closed.cancelled().await;
        if !io::stdin().is_terminal() {
            std::future::pending::<()>().await;
        }
    };
    let outcome = tokio::select! {
        biased;
        outcome = relay_to_target(client, target, upstream, settings.idle_timeout) => outcome,
        () = terminal_end => Ok(RelayOutcome::Closed),
    };
    match outcome {
        Ok(outcome) => match stdout.wait_until_written(FLUSH_TIMEOUT).await {
            None => relay_exit(&outcome, target),
            Some(error) => write_error_exit(&error),
        },
        Err(error) => report_unreached(&error, target),
    }
}

/// The exit after an error of standard output. A reader that has left knows.
fn write_error_exit(error: &io::Error) -> ExitReason {
    match error.kind() {
        io::ErrorKind::ConnectionReset => ExitReason::ReaderGone,
        _ => output::report_write_error(error),
    }
}

fn relay_exit(outcome: &RelayOutcome, target: &Target) -> ExitReason {
    match outcome {
        // The client may leave at any time.
        RelayOutcome::Closed | RelayOutcome::Reset(RelaySide::Client) => ExitReason::Done,
        RelayOutcome::Broken(RelaySide::Client, error) => {
            message::print_error(
                &sanitize(&format!("cannot read standard input: {error}")),
                Some("haul reads data for the target from there"),
            );
            ExitReason::LocalIo
        }
        RelayOutcome::IdleTimeout
        | RelayOutcome::Reset(RelaySide::Target)
        | RelayOutcome::Broken(RelaySide::Target, _) => {
            message::print_error(
                &sanitize(&format!("the connection to {target}: {outcome}")),
                None,
            );
            ExitReason::Network
        }
    }
}

fn report_unreached(error: &UpstreamConnectError, target: &Target) -> ExitReason {
    let hint = error.errors().last().and_then(message::tunnel_hint);
    let text = format!("cannot reach {target}: {error}");
    JsonOutputs::default().report_failure(ExitReason::Network, &text, hint.as_deref())
}

/// Standard output, whose end its reader must see. It outlives the relay, since accepted bytes may not have been written by then.
#[derive(Debug)]
struct StdioOutput<W> {
    state: Arc<Mutex<StdioState<W>>>,
    /// Cancelled when it is closed.
    closed: CancellationToken,
}

/// What the relay and the shutdown share.
#[derive(Debug)]
struct StdioState<W> {
    stream: W,
    /// The first error. The relay reports only which side broke.
    error: Option<io::Error>,
}

impl<W: AsyncWrite + Unpin> StdioOutput<W> {
    fn new(stream: W, closed: CancellationToken) -> Self {
        let state = StdioState {
            stream,
            error: None,
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            closed,
        }
    }

    fn state(&self) -> MutexGuard<'_, StdioState<W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all accepted bytes are written, for `longest` at most. Returns the first error so far.
    async fn wait_until_written(&self, longest: Duration) -> Option<io::Error> {
        let flushed = poll_fn(|cx| self.state().poll(cx, |stream, cx| stream.poll_flush(cx)));
        // Without a reader the end of the relay is reported anyway.
        let _ = tokio::time::timeout(longest, flushed).await;
        self.state().error.take()
    }
}

impl<W: AsyncWrite + Unpin> StdioState<W> {
    /// Polls the stream, and keeps the first error.
    fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut polled: impl FnMut(Pin<&mut W>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let polled = ready!(polled(Pin::new(&mut self.stream), cx));
        if let Err(error) = &polled
            && self.error.is_none()
        {
            self.error = Some(copy_error(error));
        }
        Poll::Ready(polled)
    }
}

fn copy_error(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

impl<W> Clone for StdioOutput<W> {
    fn clone(&self) -> Self {
        Self {
            state: Arc::clone(&self.state),
            closed: self.closed.clone(),
        }
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for StdioOutput<W> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.state()
            .poll(cx, |stream, cx| stream.poll_write(cx, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.state().poll(cx, |stream, cx| stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = ready!(self.state().poll(cx, |stream, cx| stream.poll_flush(cx)));
        close_stdout();
        self.closed.cancel();
        Poll::Ready(flushed)
    }
}

/// Closes standard output; of a socket, which may be standard input as well, only this direction.
fn close_stdout() {
    // Fails for anything but a socket, where it is not needed.
    let _ = rustix::net::shutdown(io::stdout(), rustix::net::Shutdown::Write);
    // Replaced and not closed: the next file that is opened must not become standard output.
    if let Ok(null) = std::fs::File::options().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(null);
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufWriter};

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn test_output<W: AsyncWrite + Unpin>(stream: W) -> StdioOutput<W> {
        StdioOutput::new(stream, CancellationToken::new())
    }

    fn block_on(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        runtime.unwrap().block_on(test);
    }

    #[test]
    fn accepted_bytes_are_written_after_the_relay_has_ended() {
        block_on(async {
            let (here, mut there) = tokio::io::duplex(8);
            // It accepts at once and writes later, as standard output does.
            let stdout = test_output(BufWriter::new(here));
            let mut relays = stdout.clone();
            relays.write_all(b"the last words").await.unwrap();
            drop(relays);
            let mut heard = [0; 14];
            let read = there.read_exact(&mut heard);
            let (written, read) = tokio::join!(stdout.wait_until_written(LONG), read);
            assert!(written.is_none());
            read.unwrap();
            assert_eq!(&heard, b"the last words");
        });
    }

    #[test]
    fn a_reader_that_does_not_read_has_a_deadline() {
        block_on(async {
            let (here, _there) = tokio::io::duplex(8);
            let stdout = test_output(BufWriter::new(here));
            stdout.clone().write_all(b"the last words").await.unwrap();
            assert!(
                stdout
                    .wait_until_written(Duration::from_millis(1))
                    .await
                    .is_none()
            );
        });
    }

    #[test]
    fn a_write_error_is_kept_and_a_reader_that_left_is_no_failure() {
        block_on(async {
            let (here, there) = tokio::io::duplex(8);
            drop(there);
            let stdout = test_output(here);
            assert!(stdout.clone().write_all(b"x").await.is_err());
            let error = stdout.wait_until_written(LONG).await.unwrap();
            assert_eq!(write_error_exit(&error), ExitReason::ReaderGone);
        });
        let full = io::Error::from(io::ErrorKind::StorageFull);
        assert_eq!(write_error_exit(&full), ExitReason::LocalIo);
    }

    #[test]
    fn only_an_orderly_end_is_success() {
        let target = "t.test:1".parse().unwrap();
        let broken = |side| RelayOutcome::Broken(side, "for a reason".to_owned());
        let of = |outcome: &RelayOutcome| relay_exit(outcome, &target);
        assert_eq!(of(&RelayOutcome::Closed), ExitReason::Done);
        assert_eq!(
            of(&RelayOutcome::Reset(RelaySide::Client)),
            ExitReason::Done
        );
        assert_eq!(of(&broken(RelaySide::Client)), ExitReason::LocalIo);
        assert_eq!(of(&broken(RelaySide::Target)), ExitReason::Network);
        assert_eq!(
            of(&RelayOutcome::Reset(RelaySide::Target)),
            ExitReason::Network
        );
    }
}
