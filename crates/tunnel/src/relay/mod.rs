//! Copying both directions between two ends until both have closed.
//!
//! Each direction is a [`Direction`] of its own: it reads, writes, and passes the end of its stream on, while the other goes on to its own
//! end. Both are polled by one task, so an idle relay is a few hundred bytes and no buffer: what is read goes through a buffer of the
//! thread's, and only what the other end does not take at once is kept. A direction that keeps filling that buffer moves its bytes
//! through a [`pipe`] instead, without a copy ([`haul_plan::tunnel::Bulk`] decides). Ends that are no plain sockets - TLS, a
//! terminal - are read and written by the same rules, without the pipe.
//!
//! A request that is passed on has an end that is not its connection's: what follows is dropped, and when its answer is over, so is the
//! relay. A target that takes no more may have said why: that is handed on, and the client is given time to hear it.
//!
//! A reset is passed on as one, and as soon as it is seen: also when the direction that would have read it is held up.

mod direction;
mod end;
mod end_io;
mod ended;
mod extent;
mod gathering;
mod parting;
mod pipe;
mod socket;

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, Sleep, sleep_until};

pub(crate) use direction::with_room;
use direction::{Direction, Fault};
pub use end::{Duplex, End};
pub use ended::{Ended, Moved, Side};
pub use extent::Extent;
use parting::{Parting, last_words};
pub use pipe::FILES as PIPE_FILES;
use socket::Errors;
pub(crate) use socket::Socket;

/// What came before the relay began, and goes first.
#[derive(Default)]
pub struct Early {
    /// From the client.
    pub up: Bytes,
    /// From the target.
    pub down: Bytes,
    /// How much of what the client says is for the target.
    pub extent: Extent,
}

impl fmt::Debug for Early {
    /// Without the bytes, which are the peers' own.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Early")
            .field("up", &self.up.len())
            .field("down", &self.down.len())
            .field("extent", &self.extent)
            .finish()
    }
}

/// Relays until both directions have ended, one end is reset, or nothing has moved for `idle`; tells how it ended. What went which way is
/// counted in `moved` meanwhile.
///
/// Cancel safe in that dropping it resets both ends, as the bytes on the way are lost then.
pub async fn relay(
    client: End,
    target: End,
    early: Early,
    (moved, idle): (&Moved, Option<Duration>),
) -> Ended {
    let mut ends = Ends {
        client,
        target,
        is_closed: false,
    };
    let peers = (&mut ends.client, &mut ends.target);
    let (ended, parting) = both(peers, early, (moved, idle)).await;
    // Apart, like the last words: an idle relay is to be small.
    Box::pin(parting.wait(&mut ends.client)).await;
    ends.is_closed = !ended.is_abrupt() || parting == Parting::Told;
    ended
}

/// Both ends. Dropped before both directions have come to theirs, the peers see that it was no end.
struct Ends {
    client: End,
    target: End,
    /// Whether they have.
    is_closed: bool,
}

impl Drop for Ends {
    fn drop(&mut self) {
        if !self.is_closed {
            self.client.reset_on_drop();
            self.target.reset_on_drop();
        }
    }
}

