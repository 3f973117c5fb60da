//! Where results go: standard output, and for the objects of `--progress json` standard error.
//!
//! A result that cannot be delivered is a failure, unlike a line for people that nobody sees. That a stream was closed from
//! the start must be asked for: writing to one succeeds (see [`sys`]).

use std::io::{self, Write as _};

use crate::exit::ExitReason;
use crate::message;
use crate::sys;

/// Whether anything can be written to standard output at all.
///
/// # Errors
/// That it is closed.
pub(crate) fn check_stdout() -> io::Result<()> {
    if sys::stdout_closed() {
        return Err(io::Error::other("it is closed"));
    }
    Ok(())
}

/// Writes lines to standard output, all the way.
///
/// # Errors
/// What the system says.
pub(crate) fn write_stdout_lines<T: std::fmt::Display>(
    lines: impl IntoIterator<Item = T>,
) -> io::Result<()> {
    check_stdout()?;
    let mut out = io::stdout().lock();
    lines
        .into_iter()
        .try_for_each(|line| writeln!(out, "{line}"))?;
    out.flush()
}

/// Writes a text to standard output, all the way.
///
/// # Errors
/// What the system says.
pub(crate) fn write_stdout(text: &[u8]) -> io::Result<()> {
    check_stdout()?;
    let mut out = io::stdout().lock();
    out.write_all(text)?;
    out.flush()
}

/// Writes a line to standard error, for programs: without colours, and not for nothing.
///
/// # Errors
/// What the system says.
pub(crate) fn write_stderr_line(line: &dyn std::fmt::Display) -> io::Result<()> {
    if sys::stderr_closed() {
        return Err(io::Error::other("it is closed"));
    }
    writeln!(io::stderr().lock(), "{line}")
}

/// How the program ends when a result could not be written.
pub(crate) fn write_error_exit(error: &io::Error) -> ExitReason {
    match error.kind() {
        io::ErrorKind::BrokenPipe => ExitReason::ReaderGone,
        _ => ExitReason::LocalIo,
    }
}

/// What is told of it, and what to do.
pub(crate) fn explain_write_error(error: &io::Error) -> (String, &'static str) {
    (
        format!("cannot write to standard output: {error}"),
        "results go there: redirect it to where they can be written",
    )
}

/// For a command whose whole result goes to standard output: prints why it could not, unless nobody reads any more.
pub(crate) fn report_write_error(error: &io::Error) -> ExitReason {
    let exit = write_error_exit(error);
    if exit != ExitReason::ReaderGone {
        let (text, hint) = explain_write_error(error);
        message::print_error(&text, Some(hint));
    }
    exit
}
