//! HTTP/1.1 connections: a live one is reused, a closed one is replaced once, and a silent one times out.

use std::time::Duration;

use futures_util::FutureExt;
use haul_lab::{
    CertificateAuthority, HttpProxy, Origin, OriginResource, OriginResponseBody, RequestMatcher,
    ResourceContent, faults, within,
};
use haul_net::{ClientConfig, ConnectorConfig, FetchRequest, Kind, ProxyRules, RangeByRoundTrip};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

use crate::{LIMIT, body, client, get};

fn content() -> ResourceContent {
    ResourceContent::random(1, 300_000)
}

#[tokio::test]
async fn sequential_requests_share_a_connection() {
    let origin = Origin::builder()
        .resource("/f", OriginResource::new(content()))
        .start()
        .await;
    let client = client(ClientConfig::default());
    for _ in 0..5 {
        let response = get(&client, &origin.url("/f")).await.unwrap();
        assert_eq!(body(response).await.unwrap(), content().to_vec());
    }
    assert_eq!((origin.requests().len(), origin.connection_count()), (5, 1));
}

/// The second request finds the connection that was made ahead of it, and asks for what fits the path.
#[tokio::test]
async fn a_connection_made_ahead_carries_a_request_whose_range_depends_on_the_round_trip() {
    let origin = Origin::builder()
        .resource("/f", OriginResource::new(content()))
        .start()
        .await;
    let client = client(ClientConfig::default());
    let url = origin.url("/f").parse().unwrap();
    for _ in 0..2 {
        within(LIMIT, client.connect_ahead(&FetchRequest::get(&url), 1)).await;
    }
    let choose = |round_trip: Duration| 0..if round_trip.is_zero() { 1 } else { 1000 };
    let request = FetchRequest {
        range_by_round_trip: Some(RangeByRoundTrip(&choose)),
        ..FetchRequest::get(&url)
    };
    let response = within(LIMIT, client.fetch(request)).await.unwrap();
    assert!(response.timings.reused);
    assert_eq!(response.requested_range, Some(0..1000));
    assert_eq!(body(response).await.unwrap(), content().to_vec()[..1000]);
    assert_eq!(origin.connection_count(), 1);
}

/// While a connection is made ahead, a request waits for it and makes no other one.
#[tokio::test]
async fn a_request_waits_for_the_connection_that_is_made_ahead_of_it() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let authority = CertificateAuthority::new();
    let config = authority.issue(&["127.0.0.1"]).server_config(None);
    let mut client_config = ClientConfig::default();
    client_config.tls.cacert = Some(authority.certificate_pem().into_bytes());
    let client = client(client_config);
    let url = format!("https://{}/f", listener.local_addr().unwrap())
        .parse()
        .unwrap();
    let serve = async {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = TlsAcceptor::from(config).accept(stream).await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0);
        }
        let response = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfile";
        stream.write_all(response).await.unwrap();
    };
    let ahead = FetchRequest::get(&url);
    let fetch = Box::pin(client.fetch(FetchRequest::get(&url)));
    let all = Box::pin(async { tokio::join!(client.connect_ahead(&ahead, 1), fetch, serve) });
    let ((), response, ()) = within(LIMIT, all).await;
    assert_eq!(body(response.unwrap()).await.unwrap(), b"file");
    assert!(listener.accept().now_or_never().is_none());
}

/// A silent peer costs a request the time to connect once, not twice.
#[tokio::test]
async fn a_request_meets_the_error_of_the_connection_it_waits_for() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = client(ClientConfig::default());
    let origin = format!("https://{}", listener.local_addr().unwrap());
    let [ahead, url] = ["/ahead", "/f"].map(|path| format!("{origin}{path}").parse().unwrap());
    let ahead = FetchRequest::get(&ahead);
    let fetch = Box::pin(client.fetch(FetchRequest::get(&url)));
    let close = async { drop(listener.accept().await.unwrap()) };
    let all = Box::pin(async { tokio::join!(client.connect_ahead(&ahead, 1), fetch, close) });
    let error = within(LIMIT, all).await.1.unwrap_err();
    assert_eq!(error.url(), &url);
    let own = TcpStream::connect(listener.local_addr().unwrap()).await;
    let next = listener.accept().await.unwrap().0;
    let own = own.unwrap().local_addr().unwrap();
    assert_eq!(next.peer_addr().unwrap(), own, "it made another connection");
}

