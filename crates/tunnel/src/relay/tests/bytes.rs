//! Every byte, once and in its place, whatever the ends are made of and however they come.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::*;

/// Bytes after which a stream repeats itself: prime, so that nothing is as long by chance.
const PATTERN: usize = 65_537;

/// Small and repeatable.
struct TestRandom(u64);

impl TestRandom {
    /// From 0 to below `sides`.
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides.max(1)
    }
}

fn pattern(seed: u64) -> Vec<u8> {
    let mut dice = TestRandom(seed);
    (0..2 * PATTERN)
        .map(|_| u8::try_from(dice.roll(256)).unwrap())
        .take(PATTERN)
        .collect::<Vec<_>>()
        .repeat(2)
}

/// What one direction is to carry, and how.
#[derive(Debug, Clone, Copy)]
struct DirectionLoad {
    seed: u64,
    /// Bytes in all.
    bytes: usize,
    /// Of these, said before the relay begins.
    early: usize,
    /// The largest piece that is written or read at once.
    piece: usize,
    /// One piece of so many is paused after.
    pauses: usize,
}

impl DirectionLoad {
    fn early(&self) -> Bytes {
        let pattern = pattern(self.seed);
        (0..self.early)
            .map(|at| pattern[at % PATTERN])
            .collect::<Vec<_>>()
            .into()
    }

    async fn pause(&self, dice: &mut TestRandom) {
        if dice.roll(self.pauses) == 0 {
            for _ in 0..dice.roll(40) {
                tokio::task::yield_now().await;
            }
        }
    }

    async fn say(self, mut peer: impl AsyncWriteExt + Unpin) {
        let (pattern, mut dice, mut at) =
            (pattern(self.seed), TestRandom(self.seed ^ 1), self.early);
        while at < self.bytes {
            let piece = (1 + dice.roll(self.piece))
                .min(self.bytes - at)
                .min(PATTERN);
            let from = at % PATTERN;
            peer.write_all(&pattern[from..from + piece]).await.unwrap();
            peer.flush().await.unwrap();
            at += piece;
            self.pause(&mut dice).await;
        }
        peer.shutdown().await.unwrap();
    }

    /// Reads to the end, and tells where it was not what was said.
    async fn hear(self, mut peer: impl AsyncReadExt + Unpin) -> Result<(), String> {
        let (pattern, mut dice, mut at) = (pattern(self.seed), TestRandom(self.seed ^ 2), 0);
        let mut room = vec![0; self.piece.min(PATTERN)];
        loop {
            let size = 1 + dice.roll(room.len());
            let count = peer
                .read(&mut room[..size])
                .await
                .map_err(|e| e.to_string())?;
            if count == 0 {
                break;
            }
            let from = at % PATTERN;
            if room[..count] != pattern[from..from + count] {
                return Err(format!("other bytes at {at}"));
            }
            at += count;
            self.pause(&mut dice).await;
        }
        (at == self.bytes)
            .then_some(())
            .ok_or_else(|| format!("{at} of {} bytes", self.bytes))
    }
}

/// Relays a load each way, both at once.
async fn carry(
    (client, target): (EndKind, EndKind),
    (up, down): (DirectionLoad, DirectionLoad),
) -> Result<(), String> {
    let ((client, caller), (target, called)) = (end(client).await, end(target).await);
    let early = EarlyBytes {
        up: up.early(),
        down: down.early(),
        ..EarlyBytes::default()
    };
    let running = RunningRelay::with(client, target, (early, None));
    let moved = Arc::clone(&running.moved);
    let (caller_in, caller_out) = tokio::io::split(caller);
    let (called_in, called_out) = tokio::io::split(called);
    let mut peers = JoinSet::new();
    peers.spawn(async move {
        up.say(caller_out).await;
        Ok(())
    });
    peers.spawn(async move {
        down.say(called_out).await;
        Ok(())
    });
    peers.spawn(up.hear(called_in));
    peers.spawn(down.hear(caller_in));
    within(LIMIT, async {
        while let Some(done) = peers.join_next().await {
            done.unwrap()?;
        }
        Ok::<(), String>(())
    })
    .await?;
    let ended = running.ended().await;
    if ended != RelayOutcome::Closed
        || (moved.up(), moved.down()) != (up.bytes as u64, down.bytes as u64)
    {
        return Err(format!("{ended}, {moved:?}"));
    }
    Ok(())
}

const KINDS: [EndKind; 5] = [
    EndKind::Tcp,
    EndKind::Unix,
    EndKind::Tcp,
    EndKind::Memory(1),
    EndKind::Memory(70_000),
];

fn any_load(most: usize) -> impl Strategy<Value = DirectionLoad> {
    let piece = prop_oneof![1usize..50, 1usize..5000, Just(PATTERN)];
    (
        any::<u64>(),
        0..most,
        any::<prop::sample::Index>(),
        piece,
        1usize..200,
    )
        .prop_map(|(seed, bytes, early, piece, pauses)| {
            // One byte at a time of very many is no other case than of some.
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
    let strategy = ((kind(), kind()), (any_load(3 << 20), any_load(3 << 20)));
    let result = TestRunner::new(config).run(&strategy, |(kinds, loads)| {
        let small = |kind: EndKind, load: DirectionLoad| match kind {
            // A byte at a time takes its time.
            EndKind::Memory(1) => DirectionLoad {
                bytes: load.bytes.min(20_000),
                early: load.early.min(load.bytes.min(20_000)),
                ..load
            },
            _ => load,
        };
        let narrow = |load| small(kinds.0, small(kinds.1, load));
        let loads = (narrow(loads.0), narrow(loads.1));
        runtime
            .block_on(carry(kinds, loads))
            .map_err(TestCaseError::fail)
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

/// So large and so fast that pipes are taken, given back, and taken again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bulk_arrives_whole_both_ways_at_once() {
    let load = |seed, bytes| DirectionLoad {
        seed,
        bytes,
        early: 1000,
        piece: PATTERN,
        pauses: 100,
    };
    for kinds in [
        (EndKind::Tcp, EndKind::Tcp),
        (EndKind::Unix, EndKind::Unix),
        (EndKind::Tcp, EndKind::Unix),
    ] {
        carry(kinds, (load(1, 24 << 20), load(2, 24 << 20)))
            .await
            .unwrap();
    }
}

/// Many at once, more directions than there may be pipes.
#[tokio::test]
async fn more_directions_than_pipes_are_all_carried() {
    let _alone = PIPES.lock().await;
    let mut all = JoinSet::new();
    for n in 0..160 {
        let load = move |seed| DirectionLoad {
            seed,
            bytes: 600_000,
            early: 0,
            piece: PATTERN,
            pauses: 10,
        };
        all.spawn(carry(
            (EndKind::Tcp, EndKind::Tcp),
            (load(n), load(n + 1000)),
        ));
    }
    within(LIMIT, async {
        while let Some(done) = all.join_next().await {
            done.unwrap().unwrap();
        }
    })
    .await;
}
