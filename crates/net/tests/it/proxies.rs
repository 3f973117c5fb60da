//! CONNECT, absolute-form requests and SOCKS5, with logins and over TLS, and bytes that follow a proxy's success response at once.

use std::net::SocketAddr;
use std::time::Duration;

use haul_lab::faults::{self, RequiredLogin};
use haul_lab::{
    CertificateAuthority, HttpProxy, Origin, OriginResource, OriginResponse, RecordedRequest,
    RequestMatcher, ResourceContent, SocksProxy, SocksQuirk, SocksTarget, within,
};
use haul_net::PinnedAddress;
use haul_net::{
    Client, ClientConfig, ConnectorConfig, Error, Kind, Proxy, ProxyRules, Target, TlsOptions,
};
use http::header::PROXY_AUTHENTICATE;
use http::{HeaderMap, HeaderValue, StatusCode};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;
use url::Url;

use crate::{LIMIT, body, client, get};

fn content() -> ResourceContent {
    ResourceContent::random(1, 300_000)
}

/// An origin, and its URL with a host name that only the proxy can resolve.
async fn far_origin(authority: Option<&CertificateAuthority>) -> (Origin, String) {
    let mut builder = Origin::builder().resource("/f", OriginResource::new(content()));
    if let Some(authority) = authority {
        builder = builder.tls(authority.issue(&["far.test"]).server_config(None));
    }
    let origin = builder.start().await;
    let scheme = if authority.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://far.test:{}/f", origin.address().port());
    (origin, url)
}

fn client_through(proxy: &str, authority: Option<&CertificateAuthority>) -> Client {
    client_with_rules(ProxyRules::all(proxy.parse().unwrap()), authority)
}

fn client_with_rules(proxy: ProxyRules, authority: Option<&CertificateAuthority>) -> Client {
    let cacert = authority.map(|authority| authority.certificate_pem().into_bytes());
    client(ClientConfig {
        proxy,
        tls: TlsOptions {
            cacert,
            ..TlsOptions::default()
        },
        ..ClientConfig::default()
    })
}

async fn fetch_body(client: &Client, url: &str) -> Result<Vec<u8>, Error> {
    body(get(client, url).await?).await
}

fn target(origin: &Origin) -> String {
    format!("far.test:{}", origin.address().port())
}

#[tokio::test]
async fn http_uses_absolute_form_and_https_uses_connect() {
    let authority = CertificateAuthority::new();
    for authority in [None, Some(&authority)] {
        let (origin, url) = far_origin(authority).await;
        let proxy = HttpProxy::builder()
            .route(&target(&origin), origin.address())
            .start()
            .await;
        let client = client_through(&proxy.url(), authority);
        assert_eq!(fetch_body(&client, &url).await.unwrap(), content().to_vec());
        assert_eq!(fetch_body(&client, &url).await.unwrap(), content().to_vec());
        let methods: Vec<String> = proxy
            .requests()
            .into_iter()
            .map(|request| request.method)
            .collect();
        // The tunnel is opened once and used twice.
        assert_eq!(
            methods,
            if authority.is_some() {
                vec!["CONNECT"]
            } else {
                vec!["GET", "GET"]
            }
        );
    }
}

#[tokio::test]
async fn a21_proxy_logins_by_basic_and_digest_for_http_and_https() {
    let authority = CertificateAuthority::new();
    for authority in [None, Some(&authority)] {
        let logins: [fn() -> RequiredLogin; 3] = [
            || RequiredLogin::basic("me", "secret"),
            || RequiredLogin::digest("me", "secret"),
            || RequiredLogin::digest_md5("me", "secret"),
        ];
        for login in logins {
            let (origin, url) = far_origin(authority).await;
            let proxy = HttpProxy::builder()
                .require_login(login())
                .route(&target(&origin), origin.address())
                .start()
                .await;
            let client = client_through(&proxy.url_with_login("me", "secret"), authority);
            assert_eq!(fetch_body(&client, &url).await.unwrap(), content().to_vec());
            assert!(
                origin
                    .requests()
                    .iter()
                    .all(|request| request.header("proxy-authorization").is_none())
            );
            let wrong = client_through(&proxy.url_with_login("me", "wrong"), authority);
            match get(&wrong, &url).await {
                Ok(response) => assert_eq!(response.status.as_u16(), 407),
                Err(error) => assert!(
                    matches!(error.kind(), Kind::ProxyAuth(Some(_))),
                    "{error:?}"
                ),
            }
        }
    }
}

