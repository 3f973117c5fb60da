//! TLS to a proxy (row E13) and to the target.

use std::sync::{Arc, Mutex};

use haul_lab::{CertificateAuthority, HttpProxy, IssuedCertificate, within};
use haul_net::{ClientCertificate, Proxy, ProxyTls, TlsOptions};
use haul_tunnel::UpstreamOptions;
use tokio::io::AsyncWriteExt;
use tokio_rustls::LazyConfigAcceptor;

use crate::harness::*;

fn trusting(authority: &CertificateAuthority, identity: Option<&IssuedCertificate>) -> TlsOptions {
    TlsOptions {
        cacert: Some(authority.certificate_pem().into_bytes()),
        client_certificate: identity.map(|issued| ClientCertificate {
            certificates: issued.certificate_pem.clone().into_bytes(),
            key: issued.key_pem.clone().into_bytes(),
        }),
        ..TlsOptions::default()
    }
}

/// An upstream through a proxy with these TLS options for the connection to the proxy.
fn through_tls(url: &str, tls: TlsOptions) -> UpstreamOptions {
    let mut upstream = through_proxy(url);
    upstream.proxies[0][0].tls = Some(ProxyTls::new(tls).unwrap());
    upstream
}

#[tokio::test]
async fn e13_the_certificate_of_a_proxy_is_checked_with_the_authority_for_that_proxy() {
    let (authority, other_authority) = (CertificateAuthority::new(), CertificateAuthority::new());
    let echo = ScriptedServer::echo().await;
    let proxy = HttpProxy::builder()
        .tls(authority.issue(&["127.0.0.1"]).server_config(None))
        .start()
        .await;
    let fixture = EngineFixture::forward(
        target(echo.address),
        through_tls(&proxy.url(), trusting(&authority, None)),
    );
    drop(fixture.echo().await);
    assert!(fixture.log.line(0).await.contains("\"closed\""));
    let wrong_host = HttpProxy::builder()
        .tls(authority.issue(&["other.test"]).server_config(None))
        .start()
        .await;
    let expired = HttpProxy::builder()
        .tls(authority.issue_expired(&["127.0.0.1"]).server_config(None))
        .start()
        .await;
    for (url, tls, message) in [
        (
            proxy.url(),
            trusting(&other_authority, None),
            "issuer of the certificate is not trusted",
        ),
        (
            wrong_host.url(),
            trusting(&authority, None),
            "for another host",
        ),
        (expired.url(), trusting(&authority, None), "expired"),
    ] {
        let fixture = EngineFixture::forward(target(echo.address), through_tls(&url, tls));
        assert_closed(&mut fixture.connect().await).await;
        let line = fixture.log.line(0).await;
        assert!(
            line.contains(message) && line.contains("the proxy"),
            "{line}"
        );
    }
    // The authority for the target is not the one for the proxy.
    let mut upstream = through_tls(&proxy.url(), trusting(&other_authority, None));
    upstream.tls = trusting(&authority, None);
    assert_closed(
        &mut EngineFixture::forward(target(echo.address), upstream)
            .connect()
            .await,
    )
    .await;
    assert_eq!(echo.accepted(), 1);
}

#[tokio::test]
async fn e13_a_client_certificate_for_a_proxy_is_sent_to_that_proxy_only() {
    let authority = CertificateAuthority::new();
    let identity = authority.issue(&["me.test"]);
    let echo = ScriptedServer::echo().await;
    let strict = HttpProxy::builder()
        .tls(
            authority
                .issue(&["127.0.0.1"])
                .server_config(Some(&authority)),
        )
        .start()
        .await;
    let fixture = EngineFixture::forward(
        target(echo.address),
        through_tls(&strict.url(), trusting(&authority, Some(&identity))),
    );
    fixture.echo().await;
    // A client certificate for the target only, and no client certificate.
    let mut other = through_tls(&strict.url(), trusting(&authority, None));
    other.tls = trusting(&authority, Some(&identity));
    for upstream in [
        other,
        through_tls(&strict.url(), trusting(&authority, None)),
    ] {
        let fixture = EngineFixture::forward(target(echo.address), upstream);
        assert_closed(&mut fixture.connect().await).await;
        let line = fixture.log.line(0).await;
        assert!(line.contains("\"unreached\""), "{line}");
    }
    assert_eq!(echo.accepted(), 1);
}

