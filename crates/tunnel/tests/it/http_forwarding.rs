//! Absolute-form requests, forwarded to an origin or to another proxy.

use haul_lab::{HttpProxy, Origin, OriginResource, ResourceContent, SocksProxy};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::harness::*;

const BODY: &[u8] = b"content of the file";

pub(crate) async fn origin() -> Origin {
    Origin::builder()
        .resource("/f", OriginResource::new(ResourceContent::fixed(BODY)))
        .start()
        .await
}

pub(crate) fn get(origin: &Origin, fields: &str) -> Vec<u8> {
    format!(
        "GET {} HTTP/1.1\r\nHost: wrong.test\r\n{fields}\r\n",
        origin.url("/f")
    )
    .into_bytes()
}

/// A response without a body, after which the server closes.
pub(crate) const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

#[tokio::test]
async fn a_request_is_forwarded_to_its_origin() {
    let origin = origin().await;
    let socks = SocksProxy::builder().start().await;
    for upstream in [direct(), through_proxy(&socks.url("socks5h"))] {
        let fixture = EngineFixture::http(upstream);
        let fields = "Proxy-Connection: keep-alive\r\nConnection: x-mine\r\nX-Mine: 1\r\nX-Yours: 2\r\nProxy-Authorization: Basic eDp5\r\n";
        let response = fixture.http_request(&get(&origin, fields)).await;
        let is_whole = response.starts_with("HTTP/1.1 200 ") && response.as_bytes().ends_with(BODY);
        assert!(is_whole, "{response}");
        let request = origin.requests().pop().unwrap();
        assert_eq!(
            (request.target.as_str(), request.header("host")),
            ("/f", Some(origin.address().to_string().as_str()))
        );
        assert_eq!(request.header("x-yours"), Some("2"));
        for name in [
            "connection",
            "proxy-connection",
            "x-mine",
            "proxy-authorization",
        ] {
            assert_eq!(request.header(name), None, "{name}");
        }
    }
}

#[tokio::test]
async fn a_request_is_forwarded_to_a_proxy_in_absolute_form() {
    let origin = origin().await;
    let first = HttpProxy::builder().start().await;
    let proxy = HttpProxy::builder().start().await;
    for upstream in [
        through_proxy(&proxy.url()),
        proxy_chain(&[&[first.url()], &[proxy.url()]]),
    ] {
        let fixture = EngineFixture::http(upstream);
        let response = fixture.http_request(&get(&origin, "")).await;
        assert!(response.as_bytes().ends_with(BODY), "{response}");
        let request = proxy.requests().pop().unwrap();
        assert_eq!(
            (request.method.as_str(), request.target.clone()),
            ("GET", origin.url("/f"))
        );
    }
    assert_eq!(first.requests()[0].method, "CONNECT");
}

/// Hop-by-hop headers of the origin are removed, also those that `Connection` names. All other headers are unchanged.
#[tokio::test]
async fn a_response_is_forwarded_without_its_hop_by_hop_headers() {
    let server = ScriptedServer::new(|mut stream, _| async move {
        read_head(&mut stream).await;
        let response = b"HTTP/1.1 200 very odd\r\nContent-Length: 2\r\nConnection: keep-alive, x\r\nX: 1\r\nKeep-Alive: timeout=9\r\nx-Yours:2\r\n  folded\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n\r\nok";
        stream.write_all(response).await.unwrap();
        read_to_end(&mut stream).await;
    })
    .await;
    let fixture = EngineFixture::http(direct());
    let mut client = fixture.connect().await;
    let request = format!("GET http://{}/ HTTP/1.1\r\n\r\n", server.address);
    send(&mut client, request.as_bytes()).await;
    let head = read_head(&mut client).await;
    let expected = "HTTP/1.1 200 very odd\r\nContent-Length: 2\r\nx-Yours: 2 folded\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n\r\n";
    assert_eq!(sorted(&head), sorted(expected));
    assert_eq!(read(&mut client, 2).await, b"ok");
    assert!(fixture.log.line(0).await.contains("\"closed\""));
}

/// The sorted lines of a head, since the order of different headers does not matter.
fn sorted(head: &str) -> Vec<&str> {
    let mut lines: Vec<_> = head.lines().collect();
    lines.sort_unstable();
    lines
}

#[tokio::test]
async fn an_http_1_0_client_gets_a_response_without_chunks() {
    let server = ScriptedServer::new(|mut stream, _| async move {
        let head = read_head(&mut stream).await;
        assert!(head.starts_with("GET / HTTP/1.1\r\n"), "{head}");
        let response =
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n";
        stream.write_all(response).await.unwrap();
        read_to_end(&mut stream).await;
    })
    .await;
    let fixture = EngineFixture::http(direct());
    let request = format!("GET http://{}/ HTTP/1.0\r\n\r\n", server.address);
    let response = fixture.request(request.as_bytes()).await;
    assert_eq!(response, "HTTP/1.0 200 OK\r\n\r\nbody");
}