/// A proxy that wants a login by Basic and refuses requests without it in this way, without asking.
async fn proxy_that_never_asks(
    refuse: fn(&RecordedRequest, &mut OriginResponse),
    origin: &Origin,
) -> HttpProxy {
    let login = RequiredLogin::basic("me", "secret").for_proxy();
    HttpProxy::builder()
        .rule(RequestMatcher::always(), login.refused_by(refuse))
        .route(&target(origin), origin.address())
        .start()
        .await
}

type BoxedRule = Box<dyn Fn(&RecordedRequest, &mut OriginResponse) + Send + Sync>;

/// How such proxies refuse.
const UNASKED_REFUSALS: [fn(&RecordedRequest, &mut OriginResponse); 5] = [
    |request, response| faults::status(401)(request, response),
    |request, response| {
        faults::http10(request, response);
        faults::status(403)(request, response);
    },
    |request, response| faults::status(403)(request, response),
    |request, response| faults::status(407)(request, response),
    faults::reset_connection,
];

#[tokio::test]
async fn e4_a_proxy_that_never_asks_gets_the_login_after_one_refusal_and_then_at_once() {
    let authority = CertificateAuthority::new();
    for authority in [None, Some(&authority)] {
        for (number, refuse) in UNASKED_REFUSALS.into_iter().enumerate() {
            let (origin, url) = far_origin(authority).await;
            let proxy = proxy_that_never_asks(refuse, &origin).await;
            let client = client_through(&proxy.url_with_login("me", "secret"), authority);
            for _ in 0..2 {
                let received = fetch_body(&client, &url).await;
                assert_eq!(received.unwrap(), content().to_vec(), "refusal {number}");
            }
            let requests = proxy.requests();
            let logins = requests
                .iter()
                .filter(|request| request.header("proxy-authorization").is_some());
            // A tunnel carries both requests of its origin.
            assert_eq!(requests.len() - logins.count(), 1, "refusal {number}");
            assert!(requests.len() <= 3);
            let origin_requests = origin.requests();
            let mut at_origin = origin_requests.iter();
            assert!(at_origin.all(|request| request.header("proxy-authorization").is_none()));
            // By flag it has the login from the start.
            let first = Proxy {
                is_basic_sent_first: true,
                ..proxy.url_with_login("me", "secret").parse().unwrap()
            };
            let client = client_with_rules(ProxyRules::all(first), authority);
            fetch_body(&client, &url).await.unwrap();
            assert_eq!(proxy.requests().len(), requests.len() + 1);
        }
    }
}

#[tokio::test]
async fn e4_the_error_of_a_login_that_nobody_asked_for_says_so() {
    let authority = CertificateAuthority::new();
    let never_asked = "it never asked for a login, and haul sent it by Basic";
    for (number, refuse) in UNASKED_REFUSALS.into_iter().enumerate() {
        let (origin, url) = far_origin(Some(&authority)).await;
        let proxy = proxy_that_never_asks(refuse, &origin).await;
        for (url_of_proxy, is_sent) in [
            (proxy.url_with_login("me", "wrong"), true),
            (proxy.url(), false),
        ] {
            let client = client_through(&url_of_proxy, Some(&authority));
            let error = get(&client, &url).await.unwrap_err();
            let text = error.to_string();
            assert_eq!(text.contains(never_asked), is_sent, "{number}: {text}");
            assert_eq!(error.is_login_unasked(), is_sent);
            assert!(!text.contains("wrong"));
        }
    }
    // Over http a closed connection is all that tells a refusal from the origin's.
    let (origin, url) = far_origin(None).await;
    let proxy = proxy_that_never_asks(faults::reset_connection, &origin).await;
    for (url_of_proxy, is_sent) in [
        (proxy.url_with_login("me", "wrong"), true),
        (proxy.url(), false),
    ] {
        let client = client_through(&url_of_proxy, None);
        let error = get(&client, &url).await.unwrap_err();
        assert_eq!(error.is_login_unasked(), is_sent, "{error}");
    }
    // A proxy that asks.
    let (origin, url) = far_origin(Some(&authority)).await;
    let asks = RequiredLogin::basic("me", "secret").for_proxy().rule();
    let proxy = HttpProxy::builder()
        .rule(RequestMatcher::always(), asks)
        .route(&target(&origin), origin.address())
        .start()
        .await;
    let client = client_through(&proxy.url_with_login("me", "wrong"), Some(&authority));
    let error = get(&client, &url).await.unwrap_err();
    assert!(matches!(error.kind(), Kind::ProxyAuth(_)) && !error.is_login_unasked());
}

