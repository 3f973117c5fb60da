//! A relay on which no byte moves is ended, and no other (E9). Time is paused: it passes when no task has anything to do.

use tokio::time::{Instant, sleep};

use super::*;

const IDLE: Duration = Duration::from_secs(60);

/// A relay with an idle timeout between peers in memory.
fn relay_in_memory(
    buffer: usize,
) -> (
    RunningRelay,
    tokio::io::DuplexStream,
    tokio::io::DuplexStream,
) {
    let ((client_stream, client), (target_stream, target)) =
        (tokio::io::duplex(buffer), tokio::io::duplex(buffer));
    let (client_stream, target_stream) = (
        RelayStream::Other(Box::new(client_stream)),
        RelayStream::Other(Box::new(target_stream)),
    );
    let running = RunningRelay::with(
        client_stream,
        target_stream,
        EarlyBytes::default(),
        Some(IDLE),
    );
    (running, client, target)
}

/// It ends when the limit has passed since `since`, and not more than a quarter later.
async fn ends_in_time(mut running: RunningRelay, since: Instant) {
    assert_eq!(
        running.task.join_next().await.unwrap().unwrap(),
        RelayOutcome::IdleTimeout
    );
    let elapsed = since.elapsed();
    let latest = IDLE + IDLE / 4 + Duration::from_millis(10);
    assert!((IDLE..latest).contains(&elapsed), "{elapsed:?}");
}

#[tokio::test(start_paused = true)]
async fn e9_silence_is_ended_after_its_time() {
    let (running, _client, _target) = relay_in_memory(64);
    ends_in_time(running, Instant::now()).await;
}

#[tokio::test(start_paused = true)]
async fn e9_silence_after_a_byte_is_ended_after_its_time() {
    for at in [1, 14, 16, 31, 59] {
        let (running, mut client, mut target) = relay_in_memory(64);
        sleep(Duration::from_secs(at)).await;
        client.write_all(b"x").await.unwrap();
        target.read_u8().await.unwrap();
        ends_in_time(running, Instant::now()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn e9_a_byte_now_and_then_in_either_direction_keeps_it() {
    let (mut running, mut client, mut target) = relay_in_memory(64);
    for n in 0..40 {
        sleep(IDLE - Duration::from_secs(1)).await;
        let (from, to) = match n % 3 {
            0 => (&mut client, &mut target),
            _ => (&mut target, &mut client),
        };
        from.write_all(b"x").await.unwrap();
        to.read_u8().await.unwrap();
    }
    running.assert_running();
    ends_in_time(running, Instant::now()).await;
}

#[tokio::test(start_paused = true)]
async fn e9_bytes_that_the_target_does_not_take_do_not_count() {
    let (running, mut client, _target) = relay_in_memory(16);
    let mut sending = JoinSet::new();
    // More than the relay takes.
    sending.spawn(async move { client.write_all(&[0; 1 << 20]).await });
    ends_in_time(running, Instant::now()).await;
    assert!(sending.join_next().await.unwrap().unwrap().is_err());
}

#[tokio::test(start_paused = true)]
async fn e9_a_half_closed_relay_is_ended_as_well() {
    let (running, mut client, mut target) = relay_in_memory(64);
    client.shutdown().await.unwrap();
    assert_eq!(target.read(&mut [0; 1]).await.unwrap(), 0);
    ends_in_time(running, Instant::now()).await;
}

#[tokio::test(start_paused = true)]
async fn e9_without_a_limit_hours_pass() {
    let ((client_stream, mut client), (target_stream, mut target)) =
        (tokio::io::duplex(64), tokio::io::duplex(64));
    let mut running = RunningRelay::start(
        RelayStream::Other(Box::new(client_stream)),
        RelayStream::Other(Box::new(target_stream)),
    );
    sleep(Duration::from_secs(7 * 86_400)).await;
    running.assert_running();
    target.write_all(b"x").await.unwrap();
    assert_eq!(client.read_u8().await.unwrap(), b'x');
}

#[tokio::test(start_paused = true)]
async fn e9_the_longest_limit_does_not_overflow() {
    let ((client_stream, _client), (target_stream, _target)) =
        (tokio::io::duplex(64), tokio::io::duplex(64));
    let (client_stream, target_stream) = (
        RelayStream::Other(Box::new(client_stream)),
        RelayStream::Other(Box::new(target_stream)),
    );
    let mut running = RunningRelay::with(
        client_stream,
        target_stream,
        EarlyBytes::default(),
        Some(Duration::MAX),
    );
    sleep(Duration::from_secs(7 * 86_400)).await;
    running.assert_running();
}

#[tokio::test]
async fn e9_a_tcp_peer_sees_a_reset() {
    let ((client_stream, mut client), (target_stream, mut target)) =
        (tcp_pair().await, tcp_pair().await);
    let limit = Some(Duration::from_millis(20));
    let running = RunningRelay::with(
        RelayStream::Tcp(client_stream),
        RelayStream::Tcp(target_stream),
        EarlyBytes::default(),
        limit,
    );
    assert_eq!(running.outcome().await, RelayOutcome::IdleTimeout);
    assert_eq!(
        read_error(&mut client).await,
        io::ErrorKind::ConnectionReset
    );
    assert_eq!(
        read_error(&mut target).await,
        io::ErrorKind::ConnectionReset
    );
}
