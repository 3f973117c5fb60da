//! Requests that share a connection: who does, how many, and what the origin sees of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use haul_lab::http2::{Http2Origin, Http2Request, Http2Settings, StreamAction, alpn_server_config};
use haul_lab::{
    CertificateAuthority, HttpProxy, Origin, OriginResource, RequestMatcher, ResourceContent,
    faults, within,
};
use haul_net::{
    Client, ClientCertificate, ClientConfig, Error, FetchRequest, FetchResponse, HttpVersionChoice,
    Kind, Login, ProxyRules, Secret, TlsOptions, TlsProblem, UserCredentials,
};
use url::Url;

use crate::{LIMIT, body, client};

const HERE: &[&str] = &["127.0.0.1", "localhost"];
pub(crate) const BOTH: &[&str] = &["h2", "http/1.1"];

/// A GET that may share its connection.
pub(crate) async fn get(client: &Client, url: &str) -> Result<FetchResponse, Error> {
    let url: Url = url.parse().unwrap();
    let fetch = FetchRequest {
        user_headers: None,
        url: &url,
        user_url: &url,
        range: None,
        conditions: http::HeaderMap::new(),
        may_multiplex: true,
    };
    within(LIMIT, client.fetch(fetch)).await
}

/// Its body, too.
pub(crate) async fn fetched(client: &Client, url: &str) -> Result<Vec<u8>, Error> {
    body(get(client, url).await?).await
}

pub(crate) fn trusting(authority: &CertificateAuthority) -> TlsOptions {
    TlsOptions {
        cacert: Some(authority.certificate_pem().into_bytes()),
        ..TlsOptions::default()
    }
}

pub(crate) fn config(authority: &CertificateAuthority, http: HttpVersionChoice) -> ClientConfig {
    ClientConfig {
        http_version: http,
        tls: trusting(authority),
        ..ClientConfig::default()
    }
}

/// An origin for these protocols.
pub(crate) async fn origin(
    authority: &CertificateAuthority,
    protocols: &[&str],
    settings: Http2Settings,
    script: impl Fn(&Http2Request) -> StreamAction + Send + Sync + 'static,
) -> Http2Origin {
    let tls = alpn_server_config(&authority.issue(HERE), None, protocols);
    Http2Origin::start(tls, settings, script).await
}

/// A body that is another for each path.
pub(crate) fn file(path: &str) -> Bytes {
    let seed = path.bytes().map(u64::from).sum();
    Bytes::from(ResourceContent::random(seed, 3_000).to_vec())
}

pub(crate) fn serve(asked: &Http2Request) -> StreamAction {
    StreamAction::Respond(file(&asked.path))
}

/// A proxy that takes its time, so that the way is a long one.
pub(crate) async fn far(config: ClientConfig) -> (HttpProxy, Client) {
    let proxy = HttpProxy::builder()
        .rule(RequestMatcher::always(), |_, reply| {
            reply.delay = Duration::from_millis(30);
        })
        .start()
        .await;
    let client = client(ClientConfig {
        proxy: ProxyRules::all(proxy.url().parse().unwrap()),
        ..config
    });
    (proxy, client)
}

/// So many requests at once, for a file each.
async fn at_once(client: &Client, origin: &Http2Origin, count: usize) -> Vec<Result<(), Error>> {
    let one = async |n: usize| {
        let path = format!("/{n}");
        let came = fetched(client, &origin.url(&path)).await?;
        assert_eq!(came, file(&path), "{path}");
        Ok(())
    };
    join_all((0..count).map(one)).await
}

#[tokio::test]
async fn requests_at_once_wait_for_one_connection_and_share_it() {
    let authority = CertificateAuthority::new();
    let origin = origin(&authority, BOTH, Http2Settings::default(), serve).await;
    let client = client(config(&authority, HttpVersionChoice::Http2));
    for came in at_once(&client, &origin, 64).await {
        came.unwrap();
    }
    let answer = get(&client, &origin.url("/x")).await.unwrap();
    assert!(answer.timings.reused);
    assert!(answer.max_streams.is_some_and(|streams| streams >= 100));
    assert_eq!(answer.remaining(), Some(3_000));
    assert_eq!(
        (origin.connection_count(), origin.requests().len()),
        (1, 65)
    );
    let asked = &origin.requests()[0];
    assert!(asked.is_http2 && !asked.headers.contains_key("host"));
    assert_eq!(asked.authority, origin.address().to_string());
}

