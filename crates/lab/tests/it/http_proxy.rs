//! The HTTP proxy: tunnels, forwarded requests, refusals.

use std::time::Duration;

use haul_lab::faults::{self, RequiredLogin};
use haul_lab::{
    CertificateAuthority, HttpProxy, HttpProxyBuilder, OriginResource, OriginResponseBody,
    RequestMatcher, within,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::raw::{ConnectionEnd, LIMIT, RawConnection, content, part, serve};
use crate::tls::handshake;

/// A proxy for which `echo.test:7` is a listener of the test, with a tunnel to it, and the target's end.
async fn tunnel(builder: HttpProxyBuilder) -> (HttpProxy, RawConnection<TcpStream>, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = builder
        .route("echo.test:7", listener.local_addr().unwrap())
        .start()
        .await;
    let mut client = RawConnection::to(proxy.address()).await;
    client.send_request("CONNECT echo.test:7", &[]).await;
    let (server, _) = within(LIMIT, listener.accept()).await.unwrap();
    let head = within(LIMIT, client.head()).await.unwrap();
    assert!(
        head.starts_with("HTTP/1.1 200 Connection established\r\n"),
        "{head}"
    );
    assert!(
        !head.contains("Content-Length") && !head.contains("Transfer-Encoding"),
        "{head}"
    );
    (proxy, client, server)
}

#[tokio::test]
async fn a_tunnel_carries_http() {
    let origin = serve(OriginResource::new(content())).await;
    let proxy = HttpProxy::builder()
        .route("files.test:80", origin.address())
        .start()
        .await;
    let mut client = RawConnection::to(proxy.address()).await;
    client
        .send_request("CONNECT Files.Test:80", &["X-Mine: 1"])
        .await;
    client.head().await.unwrap();
    for _ in 0..2 {
        assert!(client.exchange("GET /f.bin", &[]).await.body == content().to_vec());
    }
    let request = &proxy.requests()[0];
    assert_eq!(
        (
            request.method.as_str(),
            request.target.as_str(),
            request.status
        ),
        ("CONNECT", "Files.Test:80", 200)
    );
    assert_eq!(request.header("x-mine"), Some("1"));
    assert!(request.bytes_sent > 2 * content().length());
    assert_eq!(
        (proxy.open_connections(), origin.connection_count()),
        (1, 1)
    );
    assert_eq!(origin.requests()[0].header("x-mine"), None);
}

#[tokio::test]
async fn bytes_after_the_request_reach_the_target() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = HttpProxy::builder()
        .route("echo.test:7", listener.local_addr().unwrap())
        .start()
        .await;
    let mut client = RawConnection::to(proxy.address()).await;
    client
        .send("CONNECT echo.test:7 HTTP/1.1\r\n\r\nearly")
        .await;
    let (mut server, _) = within(LIMIT, listener.accept()).await.unwrap();
    let mut heard = [0; 5];
    within(LIMIT, server.read_exact(&mut heard)).await.unwrap();
    assert_eq!(&heard, b"early");
}

