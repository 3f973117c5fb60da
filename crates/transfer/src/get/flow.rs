//! A sequential download under way: its output, and the stream that says what each break and each answer means.
//!
//! Reading answers into it is [`sequential`](super::sequential)'s.

use haul_plan::{End, Follow, Stream, Trouble, Version};

use super::failure::Failure;
use super::pipe::Pipe;
use crate::checksum::Follower;
use crate::error::GetError;

/// A sequential download under way.
#[derive(Debug)]
pub(super) struct Flow {
    /// Where bytes go.
    pub(super) pipe: Pipe,
    /// The version that every answer must be of.
    pub(super) version: Version,
    /// What was promised of the body, and what may follow what.
    pub(super) stream: Stream,
    /// Hashes behind the download.
    pub(super) follower: Option<Follower>,
}

impl Flow {
    /// Takes the next bytes of a body, as far as they were promised; whether all were.
    pub(super) fn take(&mut self, piece: &bytes::Bytes) -> std::io::Result<bool> {
        let room = self.stream.room(self.pipe.taken(), piece.len() as u64);
        let keep = usize::try_from(room).map_or(piece.len(), |room| room.min(piece.len()));
        self.pipe.take(piece.slice(..keep))?;
        Ok(keep == piece.len())
    }

    /// Makes ready for the next answer after a break. False when the output would have to go back and cannot.
    pub(super) fn ready(&mut self) -> bool {
        match self.stream.after_break(self.pipe.taken()) {
            Follow::On => true,
            Follow::Again => self.rewind(),
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
    pub(super) fn ended(&self, begun: u64) -> Result<End, Stop> {
        let taken = self.pipe.taken();
        match (self.stream.after_end(begun, taken), self.stream.length()) {
            (End::Short, Some(length)) => Err(Stop::Failure(Failure::Unusable {
                trouble: Trouble::Refused,
                why: format!("the body has {taken} bytes of {length} announced"),
            })),
            (end, _) => Ok(end),
        }
    }

    pub(super) fn close(&mut self) -> std::io::Result<u64> {
        self.pipe.close()?;
        Ok(self.pipe.written())
    }
}

/// Why reading an answer stopped.
pub(super) enum Stop {
    /// The course decides.
    Failure(Failure),
    /// There is nothing to decide.
    Error(GetError),
}
