//! Row E4: proxies that require a login.

use haul_lab::faults::{RequiredLogin, status_with_header};
use haul_lab::{HttpProxy, RequestMatcher, SocksProxy};
use tokio::io::AsyncWriteExt;

use crate::harness::*;

/// The URL of a proxy with the login of the tests.
fn url_with_login(url: &str) -> String {
    url.replacen("://", &format!("://me:{PASSWORD}@"), 1)
}

#[tokio::test]
async fn e4_basic_and_digest_are_sent_only_after_a_challenge() {
    for required in [
        RequiredLogin::basic("me", PASSWORD),
        RequiredLogin::digest("me", PASSWORD),
        RequiredLogin::digest_md5("me", PASSWORD),
    ] {
        let echo = ScriptedServer::echo().await;
        let proxy = HttpProxy::builder().require_login(required).start().await;
        let fixture = EngineFixture::forward(
            target(echo.address),
            through_proxy(&url_with_login(&proxy.url())),
        );
        fixture.echo().await;
        let request = proxy.requests();
        assert_eq!(request[0].header("proxy-authorization"), None);
        assert_eq!((request.len(), request[0].status), (2, 407));
        // The challenge is remembered for later connections.
        fixture.echo().await;
        assert_eq!(proxy.requests().len(), 3);
    }
}

#[tokio::test]
async fn e4_digest_is_preferred_to_basic() {
    let echo = ScriptedServer::echo().await;
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
    let fixture = EngineFixture::forward(
        target(echo.address),
        through_proxy(&url_with_login(&proxy.url())),
    );
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
    let negotiate_only = HttpProxy::builder()
        .rule(
            RequestMatcher::always(),
            status_with_header(407, "Proxy-Authenticate", "Negotiate".into()),
        )
        .start()
        .await;
    for (proxy, message) in [
        (url_with_login(&strict.url()), "refused the credentials"),
        (strict.url(), "requires credentials"),
        (
            url_with_login(&negotiate_only.url()),
            "requires credentials: it accepts only negotiate",
        ),
    ] {
        let fixture = EngineFixture::forward(target("far.test:22"), through_proxy(&proxy));
        assert_closed(&mut fixture.connect().await).await;
        let line = fixture.log.line(0).await;
        assert!(
            line.contains("\"unreached\"") && line.contains(message),
            "{line}"
        );
    }
    assert!(
        negotiate_only
            .requests()
            .iter()
            .all(|request| request.header("proxy-authorization").is_none())
    );
}

