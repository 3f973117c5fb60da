//! The HTTP proxy's listener: CONNECT, and requests in absolute-form on their way to an origin or to another proxy.

use haul_lab::breakage::{self, Login};
use haul_lab::{Content, HttpProxy, Origin, Resource, SocksProxy, When, within};
use haul_tunnel::Local;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::*;

const BODY: &[u8] = b"what is in the file";

async fn origin() -> Origin {
    Origin::builder()
        .resource("/f", Resource::new(Content::fixed(BODY)))
        .start()
        .await
}

/// Says something, and hears the whole answer.
async fn answer(stand: &Stand, said: &[u8]) -> String {
    let mut client = stand.call().await;
    say(&mut client, said).await;
    String::from_utf8(heard(&mut client).await).unwrap()
}

fn get(origin: &Origin, more: &str) -> Vec<u8> {
    format!(
        "GET {} HTTP/1.1\r\nHost: wrong.test\r\n{more}\r\n",
        origin.url("/f")
    )
    .into_bytes()
}

#[tokio::test]
async fn connect_is_a_tunnel_and_loses_nothing() {
    let far = Far::greeting(b"220 hello\r\n").await;
    let proxy = HttpProxy::builder()
        .route("far.test:25", far.address)
        .start()
        .await;
    let stand = Stand::of(Local::Http, by_one(&proxy.url()));
    let mut client = stand.call().await;
    say(&mut client, b"CONNECT far.test:25 HTTP/1.1\r\nHost: far.test:25\r\nProxy-Authorization: Basic eDp5\r\n\r\nEHLO").await;
    assert!(head(&mut client).await.starts_with("HTTP/1.1 200 "));
    assert_eq!(next(&mut client, 15).await, b"220 hello\r\nEHLO");
    // What a client shows to us is not for the next.
    assert_eq!(proxy.asked()[0].header("proxy-authorization"), None);
}

#[tokio::test]
async fn a_request_is_passed_on_to_its_origin() {
    let origin = origin().await;
    let socks = SocksProxy::builder().start().await;
    for upstream in [by(&[]), by_one(&socks.url("socks5h"))] {
        let stand = Stand::of(Local::Http, upstream);
        let more = "Proxy-Connection: keep-alive\r\nConnection: x-mine\r\nX-Mine: 1\r\nX-Yours: 2\r\nProxy-Authorization: Basic eDp5\r\n";
        let answer = answer(&stand, &get(&origin, more)).await;
        assert!(
            answer.starts_with("HTTP/1.1 200 ") && answer.as_bytes().ends_with(BODY),
            "{answer}"
        );
        let asked = origin.asked().pop().unwrap();
        assert_eq!(
            (asked.target.as_str(), asked.header("host")),
            ("/f", Some(origin.address().to_string().as_str()))
        );
        assert_eq!(
            (asked.header("x-yours"), asked.header("connection")),
            (Some("2"), Some("close"))
        );
        for hop in ["proxy-connection", "x-mine", "proxy-authorization"] {
            assert_eq!(asked.header(hop), None);
        }
    }
}

#[tokio::test]
async fn a_request_is_passed_on_to_a_proxy_as_it_is() {
    let origin = origin().await;
    let first = HttpProxy::builder().start().await;
    let proxy = HttpProxy::builder().start().await;
    for upstream in [by_one(&proxy.url()), by(&[&[first.url()], &[proxy.url()]])] {
        let stand = Stand::of(Local::Http, upstream);
        let answer = answer(&stand, &get(&origin, "")).await;
        assert!(answer.as_bytes().ends_with(BODY), "{answer}");
        let asked = proxy.asked().pop().unwrap();
        assert_eq!(
            (asked.method.as_str(), asked.target.clone()),
            ("GET", origin.url("/f"))
        );
    }
    assert_eq!(first.asked()[0].method, "CONNECT");
}

