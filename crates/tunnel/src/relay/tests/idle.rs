//! Relays on which nothing moves are ended, and no others (E9). Time is paused: it goes on when nobody has anything to do.

use tokio::time::{Instant, sleep};

use super::*;

const IDLE: Duration = Duration::from_secs(60);

/// A relay with an idle timeout between peers in memory.
fn between(
    room: usize,
) -> (
    RunningRelay,
    tokio::io::DuplexStream,
    tokio::io::DuplexStream,
) {
    let ((client, caller), (target, called)) = (tokio::io::duplex(room), tokio::io::duplex(room));
    let (client, target) = (
        RelayStream::Other(Box::new(client)),
        RelayStream::Other(Box::new(target)),
    );
    let running = RunningRelay::with(client, target, (EarlyBytes::default(), Some(IDLE)));
    (running, caller, called)
}

/// It ends after the limit since then, and not more than a quarter later.
async fn ends_in_time(mut running: RunningRelay, since: Instant) {
    assert_eq!(
        running.task.join_next().await.unwrap().unwrap(),
        RelayOutcome::IdleTimeout
    );
    let passed = since.elapsed();
    let latest = IDLE + IDLE / 4 + Duration::from_millis(10);
    assert!((IDLE..latest).contains(&passed), "{passed:?}");
}

#[tokio::test(start_paused = true)]
async fn e9_silence_is_ended_after_its_time() {
    let (running, _caller, _called) = between(64);
    ends_in_time(running, Instant::now()).await;
}

#[tokio::test(start_paused = true)]
async fn e9_silence_after_a_word_is_ended_after_its_time() {
    for at in [1, 14, 16, 31, 59] {
        let (running, mut caller, mut called) = between(64);
        sleep(Duration::from_secs(at)).await;
        caller.write_all(b"x").await.unwrap();
        called.read_u8().await.unwrap();
        ends_in_time(running, Instant::now()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn e9_a_word_now_and_then_in_either_direction_keeps_it() {
    let (mut running, mut caller, mut called) = between(64);
    for n in 0..40 {
        sleep(IDLE - Duration::from_secs(1)).await;
        let (from, to) = match n % 3 {
            0 => (&mut caller, &mut called),
            _ => (&mut called, &mut caller),
        };
        from.write_all(b"x").await.unwrap();
        to.read_u8().await.unwrap();
    }
    running.goes_on();
    ends_in_time(running, Instant::now()).await;
}

#[tokio::test(start_paused = true)]
async fn e9_what_is_not_taken_does_not_move() {
    let (running, mut caller, _called) = between(16);
    let mut speaking = JoinSet::new();
    // As much as the relay takes, and on.
    speaking.spawn(async move { caller.write_all(&[0; 1 << 20]).await });
    ends_in_time(running, Instant::now()).await;
    assert!(speaking.join_next().await.unwrap().unwrap().is_err());
}

#[tokio::test(start_paused = true)]
async fn e9_half_of_it_is_ended_as_well() {
    let (running, mut caller, mut called) = between(64);
    caller.shutdown().await.unwrap();
    assert_eq!(called.read(&mut [0; 1]).await.unwrap(), 0);
    ends_in_time(running, Instant::now()).await;
}

#[tokio::test(start_paused = true)]
async fn e9_without_a_limit_hours_pass() {
    let ((client, mut caller), (target, mut called)) =
        (tokio::io::duplex(64), tokio::io::duplex(64));
    let mut running = RunningRelay::start(
        RelayStream::Other(Box::new(client)),
        RelayStream::Other(Box::new(target)),
    );
    sleep(Duration::from_secs(7 * 86_400)).await;
    running.goes_on();
    called.write_all(b"x").await.unwrap();
    assert_eq!(caller.read_u8().await.unwrap(), b'x');
}

#[tokio::test(start_paused = true)]
async fn e9_any_limit_can_be_counted_with() {
    let ((client, _caller), (target, _called)) = (tokio::io::duplex(64), tokio::io::duplex(64));
    let (client, target) = (
        RelayStream::Other(Box::new(client)),
        RelayStream::Other(Box::new(target)),
    );
    let mut running =
        RunningRelay::with(client, target, (EarlyBytes::default(), Some(Duration::MAX)));
    sleep(Duration::from_secs(7 * 86_400)).await;
    running.goes_on();
}

#[tokio::test]
async fn e9_a_tcp_peer_sees_that_it_was_cut_off() {
    let ((client, mut caller), (target, mut called)) = (tcp().await, tcp().await);
    let early = (EarlyBytes::default(), Some(Duration::from_millis(20)));
    let running = RunningRelay::with(RelayStream::Tcp(client), RelayStream::Tcp(target), early);
    assert_eq!(running.ended().await, RelayOutcome::IdleTimeout);
    assert_eq!(error(&mut caller).await, io::ErrorKind::ConnectionReset);
    assert_eq!(error(&mut called).await, io::ErrorKind::ConnectionReset);
}
