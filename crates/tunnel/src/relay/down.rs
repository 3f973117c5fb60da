//! What a target says, from the first word of its answer to the last.

use std::io;
use std::sync::atomic::AtomicU64;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use haul_net::Error;

use super::direction::{Direction, Fault};
use super::end::{Sink, Source};
use super::hearing::{Hearing, Listener, Unheard};
use super::parting::{self, Parting};
use super::{Ended, Extent, Moved, Side};

/// Why a relay stops.
pub(super) enum Stop {
    /// It is known how it ended.
    Ended(Ended),
    /// The target broke, which may have spoken before.
    Broke(io::Error),
    /// What it said is not for the client.
    Refused(Box<Error>),
}

/// The direction to the client.
#[derive(Debug)]
pub(super) struct Down {
    /// While the answer is not made out, this is in place of what follows.
    hearing: Option<Box<Hearing>>,
    direction: Direction,
    /// Whether it is an answer to one request, which may be there though the rest of that was not taken.
    is_answer: bool,
}

impl Down {
    /// One whose first bytes have come.
    pub(super) fn new(early: Bytes, listener: Option<Listener>, is_answer: bool) -> Self {
        let hearing = listener.map(|listener| Box::new(Hearing::new(listener, &early)));
        Self {
            hearing,
            direction: Direction::new(early, Extent::ALL),
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
        (from, to): (&mut Source<'_>, &mut Sink<'_>),
        moved: &AtomicU64,
        is_last: bool,
    ) -> Poll<Result<(), Stop>> {
        if let Some(answer) = &mut self.hearing {
            let said = ready!(answer.poll(cx, (from, to), moved))?;
            (self.hearing, self.direction) = (None, Direction::new(said, Extent::ALL));
        }
        let polled = ready!(self.direction.poll(cx, (from, to), moved, is_last));
        Poll::Ready(polled.map_err(|fault| match fault {
            Fault::Reading(error) => self.broke(error),
            fault @ Fault::Writing(_) => Stop::Ended(fault.at(Side::Target, Side::Client)),
        }))
    }

    /// The target broke. What it had said is worth handing on where it may be an answer, or where it came in order before TLS was cut.
    pub(super) fn broke(&self, error: io::Error) -> Stop {
        match self.is_answer || error.kind() == io::ErrorKind::UnexpectedEof {
            true => Stop::Broke(error),
            false => Stop::Ended(Ended::broken(Side::Target, &error)),
        }
    }

    /// Hands on what a target said before it broke by this error.
    pub(super) async fn last_words(
        mut self,
        (from, to): (&mut Source<'_>, &mut Sink<'_>),
        (moved, error): (&Moved, &io::Error),
    ) -> Result<Parting, Box<Error>> {
        if let Some(answer) = self.hearing.take() {
            let said = parting::rest(answer, (&mut *from, &mut *to), moved).await?;
            self.direction = Direction::new(said, Extent::ALL);
        }
        Ok(parting::last_words(&mut self.direction, (from, to), (moved, error)).await)
    }
}

impl From<Unheard> for Stop {
    fn from(unheard: Unheard) -> Self {
        match unheard {
            Unheard::Refused(error) => Self::Refused(error),
            Unheard::Reading(error) => Self::Broke(error),
            Unheard::Writing(error) => Self::Ended(Ended::broken(Side::Client, &error)),
        }
    }
}
