//! Plain HTTP on a TLS port gets a response with a hint.

use std::net::TcpStream;

use crate::client::{TestClient, request_head};
use crate::harness::{TestServer, wait_until};

#[test]
fn plain_http_on_a_tls_port_gets_a_hint() {
    let server = TestServer::start();
    for head in [
        request_head("GET", "/f", &[]),
        request_head("PUT", "/f", &[("Content-Length", "100000")]) + &"x".repeat(100_000),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
    ] {
        let mut client = TestClient::from_tcp(TcpStream::connect(server.tls).unwrap());
        client.send(head);
        let response = client.read_response();
        assert_eq!(response.status, 400);
        assert_eq!(response.header("connection"), Some("close"));
        assert!(
            response.text().contains("this port speaks HTTPS"),
            "{response:?}"
        );
        client.assert_closed();
    }
    assert!(server.read_file("f").is_none());
}

#[test]
fn other_bytes_on_a_tls_port_get_no_http_response() {
    let server = TestServer::start();
    for bytes in [
        &b"\0"[..],
        b"\x80\x2e\x01\x03\x01",
        b"\x16\x03\x01\0\x02hi",
        b"\n",
    ] {
        let mut client = TestClient::from_tcp(TcpStream::connect(server.tls).unwrap());
        client.send(bytes);
        client.finish();
        let received = client.read_until_closed();
        assert!(
            !received.starts_with(b"HTTP"),
            "{}",
            received.escape_ascii()
        );
    }
    // A client that sends nothing is disconnected, too.
    let mut silent = TestClient::from_tcp(TcpStream::connect(server.tls).unwrap());
    silent.finish();
    wait_until("the connection is closed", || silent.has_ended());
}
