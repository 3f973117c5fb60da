//! `SO_RCVLOWAT`: fewer bytes than the mark do not wake the reader, and none are lost.

use std::time::Duration;

use haul_lab::within;
use haul_net::{ClientConfig, FetchResponse};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::{LIMIT, client, get};

/// The server side of a connection, to which the test writes, and a response of which none of the 100,000 body bytes has been sent.
async fn response_without_body() -> (TcpStream, FetchResponse) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/f", listener.local_addr().unwrap());
    let client = client(ClientConfig::default());
    let (accepted, response) = tokio::join!(
        async {
            let (mut peer, _) = listener.accept().await.unwrap();
            let mut request = [0; 1024];
            let _ = peer.read(&mut request).await.unwrap();
            peer.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
                .await
                .unwrap();
            peer
        },
        get(&client, &url)
    );
    (accepted, response.unwrap())
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn bytes_below_the_mark_do_not_wake_the_reader_until_it_is_lowered() {
    let (mut peer, mut response) = response_without_body().await;
    response.set_low_water(64 * 1024);
    assert!(response.try_chunk().is_none());
    peer.write_all(&[1; 1000]).await.unwrap();
    // Only waiting shows that nothing happens. A slow machine cannot make this fail.
    let chunk = timeout(Duration::from_millis(50), response.chunk()).await;
    assert!(chunk.is_err(), "woken for 1000 bytes");
    response.set_low_water(1);
    assert_eq!(
        within(LIMIT, response.chunk())
            .await
            .unwrap()
            .unwrap()
            .len(),
        1000
    );
}

#[tokio::test]
async fn bytes_above_the_mark_and_the_end_of_the_stream_wake_the_reader() {
    let (mut peer, mut response) = response_without_body().await;
    response.set_low_water(64 * 1024);
    assert!(response.try_chunk().is_none());
    peer.write_all(&[1; 70_000]).await.unwrap();
    let mut received = 0;
    while received < 70_000 {
        received += within(LIMIT, response.chunk())
            .await
            .unwrap()
            .unwrap()
            .len();
    }
    peer.write_all(&[1; 100]).await.unwrap();
    drop(peer);
    let mut rest = 0;
    let end = loop {
        match within(LIMIT, response.chunk()).await {
            Ok(Some(piece)) => rest += piece.len(),
            end => break end,
        }
    };
    assert_eq!(rest, 100);
    assert!(end.is_err(), "a truncated body is an error");
}
