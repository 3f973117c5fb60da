//! A server's log: opened before it begins, told of when it cannot be written, and written to its end after it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use haul_service::observe::{LineLog, LogNotice, LogOptions, LogTarget};

use super::background_print::print_in_background;
use super::command_error::CommandError;
use crate::message::{self, print_line, sanitize, warning_text};
use crate::output;

/// For its last lines.
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Opens a log that is called so. One that is quiet is told what is wrong with it and nothing else.
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
    let which = match &options.target {
        LogTarget::Stdout => format!("{name} on standard output"),
        LogTarget::Stderr => format!("{name} on standard error"),
        LogTarget::File(path) => format!("{name} {}", sanitize(&path.display().to_string())),
    };
    let log = LineLog::open(name, options, move |news| {
        if !is_quiet || is_failure(&news) {
            print_line(&notice_text(&which, &news));
        }
    });
    let log = log.map_err(|error| {
        CommandError::local(message::chain_text(&error))
            .with_hint("name a file that you may write to, in a folder that is there")
    })?;
    Ok(Arc::new(log))
}

/// Has it written to its end.
pub(crate) async fn close(log: &LineLog) {
    let is_written = log.close(CLOSE_TIMEOUT).await;
    if let Some(missing) = missing_lines_text(is_written, log.dropped()) {
        let name = log.name();
        let text = format!("the {name} is not complete: {missing}");
        // It cannot fail but by a panic, which has been told.
        let _ = print_in_background(warning_text(&text)).await;
    }
}

/// Whether lines are lost, or go where they should not.
fn is_failure(news: &LogNotice) -> bool {
    match news {
        LogNotice::Failing(_) | LogNotice::NotReopened(_) => true,
        LogNotice::Mended { .. } => false,
    }
}

/// What is said of a log while it goes on.
fn notice_text(which: &str, news: &LogNotice) -> String {
    match news {
        LogNotice::Failing(error) => {
            let until = match error.kind() {
                io::ErrorKind::BrokenPipe => "from here on",
                _ => "until that works again",
            };
            warning_text(&format!(
                "cannot write the {which}: {error}: {until} its lines are dropped and counted, and all else goes on"
            ))
        }
        LogNotice::Mended { dropped } => format!(
            "haul: the {which} is written again: {} dropped",
            lines_text(*dropped)
        ),
        LogNotice::NotReopened(error) => warning_text(&format!(
            "cannot open the {which} again: {error}: lines go on into the old file; SIGHUP tries once more"
        )),
    }
}

/// What a log lacks at its end.
fn missing_lines_text(is_written: bool, dropped: u64) -> Option<String> {
    match (is_written, dropped) {
        (true, 0) => None,
        (false, 0) => Some(format!(
            "its last lines could not be written within {} s",
            CLOSE_TIMEOUT.as_secs()
        )),
        (_, dropped) => Some(format!(
            "{} dropped, for it could not be written, or not in time",
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
        let plain = |news| {
            anstream::adapter::strip_str(&notice_text("access log a.log", &news)).to_string()
        };
        assert_eq!(
            plain(LogNotice::Failing(io::ErrorKind::StorageFull.into())),
            "haul: warning: cannot write the access log a.log: no storage space: until that works again its lines are dropped and counted, and all else goes on"
        );
        let left = plain(LogNotice::Failing(io::ErrorKind::BrokenPipe.into()));
        assert!(left.contains(": from here on its lines are "), "{left}");
        assert_eq!(
            plain(LogNotice::Mended { dropped: 1 }),
            "haul: the access log a.log is written again: 1 line was dropped"
        );
        assert_eq!(
            plain(LogNotice::NotReopened(io::ErrorKind::NotFound.into())),
            "haul: warning: cannot open the access log a.log again: entity not found: lines go on into the old file; SIGHUP tries once more"
        );
    }

    #[test]
    fn missing_lines_are_reported_at_the_end() {
        assert_eq!(missing_lines_text(true, 0), None);
        let said = |is_written, dropped| missing_lines_text(is_written, dropped).unwrap();
        assert_eq!(
            said(false, 0),
            "its last lines could not be written within 2 s"
        );
        assert_eq!(
            said(true, 1),
            "1 line was dropped, for it could not be written, or not in time"
        );
        assert!(said(false, 7).starts_with("7 lines were"));
    }
}
