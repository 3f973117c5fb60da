//! `haul tunnel --stdio`: connects standard input and output to a target, for ssh's ProxyCommand. Nothing else goes to standard output.

use std::io;

use haul_net::Target;
use haul_tunnel::relay::{RelayOutcome, RelaySide};
use haul_tunnel::{StdioOutcome, UpstreamConnectError, relay_stdio};
use rustix::fs::{OFlags, fcntl_getfl};

use crate::args::TunnelArgs;
use crate::commands::service::command_error::CommandError;
use crate::commands::service::lifecycle::start_runtime;
use crate::exit::ExitReason;
use crate::message::{self, JsonOutputs, print_line, sanitize, warning_text};
use crate::output;
use crate::settings::StdioSettings;

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
    let upstream = &settings.upstream.upstream;
    match relay_stdio(target, upstream, settings.idle_timeout).await {
        Ok(StdioOutcome::Relayed(outcome)) => relay_exit(&outcome, target),
        Ok(StdioOutcome::WriteFailed(error)) => write_error_exit(&error),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_left_is_no_failure() {
        let gone = io::Error::from(io::ErrorKind::ConnectionReset);
        assert_eq!(write_error_exit(&gone), ExitReason::ReaderGone);
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
