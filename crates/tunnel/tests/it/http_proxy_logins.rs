//! Row E4: absolute-form requests to a proxy that requires a login, and when haul probes for a challenge.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use haul_lab::HttpProxy;
use haul_lab::faults::RequiredLogin;
use haul_tunnel::{ListenerKind, UpstreamOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::harness::*;
use crate::http_forwarding::{OK, get, origin};

#[tokio::test]
async fn e4_a_challenge_of_a_proxy_is_answered_with_and_without_a_request_body() {
    // Basic is accepted at once; Digest needs a challenge for each body.
    for (login, challenges) in [
        (RequiredLogin::basic("me", PASSWORD), 1),
        (RequiredLogin::digest("me", PASSWORD), 2),
    ] {
        let server = ScriptedServer::new(|mut stream, _| async move {
            let head = read_head(&mut stream).await;
            let body = if head.starts_with("POST") {
                read(&mut stream, 9).await
            } else {
                Vec::new()
            };
            assert!(!head.to_ascii_lowercase().contains("proxy-authorization"));
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            let response = [head.as_bytes(), &body].concat();
            stream.write_all(&response).await.unwrap();
        })
        .await;
        let url = format!("http://{}/x?y", server.address);
        let post = format!("POST {url} HTTP/1.1\r\nContent-Length: 9\r\n\r\nsome data");
        let get = format!("GET {url} HTTP/1.1\r\n\r\n");
        for requests in [[&post, &get, &post], [&get, &post, &get]] {
            let proxy = HttpProxy::builder()
                .require_login(login.clone())
                .start()
                .await;
            let fixture = EngineFixture::http(through_proxy(&proxy.url_with_login("me", PASSWORD)));
            let mut client = fixture.connect().await;
            for request in requests {
                send(&mut client, request.as_bytes()).await;
                let response = read_response(&mut client).await;
                assert!(response.starts_with("HTTP/1.1 200 OK"), "{response}");
                assert_eq!(response.ends_with("some data"), request.starts_with("POST"));
            }
            // No body was sent to the proxy before it accepted the login.
            let refused = proxy
                .requests()
                .into_iter()
                .filter(|request| request.status == 407);
            let methods: Vec<_> = refused.map(|request| request.method).collect();
            let is_posted = methods.iter().any(|method| method == "POST");
            assert!(methods.len() == challenges && !is_posted, "{methods:?}");
        }
    }
}

/// Asserts that the client gets a 502 of haul's own with this reason, and that the log line with this number has it, too.
async fn assert_refused(fixture: &EngineFixture, number: usize, request: &[u8], reason: &str) {
    let response = fixture.http_request(request).await;
    assert!(response.starts_with("HTTP/1.1 502 "), "{response}");
    assert!(response.contains(reason), "{response}");
    let hint = match reason {
        "requires credentials" => "\nhint: the tunnel has no login for this proxy; ",
        _ => "\nhint: check the tunnel's login for this proxy; ",
    };
    assert!(
        response.contains(hint) && !response.contains(PASSWORD),
        "{response}"
    );
    let line = fixture.log.line(number).await;
    assert!(
        line.contains("\"unreached\"") && line.contains(reason),
        "{line}"
    );
}

#[tokio::test]
async fn e4_a_login_that_the_proxy_refuses_causes_a_502_and_is_not_sent_endlessly() {
    let origin = origin().await;
    let refused = "refused the credentials";
    let post = b"POST http://far.test/ HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody";
    for login in [
        RequiredLogin::digest("me", "other"),
        RequiredLogin::basic("me", "other"),
    ] {
        let proxy = HttpProxy::builder().require_login(login).start().await;
        let fixture = EngineFixture::http(through_proxy(&proxy.url_with_login("me", PASSWORD)));
        for number in [0, 2] {
            // The login of a client is not sent to the next proxy.
            let client_login = "Proxy-Authorization: Basic bWU6b3RoZXI=\r\n";
            assert_refused(&fixture, number, &get(&origin, client_login), refused).await;
            assert_refused(&fixture, number + 1, post, refused).await;
        }
        let fixture = EngineFixture::http(through_proxy(&proxy.url()));
        for (number, request) in [&get(&origin, "")[..], post].into_iter().enumerate() {
            assert_refused(&fixture, number, request, "requires credentials").await;
        }
        assert!(origin.requests().is_empty());
    }
    // A proxy that has a new nonce for each response.
    let nonce_changing = ScriptedServer::new(|mut stream, number| async move {
        read_head(&mut stream).await;
        let response = format!("HTTP/1.1 407 x\r\nProxy-Authenticate: Digest realm=\"x\", qop=\"auth\", nonce=\"{number}\", stale=true\r\nContent-Length: 0\r\n\r\n");
        let _ = stream.write_all(response.as_bytes()).await;
    })
    .await;
    let fixture = EngineFixture::http(with_login(&nonce_changing));
    assert_refused(&fixture, 0, &get(&origin, ""), refused).await;
    assert!(
        nonce_changing.accepted() <= 4,
        "{}",
        nonce_changing.accepted()
    );
}

/// The proxy does not read the body before it responds, so its system resets the connection.
#[tokio::test]
async fn e4_a_challenge_that_is_sent_before_the_body_was_read_is_handled() {
    let proxy = ScriptedServer::new(|mut stream, _| async move {
        read_head(&mut stream).await;
        let response = b"HTTP/1.1 407 x\r\nProxy-Authenticate: Basic realm=\"lab\"\r\n\r\n";
        stream.write_all(response).await.unwrap();
    })
    .await;
    let fixture = EngineFixture::http(through_proxy(&proxy.proxy_url()));
    let mut client = fixture.connect().await;
    let head = b"POST http://far.test/ HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n";
    send(&mut client, head).await;
    let (mut reader, mut writer) = client.split();
    let body = vec![b'x'; 1 << 20];
    let (_, response) = tokio::join!(writer.write_all(&body), read_response(&mut reader));
    assert!(response.starts_with("HTTP/1.1 502 "), "{response}");
    drop(client);
    assert!(fixture.log.line(0).await.contains("\"unreached\""));
}

/// A proxy that responds to every request itself, and the methods of the requests that it got.
async fn recording_proxy(
    respond: impl Fn(&str) -> &'static str + Send + Sync + 'static,
) -> (ScriptedServer, Arc<Mutex<Vec<String>>>) {
    let methods = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&methods);
    let respond = Arc::new(respond);
    let proxy = ScriptedServer::new(move |mut stream, _| {
        let (seen, respond) = (Arc::clone(&seen), Arc::clone(&respond));
        async move {
            let head = read_head(&mut stream).await;
            if head.starts_with("POST") {
                read(&mut stream, 4).await;
            }
            let method = head.split(' ').next().unwrap().to_owned();
            seen.lock().unwrap().push(method);
            stream.write_all(respond(&head).as_bytes()).await.unwrap();
        }
    })
    .await;
    (proxy, methods)
}

