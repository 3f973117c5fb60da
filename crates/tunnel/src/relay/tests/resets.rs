//! Resets are passed on as resets, as soon as they are seen, whatever the relay is at (E8).

use std::io::ErrorKind::ConnectionReset;

use super::*;

/// A relay between two TCP peers: client and target.
async fn between() -> (RunningRelay, TcpStream, TcpStream) {
    let ((client, caller), (target, called)) = (tcp().await, tcp().await);
    let running = RunningRelay::start(RelayStream::Tcp(client), RelayStream::Tcp(target));
    (running, caller, called)
}

#[tokio::test]
async fn e8_a_reset_of_either_side_is_the_others() {
    let (running, caller, mut called) = between().await;
    reset(caller);
    assert_eq!(error(&mut called).await, ConnectionReset);
    assert_eq!(
        running.ended().await,
        RelayOutcome::Reset(RelaySide::Client)
    );

    let (running, mut caller, called) = between().await;
    reset(called);
    assert_eq!(error(&mut caller).await, ConnectionReset);
    assert_eq!(
        running.ended().await,
        RelayOutcome::Reset(RelaySide::Target)
    );
}

#[tokio::test]
async fn e8_a_reset_is_seen_while_its_direction_is_held_up() {
    let (running, mut caller, mut called) = between().await;
    assert!(fill(&mut caller).await > 100_000);
    reset(caller);
    assert_eq!(
        running.ended().await,
        RelayOutcome::Reset(RelaySide::Client)
    );
    assert_eq!(error(&mut called).await, ConnectionReset);

    let (running, mut caller, mut called) = between().await;
    assert!(fill(&mut called).await > 100_000);
    reset(called);
    assert_eq!(
        running.ended().await,
        RelayOutcome::Reset(RelaySide::Target)
    );
    assert_eq!(error(&mut caller).await, ConnectionReset);
}

#[tokio::test]
async fn e8_a_reset_of_one_who_does_not_read_is_seen() {
    let (running, mut caller, called) = between().await;
    fill(&mut caller).await;
    reset(called);
    assert_eq!(
        running.ended().await,
        RelayOutcome::Reset(RelaySide::Target)
    );
    assert_eq!(error(&mut caller).await, ConnectionReset);

    let (running, caller, mut called) = between().await;
    fill(&mut called).await;
    reset(caller);
    assert_eq!(
        running.ended().await,
        RelayOutcome::Reset(RelaySide::Client)
    );
    assert_eq!(error(&mut called).await, ConnectionReset);
}

#[tokio::test]
async fn e8_a_reset_with_both_directions_held_up_is_seen() {
    let (running, mut caller, mut called) = between().await;
    fill(&mut caller).await;
    fill(&mut called).await;
    reset(caller);
    assert_eq!(
        running.ended().await,
        RelayOutcome::Reset(RelaySide::Client)
    );
    assert_eq!(error(&mut called).await, ConnectionReset);
}

#[tokio::test]
async fn e8_a_reset_after_the_end_of_a_stream_is_seen() {
    let (running, mut caller, mut called) = between().await;
    finish(&mut caller).await;
    assert_eq!(heard(&mut called).await, b"");
    reset(caller);
    assert_eq!(
        running.ended().await,
        RelayOutcome::Reset(RelaySide::Client)
    );
    let refused = within(LIMIT, called.write_all(b"x")).await.unwrap_err();
    assert!(is_departure(&refused), "{refused}");

    let (running, mut caller, mut called) = between().await;
    finish(&mut called).await;
    assert_eq!(heard(&mut caller).await, b"");
    reset(called);
    assert_eq!(
        running.ended().await,
        RelayOutcome::Reset(RelaySide::Target)
    );
}

#[tokio::test]
async fn e8_one_who_closes_with_something_unread_has_reset() {
    let (running, caller, mut called) = between().await;
    say(&mut called, b"said").await;
    called.set_nodelay(true).unwrap();
    // All of it is there before it is left unread.
    within(LIMIT, caller.peek(&mut [0; 4])).await.unwrap();
    drop(caller);
    assert_eq!(
        running.ended().await,
        RelayOutcome::Reset(RelaySide::Client)
    );
    assert_eq!(error(&mut called).await, ConnectionReset);
}

