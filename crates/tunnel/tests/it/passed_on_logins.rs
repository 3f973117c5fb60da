//! Requests in absolute-form on their way to a proxy that wants a login, and when it is asked what it wants to see.

use haul_lab::HttpProxy;
use haul_lab::faults::RequiredLogin;
use haul_tunnel::ListenerKind;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::*;
use crate::passed_on::{OK, get, origin, with_login};

#[tokio::test]
async fn a_proxys_login_is_answered_for_requests_with_and_without_a_body() {
    // A password will do whenever it is shown; for a nonce each body asks.
    for (login, asks) in [
        (RequiredLogin::basic("me", PASSWORD), 1),
        (RequiredLogin::digest("me", PASSWORD), 2),
    ] {
        let seen = ScriptedTarget::doing(|mut stream, _| async move {
            let head = head(&mut stream).await;
            let body = if head.starts_with("POST") {
                next(&mut stream, 9).await
            } else {
                Vec::new()
            };
            assert!(!head.to_ascii_lowercase().contains("proxy-authorization"));
            let text = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            stream
                .write_all(&[text.as_bytes(), &body].concat())
                .await
                .unwrap();
        })
        .await;
        let url = format!("http://{}/x?y", seen.address);
        let post = format!("POST {url} HTTP/1.1\r\nContent-Length: 9\r\n\r\nsome data");
        let get = format!("GET {url} HTTP/1.1\r\n\r\n");
        for requests in [[&post, &get, &post], [&get, &post, &get]] {
            let proxy = HttpProxy::builder()
                .require_login(login.clone())
                .start()
                .await;
            let stand = EngineFixture::of(
                ListenerKind::Http,
                by_one(&proxy.url_with_login("me", PASSWORD)),
            );
            for request in requests {
                let answer = answer(&stand, request.as_bytes()).await;
                assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
                assert_eq!(answer.ends_with("some data"), request.starts_with("POST"));
            }
            // No body was sent to somebody who did not want it yet.
            let refused = proxy
                .requests()
                .into_iter()
                .filter(|asked| asked.status == 407);
            let refused: Vec<_> = refused.map(|asked| asked.method).collect();
            assert!(
                refused.len() == asks && !refused.iter().any(|method| method == "POST"),
                "{refused:?}"
            );
        }
    }
}

/// The answer is our own and says what is wrong; and so says the log.
async fn is_refused_by_proxy((stand, number): (&EngineFixture, usize), said: &[u8], words: &str) {
    let answer = answer(stand, said).await;
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    assert!(answer.contains(words), "{answer}");
    assert!(
        answer.contains("\nhint: ") && !answer.contains(PASSWORD),
        "{answer}"
    );
    let line = stand.lines.line(number).await;
    assert!(
        line.contains("\"unreached\"") && line.contains(words),
        "{line}"
    );
}

#[tokio::test]
async fn a_proxy_that_does_not_take_our_login_is_our_error_and_is_not_asked_for_ever() {
    let origin = origin().await;
    let refused = "refused the credentials given";
    let post = b"POST http://far.test/ HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody";
    for login in [
        RequiredLogin::digest("me", "other"),
        RequiredLogin::basic("me", "other"),
    ] {
        let proxy = HttpProxy::builder().require_login(login).start().await;
        let stand = EngineFixture::of(
            ListenerKind::Http,
            by_one(&proxy.url_with_login("me", PASSWORD)),
        );
        for number in [0, 2] {
            // What a client knows of its proxies is not for this one.
            let own = "Proxy-Authorization: Basic bWU6b3RoZXI=\r\n";
            is_refused_by_proxy((&stand, number), &get(&origin, own), refused).await;
            is_refused_by_proxy((&stand, number + 1), post, refused).await;
        }
        let stand = EngineFixture::of(ListenerKind::Http, by_one(&proxy.url()));
        for (number, said) in [&get(&origin, "")[..], post].into_iter().enumerate() {
            is_refused_by_proxy((&stand, number), said, "wants credentials").await;
        }
        assert!(origin.requests().is_empty());
    }
    // One that has a new nonce for each answer.
    let fickle = ScriptedTarget::doing(|mut stream, number| async move {
        head(&mut stream).await;
        let text = format!("HTTP/1.1 407 x\r\nProxy-Authenticate: Digest realm=\"x\", qop=\"auth\", nonce=\"{number}\", stale=true\r\nContent-Length: 0\r\n\r\n");
        let _ = stream.write_all(text.as_bytes()).await;
    })
    .await;
    let stand = EngineFixture::of(ListenerKind::Http, with_login(&fickle));
    is_refused_by_proxy((&stand, 0), &get(&origin, ""), refused).await;
    assert!(fickle.accepted() <= 4, "{}", fickle.accepted());
}