#[tokio::test]
async fn e4_a_proxy_that_requires_no_login_is_probed_once() {
    let (proxy, methods) = recording_proxy(|head| if head.contains("locked.test") { "HTTP/1.1 407 x\r\nProxy-Authenticate: Negotiate\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" } else { OK })
    .await;
    let fixture = EngineFixture::http(with_login(&proxy));
    let post = b"POST http://far.test/ HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody";
    for _ in 0..3 {
        let response = fixture.http_request(post).await;
        assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
    }
    assert_eq!(*methods.lock().unwrap(), ["HEAD", "POST", "POST", "POST"]);
    // The proxy has required a login once, so it may do so again.
    methods.lock().unwrap().clear();
    let get = b"GET http://locked.test/ HTTP/1.1\r\n\r\n";
    let negotiate = "it accepts only negotiate";
    assert_refused(&fixture, 3, get, negotiate).await;
    let response = fixture.http_request(post).await;
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
    assert_eq!(*methods.lock().unwrap(), ["GET", "HEAD", "POST"]);
}

#[tokio::test(start_paused = true)]
async fn e4_a_proxy_that_does_not_respond_causes_a_timeout() {
    let proxy = ScriptedServer::new(|mut stream, number| async move {
        let head = read_head(&mut stream).await;
        if head.starts_with("POST") {
            assert_eq!(number, 1);
            let _ = stream.write_all(OK.as_bytes()).await;
        }
        std::future::pending::<()>().await;
    })
    .await;
    // The connect timeout applies to the probe before a body.
    let upstream = UpstreamOptions {
        connector: connect_timeout(Duration::from_secs(5)),
        ..with_login(&proxy)
    };
    let mut config = config(ListenerKind::Http, upstream);
    config.timeouts.idle = Some(Duration::from_secs(60));
    let fixture = EngineFixture::with_config(config);
    let started = Instant::now();
    let mut client = TcpStream::connect(fixture.address).await.unwrap();
    client
        .write_all(b"POST http://far.test/ HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody")
        .await
        .unwrap();
    let mut start = [0; 13];
    client.read_exact(&mut start).await.unwrap();
    assert_eq!(start, *b"HTTP/1.1 200 ");
    assert!(started.elapsed() < Duration::from_secs(10));
    drop(client);
    // The idle timeout applies to a response.
    let started = Instant::now();
    let mut client = TcpStream::connect(fixture.address).await.unwrap();
    client
        .write_all(b"GET http://far.test/ HTTP/1.1\r\n\r\n")
        .await
        .unwrap();
    assert!(!matches!(client.read(&mut [0; 1]).await, Ok(1..)));
    let waited = started.elapsed().as_secs();
    assert!((59..77).contains(&waited), "{waited}");
}

