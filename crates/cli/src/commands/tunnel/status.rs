//! `haul tunnel status`: what is live in the tunnels that this user has running, or in one.
//!
//! A process that is there and does not answer is told of beside those that do, and taints the exit code: what is printed is not all.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use haul_service::listen::ListenAddress;
use haul_tunnel::TunnelStatus;

use super::status_query::{self, QUERY_TIMEOUT, StatusQueryError, StatusQueryOutcome};
use super::status_socket::{socket_folder, status_sockets};
use super::status_table;
use crate::args::StatusArgs;
use crate::commands::service::command_error::CommandError;
use crate::exit::ExitReason;
use crate::message::{self, print_line, sanitize, warning_text};
use crate::output;

/// How many are asked at a time: one that hangs has the others wait no longer than itself.
const QUERIES_AT_ONCE: usize = 16;

/// For a tunnel that begins, to listen at the file that it has made.
const STARTUP_TIME: Duration = Duration::from_secs(1);

/// What came of asking a user's own tunnels.
#[derive(Debug, Default)]
struct OwnTunnelsStatus {
    /// What they say.
    statuses: Vec<TunnelStatus>,
    /// Whether some are there and did not say it.
    is_incomplete: bool,
    /// One of those that said nothing at all.
    unresponsive: Option<u32>,
}

/// Prints it.
pub(super) fn run(args: &StatusArgs) -> Result<ExitReason, CommandError> {
    let own = match &args.admin {
        Some(address) => OwnTunnelsStatus {
            statuses: vec![
                status_query::query_address(address, QUERY_TIMEOUT)
                    .map_err(|error| query_error(address, &error))?,
            ],
            ..OwnTunnelsStatus::default()
        },
        None => query_own_tunnels(&socket_folder().ok_or_else(no_socket_folder_error)?)?,
    };
    let printed = match args.json {
        true => output::write_stdout_lines(own.statuses.iter().map(json)),
        false => output::write_stdout(
            status_table::status_text(&own.statuses, status_table::terminal_width()).as_bytes(),
        ),
    };
    match printed {
        Ok(()) if own.is_incomplete => Ok(ExitReason::SomeFailed),
        Ok(()) => Ok(ExitReason::Done),
        Err(error) => Ok(output::report_write_error(&error)),
    }
}

fn json(status: &TunnelStatus) -> String {
    // Strings and numbers: there is nothing that JSON cannot say.
    serde_json::to_string(status).unwrap_or_default()
}

/// The endpoint that was named does not say it.
fn query_error(address: &ListenAddress, error: &StatusQueryError) -> CommandError {
    let text = format!("--admin {address}: {}", message::chain_text(error));
    CommandError::network(text).with_hint(match error {
        StatusQueryError::Io(_) => "is a haul tunnel with this --admin running?",
        StatusQueryError::Timeout => "it is stopped or hangs, or is no haul tunnel",
        StatusQueryError::NotATunnel => {
            "give the address that a haul tunnel was started with as its --admin"
        }
    })
}

/// It is not known where they are.
fn no_socket_folder_error() -> CommandError {
    let uid = rustix::process::getuid().as_raw();
    CommandError::failed(
        "it is not known which haul tunnels are running: XDG_RUNTIME_DIR, the folder where they are found, is not set to an absolute path",
    )
    .with_hint(format!(
        "where one logs in it is mostly /run/user/{uid}, and tunnels must be started with it, too; --admin ADDRESS asks one that has an --admin"
    ))
}

/// Asks those that have sockets there, and tells of those that do not answer.
fn query_own_tunnels(folder: &Path) -> Result<OwnTunnelsStatus, CommandError> {
    let mut own = OwnTunnelsStatus::default();
    for some in status_sockets(folder).chunks(QUERIES_AT_ONCE) {
        let asked = std::thread::scope(|scope| {
            let ask = |(_, path): &'_ (u32, PathBuf)| {
                let path = path.clone();
                scope.spawn(move || status_query::query_socket(&path, QUERY_TIMEOUT))
            };
            let asking: Vec<_> = some.iter().map(ask).collect();
            let ended = asking.into_iter().map(std::thread::ScopedJoinHandle::join);
            // A panic is a bug, and goes on.
            let asked =
                ended.map(|asked| asked.unwrap_or_else(|bug| std::panic::resume_unwind(bug)));
            asked.collect::<Vec<_>>()
        });
        for ((pid, path), asked) in some.iter().zip(asked) {
            own.add((*pid, path), asked);
        }
    }
    match (&own.statuses[..], own.is_incomplete) {
        ([], false) => Err(CommandError::failed(format!(
            "no haul tunnel of yours is running: none answers in {}",
            sanitize(&folder.display().to_string())
        ))
        .with_hint("one of another user, or started without XDG_RUNTIME_DIR, is asked by --admin ADDRESS, if it has an --admin")),
        ([], true) => {
            let trouble = CommandError::failed("none of your haul tunnels answers");
            Err(match own.unresponsive {
                Some(pid) => trouble.with_hint(format!(
                    "one that was stopped goes on with `kill -CONT {pid}`; one that hangs is ended with `kill -9 {pid}`"
                )),
                None => trouble,
            })
        }
        _ => Ok(own),
    }
}

impl OwnTunnelsStatus {
    /// Keeps what one says, or tells that it does not. Its file has the number of its process in the name.
    fn add(&mut self, (named, path): (u32, &Path), asked: StatusQueryOutcome) {
        match asked.status {
            Ok(status) => self.statuses.push(status),
            // Whoever listened there has died. What is left is removed; that it cannot be harms nobody.
            Err(StatusQueryError::Io(error))
                if error.kind() == io::ErrorKind::ConnectionRefused =>
            {
                if !is_new(path) {
                    let _ = std::fs::remove_file(path);
                }
            }
            // It has ended meanwhile.
            Err(StatusQueryError::Io(error)) if is_gone(&error) => {}
            Err(error) => {
                self.is_incomplete = true;
                if matches!(error, StatusQueryError::Timeout) {
                    // A name is not enough for a kill: it may be of another machine, or of nobody.
                    let known = asked.process.filter(|process| *process == named);
                    self.unresponsive = self.unresponsive.or(known);
                }
                let place = sanitize(&path.display().to_string());
                let said = message::chain_text(&error);
                print_line(&warning_text(&format!("process {named}: {said} ({place})")));
            }
        }
    }
}

/// Whether a socket's file has just been made: between bind(2) and listen(2) a tunnel that begins answers as a dead one does.
fn is_new(path: &Path) -> bool {
    let made = path.symlink_metadata().and_then(|meta| meta.modified());
    // One of the future has no age: the clock was set back, and so it is not known.
    made.is_ok_and(|made| made.elapsed().map_or(true, |age| age < STARTUP_TIME))
}

/// Whether whoever was asked has ended.
fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::NotFound | Kind::ConnectionReset | Kind::BrokenPipe
    )
}