#[tokio::test]
async fn a_long_way_is_shared_and_whoever_may_not_share_goes_alone() {
    let authority = CertificateAuthority::new();
    let origin = origin(&authority, BOTH, Http2Settings::default(), serve).await;
    let (proxy, client) = far(config(&authority, HttpVersionChoice::Auto)).await;
    for came in at_once(&client, &origin, 16).await {
        came.unwrap();
    }
    assert_eq!((proxy.requests().len(), origin.connection_count()), (1, 1));
    assert!(origin.requests().iter().all(|asked| asked.is_http2));
    let alone = crate::get(&client, &origin.url("/1")).await.unwrap();
    assert_eq!(alone.max_streams, None);
    assert!(!origin.requests()[16].is_http2);
    let (_proxy, never) = far(config(&authority, HttpVersionChoice::Http1)).await;
    fetched(&never, &origin.url("/2")).await.unwrap();
    assert!(!origin.requests()[17].is_http2);
}

#[tokio::test]
async fn an_origin_with_http_1_alone_is_asked_over_connections_of_ones_own_at_once() {
    let authority = CertificateAuthority::new();
    // The first of all requests is never answered, and the others do not wait for that.
    let first = RequestMatcher::matching(|asked| asked.number_for_path == 0);
    let content = ResourceContent::random(1, 1_000);
    let resource = OriginResource::new(content.clone()).rule(first, faults::stall_after(0));
    let origin = Origin::builder()
        .resource("/f", resource)
        .tls(authority.issue(HERE).server_config(None))
        .start()
        .await;
    let (_proxy, client) = far(ClientConfig {
        stall_timeout: Duration::from_secs(1),
        ..config(&authority, HttpVersionChoice::Auto)
    })
    .await;
    let url = origin.url("/f");
    let came = join_all((0..8).map(|_| fetched(&client, &url))).await;
    let right = came
        .iter()
        .filter(|came| matches!(came, Ok(bytes) if *bytes == content.to_vec()));
    assert_eq!(right.count(), 7);
    assert_eq!(origin.connection_count(), 8);
    for _ in 0..4 {
        fetched(&client, &url).await.unwrap();
    }
    assert_eq!(origin.connection_count(), 8, "known by now, and reused");
}

#[tokio::test]
async fn http2_alone_at_an_origin_without_it_says_which_flag_helps() {
    let authority = CertificateAuthority::new();
    let issued = authority.issue(HERE);
    for tls in [
        issued.server_config(None),
        alpn_server_config(&issued, None, &["http/1.1"]),
    ] {
        let origin = Origin::builder().tls(tls).start().await;
        let client = client(config(&authority, HttpVersionChoice::Http2));
        let url = origin.url("/f");
        for error in join_all([get(&client, &url), get(&client, &url)]).await {
            let error = error.unwrap_err();
            assert_eq!(*error.kind(), Kind::Tls(TlsProblem::NoHttp2), "{error:?}");
            assert!(error.to_string().contains("--http1.1") && !error.is_transient());
        }
    }
}

#[tokio::test]
async fn no_more_are_on_a_connection_than_the_peer_takes() {
    let authority = CertificateAuthority::new();
    let settings = Http2Settings {
        max_streams: Some(3),
        ..Http2Settings::default()
    };
    let origin = origin(&authority, BOTH, settings, |asked| {
        StreamAction::RespondAfter(Duration::from_millis(5), file(&asked.path))
    })
    .await;
    let client = client(config(&authority, HttpVersionChoice::Http2));
    // By now the limit is known.
    assert!(get(&client, &origin.url("/x")).await.is_ok());
    for came in at_once(&client, &origin, 40).await {
        came.unwrap();
    }
    assert!(origin.requests().iter().all(|asked| asked.concurrent <= 3));
    assert_eq!(origin.connection_count(), 2);
    let answer = get(&client, &origin.url("/y")).await.unwrap();
    // On each of two connections.
    assert_eq!(answer.max_streams, Some(6));
}

#[tokio::test]
async fn a_failure_to_connect_is_that_of_all_who_wait() {
    let authority = CertificateAuthority::new();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let proxy = HttpProxy::builder()
        .rule(RequestMatcher::always(), move |_, reply| {
            count.fetch_add(1, Ordering::Relaxed);
            *reply = haul_lab::OriginResponse::empty(503);
            reply.delay = Duration::from_millis(200);
        })
        .start()
        .await;
    let client = client(ClientConfig {
        proxy: ProxyRules::all(proxy.url().parse().unwrap()),
        ..config(&authority, HttpVersionChoice::Auto)
    });
    let urls: Vec<String> = (0..8).map(|n| format!("https://far.test/{n}")).collect();
    let came = join_all(urls.iter().map(|url| get(&client, url))).await;
    for (came, url) in came.into_iter().zip(&urls) {
        let error = came.unwrap_err();
        assert!(matches!(error.kind(), Kind::ProxyRefused(Some(_))));
        assert_eq!(error.url().as_str(), url);
        assert!(error.proxy().is_some());
    }
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    assert!(get(&client, &urls[0]).await.is_err());
    assert_eq!(asked.load(Ordering::Relaxed), 2, "the next tries again");
}

