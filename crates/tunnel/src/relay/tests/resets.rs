//! A reset is passed on as a reset as soon as it is seen, whatever the relay is doing (E8).

use std::io::ErrorKind::ConnectionReset;

use super::*;
use crate::relay::outcome::is_departure;

/// A relay between two TCP peers.
async fn relay_over_tcp() -> (RunningRelay, TcpStream, TcpStream) {
    let ((client_stream, client), (target_stream, target)) = (tcp_pair().await, tcp_pair().await);
    let running = RunningRelay::start(
        RelayStream::Tcp(client_stream),
        RelayStream::Tcp(target_stream),
    );
    (running, client, target)
}

#[tokio::test]
async fn e8_a_reset_by_one_peer_reaches_the_other() {
    let (running, client, mut target) = relay_over_tcp().await;
    reset(client);
    assert_eq!(read_error(&mut target).await, ConnectionReset);
    assert_eq!(
        running.outcome().await,
        RelayOutcome::Reset(RelaySide::Client)
    );

    let (running, mut client, target) = relay_over_tcp().await;
    reset(target);
    assert_eq!(read_error(&mut client).await, ConnectionReset);
    assert_eq!(
        running.outcome().await,
        RelayOutcome::Reset(RelaySide::Target)
    );
}

#[tokio::test]
async fn e8_a_reset_is_seen_while_its_direction_is_held_up() {
    let (running, mut client, mut target) = relay_over_tcp().await;
    assert!(fill(&mut client).await > 100_000);
    reset(client);
    assert_eq!(
        running.outcome().await,
        RelayOutcome::Reset(RelaySide::Client)
    );
    assert_eq!(read_error(&mut target).await, ConnectionReset);

    let (running, mut client, mut target) = relay_over_tcp().await;
    assert!(fill(&mut target).await > 100_000);
    reset(target);
    assert_eq!(
        running.outcome().await,
        RelayOutcome::Reset(RelaySide::Target)
    );
    assert_eq!(read_error(&mut client).await, ConnectionReset);
}

#[tokio::test]
async fn e8_a_reset_by_a_peer_that_does_not_read_is_seen() {
    let (running, mut client, target) = relay_over_tcp().await;
    fill(&mut client).await;
    reset(target);
    assert_eq!(
        running.outcome().await,
        RelayOutcome::Reset(RelaySide::Target)
    );
    assert_eq!(read_error(&mut client).await, ConnectionReset);

    let (running, client, mut target) = relay_over_tcp().await;
    fill(&mut target).await;
    reset(client);
    assert_eq!(
        running.outcome().await,
        RelayOutcome::Reset(RelaySide::Client)
    );
    assert_eq!(read_error(&mut target).await, ConnectionReset);
}

#[tokio::test]
async fn e8_a_reset_with_both_directions_held_up_is_seen() {
    let (running, mut client, mut target) = relay_over_tcp().await;
    fill(&mut client).await;
    fill(&mut target).await;
    reset(client);
    assert_eq!(
        running.outcome().await,
        RelayOutcome::Reset(RelaySide::Client)
    );
    assert_eq!(read_error(&mut target).await, ConnectionReset);
}

#[tokio::test]
async fn e8_a_reset_after_the_end_of_a_stream_is_seen() {
    let (running, mut client, mut target) = relay_over_tcp().await;
    end_stream(&mut client).await;
    assert_eq!(read_all(&mut target).await, b"");
    reset(client);
    assert_eq!(
        running.outcome().await,
        RelayOutcome::Reset(RelaySide::Client)
    );
    let refused = within(LIMIT, target.write_all(b"x")).await.unwrap_err();
    assert!(is_departure(&refused), "{refused}");

    let (running, mut client, mut target) = relay_over_tcp().await;
    end_stream(&mut target).await;
    assert_eq!(read_all(&mut client).await, b"");
    reset(target);
    assert_eq!(
        running.outcome().await,
        RelayOutcome::Reset(RelaySide::Target)
    );
}

#[tokio::test]
async fn e8_closing_with_unread_bytes_is_a_reset() {
    let (running, client, mut target) = relay_over_tcp().await;
    send(&mut target, b"unread").await;
    target.set_nodelay(true).unwrap();
    // All of it has come before the client closes.
    within(LIMIT, client.peek(&mut [0; 6])).await.unwrap();
    drop(client);
    assert_eq!(
        running.outcome().await,
        RelayOutcome::Reset(RelaySide::Client)
    );
    assert_eq!(read_error(&mut target).await, ConnectionReset);
}

