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

/// By a proxy to which TLS is made so.
fn by_secured(url: &str, tls: TlsOptions) -> UpstreamOptions {
    let mut upstream = by_one(url);
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
    let stand = EngineFixture::to(
        target(echo.address),
        by_secured(&proxy.url(), trusting(&authority, None)),
    );
    drop(stand.echoes().await);
    assert!(stand.lines.line(0).await.contains("\"closed\""));
    let elsewhere = HttpProxy::builder()
        .tls(authority.issue(&["other.test"]).server_config(None))
        .start()
        .await;
    let old = HttpProxy::builder()
        .tls(authority.issue_expired(&["127.0.0.1"]).server_config(None))
        .start()
        .await;
    for (url, tls, words) in [
        (
            proxy.url(),
            trusting(&stranger, None),
            "not signed by anyone trusted",
        ),
        (
            elsewhere.url(),
            trusting(&authority, None),
            "for another host",
        ),
        (old.url(), trusting(&authority, None), "expired"),
    ] {
        let stand = EngineFixture::to(target(echo.address), by_secured(&url, tls));
        is_gone(&mut stand.call().await).await;
        let line = stand.lines.line(0).await;
        assert!(line.contains(words) && line.contains("the proxy"), "{line}");
    }
    // The target's authority is not the proxy's.
    let mut upstream = by_secured(&proxy.url(), trusting(&stranger, None));
    upstream.tls = trusting(&authority, None);
    is_gone(
        &mut EngineFixture::to(target(echo.address), upstream)
            .call()
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
    let stand = EngineFixture::to(
        target(echo.address),
        by_secured(&strict.url(), trusting(&authority, Some(&me))),
    );
    stand.echoes().await;
    // A certificate that is for the target, and none.
    let mut other = by_secured(&strict.url(), trusting(&authority, None));
    other.tls = trusting(&authority, Some(&me));
    for upstream in [other, by_secured(&strict.url(), trusting(&authority, None))] {
        let stand = EngineFixture::to(target(echo.address), upstream);
        is_gone(&mut stand.call().await).await;
        let line = stand.lines.line(0).await;
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
            ..by(&[])
        };
        let stand = EngineFixture::to(target(echo.address), upstream);
        let mut client = stand.call().await;
        let (mut from, mut to) = client.split();
        let all = vec![7; 2 << 20];
        let said = async {
            say(&mut to, &all).await;
            to.shutdown().await.unwrap();
        };
        let (_, heard) = within(LIMIT, async { tokio::join!(said, heard(&mut from)) }).await;
        assert!(heard == all);
        assert!(stand.lines.line(0).await.contains("\"closed\""));
    }
}

/// Names that were asked for, and whether a protocol was offered.
type ClientHellos = Arc<Mutex<Vec<(Option<String>, bool)>>>;

