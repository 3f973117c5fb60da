//! Prints messages of a running server on a thread that may block: standard error may be a pipe that nobody reads.

use tokio::task::{JoinHandle, spawn_blocking};

use crate::message::print_line;

/// Starts to print a line. Await the handle to have it printed first; a dropped handle prints it if possible.
pub(crate) fn print_in_background(line: String) -> JoinHandle<()> {
    spawn_blocking(move || print_line(&line))
}
