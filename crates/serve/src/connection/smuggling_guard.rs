//! Requests whose end two programs could see in different places (row D10, request smuggling).
//!
//! hyper parses requests as RFC 9112 allows: a line may end in a bare line feed, a Content-Length next to a
//! Transfer-Encoding is ignored, two equal lengths are one. A proxy before this server may parse the same
//! bytes differently, and then part of a body, as the proxy sees it, is a request here. So the guard reads the
//! bytes of each head a second time, as they arrived from the wire, and refuses ambiguous ones.
//!
//! The guard is not a parser of requests: it finds where each head ends and how long its body is, and counts
//! that off. hyper, which has parsed the same head, must find the same length. After a chunked body the guard
//! would have to parse the chunks; instead the connection ends with the response.

use std::collections::VecDeque;

use super::request_head::{AmbiguousHead, RequestBodyFraming, check_framing};

/// What the guard does with the bytes of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum SmugglingGuardState {
    /// Looks for heads.
    #[default]
    Active,
    /// Nothing: nobody knows where the next head begins, after chunks or an ambiguous head.
    BoundaryLost,
    /// Nothing: the connection speaks another protocol.
    OtherProtocol,
}

/// Checks the heads of one connection.
#[derive(Debug, Default)]
pub struct SmugglingGuard {
    tracking: SmugglingGuardState,
    /// The beginning of a head whose end has not come.
    partial_head: Vec<u8>,
    /// How far the end of that head was looked for.
    head_end: HeadEndSearch,
    /// Bytes of a body that are still to come.
    body_bytes_left: u64,
    /// The first head that arrived and that hyper has not read yet.
    first_unchecked: Option<RequestHeadVerdict>,
    /// The heads after it: a client pipelines requests.
    more_unchecked: VecDeque<RequestHeadVerdict>,
    /// Whether hyper has read a head: what comes now is not the beginning of the connection.
    has_checked_one: bool,
}

/// The framing of the body after a head, if all readers would find the same.
type RequestHeadVerdict = Result<RequestBodyFraming, AmbiguousHead>;

impl SmugglingGuard {
    /// Takes the bytes that arrived. Only the beginning of a head is kept.
    pub fn observe(&mut self, mut bytes: &[u8]) {
        while self.tracking == SmugglingGuardState::Active {
            let skipped = usize::try_from(self.body_bytes_left)
                .map_or(bytes.len(), |skip| skip.min(bytes.len()));
            self.body_bytes_left -= skipped as u64;
            bytes = &bytes[skipped..];
            if bytes.is_empty() {
                return;
            }
            bytes = if self.partial_head.is_empty() {
                self.start_head(bytes)
            } else {
                self.continue_head(bytes)
            };
        }
    }

    /// Whether a request has begun that hyper has not read yet. Empty lines before it are not a beginning
    /// (RFC 9112 2.2).
    #[must_use]
    pub fn has_pending_request(&self) -> bool {
        self.first_unchecked.is_some() || (!self.partial_head.is_empty() && self.head_end.has_begun)
    }

    /// Whether the connection is still at its beginning. Another protocol may be begun there and nowhere
    /// else: after a request, a proxy that shares the connection among its clients would let one of them take
    /// it away from all others.
    #[must_use]
    pub fn is_at_connection_start(&self) -> bool {
        self.tracking != SmugglingGuardState::OtherProtocol && !self.has_checked_one
    }

    /// Stops looking at the connection.
    pub fn stop(&mut self) {
        *self = Self {
            tracking: SmugglingGuardState::OtherProtocol,
            ..Self::default()
        };
    }

    /// hyper has read a head with this `framing`: checks that others would have read the same.
    ///
    /// # Errors
    /// The head is ambiguous: the server responds with 400 and closes the connection.
    pub fn check_head(&mut self, framing: RequestBodyFraming) -> Result<(), AmbiguousHead> {
        if self.tracking == SmugglingGuardState::OtherProtocol {
            return Ok(());
        }
        self.has_checked_one = true;
        let verdict = self
            .first_unchecked
            .take()
            .ok_or(AmbiguousHead::HeadNotFound)?;
        self.first_unchecked = self.more_unchecked.pop_front();
        if verdict? == framing {
            Ok(())
        } else {
            Err(AmbiguousHead::ConflictingLengths)
        }
    }

    /// Begins a head, and mostly ends it. Returns the bytes after it.
    fn start_head<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        self.head_end = HeadEndSearch::default();
        let Some(end) = self.head_end.find(bytes) else {
            self.partial_head.extend_from_slice(bytes);
            return &[];
        };
        let (head, rest) = bytes.split_at(end);
        self.head_finished(check_framing(head));
        rest
    }

    /// Continues a head. Returns the bytes after it.
    fn continue_head<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        /// Much of a body may follow the head: only so many bytes are copied at a time.
        const MAX_COPIED: usize = 4096;
        let before = self.partial_head.len();
        let copied = &bytes[..bytes.len().min(MAX_COPIED)];
        self.partial_head.extend_from_slice(copied);
        let Some(end) = self.head_end.find(&self.partial_head) else {
            return &bytes[copied.len()..];
        };
        let verdict = check_framing(&self.partial_head[..end]);
        self.partial_head = Vec::new();
        self.head_finished(verdict);
        &bytes[end - before..]
    }

    /// Records a head and how its body ends.
    fn head_finished(&mut self, verdict: RequestHeadVerdict) {
        match verdict {
            Ok(RequestBodyFraming::Length(length)) => self.body_bytes_left = length,
            Ok(RequestBodyFraming::Chunked) | Err(_) => {
                self.tracking = SmugglingGuardState::BoundaryLost
            }
        }
        match &self.first_unchecked {
            None => self.first_unchecked = Some(verdict),
            Some(_) => self.more_unchecked.push_back(verdict),
        }
    }
}

