//! `haul tunnel status`: what is live in the tunnels that this user has running, or in one.

use std::io;

use haul_tunnel::Status;

use super::answering::{folder, sockets};
use super::ask::{self, AskError};
use super::table;
use crate::args::StatusArgs;
use crate::commands::service::trouble::Trouble;
use crate::exit::Exit;
use crate::message::{self, note, warning_text};
use crate::output;

/// Prints it.
pub(super) fn run(args: &StatusArgs) -> Result<Exit, Trouble> {
    let all = match &args.admin {
        Some(address) => vec![ask::at(address).map_err(|error| {
            Trouble::network(format!("--admin {address}: {}", message::chain(&error)))
                .hint("is a haul tunnel with this --admin running?")
        })?],
        None => own(),
    };
    if all.is_empty() {
        let (text, hint) = match folder() {
            Some(_) => (
                "no haul tunnel of yours is running",
                "--admin ADDRESS asks another user's, if it was started with that",
            ),
            None => (
                "it is not known which haul tunnels are running: XDG_RUNTIME_DIR, where they are found, is not set",
                "--admin ADDRESS asks one that was started with that",
            ),
        };
        return Err(Trouble::failed(text).hint(hint));
    }
    let printed = match args.json {
        true => output::lines(all.iter().map(json)),
        false => output::text(table::text(&all, table::width()).as_bytes()),
    };
    match printed {
        Ok(()) => Ok(Exit::Done),
        Err(error) => Ok(output::undelivered(&error)),
    }
}

fn json(status: &Status) -> String {
    // Strings and numbers: there is nothing that JSON cannot say.
    serde_json::to_string(status).unwrap_or_default()
}

/// Those that answer at their sockets. What a dead one has left is removed.
fn own() -> Vec<Status> {
    let mut all = Vec::new();
    for path in folder().map(|folder| sockets(&folder)).unwrap_or_default() {
        match ask::at_socket(&path) {
            Ok(status) => all.push(status),
            Err(AskError::Io(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
                // Whoever listened there has died. That it cannot be removed harms nobody.
                let _ = std::fs::remove_file(&path);
            }
            // It has ended meanwhile.
            Err(AskError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => note(&warning_text(&format!(
                "{}: {}",
                message::harmless(&path.display().to_string()),
                message::chain(&error)
            ))),
        }
    }
    all
}