#[tokio::test]
async fn a_proxys_login_is_answered_for_requests_with_and_without_a_body() {
    // A password will do whenever it is shown; for a nonce each body asks.
    for (login, asks) in [
        (Login::basic("me", PASSWORD), 1),
        (Login::digest("me", PASSWORD), 2),
    ] {
        let seen = Far::doing(|mut stream, _| async move {
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
            let proxy = HttpProxy::builder().login(login.clone()).start().await;
            let stand = Stand::of(Local::Http, by_one(&proxy.url_for("me", PASSWORD)));
            for request in requests {
                let answer = answer(&stand, request.as_bytes()).await;
                assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
                assert_eq!(answer.ends_with("some data"), request.starts_with("POST"));
            }
            // No body was sent to somebody who did not want it yet.
            let refused = proxy
                .asked()
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

#[tokio::test]
async fn a_wrong_login_is_the_clients_to_see_and_is_not_tried_for_ever() {
    let origin = origin().await;
    let proxy = HttpProxy::builder()
        .login(Login::digest("me", "other"))
        .start()
        .await;
    let stand = Stand::of(Local::Http, by_one(&proxy.url_for("me", PASSWORD)));
    assert!(
        answer(&stand, &get(&origin, ""))
            .await
            .starts_with("HTTP/1.1 407 ")
    );
    // One that has a new nonce for each answer.
    let fickle = Far::doing(|mut stream, number| async move {
        head(&mut stream).await;
        let text = format!("HTTP/1.1 407 x\r\nProxy-Authenticate: Digest realm=\"x\", qop=\"auth\", nonce=\"{number}\", stale=true\r\nContent-Length: 0\r\n\r\n");
        let _ = stream.write_all(text.as_bytes()).await;
    })
    .await;
    let upstream = by_one(
        &fickle
            .proxy()
            .replacen("://", &format!("://me:{PASSWORD}@"), 1),
    );
    let stand = Stand::of(Local::Http, upstream);
    assert!(
        answer(&stand, &get(&origin, ""))
            .await
            .starts_with("HTTP/1.1 407 ")
    );
    assert!(fickle.accepted() <= 4, "{}", fickle.accepted());
}

/// An origin that does not close, and notes all that it is told.
async fn keeping() -> (Far, std::sync::Arc<std::sync::Mutex<Vec<u8>>>) {
    let told = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let notes = std::sync::Arc::clone(&told);
    let far = Far::doing(move |mut stream, _| {
        let notes = std::sync::Arc::clone(&notes);
        async move {
            let mut room = [0; 4096];
            let mut is_answered = false;
            while let Ok(count @ 1..) = stream.read(&mut room).await {
                let is_whole = {
                    let mut notes = notes.lock().unwrap();
                    notes.extend_from_slice(&room[..count]);
                    notes.windows(4).any(|window| window == b"\r\n\r\n")
                };
                if is_whole && !std::mem::replace(&mut is_answered, true) {
                    stream
                        .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                        .await
                        .unwrap();
                }
            }
        }
    })
    .await;
    (far, told)
}

/// The host is one that keeps its connections, against what it is told: the client is not left waiting.
#[tokio::test(start_paused = true)]
async fn another_request_on_the_same_connection_never_reaches_the_first_ones_host() {
    let second = b"GET http://bank.test/ HTTP/1.1\r\nCookie: mine\r\n\r\n";
    for is_by_proxy in [false, true] {
        for (fields, body) in [
            ("", &b""[..]),
            ("Content-Length: 4\r\n", b"body"),
            ("Transfer-Encoding: chunked\r\n", b"4\r\nbody\r\n0\r\n\r\n"),
        ] {
            for is_pipelined in [true, false] {
                let (far, told) = keeping().await;
                let upstream = if is_by_proxy {
                    by_one(&far.proxy())
                } else {
                    by(&[])
                };
                let stand = Stand::of(Local::Http, upstream);
                let mut client = stand.call().await;
                let head = format!("POST http://{}/ HTTP/1.1\r\n{fields}\r\n", far.address);
                let first = [head.as_bytes(), body].concat();
                if is_pipelined {
                    say(&mut client, &[&first, &second[..]].concat()).await;
                    next(&mut client, 40).await;
                } else {
                    say(&mut client, &first).await;
                    assert!(next(&mut client, 40).await.ends_with(b"ok"));
                    say(&mut client, second).await;
                }
                // It hears that there will be no answer.
                is_gone(&mut client).await;
                let told = String::from_utf8(told.lock().unwrap().clone()).unwrap();
                assert!(
                    !told.contains("bank.test") && !told.contains("mine"),
                    "{told}"
                );
                assert!(told.as_bytes().ends_with(body), "{told}");
            }
        }
    }
}

#[tokio::test]
async fn what_is_not_for_a_proxy_is_refused_with_the_reason() {
    let stand = Stand::of(Local::Http, by(&[]));
    let address = stand.address;
    let many = "X: y\r\n".repeat(200);
    let long = format!("X: {}\r\n", "y".repeat(70_000));
    for (n, (request, status)) in [
        (format!("GET / HTTP/1.1\r\nHost: {address}\r\n\r\n"), 400),
        ("OPTIONS * HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("GET https://far.test/ HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("CONNECT far.test HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("CONNECT far.test:0 HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("\x16\x03\x01\x02\x00\x01\x00\x01\u{fc}".to_owned(), 400),
        ("SSH-2.0-OpenSSH_9\r\n".to_owned(), 400),
        (format!("GET http://far.test/ HTTP/1.1\r\n{many}\r\n"), 400),
        (format!("GET http://far.test/ HTTP/1.1\r\n{long}\r\n"), 431),
        ("POST http://far.test/ HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(), 400),
    ]
    .into_iter()
    .enumerate()
    {
        let mut client = stand.call().await;
        say(&mut client, request.as_bytes()).await;
        client.shutdown().await.unwrap();
        let answer = String::from_utf8(heard(&mut client).await).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")) && answer.contains("haul: "), "{answer}");
        drop(client);
        assert!(stand.lines.line(n).await.contains("\"misunderstood\""));
    }
}

#[tokio::test]
async fn an_unreached_target_is_told_with_a_status_and_no_secret() {
    let forbidding = HttpProxy::builder()
        .rule(When::always(), breakage::status(403))
        .start()
        .await;
    let asking = HttpProxy::builder()
        .login(Login::basic("me", "other"))
        .start()
        .await;
    let closed = "http://127.0.0.1:1".to_owned();
    for (proxy, status) in [
        (forbidding.url(), 403),
        (asking.url_for("me", PASSWORD), 502),
        (closed, 502),
    ] {
        let stand = Stand::of(Local::Http, by_one(&proxy));
        let answer = answer(
            &stand,
            b"CONNECT far.test:22 HTTP/1.1\r\n\r\nand more than was asked",
        )
        .await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{answer}"
        );
        assert!(
            !answer.contains(PASSWORD) && answer.contains("proxy"),
            "{answer}"
        );
    }
}

/// One who does not go when it is told to is not waited for.
#[tokio::test(start_paused = true)]
async fn a_refused_client_that_stays_is_closed_in_time() {
    for (local, said) in [
        (Local::Http, &b"GET / HTTP/1.1\r\n\r\n"[..]),
        (Local::Socks, b"GET / HTTP/1.1\r\n\r\n"),
        (Local::Http, b"CONNECT 127.0.0.1:1 HTTP/1.1\r\n\r\n"),
        (
            Local::Socks,
            b"\x05\x01\x00\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x01",
        ),
    ] {
        let stand = Stand::of(local, by(&[]));
        let mut client: TcpStream = TcpStream::connect(stand.address).await.unwrap();
        client.write_all(said).await.unwrap();
        let mut all = Vec::new();
        let _ = client.read_to_end(&mut all).await;
        let minutes = std::time::Duration::from_secs(120);
        let gone = async {
            while stand.engine.connections() > 0 {
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        };
        within(minutes, gone).await;
    }
}

/// One who never says where to is not waited for either.
#[tokio::test(start_paused = true)]
async fn a_silent_client_is_closed_in_time() {
    for local in [Local::Http, Local::Socks] {
        let stand = Stand::of(local, by(&[]));
        let mut client = TcpStream::connect(stand.address).await.unwrap();
        let read = within(
            std::time::Duration::from_secs(120),
            client.read(&mut [0; 1]),
        )
        .await;
        assert!(!matches!(read, Ok(1..)));
        // The log is written by a thread of its own, whose time is not ours.
        tokio::time::resume();
        assert!(stand.lines.line(0).await.contains("\"silent\""));
        tokio::time::pause();
    }
}

/// A proxy that answers every request by itself, and notes what it was asked: the method, and whether it was shown something.
async fn noting(
    answer: impl Fn(&str) -> &'static str + Send + Sync + 'static,
) -> (Far, std::sync::Arc<std::sync::Mutex<Vec<String>>>) {
    let asked = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let notes = std::sync::Arc::clone(&asked);
    let answer = std::sync::Arc::new(answer);
    let far = Far::doing(move |mut stream, _| {
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

/// By this one, with a login.
fn with_login(far: &Far) -> haul_tunnel::UpstreamOptions {
    by_one(
        &far.proxy()
            .replacen("://", &format!("://me:{PASSWORD}@"), 1),
    )
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

#[tokio::test]
async fn a_proxy_that_wants_to_see_nothing_is_asked_once() {
    let (far, asked) = noting(|head| match head.contains("locked.test") {
        true => "HTTP/1.1 407 x\r\nProxy-Authenticate: Negotiate\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        false => OK,
    })
    .await;
    let stand = Stand::of(Local::Http, with_login(&far));
    let post = b"POST http://far.test/ HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody";
    for _ in 0..3 {
        assert!(answer(&stand, post).await.starts_with("HTTP/1.1 200 "));
    }
    assert_eq!(*asked.lock().unwrap(), ["HEAD", "POST", "POST", "POST"]);
    // Since it has asked for something, it may ask again.
    asked.lock().unwrap().clear();
    let get = b"GET http://locked.test/ HTTP/1.1\r\n\r\n";
    assert!(answer(&stand, get).await.starts_with("HTTP/1.1 407 "));
    assert!(answer(&stand, post).await.starts_with("HTTP/1.1 200 "));
    assert_eq!(*asked.lock().unwrap(), ["GET", "HEAD", "POST"]);
}

#[tokio::test(start_paused = true)]
async fn a_proxy_that_does_not_answer_is_not_waited_for_for_ever() {
    use std::time::Duration;
    let far = Far::doing(|mut stream, number| async move {
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
    let mut tunnel = tunnel(Local::Http, upstream);
    tunnel.options.idle = Some(Duration::from_secs(60));
    let stand = Stand::with(tunnel);
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
