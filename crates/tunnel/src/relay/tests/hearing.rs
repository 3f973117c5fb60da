//! Answers whose beginning is heard before the client hears it.

use haul_net::{Connector, Proxy};
use http::HeaderMap;

use super::*;

/// A relay of a request, whose answer is a line: `no` is refused, `wait` comes before it, `as` is made `in other words`.
async fn between(said: &'static [u8]) -> (RunningRelay, TcpStream, TcpStream) {
    let ((client, caller), (target, called)) = (tcp().await, tcp().await);
    let listener = ResponseObserver::new(|said| {
        let Some(end) = said.iter().position(|byte| *byte == b'\n') else {
            return ResponseAction::Part;
        };
        match &said[..end] {
            b"wait" => ResponseAction::Before(end + 1),
            b"as" => ResponseAction::Words(end + 1, b"in other words\n".to_vec()),
            b"no" => ResponseAction::Refused(Box::new(refusal())),
            _ => ResponseAction::Whatever,
        }
    });
    let early = EarlyBytes {
        down: said.into(),
        extent: BodyFraming::bytes(1 << 30),
        listener: Some(listener),
        ..EarlyBytes::default()
    };
    let running = RunningRelay::with(
        RelayStream::Tcp(client),
        RelayStream::Tcp(target),
        (early, None),
    );
    (running, caller, called)
}

fn refusal() -> Error {
    let proxy: Proxy = "http://a.test:1".parse().unwrap();
    let url = "http://b.test/".parse().unwrap();
    Connector::proxy_auth_error((&proxy, &HeaderMap::new()), true, &url)
}

#[tokio::test]
async fn a_beginning_is_made_out_however_it_comes() {
    for (said, told) in [
        ("as\nrest", "in other words\nrest"),
        ("wait\nwait\nas\n", "wait\nwait\nin other words\n"),
        ("other\nrest", "other\nrest"),
        ("cut of", "cut of"),
        ("", ""),
    ] {
        for early in [0, said.len()] {
            let (running, mut caller, mut called) = between(&said.as_bytes()[..early]).await;
            // What the client says goes on meanwhile.
            say(&mut caller, b"body").await;
            assert_eq!(next(&mut called, 4).await, b"body");
            for byte in said[early..].bytes() {
                say(&mut called, &[byte]).await;
            }
            finish(&mut called).await;
            assert_eq!(heard(&mut caller).await, told.as_bytes());
            let moved = Arc::clone(&running.moved);
            finish(&mut caller).await;
            assert_eq!(running.ended().await, RelayOutcome::Closed);
            assert_eq!((moved.up(), moved.down()), (4, told.len() as u64));
        }
    }
}

#[tokio::test]
async fn what_comes_before_the_answer_is_not_held_back() {
    let (_running, mut caller, mut called) = between(b"wait\n").await;
    assert_eq!(next(&mut caller, 5).await, b"wait\n");
    say(&mut called, b"as\n").await;
    assert_eq!(next(&mut caller, 15).await, b"in other words\n");
}

#[tokio::test]
async fn a_beginning_without_end_goes_on_as_it_is() {
    let (running, mut caller, mut called) = between(b"").await;
    let all = vec![b'x'; 1 << 20];
    let ((), came) = tokio::join!(say(&mut called, &all), next(&mut caller, all.len()));
    assert!(came == all);
    finish(&mut called).await;
    finish(&mut caller).await;
    assert_eq!(running.ended().await, RelayOutcome::Closed);
}

/// Also by one who leaves with a reset, since it has not read the body.
#[tokio::test]
async fn a_refusal_is_no_word_to_the_client() {
    for leaves in [false, true] {
        let ((client, mut caller), (target, mut called)) = (tcp().await, tcp().await);
        let listener = ResponseObserver::new(|said| match said.ends_with(b"no\n") {
            true => ResponseAction::Refused(Box::new(refusal())),
            false => ResponseAction::Part,
        });
        let early = EarlyBytes {
            extent: BodyFraming::bytes(1 << 30),
            listener: Some(listener),
            ..EarlyBytes::default()
        };
        say(&mut called, b"no\n").await;
        say(&mut caller, b"body").await;
        let moved = RelayedBytes::default();
        let relayed = relay(
            RelayStream::Tcp(client),
            RelayStream::Tcp(target),
            early,
            (&moved, None),
        );
        let relayed = async {
            let (relayed, ()) = tokio::join!(relayed, async {
                if leaves {
                    drop(called);
                }
            });
            relayed
        };
        let refused = within(LIMIT, relayed).await.unwrap_err();
        let (mut client, error) = refused.into_parts();
        assert_eq!(error.to_string(), refusal().to_string());
        client.end().write_all(b"instead").await.unwrap();
        assert_eq!(next(&mut caller, 7).await, b"instead");
        assert_eq!(moved.down(), 0);
    }
}

#[tokio::test]
async fn an_end_without_a_word_is_no_answer() {
    for said in ["", "no head"] {
        let ((client, mut caller), (target, mut called)) = (tcp().await, tcp().await);
        let listener = ResponseObserver::new(|_| ResponseAction::Part).unless_silent(refusal());
        let early = EarlyBytes {
            extent: BodyFraming::bytes(0),
            listener: Some(listener),
            ..EarlyBytes::default()
        };
        say(&mut called, said.as_bytes()).await;
        finish(&mut called).await;
        finish(&mut caller).await;
        let moved = RelayedBytes::default();
        let relayed = relay(
            RelayStream::Tcp(client),
            RelayStream::Tcp(target),
            early,
            (&moved, None),
        );
        let relayed = within(LIMIT, relayed).await;
        assert_eq!(relayed.is_err(), said.is_empty());
        drop(relayed);
        assert_eq!(moved.down(), said.len() as u64);
    }
}