#[tokio::test]
async fn the_error_of_a_refused_connect_repeats_a_short_part_of_the_proxys_reason() {
    let reason = "no ".repeat(10_000);
    let squid = faults::status_with_header(403, "X-Squid-Error", reason);
    let proxy = HttpProxy::builder()
        .rule(RequestMatcher::always(), squid)
        .start()
        .await;
    let client = client_through(&proxy.url(), None);
    let error = get(&client, "https://far.test/").await.unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(
        cause.contains("no no") && cause.len() < 200,
        "{}",
        cause.len()
    );
}

#[tokio::test]
async fn e4_a_password_never_goes_by_basic_to_a_proxy_that_asked_for_something_else() {
    let authority = CertificateAuthority::new();
    for authority in [None, Some(&authority)] {
        for challenge in [
            "Digest",
            "NTLM",
            "Digest realm=\"x\", nonce=\"x\", algorithm=x",
        ] {
            let (origin, url) = far_origin(authority).await;
            let ask: BoxedRule = match challenge {
                "Digest" => Box::new(RequiredLogin::digest("me", "secret").for_proxy().rule()),
                other => Box::new(faults::status_with_header(
                    407,
                    "Proxy-Authenticate",
                    other.into(),
                )),
            };
            let proxy = HttpProxy::builder()
                .rule(RequestMatcher::always(), ask)
                // All but the first two are refused in a way that does not ask.
                .rule(RequestMatcher::after_first(2), faults::status(403))
                .route(&target(&origin), origin.address())
                .start()
                .await;
            let client = client_through(&proxy.url_with_login("me", "secret"), authority);
            // Each origin needs a tunnel of its own.
            for host in ["far.test", "two.test", "three.test"] {
                let _ = get(&client, &url.replace("far.test", host)).await;
            }
            assert!(proxy.requests().len() >= 3);
            let is_basic = |request: &RecordedRequest| {
                let shown = request.header("proxy-authorization");
                shown.is_some_and(|shown| shown.starts_with("Basic"))
            };
            assert!(!proxy.requests().iter().any(is_basic), "{challenge}");
        }
    }
}

#[tokio::test]
async fn a_proxy_gets_its_login_after_a_refusal_that_may_be_for_want_of_it_and_no_other() {
    let proxy: Proxy = "http://me:secret@proxy.test:1".parse().unwrap();
    let asks = HeaderMap::from_iter([(PROXY_AUTHENTICATE, HeaderValue::from_static("Basic"))]);
    for (status, gets_login) in [
        (401, true),
        (403, true),
        (407, true),
        (200, false),
        (404, false),
        (502, false),
    ] {
        let client = client(ClientConfig::default());
        let response = Some((StatusCode::from_u16(status).unwrap(), &asks));
        let next =
            client
                .connector()
                .retry_proxy_auth(&proxy, response, None, "GET", "http://far.test/");
        assert_eq!(next.is_some(), gets_login, "{status}");
    }
}