#[tokio::test]
async fn an_unread_body_closes_its_connection_unless_it_is_short() {
    let origin = Origin::builder()
        .resource("/f", OriginResource::new(content()))
        .start()
        .await;
    let client = client(ClientConfig::default());
    drop(get(&client, &origin.url("/f")).await.unwrap());
    get(&client, &origin.url("/f"))
        .await
        .unwrap()
        .discard()
        .await;
    assert_eq!(origin.connection_count(), 2);
    get(&client, &origin.url("/none"))
        .await
        .unwrap()
        .discard()
        .await;
    get(&client, &origin.url("/none"))
        .await
        .unwrap()
        .discard()
        .await;
    assert_eq!(origin.connection_count(), 3);
}

#[tokio::test]
async fn an_idle_connection_that_the_origin_closed_is_replaced_silently() {
    // No response announces a close. The connection is reset instead of the second response.
    let second = RequestMatcher::matching(|request| request.number_for_path == 1);
    let resource = OriginResource::new(content()).rule(second, faults::reset_connection);
    let origin = Origin::builder().resource("/f", resource).start().await;
    let client = client(ClientConfig::default());
    for _ in 0..2 {
        let response = get(&client, &origin.url("/f")).await.unwrap();
        assert_eq!(body(response).await.unwrap().len(), 300_000);
    }
    assert_eq!((origin.requests().len(), origin.connection_count()), (3, 2));
}

#[tokio::test]
async fn a19_silence_in_a_body_is_a_stall_and_a_slow_reader_is_not() {
    let resource =
        OriginResource::new(content()).rule(RequestMatcher::always(), faults::stall_after(200_000));
    let origin = Origin::builder().resource("/f", resource).start().await;
    let stall_timeout = Duration::from_millis(200);
    let client = client(ClientConfig {
        stall_timeout,
        ..ClientConfig::default()
    });
    let mut response = get(&client, &origin.url("/f")).await.unwrap();
    let mut received = within(LIMIT, response.chunk())
        .await
        .unwrap()
        .unwrap()
        .len();
    // The reader is busy for longer than the timeout, as with a slow disk. That is not a stall, with or without new data.
    tokio::time::pause();
    tokio::time::advance(stall_timeout * 2).await;
    tokio::time::resume();
    let error = loop {
        match within(LIMIT, response.chunk()).await {
            Ok(piece) => received += piece.unwrap().len(),
            Err(error) => break error,
        }
    };
    assert_eq!((error.kind(), received), (&Kind::Stall, 200_000));
    assert!(error.is_transient());
}

#[tokio::test]
async fn a10_a_body_shorter_than_its_content_length_is_an_error() {
    let resource =
        OriginResource::new(content()).rule(RequestMatcher::always(), faults::close_after(1000));
    let origin = Origin::builder().resource("/f", resource).start().await;
    let response = get(&client(ClientConfig::default()), &origin.url("/f"))
        .await
        .unwrap();
    assert_eq!(*body(response).await.unwrap_err().kind(), Kind::Closed);
}

#[tokio::test]
async fn user_headers_replace_and_remove_default_headers() {
    let origin = Origin::builder()
        .resource("/f", OriginResource::new(content()))
        .start()
        .await;
    let config = ClientConfig {
        headers: [(http::header::USER_AGENT, "mine".parse().unwrap())]
            .into_iter()
            .collect(),
        removed_headers: vec![http::header::ACCEPT],
        ..ClientConfig::default()
    };
    get(&client(config), &origin.url("/f")).await.unwrap();
    let requests = origin.requests();
    assert_eq!(
        (
            requests[0].header("user-agent"),
            requests[0].header("accept")
        ),
        (Some("mine"), None)
    );
}

