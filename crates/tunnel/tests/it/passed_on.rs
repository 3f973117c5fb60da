//! Requests in absolute-form on their way to an origin or to another proxy, and their answers.

use haul_lab::{HttpProxy, Origin, OriginResource, ResourceContent, SocksProxy};
use haul_tunnel::ListenerKind;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::harness::*;

const BODY: &[u8] = b"what is in the file";

pub(crate) async fn origin() -> Origin {
    Origin::builder()
        .resource("/f", OriginResource::new(ResourceContent::fixed(BODY)))
        .start()
        .await
}

pub(crate) fn get(origin: &Origin, more: &str) -> Vec<u8> {
    format!(
        "GET {} HTTP/1.1\r\nHost: wrong.test\r\n{more}\r\n",
        origin.url("/f")
    )
    .into_bytes()
}

/// An answer without a body.
pub(crate) const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// By this one, with a login.
pub(crate) fn with_login(far: &ScriptedTarget) -> haul_tunnel::UpstreamOptions {
    by_one(
        &far.proxy()
            .replacen("://", &format!("://me:{PASSWORD}@"), 1),
    )
}

#[tokio::test]
async fn a_request_is_passed_on_to_its_origin() {
    let origin = origin().await;
    let socks = SocksProxy::builder().start().await;
    for upstream in [by(&[]), by_one(&socks.url("socks5h"))] {
        let stand = EngineFixture::of(ListenerKind::Http, upstream);
        let more = "Proxy-Connection: keep-alive\r\nConnection: x-mine\r\nX-Mine: 1\r\nX-Yours: 2\r\nProxy-Authorization: Basic eDp5\r\n";
        let answer = answer(&stand, &get(&origin, more)).await;
        assert!(
            answer.starts_with("HTTP/1.1 200 ") && answer.as_bytes().ends_with(BODY),
            "{answer}"
        );
        let asked = origin.requests().pop().unwrap();
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
        let stand = EngineFixture::of(ListenerKind::Http, upstream);
        let answer = answer(&stand, &get(&origin, "")).await;
        assert!(answer.as_bytes().ends_with(BODY), "{answer}");
        let asked = proxy.requests().pop().unwrap();
        assert_eq!(
            (asked.method.as_str(), asked.target.clone()),
            ("GET", origin.url("/f"))
        );
    }
    assert_eq!(first.requests()[0].method, "CONNECT");
}

/// Interim answers come at once, and before them nothing is waited for.
#[tokio::test]
async fn who_waits_for_a_word_before_its_body_gets_it() {
    let far = ScriptedTarget::doing(|mut stream, _| async move {
        head(&mut stream).await;
        stream
            .write_all(b"HTTP/1.1 100 Continue\r\n\r\n")
            .await
            .unwrap();
        assert_eq!(next(&mut stream, 4).await, b"body");
        stream.write_all(OK.as_bytes()).await.unwrap();
    })
    .await;
    for upstream in [by(&[]), by_one(&far.proxy()), with_login(&far)] {
        let stand = EngineFixture::of(ListenerKind::Http, upstream);
        let mut client = stand.call().await;
        let text = format!(
            "POST http://{}/ HTTP/1.1\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n",
            far.address
        );
        say(&mut client, text.as_bytes()).await;
        assert_eq!(head(&mut client).await, "HTTP/1.1 100 Continue\r\n\r\n");
        say(&mut client, b"body").await;
        assert_eq!(head(&mut client).await, OK);
    }
}

#[tokio::test]
async fn bytes_of_a_request_are_counted_with_its_head() {
    let far = ScriptedTarget::doing(|mut stream, _| async move {
        let head = head(&mut stream).await;
        if head.starts_with("POST") {
            next(&mut stream, 4).await;
        }
        let answer = format!("HTTP/1.1 200 OK\r\nX-Head: {}\r\n\r\n", head.len());
        stream.write_all(answer.as_bytes()).await.unwrap();
    })
    .await;
    for upstream in [by(&[]), by_one(&far.proxy()), with_login(&far)] {
        let stand = EngineFixture::of(ListenerKind::Http, upstream);
        for (n, body) in ["", "body"].into_iter().enumerate() {
            let method = if body.is_empty() { "GET" } else { "POST" };
            let length = body.len();
            let text = format!(
                "{method} http://{}/ HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{body}",
                far.address
            );
            let answer = answer(&stand, text.as_bytes()).await;
            let (_, rest) = answer.split_once("X-Head: ").unwrap();
            let head: usize = rest.lines().next().unwrap().parse().unwrap();
            let counted = format!("\"up\":{},\"down\":{},", head + length, answer.len());
            let line = stand.lines.line(n).await;
            assert!(line.contains(&counted), "{counted} {line}");
        }
    }
}

/// The origin keeps its connections, and says so; the client is told what is true of its own.
#[tokio::test]
async fn an_answer_says_that_its_connection_ends() {
    let far = ScriptedTarget::doing(|mut stream, _| async move {
        head(&mut stream).await;
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive, x\r\nX: 1\r\nKeep-Alive: timeout=9\r\n\r\nok";
        stream.write_all(answer).await.unwrap();
        // It waits for more, until there is none.
        let _ = stream.read(&mut [0; 1]).await;
    })
    .await;
    let stand = EngineFixture::of(ListenerKind::Http, by(&[]));
    let mut client = stand.call().await;
    say(
        &mut client,
        format!("GET http://{}/ HTTP/1.1\r\n\r\n", far.address).as_bytes(),
    )
    .await;
    let told = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n";
    assert_eq!(head(&mut client).await, told);
    assert_eq!(next(&mut client, 2).await, b"ok");
    client.shutdown().await.unwrap();
    assert!(stand.lines.line(0).await.contains("\"closed\""));
}

/// An origin that does not close, and notes all that it is told.
async fn keeping() -> (ScriptedTarget, std::sync::Arc<std::sync::Mutex<Vec<u8>>>) {
    let told = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let notes = std::sync::Arc::clone(&told);
    let far = ScriptedTarget::doing(move |mut stream, _| {
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
                let stand = EngineFixture::of(ListenerKind::Http, upstream);
                let mut client = stand.call().await;
                let head = format!("POST http://{}/ HTTP/1.1\r\n{fields}\r\n", far.address);
                let first = [head.as_bytes(), body].concat();
                if is_pipelined {
                    say(&mut client, &[&first, &second[..]].concat()).await;
                    next(&mut client, 59).await;
                } else {
                    say(&mut client, &first).await;
                    assert!(next(&mut client, 59).await.ends_with(b"ok"));
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
async fn e5_a_peer_that_leaves_without_an_answer_is_told_of() {
    let mute = ScriptedTarget::doing(|mut stream, _| async move {
        head(&mut stream).await;
    })
    .await;
    let url = format!("http://{}/f", mute.address);
    let asked = format!("GET {url} HTTP/1.1\r\nHost: x\r\n\r\n");
    for upstream in [by(&[]), by_one(&mute.proxy())] {
        let stand = EngineFixture::of(ListenerKind::Http, upstream);
        let answer = answer(&stand, asked.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
        let line = stand.lines.line(0).await;
        assert!(line.contains("\"unreached\""), "{line}");
    }
}
