//! What a server tells while it runs or ends: on a thread that may wait, for standard error may be a pipe that nobody reads.

use tokio::task::{JoinHandle, spawn_blocking};

use crate::message::print_line;

/// Begins to print a line. Whoever wants it printed before something else waits for that; dropped, it is printed if it can be.
pub(crate) fn print_in_background(line: String) -> JoinHandle<()> {
    spawn_blocking(move || print_line(&line))
}
