//! Ends of streams: each is passed on, and the other direction goes on to its own (E7).

use super::*;

const KINDS: [EndKind; 3] = [EndKind::Tcp, EndKind::Unix, EndKind::Memory(4096)];

#[tokio::test]
async fn e7_a_client_that_is_done_speaking_still_hears_all() {
    for kind in KINDS {
        let ((client, mut caller), (target, mut called)) = (end(kind).await, end(kind).await);
        let mut running = RunningRelay::start(client, target);
        say(&mut caller, b"question").await;
        finish(&mut caller).await;
        assert_eq!(heard(&mut called).await, b"question");
        for part in 0..20_u8 {
            say(&mut called, &[part; 1000]).await;
            assert_eq!(next(&mut caller, 1000).await, [part; 1000]);
        }
        running.goes_on();
        finish(&mut called).await;
        assert_eq!(heard(&mut caller).await, b"");
        assert_eq!(running.ended().await, RelayOutcome::Closed);
    }
}

#[tokio::test]
async fn e7_a_target_that_is_done_speaking_still_hears_all() {
    for kind in KINDS {
        let ((client, mut caller), (target, mut called)) = (end(kind).await, end(kind).await);
        let mut running = RunningRelay::start(client, target);
        say(&mut called, b"banner").await;
        finish(&mut called).await;
        assert_eq!(heard(&mut caller).await, b"banner");
        for part in 0..20_u8 {
            say(&mut caller, &[part; 1000]).await;
            assert_eq!(next(&mut called, 1000).await, [part; 1000]);
        }
        running.goes_on();
        finish(&mut caller).await;
        assert_eq!(heard(&mut called).await, b"");
        assert_eq!(running.ended().await, RelayOutcome::Closed);
    }
}

#[tokio::test]
async fn e7_an_end_waits_for_what_was_said_before_it() {
    for kind in KINDS {
        let ((client, mut caller), (target, mut called)) = (end(kind).await, end(kind).await);
        let running = RunningRelay::start(client, target);
        let all = vec![7; 4 << 20];
        let mut speaking = JoinSet::new();
        let said = all.clone();
        speaking.spawn(async move {
            say(&mut caller, &said).await;
            finish(&mut caller).await;
            caller
        });
        // Read only when the client has said what it could.
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        assert!(heard(&mut called).await == all);
        finish(&mut called).await;
        let mut caller = speaking.join_next().await.unwrap().unwrap();
        assert_eq!(heard(&mut caller).await, b"");
        assert_eq!(running.ended().await, RelayOutcome::Closed);
    }
}

#[tokio::test]
async fn early_bytes_come_first() {
    for kind in KINDS {
        let ((client, mut caller), (target, mut called)) = (end(kind).await, end(kind).await);
        let early = EarlyBytes {
            up: Bytes::from_static(b"first up, "),
            down: Bytes::from_static(b"first down, "),
            ..EarlyBytes::default()
        };
        let running = RunningRelay::with(client, target, (early, None));
        say(&mut caller, b"then up").await;
        say(&mut called, b"then down").await;
        finish(&mut caller).await;
        finish(&mut called).await;
        assert_eq!(heard(&mut called).await, b"first up, then up");
        assert_eq!(heard(&mut caller).await, b"first down, then down");
        assert_eq!(running.ended().await, RelayOutcome::Closed);
    }
}

#[tokio::test]
async fn what_is_behind_a_request_goes_nowhere_and_is_no_end() {
    let second = b"GET http://other.test/ HTTP/1.1\r\n\r\n";
    for (extent, body) in [
        (BodyFraming::bytes(0), &b""[..]),
        (BodyFraming::bytes(4), b"body"),
        (BodyFraming::chunks(), b"4\r\nbody\r\n0\r\n\r\n"),
    ] {
        for early in [0, body.len() / 2, body.len() + 5] {
            for kind in KINDS {
                let ((client, mut caller), (target, mut called)) =
                    (end(kind).await, end(kind).await);
                let all = [body, second].concat();
                let early = EarlyBytes {
                    up: all[..early].to_vec().into(),
                    extent,
                    ..EarlyBytes::default()
                };
                let said = early.up.len();
                let mut running = RunningRelay::with(client, target, (early, None));
                say(&mut caller, &all[said..]).await;
                assert_eq!(next(&mut called, body.len()).await, body);
                say(&mut called, b"answer").await;
                assert_eq!(next(&mut caller, 6).await, b"answer");
                running.goes_on();
                finish(&mut called).await;
                assert_eq!(heard(&mut caller).await, b"");
                // Nothing more was said to it, not even an end, before it ended.
                drop(caller);
                assert_eq!(running.ended().await, RelayOutcome::Closed);
                assert_eq!(heard(&mut called).await, b"", "{extent:?} {said}");
            }
        }
    }
}

/// It says more than would ever be read, does not hear before all is said, and hears everything.
#[tokio::test]
async fn an_answer_arrives_whole_however_much_is_behind_its_request() {
    for behind in [2, 100_000, 3 << 20] {
        let ((client, caller), (target, mut called)) = (tcp().await, tcp().await);
        let early = EarlyBytes {
            up: Bytes::from_static(b"\r\n"),
            extent: BodyFraming::bytes(0),
            ..EarlyBytes::default()
        };
        let running = RunningRelay::with(
            RelayStream::Tcp(client),
            RelayStream::Tcp(target),
            (early, None),
        );
        let (mut hearing, mut saying) = caller.into_split();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            // It may be more than is taken.
            let _ = saying.write_all(&vec![b'x'; behind]).await;
            std::future::pending::<()>().await;
        });
        tasks.spawn(async move {
            let all = vec![7; 4 << 20];
            let half = all.len() / 2;
            called.write_all(&all[..half]).await.unwrap();
            // Who sees an end now would not go on.
            let now = called.try_read(&mut [0; 1]);
            assert_eq!(now.unwrap_err().kind(), io::ErrorKind::WouldBlock);
            called.write_all(&all[half..]).await.unwrap();
        });
        let all = heard(&mut hearing).await;
        assert!(all.len() == 4 << 20, "{behind}: {}", all.len());
        // It hangs up, and nobody waits for it any longer.
        drop(hearing);
        tasks.shutdown().await;
        assert_eq!(running.ended().await, RelayOutcome::Closed);
    }
}

#[tokio::test]
async fn a_request_whose_chunks_are_none_breaks() {
    let ((client, mut caller), (target, mut called)) =
        (end(EndKind::Tcp).await, end(EndKind::Tcp).await);
    let early = EarlyBytes {
        extent: BodyFraming::chunks(),
        ..EarlyBytes::default()
    };
    let running = RunningRelay::with(client, target, (early, None));
    say(&mut caller, b"4\r\nbodyGET").await;
    assert!(matches!(
        running.ended().await,
        RelayOutcome::Broken(RelaySide::Client, _)
    ));
    assert_eq!(error(&mut called).await, io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_unix_peer_that_will_read_no_more_is_gone() {
    let ((client, mut caller), (near, far)) =
        (end(EndKind::Unix).await, UnixStream::pair().unwrap());
    let running = RunningRelay::start(client, RelayStream::Unix(near));
    rustix::net::shutdown(&far, rustix::net::Shutdown::Read).unwrap();
    say(&mut caller, b"to nobody").await;
    assert_eq!(
        running.ended().await,
        RelayOutcome::Reset(RelaySide::Target)
    );
    assert_eq!(heard(&mut caller).await, b"");
}