/// A mail server, and what its clients have said first.
async fn imap(authority: &CertificateAuthority) -> (ScriptedTarget, ClientHellos) {
    let hellos = ClientHellos::default();
    let seen = Arc::clone(&hellos);
    let config = authority.issue(&["imap.test"]).server_config(None);
    let server = ScriptedTarget::doing(move |stream, _| {
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
        ..by_one(&proxy.url())
    };
    let stand = EngineFixture::to(
        target("imap.test:993"),
        upstream(trusting(&authority, None)),
    );
    let mut client = stand.call().await;
    assert_eq!(next(&mut client, 12).await, b"* OK ready\r\n");
    echoed(&mut client).await;
    client.shutdown().await.unwrap();
    assert_eq!(heard(&mut client).await, b"");
    assert!(stand.lines.line(0).await.contains("\"closed\""));
    let hello = (Some("imap.test".to_owned()), false);
    assert_eq!(*hellos.lock().unwrap(), [hello]);
    for (to, tls, words) in [
        (
            "imap.test:993",
            trusting(&stranger, None),
            "not signed by anyone trusted",
        ),
        (
            "other.test:993",
            trusting(&authority, None),
            "for another host",
        ),
    ] {
        // No other way leads to another target: none is tried.
        let other = HttpProxy::builder().start().await;
        let options = UpstreamOptions {
            proxies: by(&[&[proxy.url(), other.url()]]).proxies,
            direct_fallback: true,
            ..upstream(tls)
        };
        let stand = EngineFixture::to(target(to), options);
        is_gone(&mut stand.call().await).await;
        let line = stand.lines.line(0).await;
        assert!(line.contains(words) && !line.contains("; then"), "{line}");
        assert!(other.requests().is_empty());
    }
}

#[tokio::test]
async fn a_plain_request_is_secured_by_whatever_proxy() {
    let authority = CertificateAuthority::new();
    let config = authority.issue(&["127.0.0.1"]).server_config(None);
    let acceptor = tokio_rustls::TlsAcceptor::from(config);
    let far = ScriptedTarget::doing(move |stream, _| {
        let acceptor = acceptor.clone();
        async move {
            let mut stream = acceptor.accept(stream).await.unwrap();
            let asked = head(&mut stream).await;
            assert!(asked.starts_with("GET /x HTTP/1.1\r\n"), "{asked}");
            let answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nsecured";
            stream.write_all(answer).await.unwrap();
            let _ = stream.shutdown().await;
        }
    })
    .await;
    let proxy = HttpProxy::builder().start().await;
    for proxies in [by(&[]), by_one(&proxy.url())] {
        let stand = EngineFixture::of(
            haul_tunnel::ListenerKind::Http,
            UpstreamOptions {
                target_tls: true,
                tls: trusting(&authority, None),
                ..proxies
            },
        );
        let mut client = stand.call().await;
        let request = format!("GET http://{}/x HTTP/1.1\r\n\r\n", far.address);
        say(&mut client, request.as_bytes()).await;
        let answer = String::from_utf8(heard(&mut client).await).unwrap();
        assert!(answer.ends_with("secured"), "{answer}");
    }
    assert_eq!(proxy.requests()[0].method, "CONNECT");
}

/// A server that ends without TLS' own end says that something is missing, and not that nothing came.
#[tokio::test]
async fn what_came_before_tls_was_cut_arrives_whole_and_then_there_is_no_end() {
    let authority = CertificateAuthority::new();
    let all = vec![7; 3 << 20];
    let config = authority.issue(&["127.0.0.1"]).server_config(None);
    let acceptor = tokio_rustls::TlsAcceptor::from(config);
    let said = all.clone();
    let far = ScriptedTarget::doing(move |stream, _| {
        let (acceptor, said) = (acceptor.clone(), said.clone());
        async move {
            let mut stream = acceptor.accept(stream).await.unwrap();
            // What the client says is read: unread, it would be a reset by itself.
            next(&mut stream, 1).await;
            stream.write_all(&said).await.unwrap();
            stream.flush().await.unwrap();
            let (mut tcp, _) = stream.into_inner();
            tcp.shutdown().await.unwrap();
            heard(&mut tcp).await;
        }
    })
    .await;
    let stand = EngineFixture::to(
        target(far.address),
        UpstreamOptions {
            target_tls: true,
            tls: trusting(&authority, None),
            ..by(&[])
        },
    );
    let client = tokio::net::TcpSocket::new_v4().unwrap();
    // Little is under way: most of it waits with us when the end is known.
    client.set_recv_buffer_size(64 << 10).unwrap();
    let mut client = client.connect(stand.address).await.unwrap();
    say(&mut client, b"x").await;
    let came = next(&mut client, all.len()).await;
    assert!(came == all);
    let end = within(
        LIMIT,
        tokio::io::AsyncReadExt::read(&mut client, &mut [0; 1]),
    )
    .await;
    assert_eq!(end.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    let line = stand.lines.line(0).await;
    assert!(
        line.contains("\"broken\"")
            && line.contains("TLS was cut off")
            && !line.contains("docs.rs"),
        "{line}"
    );
}
