//! `haul tunnel --stdio`: standard input and output joined to a target, as ssh's ProxyCommand has it. Nothing else goes to standard output.
//!
//! When the target has said all, standard output is closed, so that whoever reads it learns that; the other direction goes on to its
//! end, unless that is a terminal, where nobody could type anything that would still be read. However it ends, what was taken for
//! standard output is written before the program ends, and where that cannot be, it is told.

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
use crate::exit::ExitReason;
use crate::message::{self, JsonOutputs, print_line, sanitize, warning_text};
use crate::output;
use crate::settings::StdioSettings;

/// How long a reader that is slow is waited for when the relay has ended.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// Joins them until both directions have ended.
pub(super) fn run(args: &TunnelArgs, target: &Target) -> Result<ExitReason, CommandError> {
    let settings = StdioSettings::resolve(args, target)?;
    if !args.running.quiet {
        for warning in &settings.warnings {
            print_line(&warning_text(&sanitize(warning)));
        }
    }
    output::check_stdout().map_err(|error| {
        let (text, hint) = output::explain_write_error(&error);
        CommandError::local(text).with_hint(hint)
    })?;
    // Else a stream that cannot be used looks like one that has ended, or to which nothing was said.
    for (stream, useless, name) in [
        (
            rustix::stdio::stdin(),
            OFlags::WRONLY,
            "standard input is open for writing alone",
        ),
        (
            rustix::stdio::stdout(),
            OFlags::RDONLY,
            "standard output is open for reading alone",
        ),
    ] {
        let mode = fcntl_getfl(stream).map(|flags| flags & OFlags::RWMODE);
        if mode == Ok(useless) {
            let hint = "what is said to the target and what it says goes there";
            return Err(CommandError::local(name).with_hint(hint));
        }
    }
    let runtime = super::runtime(1)?;
    let exit = runtime.block_on(join_streams(&settings, target));
    // A thread may be waiting for standard input.
    runtime.shutdown_background();
    Ok(exit)
}

async fn join_streams(settings: &StdioSettings, target: &Target) -> ExitReason {
    let said_all = CancellationToken::new();
    let out = StdioOutput::new(tokio::io::stdout(), said_all.clone());
    let client = RelayStream::Other(Box::new(tokio::io::join(tokio::io::stdin(), out.clone())));
    let upstream = &settings.way.upstream;
    let by_terminal = async {
        said_all.cancelled().await;
        if !io::stdin().is_terminal() {
            std::future::pending::<()>().await;
        }
    };
    let ended = tokio::select! {
        biased;
        ended = relay_to_target(client, target, upstream, settings.idle) => ended,
        () = by_terminal => Ok(RelayOutcome::Closed),
    };
    match ended {
        Ok(ended) => match out.wait_until_written(FLUSH_TIMEOUT).await {
            None => relay_exit(&ended, target),
            Some(error) => write_error_exit(&error),
        },
        Err(why) => report_unreached(&why, target),
    }
}

/// How the program ends when standard output could not be written. A reader that has left knows.
fn write_error_exit(error: &io::Error) -> ExitReason {
    match error.kind() {
        io::ErrorKind::ConnectionReset => ExitReason::ReaderGone,
        _ => output::report_write_error(error),
    }
}

/// How the program ends after a relay.
fn relay_exit(ended: &RelayOutcome, target: &Target) -> ExitReason {
    match ended {
        // Whoever started us may leave when it likes.
        RelayOutcome::Closed | RelayOutcome::Reset(RelaySide::Client) => ExitReason::Done,
        RelayOutcome::Broken(RelaySide::Client, error) => {
            message::print_error(
                &sanitize(&format!("cannot read standard input: {error}")),
                Some("what is to go to the target comes from there"),
            );
            ExitReason::LocalIo
        }
        RelayOutcome::IdleTimeout
        | RelayOutcome::Reset(RelaySide::Target)
        | RelayOutcome::Broken(RelaySide::Target, _) => {
            message::print_error(
                &sanitize(&format!("the connection to {target}: {ended}")),
                None,
            );
            ExitReason::Network
        }
    }
}

