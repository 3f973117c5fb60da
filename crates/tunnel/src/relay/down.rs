//! What a target says, from the first word of its answer to the last.

use std::io;
use std::sync::atomic::AtomicU64;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use haul_net::Error;

use super::direction::{DirectionError, RelayDirection};
use super::end::{RelayReader, RelayWriter};
use super::hearing::{ResponseObserver, ResponseReadError, ResponseReader};
use super::parting::{self, CloseReason};
use super::{BodyFraming, RelayOutcome, RelaySide, RelayedBytes};

/// Why a relay stops.
pub(super) enum RelayStop {
    /// It is known how it ended.
    Ended(RelayOutcome),
    /// The target broke, which may have spoken before.
    Broke(io::Error),
    /// What it said is not for the client.
    Refused(Box<Error>),
}

impl RelayStop {
    pub(super) fn broken(side: RelaySide, error: &io::Error) -> Self {
        Self::Ended(RelayOutcome::broken(side, error))
    }
}

/// The direction to the client.
#[derive(Debug)]
pub(super) struct ToClientDirection {
    /// While the answer is not made out, this is in place of what follows.
    hearing: Option<Box<ResponseReader>>,
    direction: RelayDirection,
    /// Whether it is an answer to one request, which may be there though the rest of that was not taken.
    is_answer: bool,
}

impl ToClientDirection {
    /// One whose first bytes have come.
    pub(super) fn new(early: Bytes, listener: Option<ResponseObserver>, is_answer: bool) -> Self {
        let hearing = listener.map(|listener| Box::new(ResponseReader::new(listener, &early)));
        Self {
            hearing,
            direction: RelayDirection::new(early, BodyFraming::ALL),
            is_answer,
        }
    }

    /// Whether nobody reads from the target now.
    pub(super) fn is_deaf(&self) -> bool {
        self.hearing.is_none() && self.direction.is_deaf()
    }

    /// Whether it is over.
    pub(super) fn is_done(&self) -> bool {
        self.hearing.is_none() && self.direction.is_done()
    }

    /// Goes on as far as both ends let it. Ready when it is over.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        (from, to): (&mut RelayReader<'_>, &mut RelayWriter<'_>),
        moved: &AtomicU64,
        is_last: bool,
    ) -> Poll<Result<(), RelayStop>> {
        if let Some(answer) = &mut self.hearing {
            let said = ready!(answer.poll(cx, (from, to), moved))?;
            (self.hearing, self.direction) = (None, RelayDirection::new(said, BodyFraming::ALL));
        }
        let polled = ready!(self.direction.poll(cx, (from, to), moved, is_last));
        Poll::Ready(polled.map_err(|fault| match fault {
            DirectionError::Reading(error) => self.broke(error),
            fault @ DirectionError::Writing(_) => {
                RelayStop::Ended(fault.at(RelaySide::Target, RelaySide::Client))
            }
        }))
    }

    /// The target broke. What it had said is worth handing on where it may be an answer, or where it came in order before TLS was cut.
    pub(super) fn broke(&self, error: io::Error) -> RelayStop {
        match self.is_answer || error.kind() == io::ErrorKind::UnexpectedEof {
            true => RelayStop::Broke(error),
            false => RelayStop::Ended(RelayOutcome::broken(RelaySide::Target, &error)),
        }
    }

    /// Hands on what a target said before it broke by this error.
    pub(super) async fn last_words(
        mut self,
        (from, to): (&mut RelayReader<'_>, &mut RelayWriter<'_>),
        (moved, error): (&RelayedBytes, &io::Error),
    ) -> Result<CloseReason, Box<Error>> {
        if let Some(answer) = self.hearing.take() {
            let said = parting::rest(answer, (&mut *from, &mut *to), moved).await?;
            self.direction = RelayDirection::new(said, BodyFraming::ALL);
        }
        Ok(parting::last_words(&mut self.direction, (from, to), (moved, error)).await)
    }
}

impl From<ResponseReadError> for RelayStop {
    fn from(unheard: ResponseReadError) -> Self {
        match unheard {
            ResponseReadError::Refused(error) => Self::Refused(error),
            ResponseReadError::Reading(error) => Self::Broke(error),
            ResponseReadError::Writing(error) => {
                Self::Ended(RelayOutcome::broken(RelaySide::Client, &error))
            }
        }
    }
}
