//! A sequential download under way: its output, and the stream that says what each break and each answer means.
//!
//! Reading answers into it is [`sequential`](super::sequential)'s.

use haul_plan::{RequestFailure, ResourceVersion, StreamContinuation, StreamEnd, StreamPlan};

use super::attempt_failure::AttemptFailure;
use super::decode_pipe::DecodePipe;
use crate::checksum::DigestFollower;
use crate::error::GetError;

/// A sequential download under way.
#[derive(Debug)]
pub(super) struct SequentialDownload {
    /// Where bytes go.
    pub(super) pipe: DecodePipe,
    /// The version that every answer must be of.
    pub(super) version: ResourceVersion,
    /// What was promised of the body, and what may follow what.
    pub(super) stream: StreamPlan,
    /// Hashes behind the download.
    pub(super) follower: Option<DigestFollower>,
}

impl SequentialDownload {
    /// Takes the next bytes of a body, as far as they were promised; whether all were.
    pub(super) fn take(&mut self, piece: &bytes::Bytes) -> std::io::Result<bool> {
        let room = self
            .stream
            .acceptable_bytes(self.pipe.received(), piece.len() as u64);
        let keep = usize::try_from(room).map_or(piece.len(), |room| room.min(piece.len()));
        self.pipe.push(piece.slice(..keep))?;
        Ok(keep == piece.len())
    }

    /// Makes ready for the next answer after a break. False when the output would have to go back and cannot.
    pub(super) fn ready(&mut self) -> bool {
        match self.stream.after_break(self.pipe.received()) {
            StreamContinuation::Continue => true,
            StreamContinuation::Restart => self.rewind(),
        }
    }

    fn rewind(&mut self) -> bool {
        let rewound = self.pipe.rewind();
        if rewound {
            self.follower = self.follower.take().map(|follower| follower.restart());
        }
        rewound
    }

    /// What the proper end of an answer means that began when `begun` bytes were taken.
    pub(super) fn ended(&self, begun: u64) -> Result<StreamEnd, ReadStop> {
        let taken = self.pipe.received();
        match (self.stream.after_end(begun, taken), self.stream.length()) {
            (StreamEnd::Truncated, Some(length)) => {
                Err(ReadStop::Failure(AttemptFailure::Unusable {
                    trouble: RequestFailure::Refused,
                    why: format!("the body has {taken} bytes of {length} announced"),
                }))
            }
            (end, _) => Ok(end),
        }
    }

    pub(super) fn close(&mut self) -> std::io::Result<u64> {
        self.pipe.flush_all()?;
        Ok(self.pipe.written())
    }
}

/// Why reading an answer stopped.
pub(super) enum ReadStop {
    /// The course decides.
    Failure(AttemptFailure),
    /// There is nothing to decide.
    Error(GetError),
}
