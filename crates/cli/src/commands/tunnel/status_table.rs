//! The status of tunnels for people: a line for each listener, and a table of connections.

use std::time::Duration;

use haul_tunnel::{ConnectionStatus, ListenerStatus, TunnelStatus};

use crate::message::sanitize;
use crate::progress::{bytes_text, time_text};

const GAP: &str = "  ";

/// Column heads, and whether the column is numeric. Changing values come first: names may be longer than a terminal is wide.
const HEADS: [(&str, bool); 7] = [
    ("AGE", true),
    ("UP", true),
    ("DOWN", true),
    ("CLIENT", false),
    ("TARGET", false),
    ("VIA", false),
    ("LISTEN", false),
];

/// The columns of the terminal; `None` for a pipe, where nothing is cut.
pub(super) fn terminal_width() -> Option<usize> {
    let terminal = console::Term::stdout();
    let size = terminal.is_term().then(|| terminal.size_checked());
    size.flatten().map(|(_, columns)| usize::from(columns))
}

/// The whole status. Rows of the table are cut to `width`; lines of listeners are not.
pub(super) fn status_text(statuses: &[TunnelStatus], width: Option<usize>) -> String {
    let mut text = String::new();
    for (status, index) in statuses.iter().zip(0..) {
        if index > 0 {
            text.push('\n');
        }
        let heads = std::iter::once(format!("process {}", status.pid))
            .chain(status.tunnels.iter().map(listener_line));
        let table = connection_rows(status).into_iter().map(|row| match width {
            Some(width) => sanitize(&row).chars().take(width).collect(),
            None => row,
        });
        for line in heads.chain(table) {
            text.push_str(sanitize(&line).trim_end());
            text.push('\n');
        }
    }
    text
}

/// The table of connections.
fn connection_rows(status: &TunnelStatus) -> Vec<String> {
    if status.connections.is_empty() {
        return vec!["no connections".to_owned()];
    }
    let heads = HEADS.map(|(head, _)| head.to_owned());
    let rows: Vec<_> = std::iter::once(heads)
        .chain(status.connections.iter().map(connection_row))
        .collect();
    let mut widths = [0; HEADS.len()];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    rows.iter().map(|row| align_row(row, &widths)).collect()
}

fn listener_line(tunnel: &ListenerStatus) -> String {
    let ListenerStatus {
        listen,
        to,
        tls,
        ready,
    } = tunnel;
    let tls = if *tls { " (TLS)" } else { "" };
    match ready {
        0 => format!("{listen} -> {to}{tls}"),
        ready => format!("{listen} -> {to}{tls}, {ready} ready"),
    }
}

fn connection_row(connection: &ConnectionStatus) -> [String; HEADS.len()] {
    let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    [
        time_text(Duration::from_millis(connection.ms)),
        bytes_text(connection.up),
        bytes_text(connection.down),
        connection.client.clone(),
        or_none(&connection.target),
        or_none(&connection.via),
        connection.listen.clone(),
    ]
}

fn align_row(row: &[String; HEADS.len()], widths: &[usize; HEADS.len()]) -> String {
    let cells = row
        .iter()
        .zip(widths)
        .zip(HEADS)
        .map(|((cell, width), (_, is_number))| {
            if is_number {
                format!("{cell:>width$}")
            } else {
                format!("{cell:<width$}")
            }
        });
    cells.collect::<Vec<_>>().join(GAP)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> TunnelStatus {
        let connection = |client: &str, via: Option<&str>, down, ms| ConnectionStatus {
            id: 1,
            listen: "127.0.0.1:9993".into(),
            client: client.into(),
            target: Some("imap.example.com:993".into()),
            via: via.map(str::to_owned),
            up: 321,
            down,
            ms,
        };
        TunnelStatus {
            pid: 4711,
            tunnels: vec![
                ListenerStatus {
                    listen: "127.0.0.1:9993".into(),
                    to: "imap.example.com:993".into(),
                    tls: true,
                    ready: 4,
                },
                ListenerStatus {
                    listen: "127.0.0.1:1080".into(),
                    to: "SOCKS5".into(),
                    tls: false,
                    ready: 0,
                },
            ],
            connections: vec![
                connection(
                    "127.0.0.1:51234",
                    Some("proxy.example.com:3128"),
                    5 << 30,
                    4_000_000,
                ),
                connection("unix", None, 0, 900),
            ],
        }
    }

    #[test]
    fn live_connections_are_a_table() {
        insta::assert_snapshot!(status_text(&[status()], None));
    }

    #[test]
    fn the_table_fits_into_the_terminal_and_keeps_the_numbers() {
        let two = status_text(&[status(), status()], Some(40));
        let (listeners, rows): (Vec<&str>, Vec<&str>) =
            two.lines().partition(|line| line.contains(" -> "));
        assert!(rows.iter().all(|row| row.chars().count() <= 40), "{two}");
        assert_eq!(two.matches("process 4711").count(), 2);
        assert_eq!(
            two.matches("1:06:40  321 B  5.0 GiB  127.0.0.1:51234")
                .count(),
            2
        );
        assert_eq!(
            listeners[0],
            "127.0.0.1:9993 -> imap.example.com:993 (TLS), 4 ready"
        );
        let quiet = TunnelStatus {
            connections: Vec::new(),
            ..status()
        };
        assert!(status_text(&[quiet], None).ends_with("no connections\n"));
    }
}
