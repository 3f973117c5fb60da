//! Proxies that want to know who is there: row E4.

use haul_lab::faults::{RequiredLogin, status_with_header};
use haul_lab::{HttpProxy, RequestMatcher, SocksProxy};
use tokio::io::AsyncWriteExt;

use crate::harness::*;

/// A proxy's URL with a login.
fn login(url: &str) -> String {
    url.replacen("://", &format!("://me:{PASSWORD}@"), 1)
}

#[tokio::test]
async fn e4_basic_and_digest_are_shown_and_only_when_asked_for() {
    for wanted in [
        RequiredLogin::basic("me", PASSWORD),
        RequiredLogin::digest("me", PASSWORD),
        RequiredLogin::digest_md5("me", PASSWORD),
    ] {
        let echo = ScriptedTarget::echo().await;
        let proxy = HttpProxy::builder().require_login(wanted).start().await;
        let stand = EngineFixture::to(target(echo.address), by_one(&login(&proxy.url())));
        stand.echoes().await;
        let asked = proxy.requests();
        assert_eq!(asked[0].header("proxy-authorization"), None);
        assert_eq!((asked.len(), asked[0].status), (2, 407));
        // Known by now.
        stand.echoes().await;
        assert_eq!(proxy.requests().len(), 3);
    }
}

#[tokio::test]
async fn e4_where_both_would_do_the_password_is_not_shown() {
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
    let stand = EngineFixture::to(target(echo.address), by_one(&login(&proxy.url())));
    stand.echoes().await;
    let asked = proxy.requests();
    assert!(
        asked[1]
            .header("proxy-authorization")
            .unwrap()
            .starts_with("Digest ")
    );
}

#[tokio::test]
async fn e4_wrong_logins_none_and_ways_that_nobody_speaks_are_told() {
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
    for (proxy, words) in [
        (login(&strict.url()), "refused the credentials given"),
        (strict.url(), "wants credentials"),
        (
            login(&odd.url()),
            "wants credentials: it takes negotiate, and neither Basic",
        ),
    ] {
        let stand = EngineFixture::to(target("far.test:22"), by_one(&proxy));
        is_gone(&mut stand.call().await).await;
        let line = stand.lines.line(0).await;
        assert!(
            line.contains("\"unreached\"") && line.contains(words),
            "{line}"
        );
    }
    assert!(
        odd.requests()
            .iter()
            .all(|asked| asked.header("proxy-authorization").is_none())
    );
}

/// A proxy that says 407 once in these words, closes, and takes anything over its next connection.
async fn closing(words: &'static str) -> ScriptedTarget {
    ScriptedTarget::doing(move |mut stream, number| async move {
        let head = head(&mut stream).await;
        assert_eq!(head.contains("Proxy-Authorization: Basic "), number > 0);
        if number == 0 {
            stream.write_all(words.as_bytes()).await.unwrap();
        } else {
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            repeat(stream).await;
        }
    })
    .await
}

#[tokio::test]
async fn e4_a_connection_that_ends_with_the_407_is_made_again_whatever_was_said_of_it() {
    for words in [
        "HTTP/1.1 407 x\r\nProxy-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        "HTTP/1.1 407 x\r\nProxy-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 407 x\r\nProxy-Authenticate: Basic realm=\"x\"\r\n\r\nno length",
        "HTTP/1.1 407 x\r\nProxy-Authenticate: Basic realm=\"x\"\r\nContent-Length: 9\r\n\r\ncut",
        "HTTP/1.0 407 x\r\nProxy-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 407 x\r\nProxy-Authenticate: Basic realm=\"x\"\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ] {
        let proxy = closing(words).await;
        let stand = EngineFixture::to(target("far.test:22"), by_one(&login(&proxy.proxy())));
        stand.echoes().await;
        assert_eq!(proxy.accepted(), 2, "{words}");
    }
}

#[tokio::test]
async fn e4_a_proxy_that_keeps_its_connection_is_answered_on_it() {
    let proxy = ScriptedTarget::doing(|mut stream, _| async move {
        assert!(!head(&mut stream).await.contains("Proxy-Authorization"));
        let asked =
            b"HTTP/1.1 407 x\r\nProxy-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\n\r\n";
        stream.write_all(asked).await.unwrap();
        assert!(
            head(&mut stream)
                .await
                .contains("Proxy-Authorization: Basic ")
        );
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        repeat(stream).await;
    })
    .await;
    let stand = EngineFixture::to(target("far.test:22"), by_one(&login(&proxy.proxy())));
    stand.echoes().await;
    assert_eq!(proxy.accepted(), 1);
}

#[tokio::test]
async fn socks_logins_are_shown_and_refused_ones_told() {
    let echo = ScriptedTarget::echo().await;
    let proxy = SocksProxy::builder()
        .require_login("me", PASSWORD)
        .start()
        .await;
    let stand = EngineFixture::to(target(echo.address), by_one(&login(&proxy.url("socks5h"))));
    stand.echoes().await;
    let stand = EngineFixture::to(
        target(echo.address),
        by_one(&proxy.url("socks5h").replace("://", "://me:wrong@")),
    );
    is_gone(&mut stand.call().await).await;
    let line = stand.lines.line(0).await;
    assert!(
        line.contains("refused the credentials given") && !line.contains("wrong"),
        "{line}"
    );
}