#[tokio::test]
async fn e1_e2_e3_odd_responses_to_connect() {
    let odd = HttpProxy::builder().rule(RequestMatcher::always(), |_, reply| {
        reply.version = "HTTP/1.0".into();
        reply.reason = Some("Fine by me".into());
        reply.set_header("Content-Length", "5");
        reply.prelude = b"HTTP/1.1 103 Early\r\n\r\n".to_vec();
        reply.head_packet_bytes = Some(1);
        reply.body = OriginResponseBody::Bytes(b"SSH-2.0-lab\r\n".to_vec());
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = odd
        .route("echo.test:7", listener.local_addr().unwrap())
        .start()
        .await;
    let mut client = RawConnection::to(proxy.address()).await;
    client.send_request("CONNECT echo.test:7", &[]).await;
    assert_eq!(client.head().await.unwrap(), "HTTP/1.1 103 Early\r\n\r\n");
    let head = client.head().await.unwrap();
    assert!(
        head.starts_with("HTTP/1.0 200 Fine by me\r\n") && head.contains("Content-Length: 5\r\n"),
        "{head}"
    );
    let (mut server, _) = listener.accept().await.unwrap();
    server.write_all(b"more").await.unwrap();
    client.fill(17).await;
    assert_eq!(client.buffer, b"SSH-2.0-lab\r\nmore");
}

#[tokio::test]
async fn e2_a_banner_comes_in_the_same_packet() {
    let banner = |_: &_, reply: &mut haul_lab::OriginResponse| {
        reply.body = OriginResponseBody::Bytes(b"SSH-2.0-lab\r\n".to_vec())
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let builder = HttpProxy::builder().rule(RequestMatcher::always(), banner);
    let proxy = builder
        .route("echo.test:7", listener.local_addr().unwrap())
        .start()
        .await;
    let mut client = RawConnection::to(proxy.address()).await;
    client.send_request("CONNECT echo.test:7", &[]).await;
    client.fill(1).await;
    assert!(
        client.buffer.ends_with(b"\r\n\r\nSSH-2.0-lab\r\n"),
        "{:?}",
        client.buffer
    );
}

#[tokio::test]
async fn e4_logins_are_required() {
    for (login, shown) in [
        (RequiredLogin::basic("u", "p"), "Basic realm=\"lab\""),
        (
            RequiredLogin::digest("u", "p"),
            "Digest realm=\"lab\", qop=\"auth\", algorithm=SHA-256, nonce=",
        ),
        (
            RequiredLogin::digest_md5("u", "p"),
            "Digest realm=\"lab\", qop=\"auth\", algorithm=MD5, nonce=",
        ),
    ] {
        let proxy = HttpProxy::builder().require_login(login).start().await;
        let response = RawConnection::to(proxy.address())
            .await
            .exchange("CONNECT echo.test:7", &[])
            .await;
        assert_eq!(response.status(), 407);
        assert!(
            response
                .field("Proxy-Authenticate")
                .unwrap()
                .starts_with(shown),
            "{}",
            response.head
        );
        // Credentials for an origin are not those for the proxy.
        let fields = ["Authorization: Basic dTpw"];
        let response = RawConnection::to(proxy.address())
            .await
            .exchange("CONNECT echo.test:7", &fields)
            .await;
        assert_eq!(response.status(), 407);
    }
    let origin = serve(OriginResource::new(content())).await;
    let builder = HttpProxy::builder().route("files.test:80", origin.address());
    let proxy = builder
        .require_login(RequiredLogin::basic("u", "p"))
        .start()
        .await;
    let mut client = RawConnection::to(proxy.address()).await;
    assert_eq!(
        client
            .exchange("GET http://files.test/f.bin", &[])
            .await
            .status(),
        407
    );
    // The connection can still be used.
    let fields = ["Proxy-Authorization: Basic dTpw"];
    assert!(
        client
            .exchange("GET http://files.test/f.bin", &fields)
            .await
            .complete
    );
    assert_eq!(origin.requests()[0].header("proxy-authorization"), None);
    assert!(
        proxy
            .url_with_login("u", "p")
            .starts_with("http://u:p@127.0.0.1:")
    );
}

#[tokio::test]
async fn e5_refusals_have_a_status() {
    let closed = RequestMatcher::matching(|request| request.target == "echo.test:7");
    let builder = HttpProxy::builder().rule(closed, faults::status(403));
    let proxy = builder.start().await;
    let response = RawConnection::to(proxy.address())
        .await
        .exchange("CONNECT echo.test:7", &[])
        .await;
    assert_eq!((response.status(), response.complete), (403, true));
    let nobody = format!("127.0.0.1:{}", haul_lab::free_ports::<1>()[0]);
    for line in [
        format!("CONNECT {nobody}"),
        format!("GET http://{nobody}/x"),
    ] {
        let response = RawConnection::to(proxy.address())
            .await
            .exchange(&line, &[])
            .await;
        assert_eq!(response.status(), 502, "{line}");
    }
    let response = RawConnection::to(proxy.address())
        .await
        .exchange("GET /x", &[])
        .await;
    assert_eq!(response.status(), 400);
    assert_eq!(
        proxy
            .requests()
            .iter()
            .map(|a| a.status)
            .collect::<Vec<_>>(),
        [403, 502, 502, 400]
    );
    assert_eq!(proxy.stop().await.len(), 4);
}

#[tokio::test]
async fn requests_are_forwarded() {
    let origin = serve(OriginResource::new(content())).await;
    let proxy = HttpProxy::builder()
        .route("files.test:80", origin.address())
        .start()
        .await;
    let mut client = RawConnection::to(proxy.address()).await;
    let fields = [
        "Range: bytes=5-9",
        "Proxy-Connection: keep-alive",
        "X-Mine: 1",
    ];
    let response = client
        .exchange("GET http://files.test/f.bin?q", &fields)
        .await;
    assert_eq!(
        (response.status(), response.field("Connection")),
        (206, Some("close"))
    );
    assert_eq!(response.body, part(5..10));
    assert_eq!(client.rest().await, (vec![], ConnectionEnd::Closed));
    assert_eq!(proxy.requests()[0].target, "http://files.test/f.bin?q");
    let request = &origin.requests()[0];
    assert_eq!(
        (request.target.as_str(), request.header("host")),
        ("/f.bin?q", Some("h"))
    );
    assert_eq!(
        (request.header("via"), request.header("x-mine")),
        (Some("1.1 lab"), Some("1"))
    );
    assert_eq!(request.header("proxy-connection"), None);
}

#[tokio::test]
async fn e7_half_closes_are_passed_on() {
    let (_proxy, mut client, mut server) = tunnel(HttpProxy::builder()).await;
    client.send("the last words").await;
    client.stream.shutdown().await.unwrap();
    let mut heard = String::new();
    within(LIMIT, server.read_to_string(&mut heard))
        .await
        .unwrap();
    assert_eq!(heard, "the last words");
    server.write_all(b"a response").await.unwrap();
    drop(server);
    assert_eq!(
        client.rest().await,
        (b"a response".to_vec(), ConnectionEnd::Closed)
    );
}

#[tokio::test]
async fn e8_resets_are_passed_on() {
    let (_proxy, mut client, server) = tunnel(HttpProxy::builder()).await;
    socket2::SockRef::from(&server)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
    drop(server);
    assert_eq!(client.rest().await.1, ConnectionEnd::Reset);
}

#[tokio::test]
async fn e13_a_proxy_speaks_tls() {
    let authority = CertificateAuthority::new();
    let origin = serve(OriginResource::new(content())).await;
    let proxy = HttpProxy::builder()
        .tls(authority.issue(&["127.0.0.1"]).server_config(None))
        .route("files.test:80", origin.address())
        .start()
        .await;
    assert!(proxy.url().starts_with("https://127.0.0.1:"));
    let stream = handshake(proxy.address(), &authority, None).await.unwrap();
    let mut client = RawConnection::over(stream);
    client.send_request("CONNECT files.test:80", &[]).await;
    client.head().await.unwrap();
    assert!(client.exchange("GET /f.bin", &[]).await.body == content().to_vec());
}

#[tokio::test]
async fn a_silent_proxy_sends_nothing() {
    let hour = Duration::from_secs(3600);
    let builder = HttpProxy::builder().rule(RequestMatcher::always(), faults::delay_response(hour));
    let proxy = builder.start().await;
    let mut client = RawConnection::to(proxy.address()).await;
    client.send_request("CONNECT echo.test:7", &[]).await;
    assert!(client.is_silent().await);
}
