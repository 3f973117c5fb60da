//! Requests that share an HTTP/2 connection: which requests may, how many, and what the origin sees of them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use haul_lab::http2::{Http2Origin, Http2Request, Http2Settings, StreamAction, alpn_server_config};
use haul_lab::{
    CertificateAuthority, HttpProxy, Origin, OriginResource, RequestMatcher, ResourceContent,
    SlowLink, SlowLinkBuilder, faults,
};
use haul_net::{
    Client, ClientCertificate, ClientConfig, Error, FetchResponse, HttpVersionChoice, Kind, Login,
    ProxyRules, Secret, TlsProblem, UserCredentials,
};

use crate::{LOCAL_NAMES, body, client, trusting};

pub(crate) const BOTH_VERSIONS: &[&str] = &["h2", "http/1.1"];

/// A GET that may share its connection.
pub(crate) async fn get_shared(client: &Client, url: &str) -> Result<FetchResponse, Error> {
    crate::fetch(client, url, true).await
}

/// Like [`get_shared`], and reads the whole body.
pub(crate) async fn get_shared_body(client: &Client, url: &str) -> Result<Vec<u8>, Error> {
    body(get_shared(client, url).await?).await
}

pub(crate) fn config(
    authority: &CertificateAuthority,
    http_version: HttpVersionChoice,
) -> ClientConfig {
    ClientConfig {
        http_version,
        tls: trusting(authority),
        ..ClientConfig::default()
    }
}

/// An origin that speaks these protocols.
pub(crate) async fn start_origin(
    authority: &CertificateAuthority,
    protocols: &[&str],
    settings: Http2Settings,
    script: impl Fn(&Http2Request) -> StreamAction + Send + Sync + 'static,
) -> Http2Origin {
    let tls = alpn_server_config(&authority.issue(LOCAL_NAMES), None, protocols);
    Http2Origin::start(tls, settings, script).await
}

/// An origin with files that speaks HTTP/2 and HTTP/1.1.
async fn start_file_origin(authority: &CertificateAuthority) -> Http2Origin {
    start_origin(
        authority,
        BOTH_VERSIONS,
        Http2Settings::default(),
        respond_with_file,
    )
    .await
}

/// The file at a path. Each path has another one.
pub(crate) fn file(path: &str) -> Bytes {
    let seed = path.bytes().map(u64::from).sum();
    Bytes::from(ResourceContent::random(seed, 3_000).to_vec())
}

fn respond_with_file(request: &Http2Request) -> StreamAction {
    StreamAction::Respond(file(&request.path))
}

/// Puts a long round trip before an origin; returns the link, and the URL of the origin through it, without a path.
pub(crate) async fn slow_link(origin: SocketAddr) -> (SlowLink, String) {
    let link = SlowLinkBuilder::new(origin)
        .latency(Duration::from_millis(10))
        .start()
        .await;
    let url = format!("https://{}", link.address());
    (link, url)
}

/// Fetches this many files at once from an origin whose URL is given without a path.
async fn get_files(client: &Client, origin: &str, count: usize) -> Vec<Result<(), Error>> {
    let get_file = async |n: usize| {
        let path = format!("/{n}");
        let bytes = get_shared_body(client, &format!("{origin}{path}")).await?;
        assert_eq!(bytes, file(&path), "{path}");
        Ok(())
    };
    join_all((0..count).map(get_file)).await
}

#[tokio::test]
async fn parallel_requests_wait_for_one_connection_and_share_it() {
    let authority = CertificateAuthority::new();
    let origin = start_file_origin(&authority).await;
    let client = client(config(&authority, HttpVersionChoice::Http2));
    for result in get_files(&client, &origin.url(""), 64).await {
        result.unwrap();
    }
    let response = get_shared(&client, &origin.url("/x")).await.unwrap();
    assert!(response.timings.reused);
    assert!(response.max_streams.is_some_and(|streams| streams >= 100));
    assert_eq!(response.remaining(), Some(3_000));
    assert_eq!(
        (origin.connection_count(), origin.requests().len()),
        (1, 65)
    );
    let request = &origin.requests()[0];
    assert!(request.is_http2 && !request.headers.contains_key("host"));
    assert_eq!(request.authority, origin.address().to_string());
}