/// It does not read the body before it says no, and leaves with a reset.
#[tokio::test]
async fn a_proxy_that_leaves_with_its_question_is_heard_nevertheless() {
    let hasty = ScriptedTarget::doing(|mut stream, _| async move {
        head(&mut stream).await;
        let asks = b"HTTP/1.1 407 x\r\nProxy-Authenticate: Basic realm=\"lab\"\r\n\r\n";
        stream.write_all(asks).await.unwrap();
    })
    .await;
    let stand = EngineFixture::of(ListenerKind::Http, by_one(&hasty.proxy()));
    let mut client = stand.call().await;
    let head = b"POST http://far.test/ HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n";
    say(&mut client, head).await;
    let (mut from, mut to) = client.split();
    let body = vec![b'x'; 1 << 20];
    let (_, answer) = tokio::join!(to.write_all(&body), heard(&mut from));
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    drop(client);
    assert!(stand.lines.line(0).await.contains("\"unreached\""));
}

/// A proxy that answers every request by itself, and notes what it was asked: the method, and whether it was shown something.
async fn noting(
    answer: impl Fn(&str) -> &'static str + Send + Sync + 'static,
) -> (
    ScriptedTarget,
    std::sync::Arc<std::sync::Mutex<Vec<String>>>,
) {
    let asked = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let notes = std::sync::Arc::clone(&asked);
    let answer = std::sync::Arc::new(answer);
    let far = ScriptedTarget::doing(move |mut stream, _| {
        let (notes, answer) = (
            std::sync::Arc::clone(&notes),
            std::sync::Arc::clone(&answer),
        );
        async move {
            let head = head(&mut stream).await;
            if head.starts_with("POST") {
                next(&mut stream, 4).await;
            }
            let method = head.split(' ').next().unwrap().to_owned();
            notes.lock().unwrap().push(method);
            stream.write_all(answer(&head).as_bytes()).await.unwrap();
        }
    })
    .await;
    (far, asked)
}

#[tokio::test]
async fn a_proxy_that_wants_to_see_nothing_is_asked_once() {
    let (far, asked) = noting(|head| match head.contains("locked.test") {
        true => "HTTP/1.1 407 x\r\nProxy-Authenticate: Negotiate\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        false => OK,
    })
    .await;
    let stand = EngineFixture::of(ListenerKind::Http, with_login(&far));
    let post = b"POST http://far.test/ HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody";
    for _ in 0..3 {
        assert!(answer(&stand, post).await.starts_with("HTTP/1.1 200 "));
    }
    assert_eq!(*asked.lock().unwrap(), ["HEAD", "POST", "POST", "POST"]);
    // Since it has asked for something, it may ask again.
    asked.lock().unwrap().clear();
    let get = b"GET http://locked.test/ HTTP/1.1\r\n\r\n";
    let negotiates = "it takes negotiate, and neither Basic";
    is_refused_by_proxy((&stand, 3), get, negotiates).await;
    assert!(answer(&stand, post).await.starts_with("HTTP/1.1 200 "));
    assert_eq!(*asked.lock().unwrap(), ["GET", "HEAD", "POST"]);
}

#[tokio::test(start_paused = true)]
async fn a_proxy_that_does_not_answer_is_not_waited_for_for_ever() {
    use std::time::Duration;
    let far = ScriptedTarget::doing(|mut stream, number| async move {
        let head = head(&mut stream).await;
        if head.starts_with("POST") {
            assert_eq!(number, 1);
            let _ = stream.write_all(OK.as_bytes()).await;
        }
        std::future::pending::<()>().await;
    })
    .await;
    // What it wants to see with a body is asked for within the connect timeout.
    let upstream = haul_tunnel::UpstreamOptions {
        connector: patient(Duration::from_secs(5)),
        ..with_login(&far)
    };
    let mut tunnel = tunnel(ListenerKind::Http, upstream);
    tunnel.timeouts.idle = Some(Duration::from_secs(60));
    let stand = EngineFixture::with(tunnel);
    let begun = tokio::time::Instant::now();
    let mut client = TcpStream::connect(stand.address).await.unwrap();
    client
        .write_all(b"POST http://far.test/ HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody")
        .await
        .unwrap();
    let mut room = vec![0; OK.len()];
    client.read_exact(&mut room).await.unwrap();
    assert!(room.starts_with(b"HTTP/1.1 200 "));
    assert!(begun.elapsed() < Duration::from_secs(10));
    drop(client);
    // And its first answer within the time in which something has to move.
    let begun = tokio::time::Instant::now();
    let mut client = TcpStream::connect(stand.address).await.unwrap();
    client
        .write_all(b"GET http://far.test/ HTTP/1.1\r\n\r\nx")
        .await
        .unwrap();
    assert!(!matches!(client.read(&mut [0; 1]).await, Ok(1..)));
    let waited = begun.elapsed().as_secs();
    assert!((59..70).contains(&waited), "{waited}");
}