#[tokio::test]
async fn e8_one_who_closed_in_order_is_gone_when_it_is_spoken_to() {
    let (running, caller, mut called) = between().await;
    drop(caller);
    assert_eq!(heard(&mut called).await, b"");
    // The first bytes are answered with a reset.
    within(LIMIT, async {
        while called.write_all(&[0; 4096]).await.is_ok() {
            tokio::task::yield_now().await
        }
    })
    .await;
    assert_eq!(
        running.ended().await,
        RelayOutcome::Reset(RelaySide::Client)
    );
}

#[tokio::test]
async fn e8_what_came_before_a_reset_is_told() {
    let (running, mut caller, mut called) = between().await;
    say(&mut caller, b"before").await;
    assert_eq!(next(&mut called, 6).await, b"before");
    let moved = Arc::clone(&running.moved);
    reset(caller);
    assert_eq!(
        running.ended().await,
        RelayOutcome::Reset(RelaySide::Client)
    );
    assert_eq!((moved.up(), moved.down()), (6, 0));
}

#[tokio::test]
async fn e8_a_socket_without_resets_is_closed() {
    let ((client, mut caller), (target, called)) = (end(EndKind::Unix).await, tcp().await);
    let running = RunningRelay::start(client, RelayStream::Tcp(target));
    reset(called);
    assert_eq!(
        running.ended().await,
        RelayOutcome::Reset(RelaySide::Target)
    );
    assert_eq!(heard(&mut caller).await, b"");
}

#[tokio::test]
async fn a_relay_that_is_dropped_is_no_end_of_a_stream() {
    let (mut running, mut caller, mut called) = between().await;
    say(&mut caller, b"before").await;
    assert_eq!(next(&mut called, 6).await, b"before");
    within(LIMIT, running.task.shutdown()).await;
    assert_eq!(error(&mut called).await, ConnectionReset);
    assert_eq!(error(&mut caller).await, ConnectionReset);
}

/// A server that has seen enough of an upload says why, and leaves: the client is to hear that.
#[tokio::test]
async fn e8_last_words_before_a_reset_are_handed_on_and_no_end_is() {
    let (running, mut caller, mut called) = between().await;
    fill(&mut caller).await;
    say(&mut called, b"413 too much").await;
    // Closed with something unread.
    drop(called);
    assert_eq!(
        running.ended().await,
        RelayOutcome::Reset(RelaySide::Target)
    );
    assert_eq!(next(&mut caller, 12).await, b"413 too much");
    assert_eq!(error(&mut caller).await, ConnectionReset);
}

/// The client is slow, and talks on: it hears everything nevertheless, in both of the ways in which a server leaves.
#[tokio::test]
async fn e8_a_long_answer_before_the_body_was_read_arrives_whole() {
    let all = vec![7; 1 << 20];
    for (has_ended, extent) in [
        (false, BodyFraming::ALL),
        (true, BodyFraming::ALL),
        (false, BodyFraming::bytes(u64::MAX)),
        (true, BodyFraming::bytes(u64::MAX)),
    ] {
        let ((client, mut caller), (target, mut called)) = (tcp().await, tcp().await);
        let early = EarlyBytes {
            extent,
            ..EarlyBytes::default()
        };
        let running = RunningRelay::with(
            RelayStream::Tcp(client),
            RelayStream::Tcp(target),
            (early, None),
        );
        fill(&mut caller).await;
        // All of it is at the relay before that can notice the reset.
        let saying = async {
            say(&mut called, &all).await;
            if has_ended {
                finish(&mut called).await;
            }
        };
        let half = next(&mut caller, all.len() / 2);
        let (half, ()) = tokio::join!(half, saying);
        let mut heard = half;
        drop(called);
        let mut room = vec![0; 4096];
        let is_ended = loop {
            match within(LIMIT, caller.read(&mut room)).await {
                Ok(0) => break true,
                Ok(count) => heard.extend_from_slice(&room[..count]),
                Err(_) => break false,
            }
        };
        drop(caller);
        let ended = running.ended().await;
        assert_eq!(ended, RelayOutcome::Reset(RelaySide::Target), "{has_ended}");
        if has_ended {
            assert!(is_ended && heard.len() == all.len(), "{}", heard.len());
        } else {
            // What had not left the server when it closed is lost, and no end says otherwise.
            assert!(!is_ended && heard.len() >= all.len() / 2);
        }
    }
}
