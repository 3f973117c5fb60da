//! Ways whose length connecting does not tell: what is learnt of them by their answers.

use std::time::Duration;

use futures_util::future::join_all;
use haul_lab::http2::{Http2Origin, Http2Settings};
use haul_lab::{CertificateAuthority, SlowLink, SlowLinkBuilder};
use haul_net::{Client, HttpVersionChoice};
use url::Url;

use crate::client;
use crate::http2::{BOTH, config, fetched, file, origin, serve};

/// A way that is long for all but the handshake of TCP, and a client that may find out.
async fn through_relay(
    authority: &CertificateAuthority,
    origin: &Http2Origin,
) -> (SlowLink, Client, Url) {
    let link = SlowLinkBuilder::new(origin.address()).latency(Duration::from_millis(10));
    let link = link.start().await;
    let url = format!("https://{}/", link.address());
    let client = client(config(authority, HttpVersionChoice::Auto));
    (link, client, url.parse().unwrap())
}

#[tokio::test]
async fn a_long_way_behind_a_relay_is_found_out_by_its_answers() {
    let authority = CertificateAuthority::new();
    let origin = origin(&authority, BOTH, Http2Settings::default(), serve).await;
    let (_link, client, url) = through_relay(&authority, &origin).await;
    for n in 0..6 {
        let one = async |n: usize| {
            let path = format!("/{n}");
            let came = fetched(&client, url.join(&path).unwrap().as_str()).await;
            assert_eq!(came.unwrap(), file(&path));
        };
        join_all((n * 8..n * 8 + 8).map(one)).await;
    }
    let asked: Vec<bool> = origin
        .requests()
        .iter()
        .map(|asked| asked.is_http2)
        .collect();
    // The handshakes and answers of the first eight tell; the next eight do not wait while one of them makes the connection.
    let apart = asked.iter().filter(|http2| !**http2).count();
    assert_eq!((asked.len(), apart), (48, 15), "{asked:?}");
    assert!(asked[16..].iter().all(|http2| *http2));
    // Eight connections for a request each, and one for all.
    assert_eq!(origin.connection_count(), 9);
    let alone = crate::get(&client, url.as_str()).await.unwrap();
    assert_eq!(
        alone.max_streams, None,
        "who may not share goes alone as before"
    );
    assert_eq!(origin.connection_count(), 9);
}

#[tokio::test]
async fn a_short_way_stays_one_however_many_answers_come() {
    let authority = CertificateAuthority::new();
    let origin = origin(&authority, BOTH, Http2Settings::default(), serve).await;
    let client = client(config(&authority, HttpVersionChoice::Auto));
    for _ in 0..100 {
        fetched(&client, &origin.url("/f")).await.unwrap();
    }
    assert!(origin.requests().iter().all(|asked| !asked.is_http2));
    assert_eq!(origin.connection_count(), 1);
}

#[tokio::test]
async fn where_no_further_connection_is_to_be_had_those_that_are_there_go_on() {
    let authority = CertificateAuthority::new();
    let origin = origin(&authority, BOTH, Http2Settings::default(), serve).await;
    let link = SlowLinkBuilder::new(origin.address()).latency(Duration::from_millis(10));
    let link = link.max_connections(1).start().await;
    let url = format!("https://{}/f", link.address());
    let client = client(config(&authority, HttpVersionChoice::Auto));
    for _ in 0..40 {
        assert_eq!(fetched(&client, &url).await.unwrap(), file("/f"));
    }
    assert!(origin.requests().iter().all(|asked| !asked.is_http2));
    assert_eq!(link.refused_connections(), 1);
}
