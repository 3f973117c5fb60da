//! CONNECT, absolute-form and SOCKS5, with logins, over TLS, and what follows a proxy's consent.

use std::net::SocketAddr;

use haul_lab::faults::{self, RequiredLogin};
use haul_lab::{
    CertificateAuthority, HttpProxy, Origin, OriginResource, RequestMatcher, ResourceContent,
    SocksProxy, SocksQuirk, SocksTarget, within,
};
use haul_net::PinnedAddress;
use haul_net::{
    Client, ClientConfig, ConnectorConfig, Error, Kind, ProxyRules, Target, TlsOptions,
};
use tokio::io::AsyncReadExt as _;
use url::Url;

use crate::{LIMIT, body, client, get};

fn content() -> ResourceContent {
    ResourceContent::random(1, 300_000)
}

/// An origin that is reached by a name only the proxy knows.
async fn far(authority: Option<&CertificateAuthority>) -> (Origin, String) {
    let mut builder = Origin::builder().resource("/f", OriginResource::new(content()));
    if let Some(authority) = authority {
        builder = builder.tls(authority.issue(&["far.test"]).server_config(None));
    }
    let origin = builder.start().await;
    let scheme = if authority.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://far.test:{}/f", origin.address().port());
    (origin, url)
}

fn through(proxy: &str, authority: Option<&CertificateAuthority>) -> Client {
    let cacert = authority.map(|authority| authority.certificate_pem().into_bytes());
    client(ClientConfig {
        proxy: ProxyRules::all(proxy.parse().unwrap()),
        tls: TlsOptions {
            cacert,
            ..TlsOptions::default()
        },
        ..ClientConfig::default()
    })
}

async fn fetched(client: &Client, url: &str) -> Result<Vec<u8>, Error> {
    body(get(client, url).await?).await
}

fn target(origin: &Origin) -> String {
    format!("far.test:{}", origin.address().port())
}

#[tokio::test]
async fn http_goes_in_absolute_form_and_https_by_connect() {
    let authority = CertificateAuthority::new();
    for authority in [None, Some(&authority)] {
        let (origin, url) = far(authority).await;
        let proxy = HttpProxy::builder()
            .route(&target(&origin), origin.address())
            .start()
            .await;
        let client = through(&proxy.url(), authority);
        assert_eq!(fetched(&client, &url).await.unwrap(), content().to_vec());
        assert_eq!(fetched(&client, &url).await.unwrap(), content().to_vec());
        let methods: Vec<String> = proxy
            .requests()
            .into_iter()
            .map(|request| request.method)
            .collect();
        // The tunnel is made once and used twice.
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
            let (origin, url) = far(authority).await;
            let proxy = HttpProxy::builder()
                .require_login(login())
                .route(&target(&origin), origin.address())
                .start()
                .await;
            let client = through(&proxy.url_with_login("me", "secret"), authority);
            assert_eq!(fetched(&client, &url).await.unwrap(), content().to_vec());
            assert!(
                origin
                    .requests()
                    .iter()
                    .all(|request| request.header("proxy-authorization").is_none())
            );
            let wrong = through(&proxy.url_with_login("me", "wrong"), authority);
            match get(&wrong, &url).await {
                Ok(answer) => assert_eq!(answer.status.as_u16(), 407),
                Err(error) => assert!(
                    matches!(error.kind(), Kind::ProxyAuth(Some(_))),
                    "{error:?}"
                ),
            }
        }
    }
}

#[tokio::test]
async fn a_proxy_over_tls_is_checked_like_an_origin() {
    let authority = CertificateAuthority::new();
    let (origin, url) = far(Some(&authority)).await;
    let tls = authority.issue(&["127.0.0.1"]).server_config(None);
    let proxy = HttpProxy::builder()
        .tls(tls)
        .route(&target(&origin), origin.address())
        .start()
        .await;
    assert_eq!(
        fetched(&through(&proxy.url(), Some(&authority)), &url)
            .await
            .unwrap(),
        content().to_vec()
    );
    let stranger = CertificateAuthority::new();
    let error = get(&through(&proxy.url(), Some(&stranger)), &url)
        .await
        .unwrap_err();
    assert!(matches!(error.kind(), Kind::Tls(_)) && !error.is_transient());
}

