//! Requests whose end two programs could see in different places (row D10, request smuggling).
//!
//! hyper reads requests as RFC 9112 lets it: a line may end in a bare line feed, a Content-Length beside a Transfer-Encoding is passed over,
//! two equal lengths are one. A proxy before this server may read the same bytes otherwise, and then what it takes for a body is
//! a request here. So the bytes of each head are looked at once more, as they came from the wire, and what is ambiguous is refused.
//!
//! This is no parser of requests: it finds where each head ends and what it says about the length of its body, and counts that off. hyper, which has
//! parsed the same head, must say the same length. After a chunked body the watch would have to follow the chunks; there the connection
//! ends with the answer.

use std::collections::VecDeque;

use super::request_head::{AmbiguousHead, RequestBodyFraming, check_framing};

/// What is to be done with bytes that come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum HeadTracking {
    /// Heads are looked for.
    #[default]
    Active,
    /// Where the next head would begin is not known: chunks came, or what nobody can be sure of.
    BoundaryLost,
    /// The connection speaks another protocol.
    OtherProtocol,
}

/// Watches the bytes of one connection.
#[derive(Debug, Default)]
pub struct SmugglingGuard {
    /// Whether anything is looked at.
    tracking: HeadTracking,
    /// The beginning of a head.
    partial_head: Vec<u8>,
    /// How far its end was looked for.
    head_end: HeadEndSearch,
    /// Bytes of a body that are still to come.
    body_bytes_left: u64,
    /// The first head that came and was not asked about.
    first_unchecked: Option<HeadVerdict>,
    /// Those behind it: whoever sends requests without waiting for answers.
    more_unchecked: VecDeque<HeadVerdict>,
    /// A head was asked about: what comes now is not what the connection began with.
    has_checked_one: bool,
}

/// What a head says of the body after it, if all readers would find the same.
type HeadVerdict = Result<RequestBodyFraming, AmbiguousHead>;

impl SmugglingGuard {
    /// Bytes came. Of those only the beginning of a head is kept.
    pub fn observe(&mut self, mut bytes: &[u8]) {
        while self.tracking == HeadTracking::Active {
            let skipped = usize::try_from(self.body_bytes_left)
                .map_or(bytes.len(), |skip| skip.min(bytes.len()));
            self.body_bytes_left -= skipped as u64;
            bytes = &bytes[skipped..];
            if bytes.is_empty() {
                return;
            }
            bytes = match self.partial_head.is_empty() {
                true => self.start_head(bytes),
                false => self.continue_head(bytes),
            };
        }
    }

    /// Whether a request has begun to come that was not asked about. Empty lines before it are no beginning (RFC 9112 2.2).
    #[must_use]
    pub fn has_pending_request(&self) -> bool {
        self.first_unchecked.is_some() || (!self.partial_head.is_empty() && self.head_end.has_begun)
    }

    /// Whether what came is what the connection began with. Another protocol may be begun there and nowhere else: behind a request,
    /// a proxy that shares the connection among its clients would let one of them take it away from all others.
    #[must_use]
    pub fn is_at_connection_start(&self) -> bool {
        self.tracking != HeadTracking::OtherProtocol && !self.has_checked_one
    }

    /// No more heads will be looked at.
    pub fn stop(&mut self) {
        *self = Self {
            tracking: HeadTracking::OtherProtocol,
            ..Self::default()
        };
    }

    /// hyper has read a head, after which `follows` comes. Whether others would have read the same.
    ///
    /// # Errors
    /// See [`AmbiguousHead`]: to be answered with 400, and the connection closed.
    pub fn check_head(&mut self, follows: RequestBodyFraming) -> Result<(), AmbiguousHead> {
        if self.tracking == HeadTracking::OtherProtocol {
            return Ok(());
        }
        self.has_checked_one = true;
        let judged = self
            .first_unchecked
            .take()
            .ok_or(AmbiguousHead::HeadNotFound)?;
        self.first_unchecked = self.more_unchecked.pop_front();
        match judged? == follows {
            true => Ok(()),
            false => Err(AmbiguousHead::ConflictingLengths),
        }
    }

    /// A head begins here, and mostly ends here. Returns what is behind it.
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

    /// More of a head. Returns what is behind it.
    fn continue_head<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        /// Behind the end may be much of a body.
        const SOME: usize = 4096;
        let before = self.partial_head.len();
        let some = &bytes[..bytes.len().min(SOME)];
        self.partial_head.extend_from_slice(some);
        let Some(end) = self.head_end.find(&self.partial_head) else {
            return &bytes[some.len()..];
        };
        let judged = check_framing(&self.partial_head[..end]);
        self.partial_head = Vec::new();
        self.head_finished(judged);
        &bytes[end - before..]
    }

    /// A head ends.
    fn head_finished(&mut self, judged: HeadVerdict) {
        match judged {
            Ok(RequestBodyFraming::Length(length)) => self.body_bytes_left = length,
            Ok(RequestBodyFraming::Chunked) | Err(_) => self.tracking = HeadTracking::BoundaryLost,
        }
        match &self.first_unchecked {
            None => self.first_unchecked = Some(judged),
            Some(_) => self.more_unchecked.push_back(judged),
        }
    }
}

