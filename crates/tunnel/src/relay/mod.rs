//! Copying both directions between two ends until both have closed.
//!
//! Each direction is a [`RelayDirection`] of its own: it reads, writes, and passes the end of its stream on, while the other goes on to its own
//! end. Both are polled by one task, so an idle relay is a few hundred bytes and no buffer: what is read goes through a buffer of the
//! thread's, and only what the other end does not take at once is kept. (TLS has a state of its own besides, of some kilobytes.) A
//! direction that keeps filling that buffer moves its bytes through a [`pipe`] instead, without a copy ([`haul_plan::tunnel::BulkDetector`]
//! decides). Ends that are no plain sockets - TLS, a terminal - are read and written by the same rules, without the pipe.
//!
//! A request that is passed on has an end that is not its connection's: what follows is dropped, and when its answer is over, so is the
//! relay. The beginning of its answer is [heard](hearing) before the client hears it. A target that takes no more may have said why: that
//! is handed on, and the client is given time to hear it. So is all that came before TLS was cut.
//!
//! A reset is passed on as one, and as soon as it is seen: between sockets also when the direction that would have read it is held up.
//! Below TLS it is seen by whoever reads or writes next.

mod direction;
mod down;
mod end;
mod end_io;
mod ended;
mod ends;
mod extent;
mod gathering;
mod hearing;
mod idle;
mod parting;
mod pipe;
mod socket;

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use haul_net::Error;

pub(crate) use direction::with_room;
use direction::{DirectionError, RelayDirection};
use down::{RelayStop, ToClientDirection};
pub use end::{AnyStream, RelayStream};
pub use ended::{RelayOutcome, RelaySide, RelayedBytes};
pub use ends::RefusedResponse;
use ends::RelayEnds;
pub use extent::BodyFraming;
pub use hearing::{ResponseAction, ResponseObserver};
use idle::IdleTimer;
use parting::CloseReason;
pub(crate) use parting::part;
pub use pipe::MAX_PIPE_DESCRIPTORS as PIPE_FILES;
pub(crate) use socket::RelaySocket;
use socket::SocketErrors;

/// What came before the relay began, and goes first.
#[derive(Default)]
pub struct EarlyBytes {
    /// From the client.
    pub up: Bytes,
    /// From the target.
    pub down: Bytes,
    /// How much of what the client says is for the target.
    pub extent: BodyFraming,
    /// Who hears the target's answer first, where it is one to a request.
    pub listener: Option<ResponseObserver>,
}

impl fmt::Debug for EarlyBytes {
    /// Without the bytes, which are the peers' own.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Early")
            .field("up", &self.up.len())
            .field("down", &self.down.len())
            .field("extent", &self.extent)
            .field("listener", &self.listener)
            .finish()
    }
}

/// Relays until both directions have ended, one end is reset, or nothing has moved for `idle`; tells how it ended. What went which way is
/// counted in `moved` meanwhile.
///
/// Cancel safe in that dropping it resets both ends, as the bytes on the way are lost then.
///
/// # Errors
/// What the target said to begin with was not for the client, which has heard nothing of it.
pub async fn relay(
    client: RelayStream,
    target: RelayStream,
    early: EarlyBytes,
    (moved, idle): (&RelayedBytes, Option<Duration>),
) -> Result<RelayOutcome, Box<RefusedResponse>> {
    let mut ends = RelayEnds {
        client,
        target,
        is_closed: false,
    };
    let peers = (&mut ends.client, &mut ends.target);
    let (ended, parting) = match both(peers, early, (moved, idle)).await {
        Ok(ended) => ended,
        Err(error) => {
            ends.is_closed = true;
            return Err(Box::new(RefusedResponse { ends, error }));
        }
    };
    if parting != CloseReason::Now {
        // Apart, like the last words: an idle relay is to be small.
        Box::pin(parting.wait(&mut ends.client)).await;
    }
    ends.is_closed = !ended.is_abrupt() || parting == CloseReason::Told;
    Ok(ended)
}