#[tokio::test]
async fn the_error_of_a_proxy_that_asked_too_late_says_so() {
    let asks = HeaderMap::from_iter([(PROXY_AUTHENTICATE, HeaderValue::from_static("Basic"))]);
    let client = client(ClientConfig::default());
    for (proxy, is_login_sent, is_late) in [
        ("http://me:secret@proxy.test:1", false, true),
        ("http://me:secret@proxy.test:1", true, false),
        ("http://proxy.test:1", false, false),
    ] {
        let (proxy, url) = (proxy.parse().unwrap(), "http://far.test/".parse().unwrap());
        let connector = client.connector();
        let error = connector.proxy_auth_error(&proxy, &asks, is_login_sent, &url);
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        let says_so = cause.is_some_and(|cause| cause.contains("cannot be sent twice"));
        assert_eq!(says_so, is_late, "{error:?}");
    }
}

#[tokio::test]
async fn a_timeout_names_the_proxy_until_that_is_reached_and_then_the_target() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy_address = silent.local_addr().unwrap().to_string();
    // Over http the proxy is reached by TCP alone; over https it does not answer the TLS handshake either.
    for (scheme, named) in [("http", "far.test:443"), ("https", proxy_address.as_str())] {
        let client = client(ClientConfig {
            connector: ConnectorConfig {
                connect_timeout: Duration::from_millis(200),
                ..ConnectorConfig::default()
            },
            proxy: ProxyRules::all(format!("{scheme}://{proxy_address}").parse().unwrap()),
            ..ClientConfig::default()
        });
        let error = get(&client, "https://far.test/").await.unwrap_err();
        assert_eq!(
            *error.kind(),
            Kind::ConnectTimeout(named.into()),
            "{scheme}"
        );
    }
}

#[tokio::test]
async fn the_certificate_of_an_https_proxy_is_checked() {
    let authority = CertificateAuthority::new();
    let (origin, url) = far_origin(Some(&authority)).await;
    let tls = authority.issue(&["127.0.0.1"]).server_config(None);
    let proxy = HttpProxy::builder()
        .tls(tls)
        .route(&target(&origin), origin.address())
        .start()
        .await;
    assert_eq!(
        fetch_body(&client_through(&proxy.url(), Some(&authority)), &url)
            .await
            .unwrap(),
        content().to_vec()
    );
    let other_authority = CertificateAuthority::new();
    let error = get(&client_through(&proxy.url(), Some(&other_authority)), &url)
        .await
        .unwrap_err();
    assert!(matches!(error.kind(), Kind::Tls(_)) && !error.is_transient());
}

#[tokio::test]
async fn a_proxy_that_refuses_connect_is_an_error_with_its_status() {
    let authority = CertificateAuthority::new();
    let (_origin, url) = far_origin(Some(&authority)).await;
    for (status, transient) in [(403, false), (502, true)] {
        let proxy = HttpProxy::builder()
            .rule(RequestMatcher::always(), faults::status(status))
            .start()
            .await;
        let error = get(&client_through(&proxy.url(), Some(&authority)), &url)
            .await
            .unwrap_err();
        assert!(
            matches!(error.kind(), Kind::ProxyRefused(Some(found)) if found.as_u16() == status)
        );
        assert_eq!(error.is_transient(), transient);
    }
}

/// Connects to a target through a proxy and reads its first 12 bytes.
async fn banner(proxy: &str, origin: SocketAddr) -> Vec<u8> {
    let client = client(ClientConfig::default());
    let proxy = proxy.parse().unwrap();
    let url = Url::parse("http://far.test/").unwrap();
    let target = Target {
        host: "far.test".into(),
        port: origin.port(),
    };
    let mut connected = client
        .connector()
        .connect(&target, &[&proxy], &url)
        .await
        .unwrap();
    let mut banner = vec![0; 12];
    within(LIMIT, connected.stream.read_exact(&mut banner))
        .await
        .unwrap();
    banner
}

