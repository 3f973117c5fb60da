//! A server's log: opened before it begins, and written to its end after it.

use std::sync::Arc;
use std::time::Duration;

use haul_service::observe::{Log, LogOptions, LogTarget};

use super::trouble::Trouble;
use crate::message::{self, note, warning_text};
use crate::output;

/// For its last lines.
const LAST: Duration = Duration::from_secs(2);

/// Opens a log that is called so.
pub(crate) fn open(name: &'static str, options: &LogOptions) -> Result<Arc<Log>, Trouble> {
    if options.target == LogTarget::Stdout {
        output::stdout_is_open().map_err(|error| {
            let (text, hint) = output::explain(&error);
            Trouble::local(text).hint(hint)
        })?;
    }
    let log = Log::open(name, options).map_err(|error| {
        Trouble::local(message::chain(&error))
            .hint("name a file that you may write to, in a folder that is there")
    })?;
    Ok(Arc::new(log))
}

/// Has it written to its end.
pub(crate) async fn close(log: &Log) {
    let is_written = log.close(LAST).await;
    let (name, dropped) = (log.name(), log.dropped());
    if !is_written || dropped > 0 {
        note(&warning_text(&format!(
            "the {name} is not complete: its disk was slow or failed, {dropped} lines were dropped"
        )));
    }
}