async fn both(
    (client, target): (&mut RelayStream, &mut RelayStream),
    early: EarlyBytes,
    (moved, idle): (&RelayedBytes, Option<Duration>),
) -> Result<(RelayOutcome, CloseReason), Box<Error>> {
    let (mut client_in, mut client_out) = client.split();
    let (mut target_in, mut target_out) = target.split();
    let mut client_errors = std::pin::pin!(SocketErrors::of(client_in.socket()));
    let mut target_errors = std::pin::pin!(SocketErrors::of(target_in.socket()));
    let is_request = !early.extent.is_all();
    let mut down = ToClientDirection::new(early.down, early.listener, is_request);
    let mut up = RelayDirection::new(early.up, early.extent);
    let mut idle = idle.map(|limit| IdleTimer::new(limit, moved));
    let mut more = None;
    let stop = poll_fn(|cx| {
        let to_target = (&mut client_in, &mut target_out);
        let first = match up.poll(cx, to_target, &moved.up, down.is_done()) {
            Poll::Ready(Err(DirectionError::Writing(error))) => {
                return Poll::Ready(RelayStop::Broke(error));
            }
            Poll::Ready(Err(fault)) => {
                let ended = fault.at(RelaySide::Client, RelaySide::Target);
                return Poll::Ready(RelayStop::Ended(ended));
            }
            first => first.is_ready(),
        };
        let to_client = (&mut target_in, &mut client_out);
        match down.poll(cx, to_client, &moved.down, first) {
            Poll::Ready(Err(stop)) => return Poll::Ready(stop),
            // What a client says behind a request is nobody's.
            Poll::Ready(Ok(())) if up.is_satisfied() => {
                return Poll::Ready(RelayStop::Ended(RelayOutcome::Closed));
            }
            _ => {}
        }
        // Whoever reads from an end learns of its reset. Where nobody does, it is asked for.
        if up.is_deaf()
            && let Poll::Ready(error) = client_errors.as_mut().poll(cx)
        {
            return Poll::Ready(RelayStop::broken(RelaySide::Client, &error));
        }
        if down.is_deaf()
            && let Poll::Ready(error) = target_errors.as_mut().poll(cx)
        {
            return Poll::Ready(down.broke(error));
        }
        end_if_followed(cx, &mut up, (&mut more, moved));
        let idle = idle.as_mut().map(|idle| idle.poll(cx, moved));
        idle.map_or(Poll::Pending, |idle| {
            idle.map(|()| RelayStop::Ended(RelayOutcome::IdleTimeout))
        })
    })
    .await;
    match stop {
        // It may talk on, but is not reset for it before it has heard all.
        RelayStop::Ended(RelayOutcome::Closed) if !up.is_done() => {
            Ok((RelayOutcome::Closed, CloseReason::Told))
        }
        RelayStop::Ended(ended) => Ok((ended, CloseReason::Now)),
        RelayStop::Refused(error) => Err(error),
        RelayStop::Broke(error) => {
            let ends = (&mut target_in, &mut client_out);
            let parting = Box::pin(down.last_words(ends, (moved, &error))).await?;
            Ok((RelayOutcome::broken(RelaySide::Target, &error), parting))
        }
    }
}

/// A client that said more behind its request waits for an answer to that. Where the first one's seems to be over for so long, the target
/// is one that keeps its connections whatever it is told: it hears the end then, and so does the client.
const FOLLOWED: Duration = Duration::from_secs(10);

fn end_if_followed(
    cx: &mut Context<'_>,
    up: &mut RelayDirection,
    (more, moved): (&mut Option<Box<IdleTimer>>, &RelayedBytes),
) {
    if !up.is_followed() || moved.down() == 0 {
        return;
    }
    let more = more.get_or_insert_with(|| Box::new(IdleTimer::new(FOLLOWED, moved)));
    if more.poll(cx, moved).is_ready() {
        up.end();
        cx.waker().wake_by_ref();
    }
}

impl DirectionError {
    /// The side that broke, where a direction leads from one to another.
    fn at(self, from: RelaySide, to: RelaySide) -> RelayOutcome {
        match self {
            Self::Reading(error) => RelayOutcome::broken(from, &error),
            Self::Writing(error) => RelayOutcome::broken(to, &error),
        }
    }
}

/// An error that a peer makes by going away.
fn is_departure(error: &io::Error) -> bool {
    use io::ErrorKind as E;
    matches!(
        error.kind(),
        E::ConnectionReset | E::BrokenPipe | E::ConnectionAborted | E::NotConnected
    )
}

#[cfg(test)]
mod tests;