#[tokio::test]
async fn e8_a_peer_that_closed_in_order_is_gone_when_bytes_come_for_it() {
    let (running, client, mut target) = relay_over_tcp().await;
    drop(client);
    assert_eq!(read_all(&mut target).await, b"");
    // The system resets the connection at the first bytes.
    within(LIMIT, async {
        while target.write_all(&[0; 4096]).await.is_ok() {
            tokio::task::yield_now().await
        }
    })
    .await;
    assert_eq!(
        running.outcome().await,
        RelayOutcome::Reset(RelaySide::Client)
    );
}

#[tokio::test]
async fn e8_bytes_before_a_reset_are_counted() {
    let (running, mut client, mut target) = relay_over_tcp().await;
    send(&mut client, b"before").await;
    assert_eq!(read(&mut target, 6).await, b"before");
    let bytes = Arc::clone(&running.bytes);
    reset(client);
    assert_eq!(
        running.outcome().await,
        RelayOutcome::Reset(RelaySide::Client)
    );
    assert_eq!((bytes.up(), bytes.down()), (6, 0));
}

#[tokio::test]
async fn e8_a_unix_socket_is_closed_since_it_has_no_resets() {
    let ((client_stream, mut client), (target_stream, target)) =
        (stream_pair(StreamKind::Unix).await, tcp_pair().await);
    let running = RunningRelay::start(client_stream, RelayStream::Tcp(target_stream));
    reset(target);
    assert_eq!(
        running.outcome().await,
        RelayOutcome::Reset(RelaySide::Target)
    );
    assert_eq!(read_all(&mut client).await, b"");
}

#[tokio::test]
async fn a_relay_that_is_dropped_resets_both_peers() {
    let (mut running, mut client, mut target) = relay_over_tcp().await;
    send(&mut client, b"before").await;
    assert_eq!(read(&mut target, 6).await, b"before");
    within(LIMIT, running.task.shutdown()).await;
    assert_eq!(read_error(&mut target).await, ConnectionReset);
    assert_eq!(read_error(&mut client).await, ConnectionReset);
}

/// A server that has seen enough of an upload says why, and closes. The client gets that.
#[tokio::test]
async fn e8_last_words_before_a_reset_are_passed_on_without_an_end() {
    let (running, mut client, mut target) = relay_over_tcp().await;
    fill(&mut client).await;
    send(&mut target, b"413 too much").await;
    // It closes with unread bytes.
    drop(target);
    assert_eq!(
        running.outcome().await,
        RelayOutcome::Reset(RelaySide::Target)
    );
    assert_eq!(read(&mut client, 12).await, b"413 too much");
    assert_eq!(read_error(&mut client).await, ConnectionReset);
}

/// The client is slow and goes on sending. It gets everything nevertheless, whether the server ended its stream before it closed or not.
#[tokio::test]
async fn e8_a_long_response_before_the_body_was_read_arrives_whole() {
    let all = vec![7; 1 << 20];
    for has_ended in [false, true] {
        let (running, mut client, mut target) = relay_over_tcp().await;
        fill(&mut client).await;
        // All of it has reached the relay before that can notice the reset.
        let sending = async {
            send(&mut target, &all).await;
            if has_ended {
                end_stream(&mut target).await;
            }
        };
        let half = read(&mut client, all.len() / 2);
        let (mut received, ()) = tokio::join!(half, sending);
        drop(target);
        let mut buffer = vec![0; 4096];
        let is_ended = loop {
            match within(LIMIT, client.read(&mut buffer)).await {
                Ok(0) => break true,
                Ok(count) => received.extend_from_slice(&buffer[..count]),
                Err(_) => break false,
            }
        };
        drop(client);
        let outcome = running.outcome().await;
        assert_eq!(
            outcome,
            RelayOutcome::Reset(RelaySide::Target),
            "{has_ended}"
        );
        if has_ended {
            assert!(
                is_ended && received.len() == all.len(),
                "{}",
                received.len()
            );
        } else {
            // What had not left the server when it closed is lost, and no end says otherwise.
            assert!(!is_ended && received.len() >= all.len() / 2);
        }
    }
}
