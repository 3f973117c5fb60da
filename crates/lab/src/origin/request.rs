//! What was asked.

use std::ops::Range;

/// A request, and what became of it.
#[derive(Debug, Clone, Default)]
pub struct RecordedRequest {
    /// Its place among the requests for this path, from 0 on.
    pub number_for_path: usize,
    /// Which connection it came over, from 0 on.
    pub connection: usize,
    /// Connections that were open when its own was accepted, that one among them.
    pub open_connections: usize,
    /// Bytes of bodies that the origin had sent in all when it came.
    pub bytes_served_before: u64,
    /// `GET`.
    pub method: String,
    /// The request line's target.
    pub target: String,
    /// `HTTP/1.1`.
    pub version: String,
    /// Header fields, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The status that was answered; 0 for none.
    pub status: u16,
    /// Bytes of the body that went out; of a tunnel, those towards the client, counted at its end.
    pub bytes_sent: u64,
    /// The answer was broken off, as the script said.
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

    /// The range asked for, half-open, within a length; `None` if there is none or it is not one that is understood
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

    /// Where the range asked for begins; 0 without one.
    #[must_use]
    pub fn range_start(&self) -> u64 {
        self.range(u64::MAX).map_or(0, |range| range.start)
    }

    /// The client wants the connection closed after the answer (RFC 9112 9.3), or has sent a body, which nobody reads.
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
