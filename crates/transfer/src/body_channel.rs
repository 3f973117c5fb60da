//! A channel that carries the body of a download, in order, to a reader in this process.
//!
//! It is bounded: a reader that is slow slows the download down, as a slow reader of standard output does. The engine waits for room in
//! the task of the job, and blocks a thread only where a decoder makes many chunks of one.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::thread::Thread;

use bytes::Bytes;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio_util::sync::CancellationToken;

/// Chunks that wait for the reader. A chunk is what one read of the connection brought: a TLS record, or up to some four hundred
/// kilobytes of plain HTTP.
const MAX_WAITING: usize = 8;

/// The job's end of a channel. Two are equal if they belong to the same channel.
#[derive(Debug, Clone)]
pub struct BodySender(Sender<Bytes>);

impl PartialEq for BodySender {
    fn eq(&self, other: &Self) -> bool {
        self.0.same_channel(&other.0)
    }
}

impl Eq for BodySender {}

/// A channel for the body of one job: the sender goes into [`JobOutput::Channel`](crate::JobOutput::Channel), and the receiver gets the
/// bytes as they come, in chunks of any size but zero.
///
/// The channel ends with the job, when no clone of the sender is left. Its end does not say that the body is whole or right: the job's
/// outcome does. A receiver that is closed or dropped ends the job at its next chunk with
/// [`LocalError::Output`](crate::LocalError::Output) (broken pipe); the job's stop ends it at once.
///
/// Where bodies are decoded ([`GetOptions::decode_content`](crate::GetOptions::decode_content)), the reader must be another task or thread
/// than the one that runs the job: a decoder blocks its thread until the reader takes what it made.
#[must_use]
pub fn body_channel() -> (BodySender, Receiver<Bytes>) {
    let (sender, receiver) = mpsc::channel(MAX_WAITING);
    (BodySender(sender), receiver)
}

#[derive(Debug)]
pub(crate) struct ChannelSink {
    sender: BodySender,
    /// A chunk for which there was no room.
    waiting: Option<Bytes>,
    /// Ends a wait for the reader that blocks its thread.
    stop: CancellationToken,
}

impl ChannelSink {
    pub(crate) fn new(sender: BodySender, stop: CancellationToken) -> Self {
        Self {
            sender,
            waiting: None,
            stop,
        }
    }

    /// Sends a chunk. One for which there is no room waits here: call [`Self::wait_for_room`] before the next one, where that is
    /// possible. Else this blocks its thread until the reader takes a chunk.
    ///
    /// # Errors
    /// [`io::ErrorKind::BrokenPipe`] when the reader has closed the channel; an error when the job was stopped while this blocked, or
    /// when the runtime has one thread only, which the reader may need.
    pub(crate) fn send(&mut self, chunk: Bytes) -> io::Result<()> {
        if chunk.is_empty() {
            return Ok(());
        }
        if self.waiting.is_some() {
            self.block_until_room()?;
        }
        match self.sender.0.try_send(chunk) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(chunk)) => {
                self.waiting = Some(chunk);
                Ok(())
            }
            Err(TrySendError::Closed(_)) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Whether a chunk waits for room.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.is_some()
    }

    /// Waits until the reader has made room for the chunk that waits, if one does. Cancel safe.
    ///
    /// # Errors
    /// [`io::ErrorKind::BrokenPipe`] when the reader has closed the channel.
    pub(crate) async fn wait_for_room(&mut self) -> io::Result<()> {
        if self.waiting.is_none() {
            return Ok(());
        }
        let room = self
            .sender
            .0
            .reserve()
            .await
            .map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        if let Some(chunk) = self.waiting.take() {
            room.send(chunk);
        }
        Ok(())
    }

    fn block_until_room(&mut self) -> io::Result<()> {
        let runtime = Handle::try_current().map_err(io::Error::other)?;
        if runtime.runtime_flavor() == RuntimeFlavor::CurrentThread {
            let text = "decoding into a channel needs a runtime with several threads";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        let stop = self.stop.clone();
        block_thread_on(async {
            tokio::select! {
                biased;
                () = stop.cancelled() => Err(io::Error::other("stopped")),
                done = self.wait_for_room() => done,
            }
        })
    }
}

/// Wakes a thread that is parked.
struct ThreadWaker(Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Blocks this thread until a future is done that needs no runtime.
///
/// Not the runtime's own `block_on`: where the job itself is run by that, on the same thread, both would have one parker, and this one
/// would take the wake-ups of the job.
fn block_thread_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Arc::new(ThreadWaker(std::thread::current())).into();
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(number: usize) -> Bytes {
        Bytes::from(vec![u8::try_from(number).unwrap()])
    }

    fn sink() -> (ChannelSink, Receiver<Bytes>) {
        let (sender, receiver) = body_channel();
        (ChannelSink::new(sender, CancellationToken::new()), receiver)
    }

    #[test]
    fn senders_of_one_channel_are_equal() {
        let (first, second) = (body_channel().0, body_channel().0);
        assert!(first == first.clone() && first != second);
    }

    #[tokio::test]
    async fn a_reader_that_is_behind_makes_the_sender_wait_and_gets_every_chunk_in_order() {
        let (mut sink, mut receiver) = sink();
        for number in 0..=MAX_WAITING {
            assert!(!sink.is_full());
            sink.send(chunk(number)).unwrap();
        }
        assert!(sink.is_full());
        // Dropped before there is room, the wait has lost nothing.
        let waited = futures_util::FutureExt::now_or_never(sink.wait_for_room());
        assert!(waited.is_none() && sink.is_full());
        // There is one thread, which must not block.
        assert_eq!(
            sink.send(chunk(99)).unwrap_err().kind(),
            io::ErrorKind::Unsupported
        );
        assert_eq!(receiver.recv().await, Some(chunk(0)));
        sink.wait_for_room().await.unwrap();
        drop(sink);
        for number in 1..=MAX_WAITING {
            assert_eq!(receiver.recv().await, Some(chunk(number)));
        }
        assert_eq!(receiver.recv().await, None);
    }

    #[tokio::test]
    async fn a_closed_reader_is_a_broken_pipe_also_for_a_chunk_that_waits() {
        let (mut sink, receiver) = sink();
        (0..=MAX_WAITING).for_each(|number| sink.send(chunk(number)).unwrap());
        drop(receiver);
        let error = sink.wait_for_room().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        let (mut sink, _) = self::sink();
        let error = sink.send(chunk(1)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_a_decoder_makes_waits_on_its_thread_until_the_reader_reads_or_the_job_stops() {
        let (mut sink, mut receiver) = sink();
        let stop = sink.stop.clone();
        let decode = async {
            let send_all = || (0..100).try_for_each(|number| sink.send(chunk(number)));
            tokio::task::block_in_place(send_all).unwrap();
            sink.wait_for_room().await.unwrap();
            sink
        };
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(async move {
            for number in 0..100 {
                assert_eq!(receiver.recv().await, Some(chunk(number)));
            }
            receiver
        });
        let mut sink = decode.await;
        let _receiver = tasks.join_next().await.unwrap().unwrap();
        stop.cancel();
        let send_on = || (0..100).try_for_each(|number| sink.send(chunk(number)));
        assert_eq!(
            tokio::task::block_in_place(send_on)
                .unwrap_err()
                .to_string(),
            "stopped"
        );
    }
}
