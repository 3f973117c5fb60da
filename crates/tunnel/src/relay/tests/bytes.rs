//! Every byte arrives once and in order, whatever the streams are made of and however the bytes come.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::*;

/// Bytes after which the test's content repeats itself: a prime, so that no buffer is as long by chance.
const PATTERN_LENGTH: usize = 65_537;

/// A small generator that gives the same numbers for the same seed.
struct TestRandom(u64);

impl TestRandom {
    /// A number below `limit`.
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit.max(1)
    }
}

fn pattern(seed: u64) -> Vec<u8> {
    let mut random = TestRandom(seed);
    (0..2 * PATTERN_LENGTH)
        .map(|_| u8::try_from(random.below(256)).unwrap())
        .take(PATTERN_LENGTH)
        .collect::<Vec<_>>()
        .repeat(2)
}

/// What one direction carries, and how it is sent and read.
#[derive(Debug, Clone, Copy)]
struct DirectionLoad {
    seed: u64,
    /// Bytes in all.
    bytes: usize,
    /// Of these, sent before the relay begins.
    early: usize,
    /// The most bytes that are written or read at once.
    piece: usize,
    /// After one piece of so many there is a pause.
    pauses: usize,
}

impl DirectionLoad {
    fn early(&self) -> Bytes {
        let pattern = pattern(self.seed);
        (0..self.early)
            .map(|at| pattern[at % PATTERN_LENGTH])
            .collect::<Vec<_>>()
            .into()
    }

    async fn pause(&self, random: &mut TestRandom) {
        if random.below(self.pauses) == 0 {
            for _ in 0..random.below(40) {
                tokio::task::yield_now().await;
            }
        }
    }

    async fn send(self, mut peer: impl AsyncWriteExt + Unpin) {
        let (pattern, mut random, mut at) =
            (pattern(self.seed), TestRandom(self.seed ^ 1), self.early);
        while at < self.bytes {
            let piece = (1 + random.below(self.piece))
                .min(self.bytes - at)
                .min(PATTERN_LENGTH);
            let from = at % PATTERN_LENGTH;
            peer.write_all(&pattern[from..from + piece]).await.unwrap();
            peer.flush().await.unwrap();
            at += piece;
            self.pause(&mut random).await;
        }
        peer.shutdown().await.unwrap();
    }

    /// Reads to the end, and returns where other bytes came than were sent.
    async fn receive(self, mut peer: impl AsyncReadExt + Unpin) -> Result<(), String> {
        let (pattern, mut random, mut at) = (pattern(self.seed), TestRandom(self.seed ^ 2), 0);
        let mut room = vec![0; self.piece.min(PATTERN_LENGTH)];
        loop {
            let size = 1 + random.below(room.len());
            let count = peer
                .read(&mut room[..size])
                .await
                .map_err(|e| e.to_string())?;
            if count == 0 {
                break;
            }
            let from = at % PATTERN_LENGTH;
            if room[..count] != pattern[from..from + count] {
                return Err(format!("other bytes at {at}"));
            }
            at += count;
            self.pause(&mut random).await;
        }
        (at == self.bytes)
            .then_some(())
            .ok_or_else(|| format!("{at} of {} bytes", self.bytes))
    }
}

