//! The end of each stream is passed on, and the other direction goes on to its own end (E7).

use super::*;

const KINDS: [StreamKind; 3] = [StreamKind::Tcp, StreamKind::Unix, StreamKind::Memory(4096)];

#[tokio::test]
async fn e7_a_client_that_has_ended_its_stream_still_receives_everything() {
    for kind in KINDS {
        let (client_stream, mut client) = stream_pair(kind).await;
        let (target_stream, mut target) = stream_pair(kind).await;
        let mut running = RunningRelay::start(client_stream, target_stream);
        send(&mut client, b"question").await;
        end_stream(&mut client).await;
        assert_eq!(read_all(&mut target).await, b"question");
        for byte in 0..20_u8 {
            send(&mut target, &[byte; 1000]).await;
            assert_eq!(read(&mut client, 1000).await, [byte; 1000]);
        }
        running.assert_running();
        end_stream(&mut target).await;
        assert_eq!(read_all(&mut client).await, b"");
        assert_eq!(running.outcome().await, RelayOutcome::Closed);
    }
}

#[tokio::test]
async fn e7_a_target_that_has_ended_its_stream_still_receives_everything() {
    for kind in KINDS {
        let (client_stream, mut client) = stream_pair(kind).await;
        let (target_stream, mut target) = stream_pair(kind).await;
        let mut running = RunningRelay::start(client_stream, target_stream);
        send(&mut target, b"banner").await;
        end_stream(&mut target).await;
        assert_eq!(read_all(&mut client).await, b"banner");
        for byte in 0..20_u8 {
            send(&mut client, &[byte; 1000]).await;
            assert_eq!(read(&mut target, 1000).await, [byte; 1000]);
        }
        running.assert_running();
        end_stream(&mut client).await;
        assert_eq!(read_all(&mut target).await, b"");
        assert_eq!(running.outcome().await, RelayOutcome::Closed);
    }
}

#[tokio::test]
async fn e7_the_end_of_a_stream_comes_after_all_that_was_sent_before_it() {
    for kind in KINDS {
        let (client_stream, mut client) = stream_pair(kind).await;
        let (target_stream, mut target) = stream_pair(kind).await;
        let running = RunningRelay::start(client_stream, target_stream);
        let all = vec![7; 4 << 20];
        let mut sending = JoinSet::new();
        let sent = all.clone();
        sending.spawn(async move {
            send(&mut client, &sent).await;
            end_stream(&mut client).await;
            client
        });
        // Nothing is read before the client has sent what it could.
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        assert!(read_all(&mut target).await == all);
        end_stream(&mut target).await;
        let mut client = sending.join_next().await.unwrap().unwrap();
        assert_eq!(read_all(&mut client).await, b"");
        assert_eq!(running.outcome().await, RelayOutcome::Closed);
    }
}

#[tokio::test]
async fn early_bytes_come_first() {
    for kind in KINDS {
        let (client_stream, mut client) = stream_pair(kind).await;
        let (target_stream, mut target) = stream_pair(kind).await;
        let early = EarlyBytes {
            from_client: Bytes::from_static(b"first up, "),
            from_target: Bytes::from_static(b"first down, "),
        };
        let running = RunningRelay::with(client_stream, target_stream, early, None);
        send(&mut client, b"then up").await;
        send(&mut target, b"then down").await;
        end_stream(&mut client).await;
        end_stream(&mut target).await;
        assert_eq!(read_all(&mut target).await, b"first up, then up");
        assert_eq!(read_all(&mut client).await, b"first down, then down");
        assert_eq!(running.outcome().await, RelayOutcome::Closed);
    }
}

#[test]
fn no_message_shows_what_peers_sent() {
    let early = EarlyBytes {
        from_client: Bytes::from_static(b"secret"),
        from_target: Bytes::from_static(b"secret"),
    };
    assert!(!format!("{early:?}").contains("secret"));
}

#[tokio::test]
async fn a_unix_peer_that_will_read_no_more_is_gone() {
    let (client_stream, mut client) = stream_pair(StreamKind::Unix).await;
    let (target_stream, target) = UnixStream::pair().unwrap();
    let running = RunningRelay::start(client_stream, RelayStream::Unix(target_stream));
    rustix::net::shutdown(&target, rustix::net::Shutdown::Read).unwrap();
    send(&mut client, b"to nobody").await;
    assert_eq!(
        running.outcome().await,
        RelayOutcome::Reset(RelaySide::Target)
    );
    assert_eq!(read_all(&mut client).await, b"");
}