/// A process that waits for a processor while it connects does not take a short path for a long one, where several connections pay.
#[tokio::test]
async fn a_busy_process_does_not_need_more_connections() {
    let authority = CertificateAuthority::new();
    let origin = start_file_origin(&authority).await;
    let client = client(config(&authority, HttpVersionChoice::Http2));
    #[expect(
        clippy::disallowed_methods,
        reason = "the thread is busy while the kernel connects"
    )]
    let busy = async { std::thread::sleep(Duration::from_millis(50)) };
    let url = origin.url("");
    let (results, ()) = tokio::join!(biased; get_files(&client, &url, 64), busy);
    for result in results {
        result.unwrap();
    }
    assert_eq!(origin.connection_count(), 1);
}

#[tokio::test]
async fn requests_to_a_host_with_high_latency_share_a_connection_if_allowed() {
    let authority = CertificateAuthority::new();
    let origin = start_file_origin(&authority).await;
    let (link, url) = slow_link(origin.address()).await;
    let auto = client(config(&authority, HttpVersionChoice::Auto));
    for result in get_files(&auto, &url, 16).await {
        result.unwrap();
    }
    assert_eq!(
        (link.accepted_connections(), origin.connection_count()),
        (1, 1)
    );
    assert!(origin.requests().iter().all(|request| request.is_http2));
    let response = crate::get(&auto, &format!("{url}/1")).await.unwrap();
    assert_eq!(response.max_streams, None);
    assert!(!origin.requests()[16].is_http2);
    let http1 = client(config(&authority, HttpVersionChoice::Http1));
    get_shared_body(&http1, &format!("{url}/2")).await.unwrap();
    assert!(!origin.requests()[17].is_http2);
}

#[tokio::test]
async fn a_host_with_low_latency_switches_to_http_1_after_its_first_quick_response() {
    let authority = CertificateAuthority::new();
    let origin = start_file_origin(&authority).await;
    let client = client(config(&authority, HttpVersionChoice::Auto));
    for _ in 0..100 {
        get_shared_body(&client, &origin.url("/f")).await.unwrap();
    }
    // A busy machine may take longer than 5 ms for some responses, but not for all of them.
    let requests = origin.requests();
    let shared = requests
        .iter()
        .take_while(|request| request.is_http2)
        .count();
    assert!((1..50).contains(&shared), "{shared} requests over HTTP/2");
    assert!(requests[shared..].iter().all(|request| !request.is_http2));
    assert_eq!(origin.connection_count(), 2);
}

#[tokio::test]
async fn a_host_that_refuses_a_second_connection_is_served_by_the_first() {
    let authority = CertificateAuthority::new();
    let settings = Http2Settings {
        max_streams: Some(1),
        ..Http2Settings::default()
    };
    let origin = start_origin(&authority, BOTH_VERSIONS, settings, respond_with_file).await;
    let link = SlowLinkBuilder::new(origin.address())
        .latency(Duration::from_millis(10))
        .max_connections(1)
        .start()
        .await;
    let url = format!("https://{}", link.address());
    let client = client(config(&authority, HttpVersionChoice::Http2));
    // The stream limit of the origin is known after the first response.
    get_shared_body(&client, &format!("{url}/f")).await.unwrap();
    for result in get_files(&client, &url, 8).await {
        result.unwrap();
    }
    assert_eq!(
        (origin.connection_count(), link.refused_connections()),
        (1, 1)
    );
}