/// Relays a load in each direction at the same time.
async fn carry(
    client: StreamKind,
    target: StreamKind,
    up: DirectionLoad,
    down: DirectionLoad,
) -> Result<(), String> {
    let (client_stream, client) = stream_pair(client).await;
    let (target_stream, target) = stream_pair(target).await;
    let early = EarlyBytes {
        from_client: up.early(),
        from_target: down.early(),
    };
    let running = RunningRelay::with(client_stream, target_stream, early, None);
    let bytes = Arc::clone(&running.bytes);
    let (client_reader, client_writer) = tokio::io::split(client);
    let (target_reader, target_writer) = tokio::io::split(target);
    let mut peers = JoinSet::new();
    peers.spawn(async move {
        up.send(client_writer).await;
        Ok(())
    });
    peers.spawn(async move {
        down.send(target_writer).await;
        Ok(())
    });
    peers.spawn(up.receive(target_reader));
    peers.spawn(down.receive(client_reader));
    within(LIMIT, async {
        while let Some(done) = peers.join_next().await {
            done.unwrap()?;
        }
        Ok::<(), String>(())
    })
    .await?;
    let outcome = running.outcome().await;
    let expected = (up.bytes as u64, down.bytes as u64);
    if outcome != RelayOutcome::Closed || (bytes.up(), bytes.down()) != expected {
        return Err(format!("{outcome}, {bytes:?}"));
    }
    Ok(())
}

const KINDS: [StreamKind; 5] = [
    StreamKind::Tcp,
    StreamKind::Unix,
    StreamKind::Tcp,
    StreamKind::Memory(1),
    StreamKind::Memory(70_000),
];

fn any_load(most: usize) -> impl Strategy<Value = DirectionLoad> {
    let piece = prop_oneof![1usize..50, 1usize..5000, Just(PATTERN_LENGTH)];
    (
        any::<u64>(),
        0..most,
        any::<prop::sample::Index>(),
        piece,
        1usize..200,
    )
        .prop_map(|(seed, bytes, early, piece, pauses)| {
            // Small pieces of very many bytes are no other case than small pieces of some.
            let bytes = bytes.min(piece * 4000);
            DirectionLoad {
                seed,
                bytes,
                early: early.index(bytes + 1),
                piece,
                pauses,
            }
        })
}

#[test]
fn every_byte_arrives_once_and_in_order_both_ways() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let config = Config {
        source_file: Some(file!()),
        ..Config::with_cases(48)
    };
    let kind = || prop::sample::select(&KINDS[..]);
    let strategy = (kind(), kind(), any_load(3 << 20), any_load(3 << 20));
    let result = TestRunner::new(config).run(&strategy, |(client, target, up, down)| {
        // A stream that takes one byte at a time is slow.
        let is_slow = [client, target]
            .iter()
            .any(|kind| matches!(kind, StreamKind::Memory(1)));
        let limit = if is_slow { 20_000 } else { usize::MAX };
        let limited = |load: DirectionLoad| DirectionLoad {
            bytes: load.bytes.min(limit),
            early: load.early.min(limit),
            ..load
        };
        runtime
            .block_on(carry(client, target, limited(up), limited(down)))
            .map_err(TestCaseError::fail)
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

/// The load is so large and so fast that pipes are taken, given back, and taken again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bulk_arrives_whole_both_ways_at_once() {
    let load = |seed, bytes| DirectionLoad {
        seed,
        bytes,
        early: 1000,
        piece: PATTERN_LENGTH,
        pauses: 100,
    };
    for (client, target) in [
        (StreamKind::Tcp, StreamKind::Tcp),
        (StreamKind::Unix, StreamKind::Unix),
        (StreamKind::Tcp, StreamKind::Unix),
    ] {
        carry(client, target, load(1, 24 << 20), load(2, 24 << 20))
            .await
            .unwrap();
    }
}

/// There are more directions at the same time than there may be pipes.
#[tokio::test]
async fn more_directions_than_pipes_are_all_carried() {
    let _alone = PIPES.lock().await;
    let mut all = JoinSet::new();
    for n in 0..160 {
        let load = move |seed| DirectionLoad {
            seed,
            bytes: 600_000,
            early: 0,
            piece: PATTERN_LENGTH,
            pauses: 10,
        };
        all.spawn(carry(
            StreamKind::Tcp,
            StreamKind::Tcp,
            load(n),
            load(n + 1000),
        ));
    }
    within(LIMIT, async {
        while let Some(done) = all.join_next().await {
            done.unwrap().unwrap();
        }
    })
    .await;
}
