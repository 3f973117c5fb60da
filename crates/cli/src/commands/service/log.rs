//! Opens a server's log, reports write errors, and writes it to its end.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use haul_service::observe::{LineLog, LogNotice, LogOptions, LogTarget};

use super::command_error::CommandError;
use crate::message::{self, print_in_background, sanitize, warning_text};
use crate::output;

/// Opens the log with this name. A quiet one reports errors only.
pub(crate) fn open(
    name: &'static str,
    options: &LogOptions,
    is_quiet: bool,
) -> Result<Arc<LineLog>, CommandError> {
    if options.target == LogTarget::Stdout {
        output::check_stdout().map_err(|error| {
            let (text, hint) = output::explain_write_error(&error);
            CommandError::local(text).with_hint(hint)
        })?;
    }
    let log_name = match &options.target {
        LogTarget::Stdout => format!("{name} on standard output"),
        LogTarget::Stderr => format!("{name} on standard error"),
        LogTarget::File(path) => format!("{name} {}", sanitize(&path.display().to_string())),
    };
    let log = LineLog::open(name, options, move |notice| {
        if !is_quiet || is_failure(&notice) {
            print_in_background(notice_text(&log_name, &notice));
        }
    })
    .map_err(|error| {
        CommandError::local(message::chain_text(&error))
            .with_hint("name a file in an existing folder that you can write to")
    })?;
    Ok(Arc::new(log))
}

/// Writes the log to its end, if that takes no longer than the limit.
pub(crate) async fn close(log: &LineLog, limit: Duration) {
    let is_written = log.close(limit).await;
    if let Some(missing) = missing_lines_text(is_written, log.dropped(), limit) {
        let name = log.name();
        let text = format!("the {name} is incomplete: {missing}");
        print_in_background(warning_text(&text));
    }
}

fn is_failure(notice: &LogNotice) -> bool {
    match notice {
        LogNotice::Failing(_) | LogNotice::NotReopened(_) => true,
        LogNotice::Mended { .. } => false,
    }
}

/// The message about a running log.
fn notice_text(log_name: &str, notice: &LogNotice) -> String {
    match notice {
        LogNotice::Failing(error) => {
            let until = match error.kind() {
                io::ErrorKind::BrokenPipe => "from now on",
                _ => "until that works again",
            };
            warning_text(&format!(
                "cannot write the {log_name}: {error}: haul continues, and drops and counts lines {until}"
            ))
        }
        LogNotice::Mended { dropped } => format!(
            "haul: the {log_name} is written again: {} dropped",
            lines_text(*dropped)
        ),
        LogNotice::NotReopened(error) => warning_text(&format!(
            "cannot reopen the {log_name}: {error}: haul keeps writing to the old file; SIGHUP tries again"
        )),
    }
}

/// What the log misses at its end.
fn missing_lines_text(is_written: bool, dropped: u64, limit: Duration) -> Option<String> {
    match (is_written, dropped) {
        (true, 0) => None,
        (false, 0) => Some(format!(
            "its last lines could not be written within {} s",
            limit.as_secs()
        )),
        (_, dropped) => Some(format!(
            "{} dropped because the log could not be written in time",
            lines_text(dropped)
        )),
    }
}

fn lines_text(count: u64) -> String {
    match count {
        1 => "1 line was".to_owned(),
        _ => format!("{count} lines were"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_name_the_log_and_say_what_happens_to_its_lines() {
        let plain = |notice| {
            anstream::adapter::strip_str(&notice_text("access log a.log", &notice)).to_string()
        };
        assert_eq!(
            plain(LogNotice::Failing(io::ErrorKind::StorageFull.into())),
            "haul: warning: cannot write the access log a.log: no storage space: haul continues, and drops and counts lines until that works again"
        );
        let left = plain(LogNotice::Failing(io::ErrorKind::BrokenPipe.into()));
        assert!(left.contains("lines from now on"), "{left}");
        assert_eq!(
            plain(LogNotice::Mended { dropped: 1 }),
            "haul: the access log a.log is written again: 1 line was dropped"
        );
        assert_eq!(
            plain(LogNotice::NotReopened(io::ErrorKind::NotFound.into())),
            "haul: warning: cannot reopen the access log a.log: entity not found: haul keeps writing to the old file; SIGHUP tries again"
        );
    }

    #[test]
    fn missing_lines_are_reported_at_the_end() {
        let limit = Duration::from_secs(2);
        assert_eq!(missing_lines_text(true, 0, limit), None);
        let text_of = |is_written, dropped| missing_lines_text(is_written, dropped, limit).unwrap();
        assert_eq!(
            text_of(false, 0),
            "its last lines could not be written within 2 s"
        );
        assert_eq!(
            text_of(true, 1),
            "1 line was dropped because the log could not be written in time"
        );
        assert!(text_of(false, 7).starts_with("7 lines were"));
    }
}
