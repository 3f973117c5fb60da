//! When a direction has a pipe, and that it has none when it needs none.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::relay::bulk::PipedBytes;

/// More bytes than all sockets together can hold.
const MUCH: usize = 48 << 20;

/// One direction, polled until a condition holds.
struct PolledDirection {
    direction: RelayDirection,
    from: RelayStream,
    to: RelayStream,
    moved: AtomicU64,
}

impl PolledDirection {
    /// A direction between TCP sockets, with the peer that sends and the one that receives.
    async fn new() -> (Self, TcpStream, TcpStream) {
        let (from, sender) = tcp_pair().await;
        let (to, receiver) = tcp_pair().await;
        let polled = Self {
            direction: RelayDirection::new(Bytes::new()),
            from: RelayStream::Tcp(from),
            to: RelayStream::Tcp(to),
            moved: AtomicU64::new(0),
        };
        (polled, sender, receiver)
    }

    /// Polls the direction until `condition` holds of it and of the bytes that it has moved.
    async fn until(&mut self, condition: impl Fn(&RelayDirection, u64) -> bool + Send + Sync) {
        let (mut reader, _) = self.from.split();
        let (_, mut writer) = self.to.split();
        let reached = poll_fn(|cx| {
            let polled = self
                .direction
                .poll(cx, &mut reader, &mut writer, &self.moved, false);
            let moved = self.moved.load(Ordering::Relaxed);
            match polled {
                _ if condition(&self.direction, moved) => Poll::Ready(()),
                Poll::Ready(ended) => panic!("{ended:?}"),
                Poll::Pending => Poll::Pending,
            }
        });
        within(LIMIT, reached).await;
    }
}

/// Reads and throws away everything.
async fn drain(mut peer: TcpStream) {
    let mut buffer = vec![0; 1 << 20];
    while peer.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
}

#[tokio::test]
async fn a_pipe_is_taken_for_bulk_and_given_back_in_a_pause() {
    let _alone = PIPES.lock().await;
    let (mut polled, mut sender, mut receiver) = PolledDirection::new().await;
    for round in 1..3 {
        let mut sending = JoinSet::new();
        sending.spawn(async move {
            send(&mut sender, &vec![3; MUCH]).await;
            sender
        });
        // It is held up, since nobody reads.
        polled
            .until(|direction, _| !direction.is_reading() && direction.has_pipe())
            .await;
        let mut receiving = JoinSet::new();
        receiving.spawn(async move {
            read(&mut receiver, MUCH).await;
            receiver
        });
        // Everything has moved, and nothing more comes.
        let sent = (round * MUCH) as u64;
        polled
            .until(|direction, moved| moved >= sent && !direction.has_pipe())
            .await;
        sender = sending.join_next().await.unwrap().unwrap();
        receiver = receiving.join_next().await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_pipe_is_given_back_when_bulk_becomes_a_trickle() {
    let _alone = PIPES.lock().await;
    let (mut polled, mut sender, receiver) = PolledDirection::new().await;
    let mut receiving = JoinSet::new();
    receiving.spawn(drain(receiver));
    let sent = fill(&mut sender).await as u64;
    polled.until(|_, moved| moved >= sent).await;
    for n in 1..200 {
        send(&mut sender, b"x").await;
        polled.until(|_, moved| moved >= sent + n).await;
        assert!(!polled.direction.has_pipe() || n < 20, "{n}");
    }
}

#[tokio::test]
async fn bytes_in_a_pipe_are_kept_for_a_slow_reader() {
    let _alone = PIPES.lock().await;
    let (mut polled, mut sender, mut receiver) = PolledDirection::new().await;
    let mut sending = JoinSet::new();
    sending.spawn(async move {
        send(&mut sender, &vec![3; MUCH]).await;
        end_stream(&mut sender).await;
    });
    polled
        .until(|direction, _| !direction.is_reading() && direction.has_pipe())
        .await;
    let mut receiving = JoinSet::new();
    receiving.spawn(async move { read_all(&mut receiver).await.len() });
    let PolledDirection {
        mut direction,
        mut from,
        mut to,
        moved,
    } = polled;
    let ended = async {
        let (mut reader, _) = from.split();
        let (_, mut writer) = to.split();
        poll_fn(|cx| direction.poll(cx, &mut reader, &mut writer, &moved, false))
            .await
            .unwrap();
    };
    within(LIMIT, ended).await;
    let received = within(LIMIT, receiving.join_next()).await.unwrap().unwrap();
    assert_eq!(received, MUCH);
    assert!(!direction.has_pipe());
}

#[tokio::test]
async fn a_direction_that_moves_little_never_has_a_pipe_and_keeps_nothing() {
    let (mut polled, mut sender, mut receiver) = PolledDirection::new().await;
    for n in 1..100_u64 {
        send(&mut sender, &[0; 100]).await;
        polled.until(|_, moved| moved >= 100 * n).await;
        read(&mut receiver, 100).await;
        assert!(!polled.direction.has_pipe() && polled.direction.is_reading());
    }
}

#[tokio::test]
async fn an_idle_relay_is_small() {
    let (client_stream, _client) = stream_pair(StreamKind::Tcp).await;
    let (target_stream, _target) = stream_pair(StreamKind::Tcp).await;
    let bytes = RelayedBytes::default();
    let relay = relay(
        client_stream,
        target_stream,
        EarlyBytes::default(),
        &bytes,
        None,
    );
    assert!(size_of_val(&relay) < 2048, "{}", size_of_val(&relay));
}

#[tokio::test]
async fn a_direction_that_loses_its_pipe_is_woken_for_every_byte() {
    let _alone = PIPES.lock().await;
    let (mut polled, mut sender, mut receiver) = PolledDirection::new().await;
    let mut sending = JoinSet::new();
    sending.spawn(async move {
        send(&mut sender, &vec![3; MUCH]).await;
        sender
    });
    let mut receiving = JoinSet::new();
    receiving.spawn(async move {
        read(&mut receiver, MUCH).await;
        receiver
    });
    // The low-water mark is up by now, though nothing more comes.
    polled
        .until(|direction, moved| moved == MUCH as u64 && !direction.has_pipe())
        .await;
    let mut sender = sending.join_next().await.unwrap().unwrap();
    let _receiver = receiving.join_next().await.unwrap().unwrap();
    // Other directions take all pipes.
    let mut others: Vec<PipedBytes> = Vec::new();
    loop {
        let mut other = PipedBytes::default();
        if !other.take_pipe() {
            break;
        }
        others.push(other);
    }
    send(&mut sender, b"a little").await;
    polled.until(|_, moved| moved == MUCH as u64 + 8).await;
}