#[tokio::test]
async fn credentials_in_a_url_are_sent_and_never_printed() {
    let origin = Origin::builder()
        .resource("/f", OriginResource::new(content()))
        .start()
        .await;
    let url = origin.url("/f").replace("://", "://user:hidden@");
    let client = client(ClientConfig::default());
    let response = get(&client, &url).await.unwrap();
    assert!(!format!("{response:?}").contains("hidden"));
    assert_eq!(
        origin.requests()[0].header("authorization"),
        Some("Basic dXNlcjpoaWRkZW4=")
    );
    drop(origin);
    let error = get(&client, &url).await.unwrap_err();
    assert!(!format!("{error:?} {error}").contains("hidden"));
}

#[tokio::test]
async fn a_slow_redirect_body_does_not_delay_the_redirect() {
    let target = Origin::builder()
        .resource("/f", OriginResource::new(content()))
        .start()
        .await;
    let location = target.url("/f");
    let redirect =
        OriginResource::new(content()).rule(RequestMatcher::always(), move |request, reply| {
            faults::status_with_header(302, "Location", location.clone())(request, reply);
            reply.body = OriginResponseBody::Bytes(vec![b'x'; 60_000]);
            reply.max_rate = Some(500);
        });
    let redirecting = Origin::builder().resource("/f", redirect).start().await;
    let client = client(ClientConfig::default());
    let started = Instant::now();
    assert_eq!(
        get(&client, &redirecting.url("/f")).await.unwrap().status,
        200
    );
    assert!(started.elapsed() < Duration::from_secs(2));
}

#[tokio::test]
async fn a_rate_limit_that_is_lifted_frees_a_body_that_is_on_its_way() {
    let origin = Origin::builder()
        .resource("/f", OriginResource::new(content()))
        .start()
        .await;
    let client = client(ClientConfig {
        connector: ConnectorConfig {
            // A minute for the body.
            rate_limit: Some(5_000),
            ..ConnectorConfig::default()
        },
        ..ClientConfig::default()
    });
    let mut response = get(&client, &origin.url("/f")).await.unwrap();
    let first = within(LIMIT, response.chunk()).await.unwrap().unwrap();
    client.set_rate_limit(None);
    assert_eq!(client.connector().rate_limit(), None);
    let rest = within(LIMIT, body(response)).await.unwrap();
    assert_eq!([first.to_vec(), rest].concat(), content().to_vec());
}

#[tokio::test]
async fn the_connect_timeout_covers_lookup_proxy_and_tls() {
    // The proxy answers CONNECT late, and the target then never answers the TLS handshake.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent_address = silent.local_addr().unwrap();
    let proxy = HttpProxy::builder()
        .rule(RequestMatcher::always(), |_, reply| {
            reply.delay = Duration::from_millis(600);
        })
        .start()
        .await;
    let client = client(ClientConfig {
        connector: ConnectorConfig {
            connect_timeout: Duration::from_secs(1),
            ..ConnectorConfig::default()
        },
        proxy: ProxyRules::all(proxy.url().parse().unwrap()),
        ..ClientConfig::default()
    });
    let started = Instant::now();
    let error = get(&client, &format!("https://{silent_address}/f"))
        .await
        .unwrap_err();
    assert!(matches!(error.kind(), Kind::ConnectTimeout(_)), "{error:?}");
    let source = std::error::Error::source(&error).map(ToString::to_string);
    assert_eq!(source.as_deref(), Some("TLS was not established"));
    let elapsed = started.elapsed();
    assert!(elapsed < Duration::from_millis(1500), "{elapsed:?}");
}