async fn both(
    (client, target): (&mut End, &mut End),
    early: Early,
    (moved, idle): (&Moved, Option<Duration>),
) -> (Ended, Parting) {
    let (mut client_in, mut client_out) = client.split();
    let (mut target_in, mut target_out) = target.split();
    let mut client_errors = std::pin::pin!(Errors::of(client_in.socket()));
    let mut target_errors = std::pin::pin!(Errors::of(target_in.socket()));
    let is_request = !early.extent.is_all();
    let mut up = Direction::new(early.up, early.extent);
    let mut down = Direction::new(early.down, Extent::ALL);
    let mut idle = idle.map(Idle::new);
    let mut more = None;
    // An error is the target's, which may have spoken before.
    let ended = poll_fn(|cx| {
        let to_target = (&mut client_in, &mut target_out);
        let first = match up.poll(cx, to_target, &moved.up, down.is_done()) {
            Poll::Ready(Err(Fault::Writing(error))) => return Poll::Ready(Err(error)),
            Poll::Ready(Err(fault)) => {
                return Poll::Ready(Ok(fault.at(Side::Client, Side::Target)));
            }
            first => first.is_ready(),
        };
        let to_client = (&mut target_in, &mut client_out);
        match down.poll(cx, to_client, &moved.down, first) {
            Poll::Ready(Err(Fault::Reading(error))) if is_request => {
                return Poll::Ready(Err(error));
            }
            Poll::Ready(Err(fault)) => {
                return Poll::Ready(Ok(fault.at(Side::Target, Side::Client)));
            }
            // What a client says behind a request is nobody's.
            Poll::Ready(Ok(())) if up.is_satisfied() => return Poll::Ready(Ok(Ended::Closed)),
            _ => {}
        }
        // Whoever reads from an end learns of its reset. Where nobody does, it is asked for.
        if up.is_deaf()
            && let Poll::Ready(error) = client_errors.as_mut().poll(cx)
        {
            return Poll::Ready(Ok(Ended::broken(Side::Client, &error)));
        }
        if down.is_deaf()
            && let Poll::Ready(error) = target_errors.as_mut().poll(cx)
        {
            let broken = Ended::broken(Side::Target, &error);
            return Poll::Ready(if is_request { Err(error) } else { Ok(broken) });
        }
        end_if_followed(cx, &mut up, (&mut more, moved));
        let idle = idle.as_mut().map(|idle| idle.poll(cx, moved));
        idle.map_or(Poll::Pending, |idle| idle.map(|()| Ok(Ended::Idle)))
    })
    .await;
    match ended {
        // It may talk on, but is not reset for it before it has heard all.
        Ok(Ended::Closed) if !up.is_done() => (Ended::Closed, Parting::Told),
        Ok(ended) => (ended, Parting::Now),
        Err(error) => {
            let ends = (&mut target_in, &mut client_out);
            let parting = Box::pin(last_words(&mut down, ends, (moved, &error))).await;
            (Ended::broken(Side::Target, &error), parting)
        }
    }
}

/// A client that said more behind its request waits for an answer to that. Where the first one's seems to be over for so long, the target
/// is one that keeps its connections whatever it is told: it hears the end then, and so does the client.
const FOLLOWED: Duration = Duration::from_secs(10);

fn end_if_followed(
    cx: &mut Context<'_>,
    up: &mut Direction,
    (more, moved): (&mut Option<Box<Idle>>, &Moved),
) {
    if !up.is_followed() || moved.down() == 0 {
        return;
    }
    let more = more.get_or_insert_with(|| Box::new(Idle::new(FOLLOWED)));
    if more.poll(cx, moved).is_ready() {
        up.end();
        cx.waker().wake_by_ref();
    }
}

impl Fault {
    /// The side that broke, where a direction leads from one to another.
    fn at(self, from: Side, to: Side) -> Ended {
        match self {
            Self::Reading(error) => Ended::broken(from, &error),
            Self::Writing(error) => Ended::broken(to, &error),
        }
    }
}

/// How often it is looked while the limit lasts.
const LOOKS: u32 = 4;

/// The longest limit: what is longer is as good as none, and no clock's arithmetic has room for all of it.
const FAR: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Looks now and then whether anything has moved.
struct Idle {
    limit: Duration,
    /// When to look.
    timer: Pin<Box<Sleep>>,
    /// What had moved by the last look.
    seen: u64,
    /// Whether anything is known of the time before it.
    since: Instant,
}

impl Idle {
    fn new(limit: Duration) -> Self {
        let since = Instant::now();
        let limit = limit.min(FAR);
        Self {
            limit,
            timer: Box::pin(sleep_until(since + limit / LOOKS)),
            seen: 0,
            since,
        }
    }

    /// Ready when nothing has moved for as long as the limit, or for up to a look's time more.
    fn poll(&mut self, cx: &mut Context<'_>, moved: &Moved) -> Poll<()> {
        loop {
            std::task::ready!(self.timer.as_mut().poll(cx));
            let (now, total) = (Instant::now(), moved.total());
            if total != self.seen {
                (self.seen, self.since) = (total, now);
            } else if now >= self.since + self.limit {
                return Poll::Ready(());
            }
            // The last look is at the limit itself, however the division went.
            let next = (now + self.limit / LOOKS).min(self.since + self.limit);
            self.timer.as_mut().reset(next);
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