/// How far the end of a head was looked for, so that nothing is looked at twice however slowly it comes.
#[derive(Debug, Default)]
struct HeadEndSearch {
    /// Bytes before this one have no end.
    searched: usize,
    /// Whether the first line has begun: empty lines before a request are passed over (RFC 9112 2.2).
    has_begun: bool,
}

impl HeadEndSearch {
    /// Where the head ends, as a reader sees it who takes bare line feeds.
    fn find(&mut self, bytes: &[u8]) -> Option<usize> {
        loop {
            let left = &bytes[self.searched..];
            let found = match self.has_begun {
                true => left.iter().position(|byte| *byte == b'\n'),
                false => left.iter().position(|byte| !matches!(byte, b'\r' | b'\n')),
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
    fn d10_what_was_not_seen_or_seen_otherwise_is_refused() {
        let head = b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc";
        let mut watch = SmugglingGuard::default();
        assert_eq!(
            watch.check_head(RequestBodyFraming::Length(0)),
            Err(AmbiguousHead::HeadNotFound)
        );
        watch.observe(&head[..40]);
        assert_eq!(
            watch.check_head(RequestBodyFraming::Length(3)),
            Err(AmbiguousHead::HeadNotFound)
        );
        watch.observe(&head[40..]);
        watch.observe(head);
        assert_eq!(watch.check_head(RequestBodyFraming::Length(3)), Ok(()));
        assert!(watch.has_pending_request());
        assert_eq!(
            watch.check_head(RequestBodyFraming::Length(4)),
            Err(AmbiguousHead::ConflictingLengths)
        );
        assert!(!watch.has_pending_request());
    }

    /// A head of nothing but short lines, a byte at a time: each is looked at a few times, not as often as there are bytes behind it.
    #[test]
    fn d10_a_head_that_drips_costs_no_more() {
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
    fn d10_nothing_is_looked_at_after_chunks() {
        let mut watch = SmugglingGuard::default();
        watch.observe(b"PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab");
        assert_eq!(watch.check_head(RequestBodyFraming::Chunked), Ok(()));
        watch.observe(b"cde\n\n");
        assert!(!watch.has_pending_request());
    }

    #[test]
    fn a_connection_begins_once() {
        let mut watch = SmugglingGuard::default();
        assert!(watch.is_at_connection_start());
        watch.observe(b"PRI * HTTP/2.0\r\n\r\n");
        assert!(watch.is_at_connection_start());
        let mut watch = SmugglingGuard::default();
        watch.observe(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_eq!(watch.check_head(RequestBodyFraming::Length(0)), Ok(()));
        assert!(!watch.is_at_connection_start());
    }

    proptest! {
        /// However the bytes are cut, each head is found after the body before it, and a bad one is refused with all behind it.
        #[test]
        fn heads_are_found_between_bodies(
            bodies in prop::collection::vec(0_usize..300, 1..8),
            cuts in prop::collection::vec(1_usize..200, 1..60),
            bad in 0_usize..8,
        ) {
            let mut stream = Vec::new();
            // Where each head ends: hyper asks when it has all of it.
            let mut ends = Vec::new();
            for (index, body) in bodies.iter().enumerate() {
                let end = if index == bad { "\n" } else { "\r\n" };
                stream.extend(format!("PUT /{index} HTTP/1.1\r\nHost: x\r\nX: 1{end}Content-Length: {body}\r\n\r\n").into_bytes());
                ends.push(stream.len());
                // Bodies that look like heads.
                stream.extend(b"\r\n\r\nGET / HTTP/1.1\n\n".iter().cycle().take(*body));
            }
            let (mut watch, mut came, mut asked) = (SmugglingGuard::default(), 0, 0);
            for cut in cuts.iter().cycle() {
                let next = (came + cut).min(stream.len());
                watch.observe(&stream[came..next]);
                came = next;
                while asked < ends.len() && ends[asked] <= came {
                    let judged = watch.check_head(RequestBodyFraming::Length(bodies[asked] as u64));
                    prop_assert_eq!(judged.is_err(), asked >= bad);
                    asked += 1;
                }
                if came == stream.len() {
                    break;
                }
            }
            prop_assert_eq!(asked, ends.len());
            prop_assert!(!watch.has_pending_request());
        }
    }
}