#[tokio::test]
async fn a_refusing_proxy_is_an_error_with_its_status() {
    let authority = CertificateAuthority::new();
    let (_origin, url) = far(Some(&authority)).await;
    for (status, transient) in [(403, false), (502, true)] {
        let proxy = HttpProxy::builder()
            .rule(RequestMatcher::always(), faults::status(status))
            .start()
            .await;
        let error = get(&through(&proxy.url(), Some(&authority)), &url)
            .await
            .unwrap_err();
        assert!(
            matches!(error.kind(), Kind::ProxyRefused(Some(found)) if found.as_u16() == status)
        );
        assert_eq!(error.is_transient(), transient);
    }
}

/// Reads what a target says first, through a connector that goes through a proxy.
async fn banner(proxy: &str, to: SocketAddr) -> Vec<u8> {
    let client = client(ClientConfig::default());
    let proxy = proxy.parse().unwrap();
    let url = Url::parse("http://far.test/").unwrap();
    let target = Target {
        host: "far.test".into(),
        port: to.port(),
    };
    let mut reached = client
        .connector()
        .connect(&target, &[&proxy], &url)
        .await
        .unwrap();
    let mut banner = vec![0; 12];
    within(LIMIT, reached.stream.read_exact(&mut banner))
        .await
        .unwrap();
    banner
}

#[tokio::test]
async fn e2_bytes_in_the_packet_of_the_connect_response_are_not_lost() {
    let (origin, _) = far(None).await;
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
async fn socks5h_leaves_names_to_the_proxy_and_socks5_does_not() {
    let (origin, url) = far(None).await;
    let proxy = SocksProxy::builder()
        .route(&target(&origin), origin.address())
        .start()
        .await;
    assert_eq!(
        fetched(&through(&proxy.url("socks5h"), None), &url)
            .await
            .unwrap(),
        content().to_vec()
    );
    assert!(
        matches!(&proxy.requests()[0].target, Some(SocksTarget::Name(name, _)) if name == "far.test")
    );
    let by_address = origin.url("/f").replace("127.0.0.1", "localhost");
    assert_eq!(
        fetched(&through(&proxy.url("socks5"), None), &by_address)
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
    let (origin, url) = far(None).await;
    let builder = || SocksProxy::builder().route(&target(&origin), origin.address());
    let locked = builder().require_login("me", "secret").start().await;
    let with = |login: &str| {
        locked
            .url("socks5h")
            .replace("://", &format!("://{login}@"))
    };
    assert!(
        fetched(&through(&with("me:secret"), None), &url)
            .await
            .is_ok()
    );
    for wrong in [with("me:wrong"), locked.url("socks5h")] {
        let error = get(&through(&wrong, None), &url).await.unwrap_err();
        assert!(matches!(error.kind(), Kind::ProxyAuth(_)), "{error:?}");
    }
    for quirk in [
        SocksQuirk::BoundToIpv6,
        SocksQuirk::BoundToName,
        SocksQuirk::Trickle,
    ] {
        let odd = builder().quirk(quirk).start().await;
        assert!(
            fetched(&through(&odd.url("socks5h"), None), &url)
                .await
                .is_ok()
        );
    }
    let refusing = builder().quirk(SocksQuirk::RefuseWith(5)).start().await;
    let error = get(&through(&refusing.url("socks5h"), None), &url)
        .await
        .unwrap_err();
    assert_eq!(*error.kind(), Kind::ProxyRefused(None));
    for quirk in [SocksQuirk::AcceptNoMethod, SocksQuirk::WrongVersion] {
        let broken = builder().quirk(quirk).start().await;
        assert!(
            get(&through(&broken.url("socks5h"), None), &url)
                .await
                .is_err()
        );
    }
}

#[tokio::test]
async fn a28_socks5_with_names_resolved_here_tries_the_next_address() {
    let (origin, url) = far(None).await;
    let proxy = SocksProxy::builder().start().await;
    let port = origin.address().port();
    let client = client(ClientConfig {
        proxy: ProxyRules::all(proxy.url("socks5").parse().unwrap()),
        connector: ConnectorConfig {
            pinned_addresses: vec![PinnedAddress {
                host: "far.test".into(),
                port,
                // Nobody listens at the first.
                addresses: vec![[127, 0, 0, 77].into(), [127, 0, 0, 1].into()],
            }],
            ..ConnectorConfig::default()
        },
        ..ClientConfig::default()
    });
    assert_eq!(fetched(&client, &url).await.unwrap(), content().to_vec());
    assert_eq!(proxy.requests().len(), 2);
}
