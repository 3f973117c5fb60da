//! Writes results: to standard output, and the objects of `--progress json` to standard error.
//!
//! A result that cannot be written is a failure; a message for people is not. A stream that was closed at the start needs a check of its
//! own, since writing to it succeeds (see [`sys`]).

use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::sync::LazyLock;

use crate::exit::ExitReason;
use crate::message;
use crate::sys;

/// Checks that standard output was open at the start.
///
/// # Errors
/// It was closed.
pub(crate) fn check_stdout() -> io::Result<()> {
    if sys::stdout_closed() {
        return Err(io::Error::other("it is closed"));
    }
    Ok(())
}

/// Writes lines to standard output and flushes it.
pub(crate) fn write_stdout_lines<T: std::fmt::Display>(
    lines: impl IntoIterator<Item = T>,
) -> io::Result<()> {
    check_stdout()?;
    let mut out = io::stdout().lock();
    lines
        .into_iter()
        .try_for_each(|line| writeln!(out, "{}", result_text(&line.to_string())))?;
    out.flush()
}

/// A text of standard output as it is for programs, and without control characters for a terminal: names of files may have some.
pub(crate) fn result_text(text: &str) -> Cow<'_, str> {
    // A batch has a line for each of many files.
    static IS_TERMINAL: LazyLock<bool> = LazyLock::new(|| io::stdout().is_terminal());
    if *IS_TERMINAL {
        Cow::Owned(message::sanitize(text))
    } else {
        Cow::Borrowed(text)
    }
}

/// Writes bytes to standard output and flushes it.
pub(crate) fn write_stdout(text: &[u8]) -> io::Result<()> {
    check_stdout()?;
    let mut out = io::stdout().lock();
    out.write_all(text)?;
    out.flush()
}

/// Prints the whole result of a command.
pub(crate) fn print(text: &[u8]) -> ExitCode {
    match write_stdout(text) {
        Ok(()) => ExitReason::Done.into(),
        Err(error) => report_write_error(&error).into(),
    }
}

/// Writes a line for programs to standard error: without colours, and with an error if it is closed.
pub(crate) fn write_stderr_line(line: &dyn std::fmt::Display) -> io::Result<()> {
    if sys::stderr_closed() {
        return Err(io::Error::other("it is closed"));
    }
    writeln!(io::stderr().lock(), "{line}")
}

/// The exit code for a result that could not be written.
pub(crate) fn write_error_exit(error: &io::Error) -> ExitReason {
    match error.kind() {
        io::ErrorKind::BrokenPipe => ExitReason::ReaderGone,
        _ => ExitReason::LocalIo,
    }
}

/// The message and the hint for a result that could not be written.
pub(crate) fn explain_write_error(error: &io::Error) -> (String, &'static str) {
    (
        format!("cannot write to standard output: {error}"),
        "redirect it to a file that can be written",
    )
}

/// Prints why the whole result of a command could not be written, unless its reader has left.
pub(crate) fn report_write_error(error: &io::Error) -> ExitReason {
    let exit = write_error_exit(error);
    if exit != ExitReason::ReaderGone {
        let (text, hint) = explain_write_error(error);
        message::print_error(&text, Some(hint));
    }
    exit
}
