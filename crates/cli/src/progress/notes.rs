//! Messages about events, which are printed in every kind of progress.

use std::collections::HashMap;
use std::time::Duration;

use haul_transfer::{ConnectionCountLimit, TransferEvent};

use super::text::{bytes_text, connections_text, rate_text};
use crate::message::{sanitize, transfer_warning};

/// Decides which events have a message, and what it says.
#[derive(Debug, Default)]
pub(super) struct EventMessages {
    quiet: bool,
    /// Also a line for each segment, and for the connections of a download.
    verbose: bool,
    /// The name of each running job; `None` with one job, which needs no name.
    names: Option<HashMap<u64, String>>,
}

impl EventMessages {
    pub(super) fn new(quiet: bool, verbose: bool, jobs: usize) -> Self {
        Self {
            quiet,
            verbose,
            names: (jobs > 1).then(HashMap::new),
        }
    }

    /// The message about an event, if it has one. Needs to see all events, since it learns names from them.
    pub(super) fn line_for(&mut self, event: &TransferEvent) -> Option<String> {
        self.update_names(event);
        let name = self
            .names
            .as_ref()
            .and_then(|names| names.get(&event.job()?));
        let of = name.map_or_else(String::new, |name| format!("{name}: "));
        match event {
            _ if self.quiet => None,
            TransferEvent::Warning { warning, url, .. } => {
                Some(transfer_warning(&of, warning, url.as_deref()))
            }
            // A retry without a wait is of no interest.
            TransferEvent::Retry {
                attempt,
                limit,
                wait,
                reason,
                ..
            } if !wait.is_zero() || self.verbose => {
                let (reason, seconds) = (sanitize(&reason.to_string()), seconds_text(*wait));
                let then = match attempt {
                    _ if wait.is_zero() => "trying again at once".to_owned(),
                    // Other connections still deliver: this is not a retry.
                    0 => format!("no new connection for {seconds}"),
                    _ => format!("trying again in {seconds} ({attempt} of {limit})"),
                };
                Some(format!("haul: {of}{reason}; {then}"))
            }
            TransferEvent::SegmentEnded {
                range,
                elapsed,
                worker: connection,
                ..
            } if self.verbose => {
                let bytes = range.end.saturating_sub(range.start);
                let (first, last) = (range.start, range.end.saturating_sub(1));
                let (ms, size, rate) = (
                    elapsed.as_millis(),
                    bytes_text(bytes),
                    rate_text(bytes, *elapsed),
                );
                Some(format!(
                    "{of}segment {first}-{last}  {ms} ms  {size}  {rate}  connection {connection}"
                ))
            }
            TransferEvent::Connections { .. } if self.verbose => {
                connections_line(event).map(|line| format!("{of}{line}"))
            }
            _ => None,
        }
    }

    /// A job is named by its URL until its file has a name, and forgotten when it ends.
    fn update_names(&mut self, event: &TransferEvent) {
        let Some(names) = &mut self.names else { return };
        match event {
            TransferEvent::Started { job, url } => {
                drop(names.insert(*job, haul_net::redacted_url(url)))
            }
            TransferEvent::DestinationKnown {
                job,
                path: Some(path),
                ..
            } => {
                names.insert(*job, sanitize(&path.display().to_string()));
            }
            TransferEvent::Finished { job, .. } | TransferEvent::Failed { job, .. } => {
                drop(names.remove(job))
            }
            _ => {}
        }
    }
}

/// How many connections there were, what they brought, and why there were no more.
fn connections_line(event: &TransferEvent) -> Option<String> {
    let TransferEvent::Connections {
        connections,
        bytes,
        round_trip,
        limit,
        ..
    } = event
    else {
        return None;
    };
    let trip = round_trip.map_or_else(String::new, |time| {
        format!(", round trip {} ms", time.as_millis())
    });
    let (number, shares) = (connections_text(*connections), shares_text(bytes));
    let why = limit_text(*limit);
    Some(format!("{number}{shares}{trip}; no more because {why}"))
}

fn limit_text(limit: ConnectionCountLimit) -> &'static str {
    match limit {
        ConnectionCountLimit::UserNumber => "you asked for this number",
        ConnectionCountLimit::Refused => "the origin refused them",
        ConnectionCountLimit::Maximum => "this is the limit for one origin",
        ConnectionCountLimit::FileSize => "the file ended before they would have paid",
        ConnectionCountLimit::SharedRate => "they brought no higher rate",
        ConnectionCountLimit::RateLimit => "your rate limit was reached",
    }
}

/// What the connections brought, if there were several.
fn shares_text(bytes: &[u64]) -> String {
    match (bytes.iter().min(), bytes.iter().max()) {
        (Some(least), Some(most)) if bytes.len() > 1 => {
            format!(" ({} to {} each)", bytes_text(*least), bytes_text(*most))
        }
        _ => String::new(),
    }
}

/// `1 s`, `0.2 s`: no more digits than a wait is worth.
fn seconds_text(wait: Duration) -> String {
    let tenths = (wait.as_secs_f64() * 10.0).round().max(1.0) / 10.0;
    format!("{tenths} s")
}