#[tokio::test]
async fn e2_bytes_in_the_packet_of_the_connect_response_are_not_lost() {
    let (origin, _) = far_origin(None).await;
    let route = target(&origin);
    let proxy = HttpProxy::builder()
        .route(&route, origin.address())
        .rule(RequestMatcher::always(), |_, reply| {
            reply.body = haul_lab::OriginResponseBody::Bytes(b"SSH-2.0-lab\n".to_vec());
        })
        .start()
        .await;
    assert_eq!(
        banner(&proxy.url(), origin.address()).await,
        b"SSH-2.0-lab\n"
    );
    let socks = SocksProxy::builder()
        .route(&route, origin.address())
        .banner(b"SSH-2.0-lab\n")
        .start()
        .await;
    assert_eq!(
        banner(&socks.url("socks5h"), origin.address()).await,
        b"SSH-2.0-lab\n"
    );
}

#[tokio::test]
async fn socks5h_sends_names_to_the_proxy_and_socks5_sends_addresses() {
    let (origin, url) = far_origin(None).await;
    let proxy = SocksProxy::builder()
        .route(&target(&origin), origin.address())
        .start()
        .await;
    assert_eq!(
        fetch_body(&client_through(&proxy.url("socks5h"), None), &url)
            .await
            .unwrap(),
        content().to_vec()
    );
    assert!(
        matches!(&proxy.requests()[0].target, Some(SocksTarget::Name(name, _)) if name == "far.test")
    );
    let local_url = origin.url("/f").replace("127.0.0.1", "localhost");
    assert_eq!(
        fetch_body(&client_through(&proxy.url("socks5"), None), &local_url)
            .await
            .unwrap(),
        content().to_vec()
    );
    assert!(matches!(
        &proxy.requests()[1].target,
        Some(SocksTarget::Ip(..))
    ));
}

#[tokio::test]
async fn socks_logins_unusual_replies_and_refusals() {
    let (origin, url) = far_origin(None).await;
    let builder = || SocksProxy::builder().route(&target(&origin), origin.address());
    let locked = builder().require_login("me", "secret").start().await;
    let with_login = |login: &str| {
        locked
            .url("socks5h")
            .replace("://", &format!("://{login}@"))
    };
    assert!(
        fetch_body(&client_through(&with_login("me:secret"), None), &url)
            .await
            .is_ok()
    );
    for wrong in [with_login("me:wrong"), locked.url("socks5h")] {
        let error = get(&client_through(&wrong, None), &url).await.unwrap_err();
        assert!(matches!(error.kind(), Kind::ProxyAuth(_)), "{error:?}");
    }
    for quirk in [
        SocksQuirk::BoundToIpv6,
        SocksQuirk::BoundToName,
        SocksQuirk::Trickle,
    ] {
        let unusual = builder().quirk(quirk).start().await;
        assert!(
            fetch_body(&client_through(&unusual.url("socks5h"), None), &url)
                .await
                .is_ok()
        );
    }
    let refusing = builder().quirk(SocksQuirk::RefuseWith(5)).start().await;
    let error = get(&client_through(&refusing.url("socks5h"), None), &url)
        .await
        .unwrap_err();
    assert_eq!(*error.kind(), Kind::ProxyRefused(None));
    for quirk in [SocksQuirk::AcceptNoMethod, SocksQuirk::WrongVersion] {
        let broken = builder().quirk(quirk).start().await;
        assert!(
            get(&client_through(&broken.url("socks5h"), None), &url)
                .await
                .is_err()
        );
    }
}

#[tokio::test]
async fn a28_socks5_with_local_name_resolution_tries_the_next_address() {
    let (origin, url) = far_origin(None).await;
    let proxy = SocksProxy::builder().start().await;
    let port = origin.address().port();
    let client = client(ClientConfig {
        proxy: ProxyRules::all(proxy.url("socks5").parse().unwrap()),
        connector: ConnectorConfig {
            pinned_addresses: vec![PinnedAddress {
                host: "far.test".into(),
                port,
                // Nothing listens on the first address.
                addresses: vec![[127, 0, 0, 77].into(), [127, 0, 0, 1].into()],
            }],
            ..ConnectorConfig::default()
        },
        ..ClientConfig::default()
    });
    assert_eq!(fetch_body(&client, &url).await.unwrap(), content().to_vec());
    assert_eq!(proxy.requests().len(), 2);
}
