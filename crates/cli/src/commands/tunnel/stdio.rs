//! `haul tunnel --stdio`: standard input and output joined to a target, as ssh's ProxyCommand has it. Nothing else goes to standard output.
//!
//! When the target has said all, standard output is closed, so that whoever reads it learns that; the other direction goes on to its
//! end, unless that is a terminal, where nobody could type anything that would still be read.

use std::io::{self, IsTerminal as _};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use haul_net::Target;
use haul_tunnel::relay::{End, Ended, Side};
use haul_tunnel::{Unreached, join};
use tokio::io::{AsyncWrite, Stdout};
use tokio_util::sync::CancellationToken;

use crate::args::TunnelArgs;
use crate::commands::service::trouble::Trouble;
use crate::exit::Exit;
use crate::message::{self, Form, harmless, note, warning_text};
use crate::output;
use crate::settings::StdioSettings;

/// Joins them until both directions have ended.
pub(super) fn run(args: &TunnelArgs, target: &Target) -> Result<Exit, Trouble> {
    let settings = StdioSettings::resolve(args)?;
    if !args.running.quiet {
        for warning in &settings.warnings {
            note(&warning_text(&harmless(warning)));
        }
    }
    output::stdout_is_open().map_err(|error| {
        let (text, hint) = output::explain(&error);
        Trouble::local(text).hint(hint)
    })?;
    let runtime = super::runtime(1)?;
    let exit = runtime.block_on(joined(&settings, target));
    // A thread may be waiting for standard input.
    runtime.shutdown_background();
    Ok(exit)
}

async fn joined(settings: &StdioSettings, target: &Target) -> Exit {
    let said_all = CancellationToken::new();
    let out = Out {
        stdout: tokio::io::stdout(),
        ended: said_all.clone(),
    };
    let client = End::Other(Box::new(tokio::io::join(tokio::io::stdin(), out)));
    let upstream = &settings.way.upstream;
    let by_terminal = async {
        said_all.cancelled().await;
        if !io::stdin().is_terminal() {
            std::future::pending::<()>().await;
        }
    };
    let ended = tokio::select! {
        biased;
        ended = join(client, target, upstream, settings.idle) => ended,
        () = by_terminal => Ok(Ended::Closed),
    };
    match ended {
        Ok(ended) => over(&ended, target),
        Err(why) => unreached(&why, target),
    }
}

/// How the program ends after a relay.
fn over(ended: &Ended, target: &Target) -> Exit {
    match ended {
        // Whoever started us may leave when it likes.
        Ended::Closed | Ended::Reset(Side::Client) | Ended::Broken(Side::Client, _) => Exit::Done,
        Ended::Idle | Ended::Reset(Side::Target) | Ended::Broken(Side::Target, _) => {
            message::error(
                &harmless(&format!("the connection to {target}: {ended}")),
                None,
            );
            Exit::Network
        }
    }
}

fn unreached(why: &Unreached, target: &Target) -> Exit {
    let hint = why.errors().last().and_then(message::tunnel_hint);
    let text = format!("cannot reach {target}: {why}");
    Form::default().fail(Exit::Network, &text, hint)
}

/// Standard output, whose end is told to whoever reads it.
struct Out {
    stdout: Stdout,
    /// Cancelled when it was closed.
    ended: CancellationToken,
}

impl AsyncWrite for Out {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stdout).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stdout).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = ready!(Pin::new(&mut self.stdout).poll_flush(cx));
        close();
        self.ended.cancel();
        Poll::Ready(flushed)
    }
}

/// Closes standard output: of a socket, which may be standard input as well, the one direction.
fn close() {
    // Of what is no socket this fails, and is not needed.
    let _ = rustix::net::shutdown(io::stdout(), rustix::net::Shutdown::Write);
    // Not closed but led nowhere: the next file that is opened must not become standard output.
    if let Ok(nowhere) = std::fs::File::options().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(nowhere);
    }
}