/// A proxy that responds with this 407 and closes. On later connections it accepts any Basic login.
async fn closing_proxy(response: &'static str) -> ScriptedServer {
    ScriptedServer::new(move |mut stream, number| async move {
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
async fn e4_a_connection_that_the_proxy_closes_after_a_407_is_replaced() {
    for response in [
        "HTTP/1.1 407 x\r\nProxy-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        "HTTP/1.1 407 x\r\nProxy-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 407 x\r\nProxy-Authenticate: Basic realm=\"x\"\r\n\r\nno length",
        "HTTP/1.1 407 x\r\nProxy-Authenticate: Basic realm=\"x\"\r\nContent-Length: 9\r\n\r\ncut",
        "HTTP/1.0 407 x\r\nProxy-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 407 x\r\nProxy-Authenticate: Basic realm=\"x\"\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ] {
        let proxy = closing_proxy(response).await;
        let fixture = EngineFixture::forward(
            target("far.test:22"),
            through_proxy(&url_with_login(&proxy.proxy_url())),
        );
        fixture.echo().await;
        assert_eq!(proxy.accepted(), 2, "{response}");
    }
}

#[tokio::test]
async fn e4_a_login_is_sent_on_the_same_connection_if_the_proxy_keeps_it_open() {
    let proxy = ScriptedServer::new(|mut stream, _| async move {
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
        through_proxy(&url_with_login(&proxy.proxy_url())),
    );
    fixture.echo().await;
    assert_eq!(proxy.accepted(), 1);
}

/// A proxy that never asks: it refuses a CONNECT without the login by this response, or closes the connection.
pub(crate) async fn proxy_that_never_asks(refusal: &'static str) -> ScriptedServer {
    ScriptedServer::new(move |mut stream, _| async move {
        let mut head = read_head(&mut stream).await;
        if !head.contains("Proxy-Authorization: Basic bWU6") {
            assert!(!head.contains("Proxy-Authorization"));
            stream.write_all(refusal.as_bytes()).await.unwrap();
            if !refusal.contains("HTTP/1.1 403") {
                return;
            }
            // This one keeps the connection open.
            head = read_head(&mut stream).await;
        }
        assert!(head.contains("Proxy-Authorization: Basic bWU6"));
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        echo_all(stream).await;
    })
    .await
}

/// How such proxies refuse.
pub(crate) const UNASKED_REFUSALS: [&str; 6] = [
    "HTTP/1.0 401 Unauthorized\r\n\r\n",
    "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"p\"\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\nConnection: close\r\n\r\npage",
    "HTTP/1.1 407 x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    "",
];

#[tokio::test]
async fn e4_a_proxy_that_never_asks_gets_the_login_once_it_has_refused() {
    for refusal in UNASKED_REFUSALS {
        let proxy = proxy_that_never_asks(refusal).await;
        let fixture = EngineFixture::forward(target("far.test:22"), with_login(&proxy));
        fixture.echo().await;
        let connections = proxy.accepted();
        assert!(connections <= 2, "{refusal}");
        // Later tunnels cost one connection.
        fixture.echo().await;
        assert_eq!(proxy.accepted(), connections + 1, "{refusal}");
    }
}

#[tokio::test]
async fn e4_the_log_says_that_a_proxy_never_asked_for_the_login_that_it_refuses() {
    for (refusal, message) in [
        (
            "HTTP/1.1 401 x\r\n\r\n",
            "refused the credentials; it never asked for a login",
        ),
        (
            "HTTP/1.1 403 x\r\n\r\n",
            "refused with 403 Forbidden; it never asked for a login",
        ),
        (
            "HTTP/1.1 407 x\r\n\r\n",
            "refused the credentials; it never asked for a login",
        ),
        ("", "); it never asked for a login"),
    ] {
        let proxy = ScriptedServer::new(move |mut stream, _| async move {
            read_head(&mut stream).await;
            stream.write_all(refusal.as_bytes()).await.unwrap();
        })
        .await;
        let fixture = EngineFixture::forward(target("far.test:22"), with_login(&proxy));
        assert_closed(&mut fixture.connect().await).await;
        let line = fixture.log.line(0).await;
        assert!(
            line.contains(message) && line.contains("haul sent it by Basic"),
            "{line}"
        );
        assert_eq!(proxy.accepted(), 2);
        // Without a login there is nothing to say of one.
        let fixture =
            EngineFixture::forward(target("far.test:22"), through_proxy(&proxy.proxy_url()));
        assert_closed(&mut fixture.connect().await).await;
        let line = fixture.log.line(0).await;
        assert!(!line.contains("never asked"), "{line}");
    }
}

#[tokio::test]
async fn socks_logins_are_sent_and_refusals_are_logged() {
    let echo = ScriptedServer::echo().await;
    let proxy = SocksProxy::builder()
        .require_login("me", PASSWORD)
        .start()
        .await;
    let fixture = EngineFixture::forward(
        target(echo.address),
        through_proxy(&url_with_login(&proxy.url("socks5h"))),
    );
    fixture.echo().await;
    let fixture = EngineFixture::forward(
        target(echo.address),
        through_proxy(&proxy.url("socks5h").replace("://", "://me:wrong@")),
    );
    assert_closed(&mut fixture.connect().await).await;
    let line = fixture.log.line(0).await;
    assert!(
        line.contains("refused the credentials") && !line.contains("wrong"),
        "{line}"
    );
}