#[tokio::test]
async fn a_protocol_upgrade_becomes_a_tunnel_and_loses_no_byte() {
    let server = ScriptedServer::new(|mut stream, _| async move {
        let head = read_head(&mut stream).await;
        assert_eq!(header_value(&head, "upgrade"), Some("websocket"), "{head}");
        assert_eq!(header_value(&head, "connection"), Some("upgrade"), "{head}");
        assert_eq!(header_value(&head, "sec-websocket-key"), Some("x"), "{head}");
        let response = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhello";
        stream.write_all(response).await.unwrap();
        echo_all(stream).await;
    })
    .await;
    for upstream in [direct(), through_proxy(&server.proxy_url())] {
        let fixture = EngineFixture::http(upstream);
        let mut client = fixture.connect().await;
        let request = format!(
            "GET http://{}/ HTTP/1.1\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\nearly",
            server.address
        );
        send(&mut client, request.as_bytes()).await;
        let head = read_head(&mut client).await;
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        assert_eq!(header_value(&head, "upgrade"), Some("websocket"), "{head}");
        assert_eq!(read(&mut client, 10).await, b"helloearly");
        assert_echo(&mut client).await;
        drop(client);
        assert!(fixture.log.line(0).await.contains("\"closed\""));
    }
}

#[tokio::test]
async fn responses_that_cannot_be_forwarded_become_a_502() {
    let upgrade = "HTTP/1.1 101 x\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n";
    let gzip = "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n";
    let lengths = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab";
    for bytes in [
        upgrade,
        gzip,
        lengths,
        "ICY 200 OK\r\n\r\n",
        "SSH-2.0-x\r\n\r\n",
    ] {
        let server = ScriptedServer::new(move |mut stream, _| async move {
            read_head(&mut stream).await;
            stream.write_all(bytes.as_bytes()).await.unwrap();
            read_to_end(&mut stream).await;
        })
        .await;
        for upstream in [direct(), through_proxy(&server.proxy_url())] {
            let fixture = EngineFixture::http(upstream);
            let request = format!("GET http://{}/ HTTP/1.1\r\n\r\n", server.address);
            let response = fixture.http_request(request.as_bytes()).await;
            assert!(response.starts_with("HTTP/1.1 502 "), "{bytes}: {response}");
            assert!(response.contains("cannot reach 127.0.0.1"), "{response}");
            let line = fixture.log.line(0).await;
            assert!(
                line.contains("\"unreached\"") && line.contains("HTTP"),
                "{line}"
            );
        }
    }
}

#[tokio::test]
async fn e5_a_server_that_closes_without_a_response_causes_a_502() {
    let unresponsive = ScriptedServer::new(|mut stream, _| async move {
        read_head(&mut stream).await;
    })
    .await;
    let request = format!(
        "GET http://{}/f HTTP/1.1\r\nHost: x\r\n\r\n",
        unresponsive.address
    );
    for upstream in [direct(), through_proxy(&unresponsive.proxy_url())] {
        let fixture = EngineFixture::http(upstream);
        let response = fixture.http_request(request.as_bytes()).await;
        assert!(response.starts_with("HTTP/1.1 502 "), "{response}");
        let line = fixture.log.line(0).await;
        assert!(line.contains("\"unreached\""), "{line}");
    }
}

/// The body ends with the connection, so only a reset tells the client that the body is incomplete.
#[tokio::test]
async fn a_response_without_a_length_that_breaks_off_ends_with_a_reset() {
    let server = ScriptedServer::new(|mut stream, _| async move {
        read_head(&mut stream).await;
        let response = b"HTTP/1.1 200 OK\r\n\r\nhalf of it";
        stream.write_all(response).await.unwrap();
        stream.read_u8().await.unwrap();
        stream.set_zero_linger().unwrap();
    })
    .await;
    let fixture = EngineFixture::http(direct());
    let mut client = fixture.connect().await;
    let request = format!(
        "PUT http://{}/ HTTP/1.0\r\nContent-Length: 9\r\n\r\n",
        server.address
    );
    send(&mut client, request.as_bytes()).await;
    let head = read_head(&mut client).await;
    assert!(head.starts_with("HTTP/1.0 200 "), "{head}");
    assert_eq!(read(&mut client, 10).await, b"half of it");
    send(&mut client, b"x").await;
    let error = client.read_u8().await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    let line = fixture.log.line(0).await;
    assert!(line.contains("\"reset_by_target\""), "{line}");
}
