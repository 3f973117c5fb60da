//! Downloads over one response at a time: what follows the end of a body, and which response may continue it.
//!
//! One stream is the strategy if ranges cannot be trusted or the output must be written in order. The danger is a mix of responses:
//! bytes of one response may only follow bytes of another with the same version, length and coding.
//! [`classify_response`](crate::response::classify_response) compares the version of each response. A [`StreamPlan`] remembers the first
//! response, and checks whether a later one may continue it.
//!
//! Order of calls: [`StreamPlan::next_range`] for the next request, [`StreamPlan::accepts`] for each response but the first, then
//! [`StreamPlan::after_end`] or [`StreamPlan::after_break`] with the number of bytes that the output has taken by then.

use std::ops::Range;

use haul_plan::ExpectedDigest;

use crate::response::{ContentCoding, ResponseContent};

/// The head of a stream's first response.
#[derive(Debug, Clone, Default)]
pub(super) struct StreamResponseHead {
    /// Bytes in the body as it is sent, if the head has a length; for a part, bytes in the whole file.
    pub length: Option<u64>,
    /// An unrequested coding of the body.
    pub coding: Option<ContentCoding>,
    /// The end of the range, if the response is a part.
    pub range_end: Option<u64>,
    pub announced_digests: Vec<ExpectedDigest>,
    /// Whether the caller could join ranges: versions can be distinguished, and bytes are written undecoded.
    pub may_join: bool,
}

/// A file that is read from front to back.
#[derive(Debug, Clone)]
pub(super) struct StreamPlan {
    /// The first response; every other must match it.
    first_response: StreamResponseHead,
    /// Where the current response ends according to its head: bytes beyond are not bytes of the file.
    response_end: u64,
}

/// What follows a body that ended before it was complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamContinuation {
    /// The output keeps its bytes; the next request is for the rest.
    Continue,
    /// The bytes cannot be continued: the output is truncated, if it can be.
    Restart,
}

/// What follows the proper end of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamEnd {
    Complete,
    /// The origin sent a part of the requested range, as it may (RFC 9110 15.3.7): the next request is for the rest.
    RequestRest,
    /// Bytes are missing. Counts as a broken connection.
    Truncated,
}

impl StreamPlan {
    /// A stream that begins with this response.
    #[must_use]
    pub(super) fn new(mut first_response: StreamResponseHead) -> Self {
        // Ranges are of the plain file, never of its encoded form; and without a length the end of the range is unknown.
        first_response.may_join &=
            first_response.coding.is_none() && first_response.length.is_some();
        let response_end = first_response
            .range_end
            .or(first_response.length)
            .unwrap_or(u64::MAX);
        Self {
            first_response,
            response_end,
        }
    }

    /// Bytes in the body as it is sent, if the first response has a length.
    #[must_use]
    pub(super) fn length(&self) -> Option<u64> {
        self.first_response.length
    }

    /// The coding of the body as it is sent.
    #[must_use]
    pub(super) fn coding(&self) -> Option<&ContentCoding> {
        self.first_response.coding.as_ref()
    }

    /// The range of the next request after `taken` bytes; `None` means the whole file, without a Range.
    #[must_use]
    pub(super) fn next_range(&self, taken: u64) -> Option<Range<u64>> {
        (taken > 0).then_some(taken..u64::MAX)
    }

    /// Whether the bytes of a response to [`StreamPlan::next_range`] may follow those that were taken.
    ///
    /// `Some(false)` for a valid response that differs from the first: the download must restart, with a new output. `None` for content
    /// that is not a valid response to such a request: a failure like any other.
    pub(super) fn accepts(
        &mut self,
        content: &ResponseContent,
        announced: &[ExpectedDigest],
        taken: u64,
    ) -> Option<bool> {
        let first = &self.first_response;
        match content {
            ResponseContent::Part { range, total, .. } if taken > 0 => {
                self.response_end = range.end;
                Some(first.may_join && range.start == taken && first.length == Some(*total))
            }
            // The same file may come with a length or without, but an output that was prepared for the one does not fit the other.
            ResponseContent::Whole { length, coding, .. } if taken == 0 => {
                self.response_end = length.unwrap_or(u64::MAX);
                Some(
                    *coding == first.coding
                        && *length == first.length
                        && announced == first.announced_digests,
                )
            }
            _ => None,
        }
    }