#[tokio::test]
async fn e13_a_proxy_with_tls_may_be_at_any_hop_of_a_chain() {
    let authority = CertificateAuthority::new();
    let echo = ScriptedServer::echo().await;
    let secured = HttpProxy::builder()
        .tls(authority.issue(&["127.0.0.1"]).server_config(None))
        .start()
        .await;
    let plain = HttpProxy::builder().start().await;
    let tls = ProxyTls::new(trusting(&authority, None)).unwrap();
    let parse_proxy = |url: String| -> Proxy { url.parse().unwrap() };
    let tls_proxy = || Proxy {
        tls: Some(tls.clone()),
        ..parse_proxy(secured.url())
    };
    for proxy_chain in [
        vec![vec![tls_proxy()], vec![parse_proxy(plain.url())]],
        vec![vec![parse_proxy(plain.url())], vec![tls_proxy()]],
        vec![vec![tls_proxy()], vec![tls_proxy()]],
    ] {
        let upstream = UpstreamOptions {
            proxies: proxy_chain,
            ..direct()
        };
        let fixture = EngineFixture::forward(target(echo.address), upstream);
        let mut client = fixture.connect().await;
        let (mut from, mut to) = client.split();
        let all = vec![7; 2 << 20];
        let sending = async {
            send(&mut to, &all).await;
            to.shutdown().await.unwrap();
        };
        let (_, received) = within(LIMIT, async {
            tokio::join!(sending, read_to_end(&mut from))
        })
        .await;
        assert!(received == all);
        assert!(fixture.log.line(0).await.contains("\"closed\""));
    }
}

/// The server name of each ClientHello, and whether it had ALPN protocols.
type ClientHellos = Arc<Mutex<Vec<(Option<String>, bool)>>>;

/// An IMAP server over TLS, and the ClientHellos that it received.
async fn imap_server(authority: &CertificateAuthority) -> (ScriptedServer, ClientHellos) {
    let hellos = ClientHellos::default();
    let seen = Arc::clone(&hellos);
    let config = authority.issue(&["imap.test"]).server_config(None);
    let server = ScriptedServer::new(move |stream, _| {
        let (seen, config) = (Arc::clone(&seen), Arc::clone(&config));
        async move {
            let start = LazyConfigAcceptor::new(Default::default(), stream)
                .await
                .unwrap();
            let hello = start.client_hello();
            let name = hello.server_name().map(str::to_owned);
            seen.lock().unwrap().push((name, hello.alpn().is_some()));
            let Ok(mut stream) = start.into_stream(config).await else {
                return;
            };
            stream.write_all(b"* OK ready\r\n").await.unwrap();
            let _ = stream.flush().await;
            let (mut from, mut to) = tokio::io::split(stream);
            let _ = tokio::io::copy(&mut from, &mut to).await;
            let _ = to.shutdown().await;
        }
    })
    .await;
    (server, hellos)
}

#[tokio::test]
async fn the_certificate_of_the_target_is_checked_and_no_alpn_is_sent() {
    let (authority, other_authority) = (CertificateAuthority::new(), CertificateAuthority::new());
    let (server, hellos) = imap_server(&authority).await;
    let proxy = HttpProxy::builder()
        .route("imap.test:993", server.address)
        .route("other.test:993", server.address)
        .start()
        .await;
    let upstream = |tls| UpstreamOptions {
        target_tls: true,
        tls,
        ..through_proxy(&proxy.url())
    };
    let fixture = EngineFixture::forward(
        target("imap.test:993"),
        upstream(trusting(&authority, None)),
    );
    let mut client = fixture.connect().await;
    assert_eq!(read(&mut client, 12).await, b"* OK ready\r\n");
    assert_echo(&mut client).await;
    client.shutdown().await.unwrap();
    assert_eq!(read_to_end(&mut client).await, b"");
    assert!(fixture.log.line(0).await.contains("\"closed\""));
    let hello = (Some("imap.test".to_owned()), false);
    assert_eq!(*hellos.lock().unwrap(), [hello]);
    for (to, tls, message) in [
        (
            "imap.test:993",
            trusting(&other_authority, None),
            "issuer of the certificate is not trusted",
        ),
        (
            "other.test:993",
            trusting(&authority, None),
            "for another host",
        ),
    ] {
        // Another route would reach the same target, so none is tried.
        let other = HttpProxy::builder().start().await;
        let options = UpstreamOptions {
            proxies: proxy_chain(&[&[proxy.url(), other.url()]]).proxies,
            direct_fallback: true,
            ..upstream(tls)
        };
        let fixture = EngineFixture::forward(target(to), options);
        assert_closed(&mut fixture.connect().await).await;
        let line = fixture.log.line(0).await;
        assert!(line.contains(message) && !line.contains("; then"), "{line}");
        assert!(other.requests().is_empty());
    }
}