#[tokio::test]
async fn requests_to_a_host_without_http2_get_connections_of_their_own_at_once() {
    let authority = CertificateAuthority::new();
    // The very first request is never answered, and the others do not wait for it.
    let first = RequestMatcher::matching(|request| request.number_for_path == 0);
    let content = ResourceContent::random(1, 1_000);
    let resource = OriginResource::new(content.clone()).rule(first, faults::stall_after(0));
    let origin = Origin::builder()
        .resource("/f", resource)
        .tls(authority.issue(LOCAL_NAMES).server_config(None))
        .start()
        .await;
    let (_link, url) = slow_link(origin.address()).await;
    let client = client(ClientConfig {
        stall_timeout: Duration::from_secs(1),
        ..config(&authority, HttpVersionChoice::Auto)
    });
    let url = format!("{url}/f");
    let results = join_all((0..8).map(|_| get_shared_body(&client, &url))).await;
    let correct = results
        .iter()
        .filter(|result| matches!(result, Ok(bytes) if *bytes == content.to_vec()));
    assert_eq!(correct.count(), 7);
    assert_eq!(origin.connection_count(), 8);
    for _ in 0..4 {
        get_shared_body(&client, &url).await.unwrap();
    }
    assert_eq!(origin.connection_count(), 8, "connections are reused");
}

#[tokio::test]
async fn forced_http2_at_an_origin_without_it_is_an_error() {
    let authority = CertificateAuthority::new();
    let issued = authority.issue(LOCAL_NAMES);
    for tls in [
        issued.server_config(None),
        alpn_server_config(&issued, None, &["http/1.1"]),
    ] {
        let origin = Origin::builder().tls(tls).start().await;
        let client = client(config(&authority, HttpVersionChoice::Http2));
        let url = origin.url("/f");
        for error in join_all([get_shared(&client, &url), get_shared(&client, &url)]).await {
            let error = error.unwrap_err();
            assert_eq!(*error.kind(), Kind::Tls(TlsProblem::NoHttp2), "{error:?}");
            assert_eq!(error.to_string(), "the peer does not support HTTP/2");
            assert!(!error.is_transient());
        }
    }
}

#[tokio::test]
async fn a_connection_has_no_more_streams_than_the_peer_allows() {
    let authority = CertificateAuthority::new();
    let settings = Http2Settings {
        max_streams: Some(3),
        ..Http2Settings::default()
    };
    let origin = start_origin(&authority, BOTH_VERSIONS, settings, |request| {
        StreamAction::RespondAfter(Duration::from_millis(5), file(&request.path))
    })
    .await;
    let client = client(config(&authority, HttpVersionChoice::Http2));
    // The stream limit is known after the first response.
    assert!(get_shared(&client, &origin.url("/x")).await.is_ok());
    for result in get_files(&client, &origin.url(""), 40).await {
        result.unwrap();
    }
    assert!(
        origin
            .requests()
            .iter()
            .all(|request| request.concurrent <= 3)
    );
    assert_eq!(origin.connection_count(), 2);
    let response = get_shared(&client, &origin.url("/y")).await.unwrap();
    assert_eq!(response.max_streams, Some(6), "three on each connection");
}