/// How far the end of a head was looked for, so that no byte is searched twice however slowly the head comes.
#[derive(Debug, Default)]
struct HeadEndSearch {
    /// The end is not before this byte.
    searched: usize,
    /// Whether the first line has begun: empty lines before a request are skipped (RFC 9112 2.2).
    has_begun: bool,
}

impl HeadEndSearch {
    /// Where the head ends for a reader that accepts bare line feeds.
    fn find(&mut self, bytes: &[u8]) -> Option<usize> {
        loop {
            let left = &bytes[self.searched..];
            let found = if self.has_begun {
                left.iter().position(|byte| *byte == b'\n')
            } else {
                left.iter().position(|byte| !matches!(byte, b'\r' | b'\n'))
            };
            let Some(found) = found else {
                self.searched = bytes.len();
                return None;
            };
            self.searched += found;
            if !std::mem::replace(&mut self.has_begun, true) {
                continue;
            }
            match &bytes[self.searched + 1..] {
                [b'\n', ..] => return Some(self.searched + 2),
                [b'\r', b'\n', ..] => return Some(self.searched + 3),
                [] | [b'\r'] => return None,
                _ => self.searched += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn d10_a_head_that_was_not_observed_or_has_another_framing_is_refused() {
        let head = b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc";
        let mut guard = SmugglingGuard::default();
        assert_eq!(
            guard.check_head(RequestBodyFraming::Length(0)),
            Err(AmbiguousHead::HeadNotFound)
        );
        guard.observe(&head[..40]);
        assert_eq!(
            guard.check_head(RequestBodyFraming::Length(3)),
            Err(AmbiguousHead::HeadNotFound)
        );
        guard.observe(&head[40..]);
        guard.observe(head);
        assert_eq!(guard.check_head(RequestBodyFraming::Length(3)), Ok(()));
        assert!(guard.has_pending_request());
        assert_eq!(
            guard.check_head(RequestBodyFraming::Length(4)),
            Err(AmbiguousHead::ConflictingLengths)
        );
        assert!(!guard.has_pending_request());
    }

    /// A head of nothing but short lines, a byte at a time: each byte is searched a few times, not once for
    /// each byte after it.
    #[test]
    fn d10_a_head_that_trickles_costs_no_more() {
        let mut sought = HeadEndSearch::default();
        let head = b"A:\r\n".repeat(20_000);
        let mut looks = 0;
        for end in 0..=head.len() {
            let before = sought.searched;
            assert_eq!(sought.find(&head[..end]), None);
            assert!(sought.searched >= before);
            looks += end - before;
        }
        assert!(looks <= head.len() * 5, "{looks}");
    }

    #[test]
    fn d10_no_head_is_looked_for_after_chunks() {
        let mut guard = SmugglingGuard::default();
        guard.observe(b"PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab");
        assert_eq!(guard.check_head(RequestBodyFraming::Chunked), Ok(()));
        guard.observe(b"cde\n\n");
        assert!(!guard.has_pending_request());
    }

    #[test]
    fn a_connection_is_at_its_start_once() {
        let mut guard = SmugglingGuard::default();
        assert!(guard.is_at_connection_start());
        guard.observe(b"PRI * HTTP/2.0\r\n\r\n");
        assert!(guard.is_at_connection_start());
        let mut guard = SmugglingGuard::default();
        guard.observe(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_eq!(guard.check_head(RequestBodyFraming::Length(0)), Ok(()));
        assert!(!guard.is_at_connection_start());
    }

    proptest! {
        /// However the bytes are cut, each head is found after the body before it, and an ambiguous one is
        /// refused with all after it.
        #[test]
        fn heads_are_found_between_bodies(
            bodies in prop::collection::vec(0_usize..300, 1..8),
            cuts in prop::collection::vec(1_usize..200, 1..60),
            bad in 0_usize..8,
        ) {
            let mut stream = Vec::new();
            // Where each head ends: hyper queries the guard when it has read the whole head.
            let mut ends = Vec::new();
            for (index, body) in bodies.iter().enumerate() {
                let end = if index == bad { "\n" } else { "\r\n" };
                stream.extend(format!("PUT /{index} HTTP/1.1\r\nHost: x\r\nX: 1{end}Content-Length: {body}\r\n\r\n").into_bytes());
                ends.push(stream.len());
                // Bodies that look like heads.
                stream.extend(b"\r\n\r\nGET / HTTP/1.1\n\n".iter().cycle().take(*body));
            }
            let (mut guard, mut received, mut checked) = (SmugglingGuard::default(), 0, 0);
            for cut in cuts.iter().cycle() {
                let next = (received + cut).min(stream.len());
                guard.observe(&stream[received..next]);
                received = next;
                while checked < ends.len() && ends[checked] <= received {
                    let verdict = guard.check_head(RequestBodyFraming::Length(bodies[checked] as u64));
                    prop_assert_eq!(verdict.is_err(), checked >= bad);
                    checked += 1;
                }
                if received == stream.len() {
                    break;
                }
            }
            prop_assert_eq!(checked, ends.len());
            prop_assert!(!guard.has_pending_request());
        }
    }
}
