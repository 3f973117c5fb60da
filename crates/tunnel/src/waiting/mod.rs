//! A client while its target is being reached: what it says already is kept, and when it leaves, nobody is reached for it any more.
//!
//! A client that ends its side without a word has left (a scan of ports, a browser that thought better of it), or waits for a target that
//! speaks first. Where the system [tells](open) which, the one that waits is waited for, and looked at again, since it may leave yet;
//! where it does not, the client is taken for one that left. One that has said something may well be done speaking, and only a reset
//! means that it has left.

mod open;

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;

use tokio::time::{Instant, Sleep, sleep};

use crate::relay::{EarlyBytes, RelaySocket, RelayStream, with_room};

/// Bytes that are kept of what a client says meanwhile. The rest waits in its socket.
const ROOM: usize = 16 << 10;

/// Between the first two looks at a client that has ended its side. Each is twice as long as the one before.
const LOOK: Duration = Duration::from_millis(100);

/// Until it is so long: a look is a question to the system, and there may be many of them.
const LONGEST: Duration = Duration::from_secs(2);

/// The client has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClientLeft;

/// A client that has ended its side, until it leaves.
struct ClientDeparture<'a> {
    socket: RelaySocket<'a>,
    look: Pin<Box<Sleep>>,
    /// Between that look and the next.
    next: Duration,
}

impl<'a> ClientDeparture<'a> {
    fn of(socket: RelaySocket<'a>) -> Self {
        Self {
            socket,
            look: Box::pin(sleep(Duration::ZERO)),
            next: LOOK,
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.look.as_mut().poll(cx));
            if !open::is_known_open(self.socket) {
                return Poll::Ready(());
            }
            self.look.as_mut().reset(Instant::now() + self.next);
            self.next = (2 * self.next).min(LONGEST);
        }
    }
}

/// Does something for a client, unless that leaves. Ends that are no sockets are not looked at.
pub(crate) async fn while_it_waits<T>(
    client: &mut RelayStream,
    early: &mut EarlyBytes,
    task: impl Future<Output = T>,
) -> Result<T, ClientLeft> {
    let mut task = pin!(task);
    let (source, _sink) = client.split();
    let Some(socket) = source.socket() else {
        return Ok(task.await);
    };
    let mut errors = pin!(socket.errors());
    let mut said = Bytes::new();
    let mut is_listening = early.up.is_empty();
    let mut departure = None;
    let done = poll_fn(|cx| {
        if let Poll::Ready(done) = task.as_mut().poll(cx) {
            return Poll::Ready(Ok(done));
        }
        if is_listening {
            // Not kept while nothing is said: many may wait for one proxy.
            let read = with_room(|room| {
                let read = socket.poll_read(cx, &mut room[..ROOM]);
                read.map_ok(|read| Bytes::copy_from_slice(&room[..read]))
            });
            match read {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(read)) if read.is_empty() => {
                    departure = Some(ClientDeparture::of(socket))
                }
                Poll::Ready(Ok(read)) => said = read,
                Poll::Ready(Err(_)) => return Poll::Ready(Err(ClientLeft)),
            }
            is_listening = false;
        }
        if let Some(departure) = &mut departure
            && departure.poll(cx).is_ready()
        {
            return Poll::Ready(Err(ClientLeft));
        }
        errors.as_mut().poll(cx).map(|_| Err(ClientLeft))
    })
    .await?;
    if !said.is_empty() {
        early.up = said;
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;
    use tokio::net::UnixStream;

    #[tokio::test(start_paused = true)]
    async fn one_that_listens_is_waited_for_until_it_leaves() {
        let (ours, mut peer) = UnixStream::pair().unwrap();
        peer.shutdown().await.unwrap();
        let mut client = RelayStream::Unix(ours);
        let mut early = EarlyBytes::default();
        let done = while_it_waits(&mut client, &mut early, sleep(5 * LONGEST)).await;
        assert_eq!(done, Ok(()));
        let leaves = async {
            sleep(5 * LONGEST).await;
            drop(peer);
            sleep(5 * LONGEST).await;
        };
        let left = while_it_waits(&mut client, &mut early, leaves).await;
        assert_eq!(left, Err(ClientLeft));
    }
}
