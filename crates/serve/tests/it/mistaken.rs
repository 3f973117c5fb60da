//! HTTP spoken to a port of TLS: people who forgot an `s` are told so.

use std::net::TcpStream;

use crate::client::{TestClient, request};
use crate::harness::{TestServer, eventually};

#[test]
fn http_on_a_port_of_tls_is_told() {
    let served = TestServer::start();
    for head in [
        request("GET", "/f", &[]),
        request("PUT", "/f", &[("Content-Length", "100000")]) + &"x".repeat(100_000),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
    ] {
        let mut client = TestClient::tcp(TcpStream::connect(served.tls).unwrap());
        client.send(head);
        let answer = client.answer();
        assert_eq!(answer.status, 400);
        assert_eq!(answer.field("connection"), Some("close"));
        assert!(
            answer.text().contains("this port speaks HTTPS"),
            "{answer:?}"
        );
        client.ends();
    }
    assert!(served.holds("f").is_none());
}

#[test]
fn what_is_neither_gets_no_http() {
    let served = TestServer::start();
    for bytes in [
        &b"\0"[..],
        b"\x80\x2e\x01\x03\x01",
        b"\x16\x03\x01\0\x02hi",
        b"\n",
    ] {
        let mut client = TestClient::tcp(TcpStream::connect(served.tls).unwrap());
        client.send(bytes);
        client.finish();
        let said = client.until_gone();
        assert!(!said.starts_with(b"HTTP"), "{}", said.escape_ascii());
    }
    // One that says nothing at all is let go, too.
    let mut silent = TestClient::tcp(TcpStream::connect(served.tls).unwrap());
    silent.finish();
    eventually("it ends", || silent.has_ended());
}
