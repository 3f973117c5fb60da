//! Connections that are made while the head of the first response cannot be read yet, since it is in a long TLS record.

use haul_lab::kernel_link::{KernelLink, KernelLinkOptions};
use haul_lab::within;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::{case_with_defaults, far};
use crate::harness::LIMIT;

/// Gets a request and sends so much of its response that a large body must follow, in a head that goes on.
async fn begin_response(listener: &TcpListener) -> TcpStream {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0);
    }
    let head = format!("HTTP/1.1 200 OK\r\nX-Long: {}", "a".repeat(13_000));
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

#[test]
fn fifteen_more_are_made_when_a_large_response_has_begun() {
    let Some(link) = KernelLink::start_or_skip(&KernelLinkOptions::symmetric(far(100))) else {
        return;
    };
    let (client, server) = (link.client().runtime(), link.server().runtime());
    let (client, server) = (client.unwrap(), server.unwrap());
    let listening = TcpListener::bind((KernelLink::SERVER_IP, 0));
    let listener = server.block_on(listening).unwrap();
    let url = format!("http://{}/f.bin", listener.local_addr().unwrap());
    let case = case_with_defaults();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            server.block_on(within(LIMIT, async {
                let mut first = begin_response(&listener).await;
                let mut others = Vec::new();
                while others.len() < 15 {
                    others.push(listener.accept().await.unwrap());
                }
                let rest = b"\r\nContent-Length: 4\r\n\r\nfile";
                first.write_all(rest).await.unwrap();
            }));
        });
        client.block_on(case.get(&url)).outcome();
    });
}
