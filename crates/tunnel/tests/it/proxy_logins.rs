//! Proxies that want a login: row E4.

use haul_lab::faults::{RequiredLogin, status_with_header};
use haul_lab::{HttpProxy, RequestMatcher, SocksProxy};
use tokio::io::AsyncWriteExt;

use crate::harness::*;

/// A proxy's URL with our login.
fn with_our_login(url: &str) -> String {
    url.replacen("://", &format!("://me:{PASSWORD}@"), 1)
}

#[tokio::test]
async fn e4_basic_and_digest_are_sent_only_after_a_challenge() {
    for wanted in [
        RequiredLogin::basic("me", PASSWORD),
        RequiredLogin::digest("me", PASSWORD),
        RequiredLogin::digest_md5("me", PASSWORD),
    ] {
        let echo = ScriptedTarget::echo().await;
        let proxy = HttpProxy::builder().require_login(wanted).start().await;
        let fixture =
            EngineFixture::forward(target(echo.address), through(&with_our_login(&proxy.url())));
        fixture.echo().await;
        let request = proxy.requests();
        assert_eq!(request[0].header("proxy-authorization"), None);
        assert_eq!((request.len(), request[0].status), (2, 407));
        // The challenge is known by now.
        fixture.echo().await;
        assert_eq!(proxy.requests().len(), 3);
    }
}

#[tokio::test]
async fn e4_where_both_would_do_digest_is_shown_and_no_password() {
    let echo = ScriptedTarget::echo().await;
    let proxy = HttpProxy::builder()
        .require_login(RequiredLogin::digest("me", PASSWORD))
        .rule(RequestMatcher::always(), |_, reply| {
            if reply.status == 407 {
                reply.headers.insert(
                    0,
                    ("Proxy-Authenticate".into(), "Basic realm=\"lab\"".into()),
                );
            }
        })
        .start()
        .await;
    let fixture =
        EngineFixture::forward(target(echo.address), through(&with_our_login(&proxy.url())));
    fixture.echo().await;
    let request = proxy.requests();
    assert!(
        request[1]
            .header("proxy-authorization")
            .unwrap()
            .starts_with("Digest ")
    );
}

#[tokio::test]
async fn e4_wrong_missing_and_unsupported_logins_are_logged() {
    let strict = HttpProxy::builder()
        .require_login(RequiredLogin::digest("me", "other"))
        .start()
        .await;
    let odd = HttpProxy::builder()
        .rule(
            RequestMatcher::always(),
            status_with_header(407, "Proxy-Authenticate", "Negotiate".into()),
        )
        .start()
        .await;
    for (proxy, message) in [
        (with_our_login(&strict.url()), "refused the credentials"),
        (strict.url(), "requires credentials"),
        (
            with_our_login(&odd.url()),
            "requires credentials: it accepts only negotiate",
        ),
    ] {
        let fixture = EngineFixture::forward(target("far.test:22"), through(&proxy));
        assert_closed(&mut fixture.connect().await).await;
        let line = fixture.log.line(0).await;
        assert!(
            line.contains("\"unreached\"") && line.contains(message),
            "{line}"
        );
    }
    assert!(
        odd.requests()
            .iter()
            .all(|request| request.header("proxy-authorization").is_none())
    );
}

/// A proxy that responds by this 407 once, closes, and takes any login over its next connection.
async fn closing(response: &'static str) -> ScriptedTarget {
    ScriptedTarget::new(move |mut stream, number| async move {
        let head = read_head(&mut stream).await;
        assert_eq!(head.contains("Proxy-Authorization: Basic "), number > 0);
        if number == 0 {
            stream.write_all(response.as_bytes()).await.unwrap();
        } else {
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            echo_all(stream).await;
        }
    })
    .await
}

#[tokio::test]
async fn e4_a_connection_that_ends_with_the_407_is_made_again_whatever_the_407_says() {
    for response in [
        "HTTP/1.1 407 x\r\nProxy-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        "HTTP/1.1 407 x\r\nProxy-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 407 x\r\nProxy-Authenticate: Basic realm=\"x\"\r\n\r\nno length",
        "HTTP/1.1 407 x\r\nProxy-Authenticate: Basic realm=\"x\"\r\nContent-Length: 9\r\n\r\ncut",
        "HTTP/1.0 407 x\r\nProxy-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 407 x\r\nProxy-Authenticate: Basic realm=\"x\"\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ] {
        let proxy = closing(response).await;
        let fixture = EngineFixture::forward(
            target("far.test:22"),
            through(&with_our_login(&proxy.proxy_url())),
        );
        fixture.echo().await;
        assert_eq!(proxy.accepted(), 2, "{response}");
    }
}

#[tokio::test]
async fn e4_a_proxy_that_keeps_its_connection_gets_the_login_over_it() {
    let proxy = ScriptedTarget::new(|mut stream, _| async move {
        assert!(!read_head(&mut stream).await.contains("Proxy-Authorization"));
        let request =
            b"HTTP/1.1 407 x\r\nProxy-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\n\r\n";
        stream.write_all(request).await.unwrap();
        assert!(
            read_head(&mut stream)
                .await
                .contains("Proxy-Authorization: Basic ")
        );
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        echo_all(stream).await;
    })
    .await;
    let fixture = EngineFixture::forward(
        target("far.test:22"),
        through(&with_our_login(&proxy.proxy_url())),
    );
    fixture.echo().await;
    assert_eq!(proxy.accepted(), 1);
}

#[tokio::test]
async fn socks_logins_are_shown_and_refusals_are_logged() {
    let echo = ScriptedTarget::echo().await;
    let proxy = SocksProxy::builder()
        .require_login("me", PASSWORD)
        .start()
        .await;
    let fixture = EngineFixture::forward(
        target(echo.address),
        through(&with_our_login(&proxy.url("socks5h"))),
    );
    fixture.echo().await;
    let fixture = EngineFixture::forward(
        target(echo.address),
        through(&proxy.url("socks5h").replace("://", "://me:wrong@")),
    );
    assert_closed(&mut fixture.connect().await).await;
    let line = fixture.log.line(0).await;
    assert!(
        line.contains("refused the credentials") && !line.contains("wrong"),
        "{line}"
    );
}
