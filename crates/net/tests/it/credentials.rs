//! Which credentials are sent to which server, and how often a challenge is answered.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use haul_lab::faults::{self, RequiredLogin};
use haul_lab::{
    CertificateAuthority, HttpProxy, Origin, OriginResource, RequestMatcher, ResourceContent,
};
use haul_net::{
    ClientCertificate, ClientConfig, Kind, Login, Netrc, ProxyRules, Secret, TlsOptions,
    TlsProblem, UserCredentials,
};

use crate::{body, client, get};

fn content() -> ResourceContent {
    ResourceContent::random(1, 100_000)
}

fn login(user: &str, password: &str) -> Option<Login> {
    Some(Login {
        user: user.into(),
        password: Secret::new(password.into()),
    })
}

async fn origin(resource: OriginResource) -> Origin {
    Origin::builder().resource("/f", resource).start().await
}

/// An origin that redirects every request to `url`, with another name of the same host, so that only the origin differs.
async fn redirecting_to(url: &str) -> Origin {
    let location = url.replace("127.0.0.1", "localhost");
    let redirect = faults::status_with_header(302, "Location", location);
    origin(OriginResource::new(content()).rule(RequestMatcher::always(), redirect)).await
}

#[tokio::test]
async fn the_netrc_default_is_sent_only_to_the_origin_of_the_user_url() {
    let target = origin(OriginResource::new(content())).await;
    let redirecting = redirecting_to(&target.url("/f")).await;
    for (netrc, sent_to_redirecting, sent_to_target) in [
        ("default login u password p", true, false),
        ("machine localhost login u password p", false, true),
        ("machine 127.0.0.1 login u password p", true, false),
        (
            "machine 127.0.0.1 password p\ndefault login u",
            false,
            false,
        ),
    ] {
        let client = client(ClientConfig {
            credentials: UserCredentials {
                netrc: Some(Netrc::parse(netrc).unwrap()),
                ..UserCredentials::default()
            },
            ..ClientConfig::default()
        });
        get(&client, &redirecting.url("/f")).await.unwrap();
        let got_credentials = |origin: &Origin| {
            let requests = origin.requests();
            requests.last().unwrap().header("authorization").is_some()
        };
        assert_eq!(
            (got_credentials(&redirecting), got_credentials(&target)),
            (sent_to_redirecting, sent_to_target),
            "{netrc}"
        );
    }
}

#[tokio::test]
async fn a21_parallel_requests_may_use_one_nonce() {
    for required in [
        RequiredLogin::digest("u", "p"),
        RequiredLogin::digest_md5("u", "p"),
    ] {
        let resource =
            OriginResource::new(content()).rule(RequestMatcher::always(), required.rule());
        // Long enough that all requests are refused before any of them has the nonce.
        let origin = Origin::builder()
            .resource("/f", resource)
            .latency(Duration::from_millis(50))
            .start()
            .await;
        let config = |password| ClientConfig {
            credentials: UserCredentials {
                login: login("u", password),
                ..UserCredentials::default()
            },
            ..ClientConfig::default()
        };
        let url = origin.url("/f");
        let right = client(config("p"));
        let responses = join_all((0..6).map(|_| get(&right, &url))).await;
        assert!(
            responses
                .into_iter()
                .all(|response| response.unwrap().status == 200)
        );
        assert_eq!(origin.requests().len(), 12);
        // The nonce is known by now; a wrong answer to it is final.
        let wrong = client(config("q"));
        assert_eq!(get(&wrong, &url).await.unwrap().status, 401);
        assert_eq!(get(&wrong, &url).await.unwrap().status, 401);
        assert_eq!(origin.requests().len(), 15);
    }
}

#[tokio::test]
async fn a21_a_proxy_with_digest_never_gets_the_password() {
    let authority = CertificateAuthority::new();
    for (tls, required) in [false, true].into_iter().flat_map(|tls| {
        [
            RequiredLogin::digest("me", "secret"),
            RequiredLogin::basic("me", "secret"),
        ]
        .map(|required| (tls, required))
    }) {
        let basic = format!("{required:?}").contains("Basic");
        let mut builder = Origin::builder().resource("/f", OriginResource::new(content()));
        if tls {
            builder = builder.tls(authority.issue(&["far.test"]).server_config(None));
        }
        let origin = builder.start().await;
        let port = origin.address().port();
        let proxy = HttpProxy::builder()
            .require_login(required)
            .route(&format!("far.test:{port}"), origin.address())
            .start()
            .await;
        let client = client(ClientConfig {
            proxy: ProxyRules::all(proxy.url_with_login("me", "secret").parse().unwrap()),
            tls: trusting(&authority),
            max_idle_per_host: 0,
            ..ClientConfig::default()
        });
        let scheme = if tls { "https" } else { "http" };
        for _ in 0..2 {
            let response = get(&client, &format!("{scheme}://far.test:{port}/f")).await;
            assert_eq!(body(response.unwrap()).await.unwrap().len(), 100_000);
        }
        let sent_basic: Vec<Option<bool>> = proxy
            .requests()
            .iter()
            .map(|request| Some(request.header("proxy-authorization")?.starts_with("Basic ")))
            .collect();
        // The proxy challenges the first request only.
        assert_eq!(sent_basic, [None, Some(basic), Some(basic)]);
    }
}

