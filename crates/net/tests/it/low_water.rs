//! The low-water mark: fewer bytes do not wake the reader, and are never lost.

use std::time::Duration;

use haul_lab::within;
use haul_net::{ClientConfig, FetchResponse};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::{LIMIT, client, get};

/// An origin whose bytes are written by the test, and an answer whose body of 100,000 bytes has not begun.
async fn begun() -> (TcpStream, FetchResponse) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/f", listener.local_addr().unwrap());
    let client = client(ClientConfig::default());
    let (accepted, answer) = tokio::join!(
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
    (accepted, answer.unwrap())
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn bytes_below_the_mark_do_not_wake_the_reader_until_it_is_lowered() {
    let (mut peer, mut answer) = begun().await;
    answer.set_low_water(64 * 1024);
    assert!(answer.try_chunk().is_none());
    peer.write_all(&[1; 1000]).await.unwrap();
    // That nothing happens can only be seen by waiting; a machine that is slow cannot make this fail.
    let nothing = timeout(Duration::from_millis(50), answer.chunk()).await;
    assert!(nothing.is_err(), "woken for 1000 bytes");
    answer.set_low_water(1);
    assert_eq!(
        within(LIMIT, answer.chunk()).await.unwrap().unwrap().len(),
        1000
    );
}

#[tokio::test]
async fn enough_bytes_or_the_end_of_the_stream_wake_the_reader() {
    let (mut peer, mut answer) = begun().await;
    answer.set_low_water(64 * 1024);
    assert!(answer.try_chunk().is_none());
    peer.write_all(&[1; 70_000]).await.unwrap();
    let mut received = 0;
    while received < 70_000 {
        received += within(LIMIT, answer.chunk()).await.unwrap().unwrap().len();
    }
    peer.write_all(&[1; 100]).await.unwrap();
    drop(peer);
    let mut rest = 0;
    let ended = loop {
        match within(LIMIT, answer.chunk()).await {
            Ok(Some(piece)) => rest += piece.len(),
            ended => break ended,
        }
    };
    assert_eq!(rest, 100);
    assert!(ended.is_err(), "a body that is cut is not whole");
}
