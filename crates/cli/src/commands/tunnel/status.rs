//! `haul tunnel status`: prints the live tunnels and connections of this user, or of one process.
//!
//! A process that does not respond is a warning beside those that do, and changes the exit code: the output is incomplete.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use haul_service::listen::ListenAddress;
use haul_tunnel::TunnelStatus;
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use super::status_query::{self, QUERY_TIMEOUT, StatusQueryError, StatusQueryOutcome};
use super::status_socket::{socket_folders, status_sockets};
use super::status_table;
use crate::args::StatusArgs;
use crate::commands::service::command_error::CommandError;
use crate::commands::service::lifecycle::start_runtime;
use crate::exit::ExitReason;
use crate::message::{self, print_line, sanitize, warning_text};
use crate::output;

/// Queries at one time: a process that hangs delays the others only by its own timeout.
const QUERIES_AT_ONCE: usize = 16;

/// The time that a starting tunnel may take between creating its socket file and listening.
const STARTUP_TIME: Duration = Duration::from_secs(1);

/// The result of querying a user's own tunnels.
#[derive(Debug, Default)]
struct OwnTunnelsStatus {
    statuses: Vec<TunnelStatus>,
    /// Whether some processes did not respond.
    is_incomplete: bool,
    /// A process that did not respond at all.
    unresponsive: Option<u32>,
}

pub(super) fn run(args: &StatusArgs) -> Result<ExitReason, CommandError> {
    let runtime = start_runtime(&mut Builder::new_current_thread())?;
    let tunnels = runtime.block_on(query_tunnels(args));
    // A resolver that does not respond must not hold the command.
    runtime.shutdown_background();
    let tunnels = tunnels?;
    let printed = if args.json {
        output::write_stdout_lines(tunnels.statuses.iter().map(json))
    } else {
        output::write_stdout(
            status_table::status_text(&tunnels.statuses, status_table::terminal_width()).as_bytes(),
        )
    };
    match printed {
        Ok(()) if tunnels.is_incomplete => Ok(ExitReason::SomeFailed),
        Ok(()) => Ok(ExitReason::Done),
        Err(error) => Ok(output::report_write_error(&error)),
    }
}

/// Queries the tunnel that --admin names, or those of this user.
async fn query_tunnels(args: &StatusArgs) -> Result<OwnTunnelsStatus, CommandError> {
    let Some(address) = &args.admin else {
        return query_own_tunnels(&socket_folders()).await;
    };
    let status = status_query::query_address(address, QUERY_TIMEOUT).await;
    Ok(OwnTunnelsStatus {
        statuses: vec![status.map_err(|error| query_error(address, &error))?],
        ..OwnTunnelsStatus::default()
    })
}

fn json(status: &TunnelStatus) -> String {
    // Strings and numbers: JSON can express them all.
    serde_json::to_string(status).unwrap_or_default()
}

/// The error about the endpoint that --admin names.
fn query_error(address: &ListenAddress, error: &StatusQueryError) -> CommandError {
    let text = format!("--admin {address}: {}", message::chain_text(error));
    CommandError::network(text).with_hint(match error {
        StatusQueryError::Io(_) => "is a haul tunnel with this --admin running?",
        StatusQueryError::Timeout => "the process is stopped or hangs, or is not a haul tunnel",
        StatusQueryError::NotATunnel => "give the --admin address of a haul tunnel",
    })
}

/// Queries the tunnels with sockets in the folders, and warns of those that do not respond.
async fn query_own_tunnels(folders: &[PathBuf]) -> Result<OwnTunnelsStatus, CommandError> {
    let mut tunnels = OwnTunnelsStatus::default();
    for sockets in status_sockets(folders).chunks(QUERIES_AT_ONCE) {
        let query = async |(pid, path): (u32, PathBuf)| {
            let outcome = status_query::query_socket(&path, QUERY_TIMEOUT).await;
            (pid, path, outcome)
        };
        let queries: JoinSet<_> = sockets.iter().cloned().map(query).collect();
        let mut outcomes = queries.join_all().await;
        outcomes.sort_unstable_by(|one, other| (one.0, &one.1).cmp(&(other.0, &other.1)));
        for (pid, path, outcome) in outcomes {
            tunnels.add((pid, &path), outcome);
        }
    }
    match (&tunnels.statuses[..], tunnels.is_incomplete) {
        ([], false) => {
            let folders: Vec<_> = folders
                .iter()
                .map(|folder| folder.display().to_string())
                .collect();
            let folders = sanitize(&folders.join(" or "));
            let text =
                format!("no haul tunnel of this user is running: none responds in {folders}");
            Err(CommandError::failed(text).with_hint(
                "--admin ADDRESS queries a tunnel of another user, if it has an --admin",
            ))
        }
        ([], true) => {
            let error = CommandError::failed("none of this user's haul tunnels responds");
            Err(match tunnels.unresponsive {
                Some(pid) => error.with_hint(format!(
                    "continue a stopped process with `kill -CONT {pid}`, or end one that hangs with `kill -9 {pid}`"
                )),
                None => error,
            })
        }
        _ => Ok(tunnels),
    }
}

impl OwnTunnelsStatus {
    /// Adds the result of one query. The name of its file contains a process id.
    fn add(&mut self, (named, path): (u32, &Path), outcome: StatusQueryOutcome) {
        match outcome.status {
            Ok(status) => self.statuses.push(status),
            // The process has died. Its socket file is removed; failing to do so does no harm.
            Err(StatusQueryError::Io(error))
                if error.kind() == io::ErrorKind::ConnectionRefused =>
            {
                if !is_new(path) {
                    let _ = std::fs::remove_file(path);
                }
            }
            // The process has ended meanwhile.
            Err(StatusQueryError::Io(error)) if is_gone(&error) => {}
            Err(error) => {
                self.is_incomplete = true;
                if matches!(error, StatusQueryError::Timeout) {
                    // A file name is not enough for a kill: the process may be on another machine, or may not exist.
                    let known = outcome.process.filter(|process| *process == named);
                    self.unresponsive = self.unresponsive.or(known);
                }
                let path_text = sanitize(&path.display().to_string());
                let message = message::chain_text(&error);
                print_line(&warning_text(&format!(
                    "process {named}: {message} ({path_text})"
                )));
            }
        }
    }
}

/// Whether a socket file is new: between bind(2) and listen(2) a starting tunnel looks like a dead one.
fn is_new(path: &Path) -> bool {
    let made = path.symlink_metadata().and_then(|meta| meta.modified());
    // A time in the future has no age: the clock was set back.
    made.is_ok_and(|made| made.elapsed().map_or(true, |age| age < STARTUP_TIME))
}

/// Whether the error means that the process has ended.
fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::NotFound | Kind::ConnectionReset | Kind::BrokenPipe
    )
}
