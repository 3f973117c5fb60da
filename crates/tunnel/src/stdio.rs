//! Standard input and output joined to a target, for ssh's ProxyCommand.
//!
//! When the target has sent everything, standard output is closed, so that its reader sees the end; the other direction continues, except
//! on a terminal, where the user could not type anything useful any more. In every case what was accepted for standard output is written
//! before the end.

use std::future::poll_fn;
use std::io::{self, IsTerminal as _};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use haul_net::Target;
use tokio::io::AsyncWrite;
use tokio_util::sync::CancellationToken;

use crate::relay::{RelayOutcome, RelayStream};
use crate::session::relay_to_target;
use crate::upstream::{Upstream, UpstreamConnectError};

/// How long a slow reader is waited for when the relay has ended.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// How a relay of standard input and output ended.
#[derive(Debug)]
pub enum StdioOutcome {
    /// What was accepted for standard output is written, unless its reader did not read.
    Relayed(RelayOutcome),
    /// Standard output could not be written.
    WriteFailed(io::Error),
}

/// Joins standard input and output to a target, until both directions have ended. Standard output is of no use afterwards.
///
/// # Errors
/// When the target was not reached.
pub async fn relay_stdio(
    target: &Target,
    upstream: &Upstream,
    idle: Option<Duration>,
) -> Result<StdioOutcome, UpstreamConnectError> {
    let target_closed = CancellationToken::new();
    let stdout = StdioOutput::new(tokio::io::stdout(), target_closed.clone());
    let client = RelayStream::Other(Box::new(tokio::io::join(
        tokio::io::stdin(),
        stdout.clone(),
    )));
    let terminal_end = async {
        target_closed.cancelled().await;
        if !io::stdin().is_terminal() {
            std::future::pending::<()>().await;
        }
    };
    let outcome = tokio::select! {
        biased;
        outcome = relay_to_target(client, target, upstream, idle) => outcome?,
        () = terminal_end => RelayOutcome::Closed,
    };
    Ok(match stdout.wait_until_written(FLUSH_TIMEOUT).await {
        None => StdioOutcome::Relayed(outcome),
        Some(error) => StdioOutcome::WriteFailed(error),
    })
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
    fn a_write_error_is_kept() {
        block_on(async {
            let (here, there) = tokio::io::duplex(8);
            drop(there);
            let stdout = test_output(here);
            assert!(stdout.clone().write_all(b"x").await.is_err());
            assert!(stdout.wait_until_written(LONG).await.is_some());
        });
    }
}