#[tokio::test]
async fn whoever_made_the_connection_may_give_up_and_another_goes_on() {
    let authority = CertificateAuthority::new();
    let origin = origin(&authority, BOTH, Http2Settings::default(), serve).await;
    let (_proxy, client) = far(config(&authority, HttpVersionChoice::Auto)).await;
    let url = origin.url("/1");
    let mut first = Box::pin(get(&client, &url));
    let second = get(&client, &url);
    // Polled once, it has begun to connect.
    assert!((&mut first).now_or_never().is_none());
    let mut second = Box::pin(second);
    assert!((&mut second).now_or_never().is_none());
    drop(first);
    assert_eq!(second.await.unwrap().status, 200);
}

#[tokio::test]
async fn a21_challenges_and_redirects_over_a_shared_connection() {
    let authority = CertificateAuthority::new();
    let other = Arc::new(origin(&authority, BOTH, Http2Settings::default(), serve).await);
    let to = other.url("/1").replace("127.0.0.1", "localhost");
    let near = origin(&authority, BOTH, Http2Settings::default(), move |asked| {
        let known = asked.headers.get("authorization").map(String::as_str);
        match (known, asked.path.as_str()) {
            (Some("Basic dTpw"), "/away") => {
                StreamAction::RespondWith(302, vec![("location", to.clone())], Bytes::new())
            }
            (Some("Basic dTpw"), path) => StreamAction::Respond(file(path)),
            _ => StreamAction::RespondWith(
                401,
                vec![("www-authenticate", "Basic realm=\"r\"".into())],
                Bytes::from_static(b"who?"),
            ),
        }
    })
    .await;
    let login = |password: &str| ClientConfig {
        credentials: UserCredentials {
            login: Some(Login {
                user: "u".into(),
                password: Secret::new(password.into()),
            }),
            ..UserCredentials::default()
        },
        ..config(&authority, HttpVersionChoice::Http2)
    };
    let right = client(login("p"));
    let answer = get(&right, &near.url("/a")).await.unwrap();
    assert!(answer.authorized);
    assert_eq!(body(answer).await.unwrap(), file("/a"));
    let answer = get(&right, &near.url("/away")).await.unwrap();
    assert!(answer.redirected);
    assert_eq!(body(answer).await.unwrap(), file("/1"));
    assert!(!other.requests()[0].headers.contains_key("authorization"));
    assert_eq!(near.connection_count(), 1);
    let wrong = client(login("q"));
    assert_eq!(get(&wrong, &near.url("/a")).await.unwrap().status, 401);
}

#[tokio::test]
async fn a_client_certificate_is_shown_to_the_origin_that_was_named_alone() {
    let authority = CertificateAuthority::new();
    let tls = alpn_server_config(&authority.issue(HERE), Some(&authority), BOTH);
    let far = Http2Origin::start(tls, Http2Settings::default(), serve).await;
    let named = far.url("/1").replace("127.0.0.1", "localhost");
    let to = named.clone();
    let near = origin(&authority, BOTH, Http2Settings::default(), move |_| {
        StreamAction::RespondWith(302, vec![("location", to.clone())], Bytes::new())
    })
    .await;
    let issued = authority.issue(&["me"]);
    let mut config = config(&authority, HttpVersionChoice::Http2);
    config.tls.client_certificate = Some(ClientCertificate {
        certificates: issued.certificate_pem.into_bytes(),
        key: issued.key_pem.into_bytes(),
    });
    let client = client(config);
    assert_eq!(fetched(&client, &named).await.unwrap(), file("/1"));
    let error = get(&client, &near.url("/x")).await.unwrap_err();
    let refused = Kind::Tls(TlsProblem::ClientCertificate);
    assert_eq!(*error.kind(), refused, "{error:?}");
    assert!(!error.is_transient());
    assert_eq!(fetched(&client, &named).await.unwrap(), file("/1"));
    assert_eq!(far.requests().len(), 2);
}

#[tokio::test]
async fn what_rests_has_a_bound_and_the_oldest_goes() {
    let authority = CertificateAuthority::new();
    let mut origins = Vec::new();
    for _ in 0..8 {
        origins.push(origin(&authority, BOTH, Http2Settings::default(), serve).await);
    }
    let client = client(ClientConfig {
        max_idle: 4,
        ..config(&authority, HttpVersionChoice::Http2)
    });
    for origin in &origins {
        fetched(&client, &origin.url("/1")).await.unwrap();
    }
    for origin in [&origins[7], &origins[0]] {
        fetched(&client, &origin.url("/2")).await.unwrap();
    }
    assert_eq!(
        (origins[7].connection_count(), origins[0].connection_count()),
        (1, 2)
    );
}
