//! Copies both directions between two streams until both have ended.
//!
//! Each direction is a [`RelayDirection`] of its own: it reads, writes, and passes the end of its stream on, while the other goes on to
//! its own end. One task polls both, so that an idle relay is a few hundred bytes and no buffer: bytes pass through a buffer of the
//! thread, and only what the other stream does not take at once is kept. (TLS has some kilobytes of its own.) A direction that keeps
//! filling that buffer moves its bytes through a pipe instead, without a copy ([`bulk`]; [`bulk_detector`] decides).
//! Streams that are no plain sockets - TLS, a terminal - are read and written by the same rules, without the pipe.
//!
//! A reset is passed on as a reset, and as soon as it is seen: between sockets also while the direction that would have read it is held
//! up. Below TLS the next read or write sees it. A target that reads no more may have sent the reason before it closed:
//! that is passed on ([`closing`]), and so is everything before TLS was cut off.

mod bulk;
mod bulk_detector;
mod closing;
mod direction;
mod idle_timer;
mod outcome;
mod socket;
mod stream;
mod sys;

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;

pub use bulk::MAX_PIPE_DESCRIPTORS;
use closing::ClientClose;
pub(crate) use closing::{linger, reset_when_delivered, send_and_linger};
use direction::{DirectionError, RelayDirection};
pub(crate) use idle_timer::IdleTimer;
pub use outcome::{RelayOutcome, RelaySide, RelayedBytes};
pub(crate) use socket::SocketErrors;
pub use stream::{AnyStream, RelayStream};

/// Bytes that were read before the relay began. They go first.
#[derive(Default)]
pub struct EarlyBytes {
    /// What the client sent.
    pub from_client: Bytes,
    /// What the target sent.
    pub from_target: Bytes,
}

impl fmt::Debug for EarlyBytes {
    /// Without the bytes, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EarlyBytes")
            .field("from_client", &self.from_client.len())
            .field("from_target", &self.from_target.len())
            .finish()
    }
}

/// Relays until both directions have ended, one stream is reset, or no byte has moved for `idle`, and returns how it ended. `bytes` counts
/// what was passed on meanwhile.
///
/// Cancel safe: dropped, it resets both streams, since bytes in flight are lost then.
pub async fn relay(
    client: RelayStream,
    target: RelayStream,
    early: EarlyBytes,
    bytes: &RelayedBytes,
    idle: Option<Duration>,
) -> RelayOutcome {
    let mut peers = RelayPeers {
        client,
        target,
        is_closed: false,
    };
    let (outcome, close) = copy_both(&mut peers, early, bytes, idle).await;
    match close {
        ClientClose::AtOnce => peers.is_closed = outcome == RelayOutcome::Closed,
        // Boxed, as an idle relay is to be small.
        ClientClose::Linger => {
            Box::pin(linger(&mut peers.client)).await;
            peers.is_closed = true;
        }
        ClientClose::ResetWhenDelivered => {
            Box::pin(reset_when_delivered(&mut peers.client)).await;
        }
    }
    outcome
}

/// Both streams. If they are dropped before both have ended, the peers see a reset.
#[derive(Debug)]
struct RelayPeers {
    client: RelayStream,
    target: RelayStream,
    /// Whether both have ended.
    is_closed: bool,
}

impl Drop for RelayPeers {
    fn drop(&mut self) {
        if !self.is_closed {
            self.client.reset_on_drop();
            self.target.reset_on_drop();
        }
    }
}

/// Why copying stops.
enum RelayStop {
    Ended(RelayOutcome),
    /// The target failed, and may have sent something before that the client has not received.
    TargetFailed(io::Error),
}

async fn copy_both(
    peers: &mut RelayPeers,
    early: EarlyBytes,
    bytes: &RelayedBytes,
    idle: Option<Duration>,
) -> (RelayOutcome, ClientClose) {
    let (mut from_client, mut to_client) = peers.client.split();
    let (mut from_target, mut to_target) = peers.target.split();
    let mut client_errors = pin!(SocketErrors::new(from_client.socket()));
    let mut target_errors = pin!(SocketErrors::new(from_target.socket()));
    let mut up = RelayDirection::new(early.from_client);
    let mut down = RelayDirection::new(early.from_target);
    let mut idle = idle.map(|limit| IdleTimer::new(limit, bytes));
    let stop = poll_fn(|cx| {
        let is_last = down.is_done();
        let is_up_done = match up.poll(cx, &mut from_client, &mut to_target, &bytes.up, is_last) {
            Poll::Ready(Err(error)) => return Poll::Ready(up_failed(error)),
            polled => polled.is_ready(),
        };
        match down.poll(
            cx,
            &mut from_target,
            &mut to_client,
            &bytes.down,
            is_up_done,
        ) {
            Poll::Ready(Err(error)) => return Poll::Ready(down_failed(error)),
            Poll::Ready(Ok(())) if is_up_done => {
                return Poll::Ready(RelayStop::Ended(RelayOutcome::Closed));
            }
            _ => {}
        }
        // A direction that reads sees a reset. While a direction does not read, the socket is watched for one.
        if !up.is_reading()
            && let Poll::Ready(error) = client_errors.as_mut().poll(cx)
        {
            return Poll::Ready(broken(RelaySide::Client, &error));
        }
        if !down.is_reading()
            && let Poll::Ready(error) = target_errors.as_mut().poll(cx)
        {
            return Poll::Ready(broken(RelaySide::Target, &error));
        }
        let idle = idle.as_mut().map(|idle| idle.poll(cx, bytes));
        idle.map_or(Poll::Pending, |idle| {
            idle.map(|()| RelayStop::Ended(RelayOutcome::IdleTimeout))
        })
    })
    .await;
    match stop {
        RelayStop::Ended(outcome) => (outcome, ClientClose::AtOnce),
        RelayStop::TargetFailed(error) => {
            let outcome = RelayOutcome::broken(RelaySide::Target, &error);
            let last_words =
                closing::pass_on_last_words(down, from_target, to_client, bytes, &error);
            (outcome, Box::pin(last_words).await)
        }
    }
}

fn up_failed(error: DirectionError) -> RelayStop {
    match error {
        DirectionError::Reading(error) => broken(RelaySide::Client, &error),
        DirectionError::Writing(error) => RelayStop::TargetFailed(error),
    }
}

fn down_failed(error: DirectionError) -> RelayStop {
    match error {
        // TLS was cut off: the bytes before are valid.
        DirectionError::Reading(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            RelayStop::TargetFailed(error)
        }
        DirectionError::Reading(error) => broken(RelaySide::Target, &error),
        DirectionError::Writing(error) => broken(RelaySide::Client, &error),
    }
}

fn broken(side: RelaySide, error: &io::Error) -> RelayStop {
    RelayStop::Ended(RelayOutcome::broken(side, error))
}

#[cfg(test)]
mod tests;
