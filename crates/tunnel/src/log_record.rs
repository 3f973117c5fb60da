//! A line of the log: client, target and route of a connection, its bytes, its duration, and how it ended.

use std::borrow::Cow;
use std::fmt;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use haul_service::observe::UtcTimestamp;
use serde::Serialize;

use crate::config::ClientAddress;
use crate::relay::RelayOutcome;
use crate::upstream::UpstreamConnectError;

/// The most characters of an outcome: a chain of errors may be long.
const MAX_REASON: usize = 1024;

/// One line of the log, but for how it ended.
#[derive(Debug)]
pub(crate) struct TunnelRecord {
    pub(crate) started_at: SystemTime,
    /// As the user wrote it.
    pub(crate) listener: Arc<str>,
    pub(crate) client: ClientAddress,
    /// `None`: the client did not name one.
    pub(crate) target: Option<String>,
    /// The route's proxies; `None` if the target was not reached.
    pub(crate) via: Option<Arc<str>>,
    /// Bytes to the target.
    pub(crate) up: u64,
    /// Bytes to the client.
    pub(crate) down: u64,
    pub(crate) duration: Duration,
}

/// How a connection ended, or a request of an HTTP client.
#[derive(Debug, Clone)]
pub(crate) enum TunnelOutcome {
    /// The client was connected to its target.
    Relayed(RelayOutcome),
    /// The target was not reached.
    Unreached(UpstreamConnectError),
    /// The client left before the target was reached.
    ClientLeft,
    /// The client did not name a target in time.
    Silent,
    /// The client sent something that names no target.
    BadRequest(String),
    /// As many connections were open as there may be.
    TooManyConnections { limit: usize, set_by: Arc<str> },
    /// The tunnel was shut down.
    Stopped,
}

impl From<RelayOutcome> for TunnelOutcome {
    fn from(outcome: RelayOutcome) -> Self {
        Self::Relayed(outcome)
    }
}

impl TunnelOutcome {
    /// Its name in counters and in the JSON log.
    pub(crate) fn word(&self) -> &'static str {
        use crate::relay::RelaySide;
        match self {
            Self::Relayed(RelayOutcome::Closed) => "closed",
            Self::Relayed(RelayOutcome::Reset(RelaySide::Client)) => "reset_by_client",
            Self::Relayed(RelayOutcome::Reset(RelaySide::Target)) => "reset_by_target",
            Self::Relayed(RelayOutcome::Broken(..)) => "broken",
            Self::Relayed(RelayOutcome::IdleTimeout) => "idle",
            Self::Unreached(_) => "unreached",
            Self::ClientLeft => "left",
            Self::Silent => "silent",
            Self::BadRequest(_) => "misunderstood",
            Self::TooManyConnections { .. } => "too_many",
            Self::Stopped => "stopped",
        }
    }

    /// All of these names.
    pub(crate) const WORDS: [&str; 11] = [
        "closed",
        "reset_by_client",
        "reset_by_target",
        "broken",
        "idle",
        "unreached",
        "left",
        "silent",
        "misunderstood",
        "too_many",
        "stopped",
    ];
}

impl fmt::Display for TunnelOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Relayed(ended) => write!(f, "{ended}"),
            Self::Unreached(why) => write!(f, "failed: {why}"),
            Self::ClientLeft => f.write_str("the client left before it was connected"),
            Self::Silent => f.write_str("the client did not name a target"),
            Self::BadRequest(why) => write!(f, "failed: {why}"),
            Self::TooManyConnections { limit, set_by } => {
                write!(
                    f,
                    "refused: {set_by} allows no more than {limit} at one time"
                )
            }
            Self::Stopped => f.write_str("stopped"),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TunnelLogFormat {
    /// For people.
    #[default]
    Text,
    /// An object for each line.
    Json,
}

impl TunnelLogFormat {
    /// Appends one line, whatever peers have sent.
    pub(crate) fn render(self, record: &TunnelRecord, outcome: &TunnelOutcome, line: &mut Vec<u8>) {
        match self {
            Self::Text => text(record, outcome, line),
            Self::Json => json(record, outcome, line),
        }
        line.push(b'\n');
    }
}

/// `2026-01-02T03:04:05.678Z 127.0.0.1:5000 > mail.test:993 via proxy.test:3128: closed, 12 up, 3456 down, 789 ms`
fn text(record: &TunnelRecord, outcome: &TunnelOutcome, line: &mut Vec<u8>) {
    UtcTimestamp::from(record.started_at).write_rfc3339(line);
    let target = record.target.as_deref().unwrap_or("?");
    // Writing to a vector cannot fail.
    let _ = write!(line, " {} > {target}", record.client);
    if let Some(via) = &record.via {
        let _ = write!(line, " via {via}");
    }
    let _ = write!(
        line,
        ": {}, {} up, {} down, {} ms",
        printable(outcome),
        record.up,
        record.down,
        record.duration.as_millis()
    );
}