#[tokio::test]
async fn a21_a_proxy_and_the_origin_behind_it_may_both_require_digest() {
    let required = RequiredLogin::digest("you", "hidden").realm("origin");
    let origin =
        origin(OriginResource::new(content()).rule(RequestMatcher::always(), required.rule()))
            .await;
    let proxy = HttpProxy::builder()
        .require_login(RequiredLogin::digest("me", "secret"))
        .start()
        .await;
    let client = client(ClientConfig {
        proxy: ProxyRules::all(proxy.url_with_login("me", "secret").parse().unwrap()),
        credentials: UserCredentials {
            login: login("you", "hidden"),
            ..UserCredentials::default()
        },
        ..ClientConfig::default()
    });
    assert_eq!(get(&client, &origin.url("/f")).await.unwrap().status, 200);
    let statuses: Vec<u16> = proxy
        .requests()
        .iter()
        .map(|request| request.status)
        .collect();
    assert_eq!(statuses.len(), 3, "{statuses:?}");
    assert_eq!(get(&client, &origin.url("/f")).await.unwrap().status, 200);
    assert_eq!(proxy.requests().len(), 4);
}

#[tokio::test]
async fn a_challenge_with_a_utf8_realm_is_answered() {
    let authority = CertificateAuthority::new();
    let origin = Origin::builder()
        .resource("/f", OriginResource::new(content()))
        .tls(authority.issue(&["127.0.0.1"]).server_config(None))
        .start()
        .await;
    let proxy = HttpProxy::builder()
        .require_login(RequiredLogin::digest("me", "secret").realm("Прокси-сервер организации"))
        .start()
        .await;
    let client_through = |proxy: &str| {
        client(ClientConfig {
            proxy: ProxyRules::all(proxy.parse().unwrap()),
            tls: trusting(&authority),
            ..ClientConfig::default()
        })
    };
    let error = get(&client_through(&proxy.url()), &origin.url("/f"))
        .await
        .unwrap_err();
    assert!(matches!(error.kind(), Kind::ProxyAuth(Some(realm)) if realm.starts_with("Прокси")));
    let with_login = client_through(&proxy.url_with_login("me", "secret"));
    assert_eq!(
        get(&with_login, &origin.url("/f")).await.unwrap().status,
        200
    );
}

fn trusting(authority: &CertificateAuthority) -> TlsOptions {
    TlsOptions {
        cacert: Some(authority.certificate_pem().into_bytes()),
        ..TlsOptions::default()
    }
}

/// The configuration of a client with a certificate, and two origins that require one: one redirects to the other, which has a file.
async fn origins_requiring_certificate(
    authority: &CertificateAuthority,
) -> (ClientConfig, Origin, Origin) {
    let issued = authority.issue(&["me"]);
    let config = ClientConfig {
        tls: TlsOptions {
            client_certificate: Some(ClientCertificate {
                certificates: issued.certificate_pem.into_bytes(),
                key: issued.key_pem.into_bytes(),
            }),
            ..trusting(authority)
        },
        ..ClientConfig::default()
    };
    let require_certificate = || {
        Arc::clone(
            &authority
                .issue(&["127.0.0.1", "localhost"])
                .server_config(Some(authority)),
        )
    };
    let target = Origin::builder()
        .resource("/f", OriginResource::new(content()))
        .tls(require_certificate())
        .start()
        .await;
    let location = target.url("/f").replace("127.0.0.1", "localhost");
    let redirect = faults::status_with_header(302, "Location", location);
    let redirecting = Origin::builder()
        .resource(
            "/f",
            OriginResource::new(content()).rule(RequestMatcher::always(), redirect),
        )
        .tls(require_certificate())
        .start()
        .await;
    (config, redirecting, target)
}

#[tokio::test]
async fn a_client_certificate_is_presented_only_to_the_origin_of_the_user_url() {
    let authority = CertificateAuthority::new();
    let (config, redirecting, target) = origins_requiring_certificate(&authority).await;
    let client = client(config);
    let user_url = target.url("/f").replace("127.0.0.1", "localhost");
    let response = get(&client, &user_url).await.unwrap();
    body(response).await.unwrap();
    // The pool now has an idle connection that was made with the certificate. The redirected request must not use it.
    let error = get(&client, &redirecting.url("/f")).await.unwrap_err();
    assert!(
        matches!(error.kind(), Kind::Tls(TlsProblem::ClientCertificate)),
        "{error:?}"
    );
    assert!(
        !error.is_transient(),
        "a missing client certificate is not retried"
    );
    assert_eq!(
        (redirecting.requests().len(), target.requests().len()),
        (1, 1)
    );
    assert_eq!(get(&client, &user_url).await.unwrap().status, 200);
    assert_eq!(target.connection_count(), 1);
}

#[tokio::test]
async fn a_proxy_is_presented_no_client_certificate() {
    let authority = CertificateAuthority::new();
    let (config, _, target) = origins_requiring_certificate(&authority).await;
    let tls = authority
        .issue(&["127.0.0.1"])
        .server_config(Some(&authority));
    let proxy = HttpProxy::builder().tls(tls).start().await;
    let client = client(ClientConfig {
        proxy: ProxyRules::all(proxy.url().parse().unwrap()),
        ..config
    });
    get(&client, &target.url("/f")).await.unwrap_err();
    assert!(proxy.requests().is_empty());
}
