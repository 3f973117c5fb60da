//! What a break, an end or another answer means for a body that is read from front to back.
//!
//! One stream is the road where ranges cannot be trusted or the output has an order. The danger is in its seams: bytes of one
//! answer must only ever follow bytes of another that is the same in version, length and coding. Whether a version is the
//! same [`judge`](crate::judge) says of each answer; a [`StreamPlan`] knows what the first one was like, and says what follows.
//!
//! Order of calls: [`StreamPlan::next_range`] for what to ask, [`StreamPlan::accepts`] for each answer but the first, then
//! [`StreamPlan::after_end`] or [`StreamPlan::after_break`] with the bytes that the output has taken by then.

use std::ops::Range;

use crate::response::{ContentCoding, ResponseVerdict};
use crate::response_digests::ExpectedDigest;

/// What the first answer of a stream said.
#[derive(Debug, Clone, Default)]
pub struct StreamStart {
    /// Bytes in the body as it is sent, if that was said; of a part, in the whole.
    pub length: Option<u64>,
    /// The coding of the body, applied unasked.
    pub coding: Option<ContentCoding>,
    /// Where a part ends.
    pub range_end: Option<u64>,
    /// The digests that it announced.
    pub announced_digests: Vec<ExpectedDigest>,
    /// Whether ranges may follow as far as the caller knows: versions can be told apart, and bytes go out as they come in.
    pub may_join: bool,
}

/// A resource that is read from front to back.
#[derive(Debug, Clone)]
pub struct StreamPlan {
    /// What the first answer said; every other must fit it.
    first_response: StreamStart,
    /// Where the answer under way ends by its own word: bytes beyond are nobody's.
    response_end: u64,
}

/// What follows a body that ended before it was whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamContinuation {
    /// What came is kept; the rest is asked for.
    Continue,
    /// What came is of no use: the output goes back to its beginning, if it can.
    Restart,
}

/// What a body's proper end means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEnd {
    /// The resource is whole.
    Complete,
    /// The origin gave a part of what was asked for, as it may (RFC 9110 15.3.7): the rest is asked for.
    RequestRest,
    /// Bytes are missing. It counts as a break.
    Truncated,
}

