//! A sequential download under way: what has been taken, and what a break means for it.
//!
//! Reading answers into it is [`sequential`](super::sequential)'s.

use haul_plan::{ContentCoding, Trouble, Version};

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
    /// Bytes in the resource, if that is known.
    pub(super) length: Option<u64>,
    /// Hashes behind the download.
    pub(super) follower: Option<Follower>,
    /// Whether a range may continue a broken body.
    pub(super) ranges: bool,
    /// The coding of the first answer, which every other must have too.
    pub(super) encoding: Option<ContentCoding>,
}

impl Flow {
    pub(super) fn take(&mut self, piece: &bytes::Bytes) -> std::io::Result<()> {
        // No byte beyond the announced length is taken (row A11); the length check then refuses the answer.
        let room = self
            .length
            .map_or(u64::MAX, |length| length.saturating_sub(self.pipe.taken()));
        let keep = usize::try_from(room).map_or(piece.len(), |room| room.min(piece.len()));
        self.pipe.take(piece.slice(..keep))
    }

    pub(super) fn can_go_on(&self) -> bool {
        self.pipe.taken() == 0 || (self.ranges && self.length.is_some())
    }

    /// Goes back to the beginning, if the output can.
    pub(super) fn rewind(&mut self) -> bool {
        let rewound = self.pipe.rewind();
        if rewound {
            self.follower = self.follower.take().map(|follower| follower.restart());
        }
        rewound
    }

    pub(super) fn check_length(&self) -> Result<(), Stop> {
        match self.length {
            Some(length) if length != self.pipe.taken() => Err(Stop::Failure(Failure::Unusable {
                trouble: Trouble::Refused,
                why: format!(
                    "the body has {} bytes of {length} announced",
                    self.pipe.taken()
                ),
            })),
            _ => Ok(()),
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
