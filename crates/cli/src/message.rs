//! Messages for people: what happened, to what, and a hint what to do.
//!
//! One line `haul: error: ...` with the causes separated by colons, then perhaps `hint: ...`. Colour marks the words "error", "warning" and
//! "hint" only and carries no meaning; `NO_COLOR` and pipes turn it off. Failing to write to standard error is not a failure, since nobody is
//! left to tell. [`remedies`] has the flags that help, [`mod@usage`] explains wrong command lines, [`json_outputs`] selects the format of failures before any job.

mod background;
mod foreign_commands;
mod foreign_flags;
mod json_outputs;
mod remedies;
mod server_hints;
mod usage;

use std::error::Error;
use std::io::Write as _;

use haul_transfer::TransferWarning;
use haul_transfer::batch::error_chain;

pub(crate) use background::{finish_printing, print_in_background};
pub(crate) use json_outputs::JsonOutputs;
pub(crate) use remedies::{bucket_hint, error_hint, remedies_hint, tunnel_hint, upload_hint};
pub(crate) use server_hints::{certificate_hint, listen_hint};
pub(crate) use usage::report_usage_error;

/// An error and its causes in one line. A cause that the line already contains is left out.
pub(crate) fn chain_text(error: &dyn Error) -> String {
    sanitize(&error_chain(error))
}

/// Replaces control characters and marks of direction: texts of peers and file names may contain escape sequences, which must not reach a
/// terminal, and `\u{202e}gpj.exe` would look like another name there.
pub(crate) fn sanitize(text: &str) -> String {
    let is_direction = |c| matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars()
        .map(|c| {
            if c.is_control() || is_direction(c) {
                '\u{fffd}'
            } else {
                c
            }
        })
        .collect()
}

/// An error and its hint as printed.
pub(crate) fn error_text(text: &str, hint: Option<&str>) -> String {
    format!("haul: \x1b[1;31merror\x1b[0m: {text}{}", hint_text(hint))
}

pub(crate) fn print_error(text: &str, hint: Option<&str>) {
    print_line(&error_text(text, hint));
}

/// A warning as printed.
pub(crate) fn warning_text(text: &str) -> String {
    warning_with_hint(text, None)
}

/// A warning of an engine in one line, with the flags that help.
pub(crate) fn transfer_warning_line(warning: &TransferWarning, url: Option<&str>) -> String {
    let url = url.map_or_else(String::new, |url| format!("{url}: "));
    let hint =
        remedies_hint(&warning.remedies()).map_or_else(String::new, |hint| format!("; {hint}"));
    format!("{url}{warning}{hint}")
}

/// The same as printed, after `of`.
pub(crate) fn transfer_warning(of: &str, warning: &TransferWarning, url: Option<&str>) -> String {
    let line = sanitize(&transfer_warning_line(warning, url));
    warning_text(&format!("{of}{line}"))
}

/// A warning, and what the user can do about it, as printed.
pub(crate) fn warning_with_hint(text: &str, hint: Option<&str>) -> String {
    format!("haul: \x1b[1;33mwarning\x1b[0m: {text}{}", hint_text(hint))
}

fn hint_text(hint: Option<&str>) -> String {
    hint.map_or_else(String::new, |hint| format!("\n\x1b[1mhint\x1b[0m: {hint}"))
}

/// Prints a line to standard error, without colours where they are not wanted.
pub(crate) fn print_line(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct ErrorLevel {
        text: &'static str,
        #[source]
        source: Option<Box<Self>>,
    }

    fn level(text: &'static str, source: Option<ErrorLevel>) -> ErrorLevel {
        ErrorLevel {
            text,
            source: source.map(Box::new),
        }
    }

    #[test]
    fn causes_are_shown_once_and_without_control_characters() {
        let error = level(
            "cannot fetch",
            Some(level(
                "closed",
                Some(level("closed", Some(level("a\x1b[2Jb\n", None)))),
            )),
        );
        assert_eq!(
            chain_text(&error),
            "cannot fetch: closed: a\u{fffd}[2Jb\u{fffd}"
        );
    }
}