fn report_unreached(why: &UpstreamConnectError, target: &Target) -> ExitReason {
    let hint = why.errors().last().and_then(message::tunnel_hint);
    let text = format!("cannot reach {target}: {why}");
    JsonOutputs::default().report_failure(ExitReason::Network, &text, hint)
}

/// Standard output, whose end is told to whoever reads it. It outlives the relay: what was taken may not have been written by then.
#[derive(Debug)]
struct StdioOutput<W> {
    /// It, and what went wrong with it.
    state: Arc<Mutex<StdioState<W>>>,
    /// Cancelled when it was closed.
    closed: CancellationToken,
}

/// What the relay and the end share.
#[derive(Debug)]
struct StdioState<W> {
    /// Where it is written.
    stream: W,
    /// Why it could not be. The relay tells no more than which side broke.
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

    /// Waits until all that was taken is written, or for as long as `longest`. Why something could not be, then or before.
    async fn wait_until_written(&self, longest: Duration) -> Option<io::Error> {
        let flushed = poll_fn(|cx| self.state().poll(cx, |stream, cx| stream.poll_flush(cx)));
        // Where nobody reads, how the relay ended is told all the same.
        let _ = tokio::time::timeout(longest, flushed).await;
        self.state().error.take()
    }
}

impl<W: AsyncWrite + Unpin> StdioState<W> {
    /// Does something with the stream, and keeps the first error.
    fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut done: impl FnMut(Pin<&mut W>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let done = ready!(done(Pin::new(&mut self.stream), cx));
        if let Err(error) = &done
            && self.error.is_none()
        {
            self.error = Some(copy_error(error));
        }
        Poll::Ready(done)
    }
}

/// The error once more.
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

/// Closes standard output: of a socket, which may be standard input as well, the one direction.
fn close_stdout() {
    // Of what is no socket this fails, and is not needed.
    let _ = rustix::net::shutdown(io::stdout(), rustix::net::Shutdown::Write);
    // Not closed but led nowhere: the next file that is opened must not become standard output.
    if let Ok(nowhere) = std::fs::File::options().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(nowhere);
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufWriter};

    use super::*;

    /// Longer than any test takes.
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
            // It takes at once and writes later, as standard output does.
            let out = test_output(BufWriter::new(here));
            let mut relays = out.clone();
            relays.write_all(b"the last words").await.unwrap();
            drop(relays);
            let mut heard = [0; 14];
            let read = there.read_exact(&mut heard);
            let (written, read) = tokio::join!(out.wait_until_written(LONG), read);
            assert!(written.is_none());
            read.unwrap();
            assert_eq!(&heard, b"the last words");
        });
    }

    #[test]
    fn a_reader_that_does_not_read_has_a_deadline() {
        block_on(async {
            let (here, _there) = tokio::io::duplex(8);
            let out = test_output(BufWriter::new(here));
            out.clone().write_all(b"the last words").await.unwrap();
            assert!(
                out.wait_until_written(Duration::from_millis(1))
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
            let out = test_output(here);
            assert!(out.clone().write_all(b"x").await.is_err());
            let error = out.wait_until_written(LONG).await.unwrap();
            assert_eq!(write_error_exit(&error), ExitReason::ReaderGone);
        });
        let full = io::Error::from(io::ErrorKind::StorageFull);
        assert_eq!(write_error_exit(&full), ExitReason::LocalIo);
    }

    #[test]
    fn only_an_orderly_end_is_success() {
        let target = "t.test:1".parse().unwrap();
        let broken = |side| RelayOutcome::Broken(side, "for a reason".to_owned());
        let of = |ended: &RelayOutcome| relay_exit(ended, &target);
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