impl StreamPlan {
    /// A stream that begins with this answer.
    #[must_use]
    pub fn new(mut first_response: StreamStart) -> Self {
        // A range is of the file as it is, never of its encoded form; and what has no length has no end to ask for.
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

    /// Bytes in the body as it is sent, if that was said.
    #[must_use]
    pub fn length(&self) -> Option<u64> {
        self.first_response.length
    }

    /// What the next request asks for when so many bytes were taken; `None` is everything, without a Range.
    #[must_use]
    pub fn next_range(&self, taken: u64) -> Option<Range<u64>> {
        (taken > 0).then_some(taken..u64::MAX)
    }

    /// Whether an answer to [`StreamPlan::next_range`] may be taken, by what [`judge`](crate::judge) found and which digests it announces.
    /// False for one that is whole in itself and still not like the first: then everything must begin again, the output's
    /// preparation included. `None` for a verdict that brings no bytes to such a request: a failure like any other.
    pub fn accepts(
        &mut self,
        verdict: &ResponseVerdict,
        announced: &[ExpectedDigest],
        taken: u64,
    ) -> Option<bool> {
        let first = &self.first_response;
        match verdict {
            ResponseVerdict::Part { range, total, .. } if taken > 0 => {
                self.response_end = range.end;
                Some(first.may_join && range.start == taken && first.length == Some(*total))
            }
            // A length that comes or goes is no other file, but what was prepared for one does not fit the other.
            ResponseVerdict::Whole {
                length, encoding, ..
            } if taken == 0 => {
                self.response_end = length.unwrap_or(u64::MAX);
                Some(
                    *encoding == first.coding
                        && *length == first.length
                        && announced == first.announced_digests,
                )
            }
            _ => None,
        }
    }

    /// How many of `at_hand` bytes may be taken: none beyond the announced length, and none beyond the range that the answer said
    /// it brings (row A11).
    #[must_use]
    pub fn acceptable_bytes(&self, taken: u64, at_hand: u64) -> u64 {
        let end = self.length().unwrap_or(u64::MAX).min(self.response_end);
        at_hand.min(end.saturating_sub(taken))
    }

    /// An answer ended properly; it had begun when `begun` bytes were taken, and by now `taken` are.
    #[must_use]
    pub fn after_end(&self, begun: u64, taken: u64) -> StreamEnd {
        match self.length() {
            None => StreamEnd::Complete,
            Some(length) if length == taken => StreamEnd::Complete,
            // An answer without a byte is no progress, and asking on for ever would cost nothing.
            Some(_) if self.first_response.may_join && taken > begun => StreamEnd::RequestRest,
            Some(_) => StreamEnd::Truncated,
        }
    }

    /// An answer broke, or none came.
    #[must_use]
    pub fn after_break(&self, taken: u64) -> StreamContinuation {
        if taken == 0 || self.first_response.may_join {
            StreamContinuation::Continue
        } else {
            StreamContinuation::Restart
        }
    }

    /// Ranges are not to be had after all.
    pub fn give_up_ranges(&mut self) {
        self.first_response.may_join = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validator::ResourceVersion;
    use proptest::prelude::*;

    /// A form of the resource that an origin may send. All have the same validators: what the judge cannot tell apart.
    #[derive(Debug, Clone, PartialEq)]
    struct ScriptedRepresentation {
        length: u64,
        told: bool,
        encoding: Option<ContentCoding>,
    }

    /// What the origin does next: sends a form, of which so many bytes come before it breaks (or ends, if they suffice). Of a part it
    /// says that it brings at most so many bytes; what comes beyond those is nothing of the file.
    #[derive(Debug, Clone)]
    struct ScriptedResponse {
        form: ScriptedRepresentation,
        brings: u64,
        says: u64,
        breaks: bool,
    }

    fn any_form() -> impl Strategy<Value = ScriptedRepresentation> {
        let encoding = prop_oneof![Just(None), Just(Some(ContentCoding::Gzip))];
        (1u64..40, any::<bool>(), encoding).prop_map(|(length, told, encoding)| {
            ScriptedRepresentation {
                length,
                told,
                encoding,
            }
        })
    }

    fn any_answer() -> impl Strategy<Value = ScriptedResponse> {
        // Few forms, so that the same one often comes twice.
        let form = prop_oneof![
            any_form(),
            Just(ScriptedRepresentation {
                length: 30,
                told: true,
                encoding: None
            }),
            Just(ScriptedRepresentation {
                length: 20,
                told: true,
                encoding: Some(ContentCoding::Gzip)
            }),
        ];
        let says = prop_oneof![Just(u64::MAX), 1u64..40];
        (form, 0u64..40, says, any::<bool>()).prop_map(|(form, brings, says, breaks)| {
            ScriptedResponse {
                form,
                brings,
                says,
                breaks,
            }
        })
    }

    fn opened(length: Option<u64>, encoding: Option<ContentCoding>, joins: bool) -> StreamPlan {
        StreamPlan::new(StreamStart {
            length,
            coding: encoding,
            may_join: joins,
            ..StreamStart::default()
        })
    }

    fn verdict(
        stream: &StreamPlan,
        taken: u64,
        form: &ScriptedRepresentation,
        says: u64,
    ) -> ResponseVerdict {
        let version = ResourceVersion::default();
        match stream.next_range(taken) {
            Some(asked) => ResponseVerdict::Part {
                range: asked.start
                    ..form
                        .length
                        .max(asked.start)
                        .min(asked.start.saturating_add(says)),
                total: form.length,
                version,
            },
            None => ResponseVerdict::Whole {
                length: form.told.then_some(form.length),
                version,
                encoding: form.encoding.clone(),
            },
        }
    }

    proptest! {
        #[test]
        fn a_whole_stream_is_one_form_from_its_first_byte_to_its_last(first in any_answer(), rest in prop::collection::vec(any_answer(), 0..12), joins: bool) {
            let length = first.form.told.then_some(first.form.length);
            let mut stream = opened(length, first.form.encoding.clone(), joins);
            // Where each taken byte is from: a form and a place in it.
            let mut out: Vec<(ScriptedRepresentation, u64)> = Vec::new();
            for (n, answer) in std::iter::once(first.clone()).chain(rest).enumerate() {
                let begun = out.len() as u64;
                // A range is always answered with the plain form: anything else the judge refuses.
                let form = if begun > 0 { ScriptedRepresentation { encoding: None, ..answer.form.clone() } } else { answer.form.clone() };
                let verdict = verdict(&stream, begun, &form, answer.says);
                if n > 0 && stream.accepts(&verdict, &[], begun) != Some(true) {
                    continue;
                }
                let left = form.length.saturating_sub(begun);
                let real = if begun > 0 { left.min(answer.says) } else { left };
                // Of a whole answer HTTP itself cuts what is too much; a part may be chunked.
                let sent = if begun > 0 { answer.brings } else { left.min(answer.brings) };
                let come = stream.acceptable_bytes(begun, sent);
                // What an answer brings beyond what it said is nothing of the file.
                out.extend((begun..begun + come).map(|at| (form.clone(), if at < begun + real { at } else { u64::MAX })));
                let taken = out.len() as u64;
                // Where a length was told HTTP itself sees that bytes are missing; else any end is a proper one.
                let ended = !answer.breaks && (come >= left || !form.told || begun > 0);
                let follow = match ended.then(|| stream.after_end(begun, taken)) {
                    Some(StreamEnd::Complete) => {
                        let (form, _) = out.first().cloned().unwrap_or((form, 0));
                        // What was prepared for the first answer, a decoder say, fits the last.
                        prop_assert_eq!(&form.encoding, &first.form.encoding);
                        for (n, (other, at)) in out.iter().enumerate() {
                            prop_assert_eq!((&other.encoding, other.length, *at), (&form.encoding, form.length, n as u64));
                        }
                        prop_assert!(stream.length().is_none_or(|length| length == taken));
                        return Ok(());
                    }
                    Some(StreamEnd::RequestRest) => { prop_assert!(taken > begun); StreamContinuation::Continue }
                    Some(StreamEnd::Truncated) | None => stream.after_break(taken),
                };
                if follow == StreamContinuation::Restart {
                    out.clear();
                }
            }
        }
    }

    #[test]
    fn a13_an_encoded_body_is_begun_again_and_never_continued() {
        let stream = opened(Some(100), Some(ContentCoding::Gzip), true);
        assert_eq!(stream.after_break(50), StreamContinuation::Restart);
        assert_eq!(stream.after_end(0, 50), StreamEnd::Truncated);
    }

    #[test]
    fn a10_a_body_of_unknown_length_is_begun_again() {
        assert_eq!(
            opened(None, None, true).after_break(50),
            StreamContinuation::Restart
        );
        assert_eq!(
            opened(Some(100), None, true).after_break(50),
            StreamContinuation::Continue
        );
    }

    #[test]
    fn a_part_that_ends_sooner_than_asked_is_asked_on_unless_it_brought_nothing() {
        let mut stream = opened(Some(100), None, true);
        assert_eq!(stream.after_end(0, 50), StreamEnd::RequestRest);
        assert_eq!(stream.after_end(50, 50), StreamEnd::Truncated);
        stream.give_up_ranges();
        assert_eq!(stream.after_end(0, 50), StreamEnd::Truncated);
    }

    #[test]
    fn a26_a_stream_that_is_begun_again_with_another_digest_is_another_file() {
        let digest = |byte| ExpectedDigest {
            algorithm: crate::DigestAlgorithm::Crc32c,
            digest: vec![byte; 4],
            field: "Repr-Digest",
        };
        let whole = ResponseVerdict::Whole {
            length: None,
            version: ResourceVersion::default(),
            encoding: None,
        };
        let mut stream = StreamPlan::new(StreamStart {
            announced_digests: vec![digest(1)],
            ..StreamStart::default()
        });
        assert_eq!(stream.accepts(&whole, &[digest(1)], 0), Some(true));
        assert_eq!(stream.accepts(&whole, &[digest(2)], 0), Some(false));
        assert_eq!(stream.accepts(&whole, &[], 0), Some(false));
    }
}
