//! When a direction has a pipe, and that it has none when it needs none.

use std::sync::atomic::AtomicU64;

use super::*;
#[cfg(target_os = "linux")]
use crate::relay::pipe::PipedBytes;

/// More than all sockets on the way have room for.
const MUCH: usize = 48 << 20;

/// One direction, polled until a condition holds.
struct PolledDirection {
    direction: RelayDirection,
    from: RelayStream,
    to: RelayStream,
    moved: AtomicU64,
}

impl PolledDirection {
    /// With the peers at both of its ends.
    async fn new() -> (Self, TcpStream, TcpStream) {
        let ((from, speaker), (to, listener)) = (tcp().await, tcp().await);
        let way = Self {
            direction: RelayDirection::new(Bytes::new(), BodyFraming::ALL),
            from: RelayStream::Tcp(from),
            to: RelayStream::Tcp(to),
            moved: AtomicU64::new(0),
        };
        (way, speaker, listener)
    }

    /// Goes on until something is so, after it has been polled.
    async fn until(&mut self, is_so: impl Fn(&RelayDirection, u64) -> bool + Send + Sync) {
        let (mut source, _) = self.from.split();
        let (_, mut sink) = self.to.split();
        let reached = poll_fn(|cx| {
            let polled = self
                .direction
                .poll(cx, (&mut source, &mut sink), &self.moved, false);
            let moved = self.moved.load(std::sync::atomic::Ordering::Relaxed);
            match polled {
                _ if is_so(&self.direction, moved) => Poll::Ready(()),
                Poll::Ready(ended) => panic!("{ended:?}"),
                Poll::Pending => Poll::Pending,
            }
        });
        within(LIMIT, reached).await;
    }
}

/// Reads for as long as there is something, and tells nobody.
async fn drain(mut peer: TcpStream) {
    let mut room = vec![0; 1 << 20];
    while peer.read(&mut room).await.is_ok_and(|count| count > 0) {}
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_pipe_is_taken_for_bulk_and_given_back_in_a_pause() {
    let _alone = PIPES.lock().await;
    let (mut way, mut speaker, mut listener) = PolledDirection::new().await;
    for round in 1..3 {
        let mut peers = JoinSet::new();
        peers.spawn(async move {
            say(&mut speaker, &vec![3; MUCH]).await;
            speaker
        });
        // Held up, since nobody listens.
        way.until(|direction, _| direction.is_deaf() && direction.has_pipe())
            .await;
        let mut hearing = JoinSet::new();
        hearing.spawn(async move {
            next(&mut listener, MUCH).await;
            listener
        });
        // All that was said has gone, and nothing comes: nobody has a pipe.
        let said = (round * MUCH) as u64;
        way.until(|direction, moved| moved >= said && !direction.has_pipe())
            .await;
        speaker = peers.join_next().await.unwrap().unwrap();
        listener = hearing.join_next().await.unwrap().unwrap();
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_pipe_is_given_back_when_bulk_becomes_a_trickle() {
    let _alone = PIPES.lock().await;
    let (mut way, mut speaker, listener) = PolledDirection::new().await;
    let mut peers = JoinSet::new();
    peers.spawn(drain(listener));
    let said = fill(&mut speaker).await as u64;
    way.until(|_, moved| moved >= said).await;
    for n in 1..200 {
        say(&mut speaker, b"x").await;
        way.until(|_, moved| moved >= said + n).await;
        assert!(!way.direction.has_pipe() || n < 20, "{n}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn what_is_in_a_pipe_is_kept_for_a_slow_reader() {
    let _alone = PIPES.lock().await;
    let (mut way, mut speaker, mut listener) = PolledDirection::new().await;
    let said = vec![3; MUCH];
    let length = said.len();
    let mut peers = JoinSet::new();
    peers.spawn(async move {
        say(&mut speaker, &said).await;
        finish(&mut speaker).await;
    });
    way.until(|direction, _| direction.is_deaf() && direction.has_pipe())
        .await;
    let mut hearing = JoinSet::new();
    hearing.spawn(async move { heard(&mut listener).await.len() });
    let PolledDirection {
        mut direction,
        mut from,
        mut to,
        moved,
    } = way;
    let ended = async {
        let (mut source, _) = from.split();
        let (_, mut sink) = to.split();
        poll_fn(|cx| direction.poll(cx, (&mut source, &mut sink), &moved, false))
            .await
            .unwrap();
    };
    within(LIMIT, ended).await;
    let heard = within(LIMIT, hearing.join_next()).await.unwrap().unwrap();
    assert_eq!(heard, length);
    assert!(!direction.has_pipe());
}

#[tokio::test]
async fn a_direction_in_small_steps_never_has_a_pipe_and_keeps_nothing() {
    let (mut way, mut speaker, mut listener) = PolledDirection::new().await;
    for n in 1..100_u64 {
        say(&mut speaker, &[0; 100]).await;
        way.until(|_, moved| moved >= 100 * n).await;
        next(&mut listener, 100).await;
        assert!(!way.direction.has_pipe() && !way.direction.is_deaf());
    }
}

#[tokio::test]
async fn an_idle_relay_is_small() {
    let ((client, _caller), (target, _called)) = (end(EndKind::Tcp).await, end(EndKind::Tcp).await);
    let moved = RelayedBytes::default();
    let relay = relay(client, target, EarlyBytes::default(), (&moved, None));
    assert!(size_of_val(&relay) < 2048, "{}", size_of_val(&relay));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_direction_that_loses_its_pipe_is_woken_for_every_byte() {
    let _alone = PIPES.lock().await;
    let (mut way, mut speaker, mut listener) = PolledDirection::new().await;
    let mut peers = JoinSet::new();
    peers.spawn(async move {
        say(&mut speaker, &vec![3; MUCH]).await;
        speaker
    });
    peers.spawn(async move {
        next(&mut listener, MUCH).await;
        listener
    });
    // Bytes are left to gather by now, though none come any more.
    way.until(|direction, moved| moved == MUCH as u64 && !direction.has_pipe())
        .await;
    let mut ends = Vec::new();
    while let Some(end) = peers.join_next().await {
        ends.push(end.unwrap());
    }
    // Others have all the pipes that there are.
    let mut others: Vec<PipedBytes> = Vec::new();
    loop {
        let mut other = PipedBytes::default();
        if !other.get_ready() {
            break;
        }
        others.push(other);
    }
    let speaks = ends.iter_mut().find(|end| {
        let port = |end: &TcpStream| end.peer_addr().unwrap();
        let RelayStream::Tcp(from) = &way.from else {
            return false;
        };
        port(end) == from.local_addr().unwrap()
    });
    say(speaks.unwrap(), b"a little").await;
    way.until(|_, moved| moved == MUCH as u64 + 8).await;
}