    /// How many of `received` bytes may be taken: none beyond the announced length, and none beyond the range that the response
    /// announced (row A11).
    #[must_use]
    pub(super) fn acceptable_bytes(&self, taken: u64, received: u64) -> u64 {
        let end = self.length().unwrap_or(u64::MAX).min(self.response_end);
        received.min(end.saturating_sub(taken))
    }

    /// A response ended properly. It began after `started_at` bytes; by now `taken` bytes are taken.
    #[must_use]
    pub(super) fn after_end(&self, started_at: u64, taken: u64) -> StreamEnd {
        match self.length() {
            None => StreamEnd::Complete,
            Some(length) if length == taken => StreamEnd::Complete,
            // A response without a byte is not progress, and a request for the rest costs no retry, so it could repeat for ever.
            Some(_) if self.first_response.may_join && taken > started_at => StreamEnd::RequestRest,
            Some(_) => StreamEnd::Truncated,
        }
    }

    /// A response broke off, or no response arrived.
    #[must_use]
    pub(super) fn after_break(&self, taken: u64) -> StreamContinuation {
        if taken == 0 || self.first_response.may_join {
            StreamContinuation::Continue
        } else {
            StreamContinuation::Restart
        }
    }

    /// The origin's ranges cannot be trusted after all.
    pub(super) fn give_up_ranges(&mut self) {
        self.first_response.may_join = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_plan::ResourceVersion;
    use proptest::prelude::*;

    /// A representation that an origin may send. All have the same validators: only length and coding differ.
    #[derive(Debug, Clone, PartialEq)]
    struct ScriptedRepresentation {
        length: u64,
        length_announced: bool,
        coding: Option<ContentCoding>,
    }

    /// The origin's next response: a representation, of which `sent` bytes come before it breaks (or ends, if they suffice). For a
    /// part, its head announces at most `announced` bytes; bytes beyond those are not bytes of the file.
    #[derive(Debug, Clone)]
    struct ScriptedResponse {
        representation: ScriptedRepresentation,
        sent: u64,
        announced: u64,
        breaks: bool,
    }

    fn any_representation() -> impl Strategy<Value = ScriptedRepresentation> {
        let coding = prop_oneof![Just(None), Just(Some(ContentCoding::Gzip))];
        (1u64..40, any::<bool>(), coding).prop_map(|(length, length_announced, coding)| {
            ScriptedRepresentation {
                length,
                length_announced,
                coding,
            }
        })
    }

    fn any_response() -> impl Strategy<Value = ScriptedResponse> {
        // Few representations, so that the same one often comes twice.
        let representation = prop_oneof![
            any_representation(),
            Just(ScriptedRepresentation {
                length: 30,
                length_announced: true,
                coding: None
            }),
            Just(ScriptedRepresentation {
                length: 20,
                length_announced: true,
                coding: Some(ContentCoding::Gzip)
            }),
        ];
        let announced = prop_oneof![Just(u64::MAX), 1u64..40];
        (representation, 0u64..40, announced, any::<bool>()).prop_map(
            |(representation, sent, announced, breaks)| ScriptedResponse {
                representation,
                sent,
                announced,
                breaks,
            },
        )
    }

    fn stream(length: Option<u64>, coding: Option<ContentCoding>, may_join: bool) -> StreamPlan {
        StreamPlan::new(StreamResponseHead {
            length,
            coding,
            may_join,
            ..StreamResponseHead::default()
        })
    }

    /// The content of the response to the stream's next request.
    fn content(
        stream: &StreamPlan,
        taken: u64,
        representation: &ScriptedRepresentation,
        announced: u64,
    ) -> ResponseContent {
        let version = ResourceVersion::default();
        let length = representation.length;
        match stream.next_range(taken) {
            Some(Range { start, .. }) => ResponseContent::Part {
                range: start..length.max(start).min(start.saturating_add(announced)),
                total: length,
                version,
            },
            None => ResponseContent::Whole {
                length: representation.length_announced.then_some(length),
                version,
                coding: representation.coding.clone(),
            },
        }
    }

    proptest! {
        #[test]
        fn a_complete_stream_is_one_representation_from_its_first_byte_to_its_last(
            first in any_response(), rest in prop::collection::vec(any_response(), 0..12), may_join: bool,
        ) {
            let initial = first.representation.clone();
            let length = initial.length_announced.then_some(initial.length);
            let mut stream = stream(length, initial.coding.clone(), may_join);
            // Where each taken byte is from: a representation and an offset in it.
            let mut output: Vec<(ScriptedRepresentation, u64)> = Vec::new();
            for (number, response) in std::iter::once(first).chain(rest).enumerate() {
                let start = output.len() as u64;
                let mut representation = response.representation.clone();
                if start > 0 {
                    // A range is always of the plain representation: `classify_response` accepts no other.
                    representation.coding = None;
                }
                let content = content(&stream, start, &representation, response.announced);
                if number > 0 && stream.accepts(&content, &[], start) != Some(true) {
                    continue;
                }
                let left = representation.length.saturating_sub(start);
                let announced = if start > 0 { left.min(response.announced) } else { left };
                // HTTP itself cuts a whole body that is too long; a part may be chunked.
                let sent = if start > 0 { response.sent } else { left.min(response.sent) };
                let accepted = stream.acceptable_bytes(start, sent);
                let offset = |at| if at < start + announced { at } else { u64::MAX };
                output.extend((start..start + accepted).map(|at| (representation.clone(), offset(at))));
                let taken = output.len() as u64;
                // Where the length was announced, HTTP itself notices that bytes are missing; else any end is a proper one.
                let ended = !response.breaks && (accepted >= left || !representation.length_announced || start > 0);
                let continuation = match ended.then(|| stream.after_end(start, taken)) {
                    Some(StreamEnd::Complete) => {
                        let (representation, _) = output.first().cloned().unwrap_or((representation, 0));
                        // An output that was prepared for the first response, a decoder say, fits the last.
                        prop_assert_eq!(&representation.coding, &initial.coding);
                        for (number, (other, at)) in output.iter().enumerate() {
                            prop_assert_eq!(
                                (&other.coding, other.length, *at),
                                (&representation.coding, representation.length, number as u64)
                            );
                        }
                        prop_assert!(stream.length().is_none_or(|length| length == taken));
                        return Ok(());
                    }
                    Some(StreamEnd::RequestRest) => { prop_assert!(taken > start); StreamContinuation::Continue }
                    Some(StreamEnd::Truncated) | None => stream.after_break(taken),
                };
                if continuation == StreamContinuation::Restart {
                    output.clear();
                }
            }
        }
    }

    #[test]
    fn a13_an_encoded_body_is_restarted_and_never_continued() {
        let stream = stream(Some(100), Some(ContentCoding::Gzip), true);
        assert_eq!(stream.after_break(50), StreamContinuation::Restart);
        assert_eq!(stream.after_end(0, 50), StreamEnd::Truncated);
    }

    #[test]
    fn a10_a_body_of_unknown_length_is_restarted() {
        assert_eq!(
            stream(None, None, true).after_break(50),
            StreamContinuation::Restart
        );
        assert_eq!(
            stream(Some(100), None, true).after_break(50),
            StreamContinuation::Continue
        );
    }

    #[test]
    fn after_a_short_part_the_rest_is_requested_unless_the_part_was_empty() {
        let mut stream = stream(Some(100), None, true);
        assert_eq!(stream.after_end(0, 50), StreamEnd::RequestRest);
        assert_eq!(stream.after_end(50, 50), StreamEnd::Truncated);
        stream.give_up_ranges();
        assert_eq!(stream.after_end(0, 50), StreamEnd::Truncated);
    }

    #[test]
    fn a26_a_restarted_stream_with_another_digest_is_another_file() {
        let digest = |byte| ExpectedDigest {
            algorithm: haul_plan::DigestAlgorithm::Crc32c,
            digest: vec![byte; 4],
            field: "Repr-Digest",
        };
        let whole = ResponseContent::Whole {
            length: None,
            version: ResourceVersion::default(),
            coding: None,
        };
        let mut stream = StreamPlan::new(StreamResponseHead {
            announced_digests: vec![digest(1)],
            ..StreamResponseHead::default()
        });
        assert_eq!(stream.accepts(&whole, &[digest(1)], 0), Some(true));
        assert_eq!(stream.accepts(&whole, &[digest(2)], 0), Some(false));
        assert_eq!(stream.accepts(&whole, &[], 0), Some(false));
    }
}
