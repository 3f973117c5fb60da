//! A recorded request.

use std::ops::Range;

/// A request and its outcome.
#[derive(Debug, Clone, Default)]
pub struct RecordedRequest {
    /// Its number among the requests for this path, from 0.
    pub number_for_path: usize,
    /// The number of its connection, from 0.
    pub connection: usize,
    /// How many connections were open when its own was accepted, including it.
    pub open_connections: usize,
    /// How many requests had no complete response yet when it arrived, including it.
    pub active_requests: usize,
    /// Bytes of bodies that the origin had sent before it, over all connections.
    pub bytes_served_before: u64,
    pub method: String,
    /// The request line's target.
    pub target: String,
    /// `HTTP/1.1`.
    pub version: String,
    /// Header fields, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The status of the response; 0 without a response.
    pub status: u16,
    /// Bytes of the response's body that were sent, or were being written at the end; of a tunnel, the bytes to the client, counted when it ends.
    pub bytes_sent: u64,
    /// The script broke the response off.
    pub was_cut_off: bool,
}

impl RecordedRequest {
    /// A header field's value, by its name in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// The path, without the query.
    #[must_use]
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// The requested range, half-open, within a length; `None` without one or if it is not understood
    /// (RFC 9110 14.1.2). It is empty or begins at the length or later when nothing satisfies it.
    #[must_use]
    pub fn range(&self, length: u64) -> Option<Range<u64>> {
        let (first, last) = self
            .header("range")?
            .strip_prefix("bytes=")?
            .split_once('-')?;
        if first.is_empty() {
            return Some(length.saturating_sub(last.parse().ok()?)..length);
        }
        let first: u64 = first.parse().ok()?;
        if last.is_empty() {
            return Some(first..length);
        }
        let last: u64 = last.parse().ok().filter(|last| *last >= first)?;
        Some(first..last.saturating_add(1).min(length))
    }

    /// The start of the requested range; 0 without one.
    #[must_use]
    pub fn range_start(&self) -> u64 {
        self.range(u64::MAX).map_or(0, |range| range.start)
    }

    /// Whether the client wants the connection closed after the response (RFC 9112 9.3), or has sent a body, which is not read.
    pub(crate) fn closes_connection(&self) -> bool {
        let says = |word: &str| {
            self.header("connection").is_some_and(|value| {
                value
                    .split(',')
                    .any(|option| option.trim().eq_ignore_ascii_case(word))
            })
        };
        let body = self.header("transfer-encoding").is_some()
            || self.header("content-length").is_some_and(|n| n != "0");
        says("close") || body || (self.version == "HTTP/1.0" && !says("keep-alive"))
    }

    /// Reads a request's head; `None` if it is not one.
    pub(crate) fn parse(head: &str) -> Option<Self> {
        let mut lines = head.split("\r\n");
        let words: Vec<&str> = lines.next()?.split(' ').collect();
        let [method, target, version] = words[..] else {
            return None;
        };
        if !version.starts_with("HTTP/1.") {
            return None;
        }
        let field = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_ascii_lowercase(), value.trim().to_owned()))
        };
        Some(Self {
            method: method.into(),
            target: target.into(),
            version: version.into(),
            headers: lines
                .take_while(|line| !line.is_empty())
                .map(field)
                .collect::<Option<_>>()?,
            ..Self::default()
        })
    }
}
