//! TLS to a proxy (row E13), and to the target.

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

/// Through a proxy to which TLS is made by these options.
fn through_tls(url: &str, tls: TlsOptions) -> UpstreamOptions {
    let mut upstream = through(url);
    upstream.proxies[0][0].tls = Some(ProxyTls::new(tls).unwrap());
    upstream
}

#[tokio::test]
async fn e13_a_proxys_certificate_is_checked_against_its_own_authority() {
    let (authority, stranger) = (CertificateAuthority::new(), CertificateAuthority::new());
    let echo = ScriptedTarget::echo().await;
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
    let elsewhere = HttpProxy::builder()
        .tls(authority.issue(&["other.test"]).server_config(None))
        .start()
        .await;
    let old = HttpProxy::builder()
        .tls(authority.issue_expired(&["127.0.0.1"]).server_config(None))
        .start()
        .await;
    for (url, tls, message) in [
        (
            proxy.url(),
            trusting(&stranger, None),
            "issuer of the certificate is not trusted",
        ),
        (
            elsewhere.url(),
            trusting(&authority, None),
            "for another host",
        ),
        (old.url(), trusting(&authority, None), "expired"),
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
    let mut upstream = through_tls(&proxy.url(), trusting(&stranger, None));
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
async fn e13_a_client_certificate_is_shown_to_its_proxy_and_to_no_other() {
    let authority = CertificateAuthority::new();
    let me = authority.issue(&["me.test"]);
    let echo = ScriptedTarget::echo().await;
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
        through_tls(&strict.url(), trusting(&authority, Some(&me))),
    );
    fixture.echo().await;
    // A certificate for the target alone, and none.
    let mut other = through_tls(&strict.url(), trusting(&authority, None));
    other.tls = trusting(&authority, Some(&me));
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
async fn e13_a_proxy_with_tls_may_be_anywhere_in_a_chain() {
    let authority = CertificateAuthority::new();
    let echo = ScriptedTarget::echo().await;
    let secured = HttpProxy::builder()
        .tls(authority.issue(&["127.0.0.1"]).server_config(None))
        .start()
        .await;
    let plain = HttpProxy::builder().start().await;
    let tls = ProxyTls::new(trusting(&authority, None)).unwrap();
    let read = |url: String| -> Proxy { url.parse().unwrap() };
    let secure = || Proxy {
        tls: Some(tls.clone()),
        ..read(secured.url())
    };
    for chain in [
        vec![vec![secure()], vec![read(plain.url())]],
        vec![vec![read(plain.url())], vec![secure()]],
        vec![vec![secure()], vec![secure()]],
    ] {
        let upstream = UpstreamOptions {
            proxies: chain,
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
        let (_, heard) = within(LIMIT, async {
            tokio::join!(sending, read_to_end(&mut from))
        })
        .await;
        assert!(heard == all);
        assert!(fixture.log.line(0).await.contains("\"closed\""));
    }
}

/// The server name of each ClientHello, and whether it offered a protocol.
type ClientHellos = Arc<Mutex<Vec<(Option<String>, bool)>>>;

/// A mail server, and the ClientHellos that it got.
async fn imap(authority: &CertificateAuthority) -> (ScriptedTarget, ClientHellos) {
    let hellos = ClientHellos::default();
    let seen = Arc::clone(&hellos);
    let config = authority.issue(&["imap.test"]).server_config(None);
    let server = ScriptedTarget::new(move |stream, _| {
        let (seen, config) = (Arc::clone(&seen), Arc::clone(&config));
        async move {
            let start = LazyConfigAcceptor::new(Default::default(), stream).await;
            let start = start.unwrap();
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
async fn tls_with_the_target_is_checked_and_offers_no_protocol() {
    let (authority, stranger) = (CertificateAuthority::new(), CertificateAuthority::new());
    let (server, hellos) = imap(&authority).await;
    let proxy = HttpProxy::builder()
        .route("imap.test:993", server.address)
        .route("other.test:993", server.address)
        .start()
        .await;
    let upstream = |tls| UpstreamOptions {
        target_tls: true,
        tls,
        ..through(&proxy.url())
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
            trusting(&stranger, None),
            "issuer of the certificate is not trusted",
        ),
        (
            "other.test:993",
            trusting(&authority, None),
            "for another host",
        ),
    ] {
        // Another route would lead to the same target: none is tried.
        let other = HttpProxy::builder().start().await;
        let options = UpstreamOptions {
            proxies: chain(&[&[proxy.url(), other.url()]]).proxies,
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
async fn a_plain_request_goes_over_tls_to_its_target_whatever_the_proxy() {
    let authority = CertificateAuthority::new();
    let config = authority.issue(&["127.0.0.1"]).server_config(None);
    let acceptor = tokio_rustls::TlsAcceptor::from(config);
    let server = ScriptedTarget::new(move |stream, _| {
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
    for proxies in [direct(), through(&proxy.url())] {
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

/// A server that ends without a close_notify of TLS may have more to send. What it has sent arrives, and then a reset.
#[tokio::test]
async fn bytes_before_tls_is_cut_off_arrive_and_then_there_is_no_end() {
    let authority = CertificateAuthority::new();
    let all = vec![7; 3 << 20];
    let config = authority.issue(&["127.0.0.1"]).server_config(None);
    let acceptor = tokio_rustls::TlsAcceptor::from(config);
    let sent = all.clone();
    let server = ScriptedTarget::new(move |stream, _| {
        let (acceptor, sent) = (acceptor.clone(), sent.clone());
        async move {
            let mut stream = acceptor.accept(stream).await.unwrap();
            // What the client sends is read here: unread, it would cause a reset by itself.
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
    // The client's buffer is small: most of the bytes wait in the relay when it sees the end.
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