/// A proxy that wants a login, never asks for it, and refuses by this response or closes the connection.
async fn silent_proxy(refusal: &'static str) -> (ScriptedServer, Arc<Mutex<Vec<String>>>) {
    recording_proxy(move |head| {
        if head.contains("Proxy-Authorization: Basic ") {
            OK
        } else {
            refusal
        }
    })
    .await
}

#[tokio::test]
async fn e4_a_proxy_that_never_asks_gets_the_login_with_and_without_a_request_body() {
    let get = &b"GET http://far.test/ HTTP/1.1\r\n\r\n"[..];
    let post = b"POST http://far.test/ HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody";
    for refusal in [
        "HTTP/1.0 401 Unauthorized\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        "HTTP/1.1 407 x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        "",
    ] {
        for (requests, expected) in [
            ([get, post], ["GET", "GET", "POST"]),
            ([post, get], ["HEAD", "POST", "GET"]),
        ] {
            let (proxy, methods) = silent_proxy(refusal).await;
            let fixture = EngineFixture::http(with_login(&proxy));
            for request in requests {
                let response = fixture.http_request(request).await;
                assert!(
                    response.starts_with("HTTP/1.1 200 "),
                    "{refusal}: {response}"
                );
            }
            assert_eq!(*methods.lock().unwrap(), expected, "{refusal}");
        }
    }
}

#[tokio::test]
async fn e4_a_refusal_that_is_not_for_want_of_a_login_is_passed_on() {
    let (proxy, methods) =
        recording_proxy(|_| "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n").await;
    let fixture = EngineFixture::http(with_login(&proxy));
    for _ in 0..2 {
        let response = fixture
            .http_request(b"GET http://far.test/ HTTP/1.1\r\n\r\n")
            .await;
        assert!(response.starts_with("HTTP/1.1 403 "), "{response}");
    }
    // Only the first was sent twice.
    assert_eq!(*methods.lock().unwrap(), ["GET", "GET", "GET"]);
    // A request that may change something is not repeated because a connection broke, and the error has the reason.
    let (proxy, methods) = recording_proxy(|_| "").await;
    let fixture = EngineFixture::http(with_login(&proxy));
    let patch = b"PATCH http://far.test/ HTTP/1.1\r\n\r\n";
    let response = fixture.http_request(patch).await;
    assert!(response.starts_with("HTTP/1.1 502 "), "{response}");
    assert_eq!(*methods.lock().unwrap(), ["PATCH"]);
    let get = b"GET http://far.test/ HTTP/1.1\r\n\r\n";
    let response = fixture.http_request(get).await;
    assert!(response.contains("never asked for a login"), "{response}");
}