/// The fields of a line, in their order.
#[derive(Serialize)]
struct JsonLine<'a> {
    time: Cow<'a, str>,
    tunnel: &'a str,
    client: String,
    target: Option<&'a str>,
    via: Option<&'a str>,
    up: u64,
    down: u64,
    ms: u128,
    end: &'a str,
    reason: String,
}

fn json(record: &TunnelRecord, outcome: &TunnelOutcome, line: &mut Vec<u8>) {
    let mut time = Vec::new();
    UtcTimestamp::from(record.started_at).write_rfc3339(&mut time);
    let fields = JsonLine {
        time: String::from_utf8_lossy(&time),
        tunnel: &record.listener,
        client: record.client.to_string(),
        target: record.target.as_deref(),
        via: record.via.as_deref(),
        up: record.up,
        down: record.down,
        ms: record.duration.as_millis(),
        end: outcome.word(),
        reason: printable(outcome),
    };
    // Strings and numbers, into a vector: this cannot fail.
    let _ = serde_json::to_writer(line, &fields);
}

/// The outcome without control characters, which could move a terminal's cursor, and not longer than the limit.
fn printable(outcome: &TunnelOutcome) -> String {
    let text = outcome.to_string();
    let plain = text.chars().map(|c| if c.is_control() { '?' } else { c });
    plain.take(MAX_REASON).collect()
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;
    use crate::relay::RelaySide;

    fn line(format: TunnelLogFormat, outcome: &TunnelOutcome, via: Option<&str>) -> String {
        let record = TunnelRecord {
            started_at: UNIX_EPOCH + Duration::from_millis(971_186_136_007),
            listener: "127.0.0.1:9993".into(),
            client: ClientAddress::Tcp("127.0.0.1:5000".parse().unwrap()),
            target: Some("mail.test:993".to_owned()),
            via: via.map(Into::into),
            up: 12,
            down: 3456,
            duration: Duration::from_micros(789_900),
        };
        let mut line = Vec::new();
        format.render(&record, outcome, &mut line);
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn text_and_json_say_the_same() {
        let ended = TunnelOutcome::Relayed(RelayOutcome::Reset(RelaySide::Target));
        let text = "2000-10-10T13:55:36.007Z 127.0.0.1:5000 > mail.test:993 via p.test:3128: reset by target, 12 up, 3456 down, 789 ms\n";
        assert_eq!(
            line(TunnelLogFormat::Text, &ended, Some("p.test:3128")),
            text
        );
        let json = concat!(
            r#"{"time":"2000-10-10T13:55:36.007Z","tunnel":"127.0.0.1:9993","client":"127.0.0.1:5000","target":"mail.test:993","via":null,"#,
            r#""up":12,"down":3456,"ms":789,"end":"reset_by_target","reason":"reset by target"}"#,
            "\n"
        );
        assert_eq!(line(TunnelLogFormat::Json, &ended, None), json);
    }

    #[test]
    fn what_a_peer_sends_makes_no_second_line() {
        let hostile =
            TunnelOutcome::BadRequest("a\"b\\c\r\nd\x1b[2J\u{9b}".to_owned() + &"x".repeat(5000));
        for format in [TunnelLogFormat::Text, TunnelLogFormat::Json] {
            let line = line(format, &hostile, None);
            assert!(line.len() < 1500 && line.ends_with('\n'), "{line}");
            assert_eq!(
                line.trim_end().chars().find(|c| c.is_control()),
                None,
                "{line:?}"
            );
        }
    }

    #[test]
    fn every_outcome_has_a_counter() {
        let error = || "x".to_owned();
        for outcome in [
            TunnelOutcome::Relayed(RelayOutcome::Closed),
            TunnelOutcome::Relayed(RelayOutcome::Reset(RelaySide::Client)),
            TunnelOutcome::Relayed(RelayOutcome::Reset(RelaySide::Target)),
            TunnelOutcome::Relayed(RelayOutcome::Broken(RelaySide::Client, error())),
            TunnelOutcome::Relayed(RelayOutcome::IdleTimeout),
            TunnelOutcome::ClientLeft,
            TunnelOutcome::Silent,
            TunnelOutcome::BadRequest(error()),
            TunnelOutcome::TooManyConnections {
                limit: 5,
                set_by: "--max-connections".into(),
            },
            TunnelOutcome::Stopped,
        ] {
            assert!(
                TunnelOutcome::WORDS.contains(&outcome.word()),
                "{outcome:?}"
            );
        }
    }
}