#[tokio::test]
async fn a_plain_http_request_is_sent_to_the_target_over_tls() {
    let authority = CertificateAuthority::new();
    let config = authority.issue(&["127.0.0.1"]).server_config(None);
    let acceptor = tokio_rustls::TlsAcceptor::from(config);
    let server = ScriptedServer::new(move |stream, _| {
        let acceptor = acceptor.clone();
        async move {
            let mut stream = acceptor.accept(stream).await.unwrap();
            let request = read_head(&mut stream).await;
            assert!(request.starts_with("GET /x HTTP/1.1\r\n"), "{request}");
            let response = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nsecured";
            stream.write_all(response).await.unwrap();
            let _ = stream.shutdown().await;
        }
    })
    .await;
    let proxy = HttpProxy::builder().start().await;
    for proxies in [direct(), through_proxy(&proxy.url())] {
        let fixture = EngineFixture::with_kind(
            haul_tunnel::ListenerKind::Http,
            UpstreamOptions {
                target_tls: true,
                tls: trusting(&authority, None),
                ..proxies
            },
        );
        let request = format!("GET http://{}/x HTTP/1.1\r\n\r\n", server.address);
        let response = fixture.http_request(request.as_bytes()).await;
        assert!(response.ends_with("secured"), "{response}");
    }
    assert_eq!(proxy.requests()[0].method, "CONNECT");
}

/// Without a TLS close_notify, the stream may have been truncated. The client gets the received bytes and then a reset.
#[tokio::test]
async fn a_tls_stream_without_close_notify_ends_with_a_reset_after_its_bytes() {
    let authority = CertificateAuthority::new();
    let all = vec![7; 3 << 20];
    let config = authority.issue(&["127.0.0.1"]).server_config(None);
    let acceptor = tokio_rustls::TlsAcceptor::from(config);
    let sent = all.clone();
    let server = ScriptedServer::new(move |stream, _| {
        let (acceptor, sent) = (acceptor.clone(), sent.clone());
        async move {
            let mut stream = acceptor.accept(stream).await.unwrap();
            // The byte of the client is read, since unread bytes would cause a reset.
            read(&mut stream, 1).await;
            stream.write_all(&sent).await.unwrap();
            stream.flush().await.unwrap();
            let (mut tcp, _) = stream.into_inner();
            tcp.shutdown().await.unwrap();
            read_to_end(&mut tcp).await;
        }
    })
    .await;
    let fixture = EngineFixture::forward(
        target(server.address),
        UpstreamOptions {
            target_tls: true,
            tls: trusting(&authority, None),
            ..direct()
        },
    );
    let client = tokio::net::TcpSocket::new_v4().unwrap();
    // The client's buffer is small, so most of the bytes are in the relay when it sees the end.
    client.set_recv_buffer_size(64 << 10).unwrap();
    let mut client = client.connect(fixture.address).await.unwrap();
    send(&mut client, b"x").await;
    let received = read(&mut client, all.len()).await;
    assert!(received == all);
    let end = within(
        LIMIT,
        tokio::io::AsyncReadExt::read(&mut client, &mut [0; 1]),
    )
    .await;
    assert_eq!(end.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    let line = fixture.log.line(0).await;
    assert!(
        line.contains("\"broken\"")
            && line.contains("without TLS's close_notify")
            && !line.contains("docs.rs"),
        "{line}"
    );
}
