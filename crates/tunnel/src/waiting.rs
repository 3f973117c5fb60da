//! A client while its target is being reached: what it says already is kept, and when it leaves, nobody is reached for it any more.
//!
//! Whether a client that ends its side without a word has left, or waits for a target that speaks first, cannot be told. Most have left
//! (a scan of ports, a browser that thought better of it), so it is taken for that. One that has said something may well be done
//! speaking, and only a reset means that it has left.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use bytes::Bytes;

use crate::relay::{Early, End, with_room};

/// Bytes that are kept of what a client says meanwhile. The rest waits in its socket.
const ROOM: usize = 16 << 10;

/// The client has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Left;

/// Does something for a client, unless that leaves. Ends that are no sockets are not looked at.
pub(crate) async fn while_it_waits<T>(
    client: &mut End,
    early: &mut Early,
    task: impl Future<Output = T>,
) -> Result<T, Left> {
    let mut task = pin!(task);
    let (source, _sink) = client.split();
    let Some(socket) = source.socket() else {
        return Ok(task.await);
    };
    let mut errors = pin!(socket.errors());
    let mut said = Bytes::new();
    let mut is_listening = early.up.is_empty();
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
                Poll::Ready(Ok(read)) if !read.is_empty() => said = read,
                Poll::Ready(_) => return Poll::Ready(Err(Left)),
            }
            is_listening = false;
        }
        errors.as_mut().poll(cx).map(|_| Err(Left))
    })
    .await?;
    if !said.is_empty() {
        early.up = said;
    }
    Ok(done)
}