#[tokio::test]
async fn a_connect_error_fails_all_requests_that_wait_for_the_connection() {
    let authority = CertificateAuthority::new();
    let connects = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&connects);
    let proxy = HttpProxy::builder()
        .rule(RequestMatcher::always(), move |_, reply| {
            counter.fetch_add(1, Ordering::Relaxed);
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
    let results = join_all(urls.iter().map(|url| get_shared(&client, url))).await;
    for (result, url) in results.into_iter().zip(&urls) {
        let error = result.unwrap_err();
        assert!(matches!(error.kind(), Kind::ProxyRefused(Some(_))));
        assert_eq!(error.url().as_str(), url);
        assert!(error.proxy().is_some());
    }
    assert_eq!(connects.load(Ordering::Relaxed), 1);
    assert!(get_shared(&client, &urls[0]).await.is_err());
    assert_eq!(
        connects.load(Ordering::Relaxed),
        2,
        "the next request tries again"
    );
}

/// A proxy that takes as long to connect as a long path does, and refuses all but so many connections: at once, before TLS with the
/// origin has ended on the first one.
async fn far_proxy(max_connections: usize) -> HttpProxy {
    let connects = AtomicUsize::new(0);
    HttpProxy::builder()
        .rule(RequestMatcher::always(), move |_, reply| {
            if connects.fetch_add(1, Ordering::Relaxed) < max_connections {
                reply.delay = Duration::from_millis(20);
            } else {
                *reply = haul_lab::OriginResponse::empty(503);
            }
        })
        .start()
        .await
}

fn through(proxy: &HttpProxy, config: ClientConfig) -> Client {
    client(ClientConfig {
        proxy: ProxyRules::all(proxy.url().parse().unwrap()),
        ..config
    })
}

#[tokio::test]
async fn requests_over_a_long_path_share_as_many_connections_as_they_need() {
    let authority = CertificateAuthority::new();
    let proxy = far_proxy(usize::MAX).await;
    for (files, connections) in [(2, 1), (4, 2), (20, 10), (64, 32), (200, 32)] {
        let origin = start_file_origin(&authority).await;
        let client = through(&proxy, config(&authority, HttpVersionChoice::Http2));
        for result in get_files(&client, &origin.url(""), files).await {
            result.unwrap();
        }
        assert_eq!(origin.connection_count(), connections, "{files} files");
    }
}

#[tokio::test]
async fn a_far_host_that_refuses_further_connections_is_served_by_those_it_accepted() {
    let authority = CertificateAuthority::new();
    for accepted in [1, 3] {
        let proxy = far_proxy(accepted).await;
        let origin = start_file_origin(&authority).await;
        let client = through(&proxy, config(&authority, HttpVersionChoice::Http2));
        for result in get_files(&client, &origin.url(""), 64).await {
            result.unwrap();
        }
        for result in get_files(&client, &origin.url(""), 64).await {
            result.unwrap();
        }
        assert_eq!(origin.connection_count(), accepted);
        assert_eq!(proxy.requests().len(), 32, "none is tried again");
    }
}

#[tokio::test]
async fn where_all_connections_over_a_long_path_fail_all_requests_do() {
    let (authority, other) = (CertificateAuthority::new(), CertificateAuthority::new());
    let proxy = far_proxy(usize::MAX).await;
    let origin = start_file_origin(&authority).await;
    let client = through(&proxy, config(&other, HttpVersionChoice::Http2));
    let results = get_files(&client, &origin.url(""), 64).await;
    assert_eq!(results.len(), 64);
    for result in results {
        let kind = Kind::Tls(TlsProblem::UnknownIssuer);
        assert_eq!(*result.unwrap_err().kind(), kind);
    }
}

#[tokio::test]
async fn when_the_connecting_request_is_dropped_another_one_connects() {
    let authority = CertificateAuthority::new();
    let origin = start_file_origin(&authority).await;
    let (_link, url) = slow_link(origin.address()).await;
    let client = client(config(&authority, HttpVersionChoice::Auto));
    let url = format!("{url}/1");
    let mut first = Box::pin(get_shared(&client, &url));
    // Polled once, it has begun to connect.
    assert!((&mut first).now_or_never().is_none());
    let mut second = Box::pin(get_shared(&client, &url));
    assert!((&mut second).now_or_never().is_none());
    drop(first);
    assert_eq!(second.await.unwrap().status, 200);
}

#[tokio::test]
async fn a21_challenges_and_redirects_over_a_shared_connection() {
    let authority = CertificateAuthority::new();
    let other = start_file_origin(&authority).await;
    let location = other.url("/1").replace("127.0.0.1", "localhost");
    let script = move |request: &Http2Request| {
        let authorization = request.headers.get("authorization").map(String::as_str);
        match (authorization, request.path.as_str()) {
            (Some("Basic dTpw"), "/away") => {
                StreamAction::RespondWith(302, vec![("location", location.clone())], Bytes::new())
            }
            (Some("Basic dTpw"), path) => StreamAction::Respond(file(path)),
            _ => StreamAction::RespondWith(
                401,
                vec![("www-authenticate", "Basic realm=\"r\"".into())],
                Bytes::from_static(b"unauthorized"),
            ),
        }
    };
    let settings = Http2Settings::default();
    let origin = start_origin(&authority, BOTH_VERSIONS, settings, script).await;
    let with_password = |password: &str| ClientConfig {
        credentials: UserCredentials {
            login: Some(Login {
                user: "u".into(),
                password: Secret::new(password.into()),
            }),
            ..UserCredentials::default()
        },
        ..config(&authority, HttpVersionChoice::Http2)
    };
    let right = client(with_password("p"));
    let response = get_shared(&right, &origin.url("/a")).await.unwrap();
    assert!(response.authorized);
    assert_eq!(body(response).await.unwrap(), file("/a"));
    let response = get_shared(&right, &origin.url("/away")).await.unwrap();
    assert!(response.redirected);
    assert_eq!(body(response).await.unwrap(), file("/1"));
    assert!(!other.requests()[0].headers.contains_key("authorization"));
    assert_eq!(origin.connection_count(), 1);
    let wrong = client(with_password("q"));
    let response = get_shared(&wrong, &origin.url("/a")).await.unwrap();
    assert_eq!(response.status, 401);
}

#[tokio::test]
async fn a_client_certificate_is_not_sent_to_the_target_of_a_redirect() {
    let authority = CertificateAuthority::new();
    let tls = alpn_server_config(
        &authority.issue(LOCAL_NAMES),
        Some(&authority),
        BOTH_VERSIONS,
    );
    let settings = Http2Settings::default();
    let protected = Http2Origin::start(tls, settings, respond_with_file).await;
    let protected_url = protected.url("/1").replace("127.0.0.1", "localhost");
    let location = protected_url.clone();
    let settings = Http2Settings::default();
    let redirecting = start_origin(&authority, BOTH_VERSIONS, settings, move |_| {
        StreamAction::RespondWith(302, vec![("location", location.clone())], Bytes::new())
    })
    .await;
    let issued = authority.issue(&["me"]);
    let mut config = config(&authority, HttpVersionChoice::Http2);
    config.tls.client_certificate = Some(ClientCertificate {
        certificates: issued.certificate_pem.into_bytes(),
        key: issued.key_pem.into_bytes(),
    });
    let client = client(config);
    let direct = get_shared_body(&client, &protected_url).await;
    assert_eq!(direct.unwrap(), file("/1"));
    let redirected = get_shared(&client, &redirecting.url("/x")).await;
    let error = redirected.unwrap_err();
    let refused = Kind::Tls(TlsProblem::ClientCertificate);
    assert_eq!(*error.kind(), refused, "{error:?}");
    assert!(!error.is_transient());
    let direct = get_shared_body(&client, &protected_url).await;
    assert_eq!(direct.unwrap(), file("/1"));
    assert_eq!(protected.requests().len(), 2);
}

#[tokio::test]
async fn idle_connections_are_bounded_and_the_oldest_is_closed_first() {
    let authority = CertificateAuthority::new();
    let mut origins = Vec::new();
    for _ in 0..8 {
        origins.push(start_file_origin(&authority).await);
    }
    let client = client(ClientConfig {
        max_idle: 4,
        ..config(&authority, HttpVersionChoice::Http2)
    });
    for origin in &origins {
        get_shared_body(&client, &origin.url("/1")).await.unwrap();
    }
    for origin in [&origins[7], &origins[0]] {
        get_shared_body(&client, &origin.url("/2")).await.unwrap();
    }
    assert_eq!(
        (origins[7].connection_count(), origins[0].connection_count()),
        (1, 2)
    );
}
