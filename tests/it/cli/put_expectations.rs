//! `haul put` and servers that answer before the body: those that do not take `Expect: 100-continue`, and those that want it elsewhere or
//! later. A body of which nothing was read is sent again, also from standard input: the server here has a second to answer, then haul sends.

use std::time::Duration;

use haul_lab::within;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::harness::{HaulDirectory, HaulOutput, LIMIT};

const REFUSED: Answer = Answer::before_body("417 Expectation Failed");
const STORED: Answer = Answer {
    takes_body: true,
    ..Answer::before_body("201 Created")
};
const BUSY: &str = "503 Service Unavailable\r\nRetry-After: 0";

/// What a connection gets, which is closed then.
#[derive(Clone, Copy)]
struct Answer {
    /// Status and fields.
    head: &'static str,
    takes_body: bool,
}

impl Answer {
    const fn before_body(head: &'static str) -> Self {
        Self {
            head,
            takes_body: false,
        }
    }
}

/// More than a body that is sent without asking, and no chunk of it like another.
fn large() -> Vec<u8> {
    let byte = |n: u32| n.wrapping_mul(0x9e37_79b1).to_le_bytes()[3];
    (0..3 << 20).map(byte).collect()
}

/// Gives each connection an answer. The heads of the requests in small letters, and the last body.
async fn serve(listener: &TcpListener, answers: &[Answer]) -> (Vec<String>, Vec<u8>) {
    let (mut heads, mut body) = (Vec::new(), Vec::new());
    for answer in answers {
        let (mut stream, _) = listener.accept().await.unwrap();
        let head = read_until(&mut stream, b"\r\n\r\n").await;
        let head = String::from_utf8(head).unwrap().to_lowercase();
        if answer.takes_body {
            if head.contains("expect: 100-continue") {
                let interim = stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await;
                interim.unwrap();
            }
            body = read_body(&mut stream, &head).await;
        }
        heads.push(head);
        let response = format!(
            "HTTP/1.1 {}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            answer.head
        );
        stream.write_all(response.as_bytes()).await.unwrap();
    }
    (heads, body)
}

async fn read_until(stream: &mut TcpStream, end: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(end) {
        bytes.push(stream.read_u8().await.unwrap());
    }
    bytes
}

async fn read_body(stream: &mut TcpStream, head: &str) -> Vec<u8> {
    let mut body = Vec::new();
    if let Some((_, length)) = head.split_once("content-length: ") {
        let length = length.split("\r\n").next().unwrap();
        body.resize(length.parse().unwrap(), 0);
        stream.read_exact(&mut body).await.unwrap();
        return body;
    }
    loop {
        let line = String::from_utf8(read_until(stream, b"\r\n").await).unwrap();
        let length = usize::from_str_radix(line.trim(), 16).unwrap();
        let mut chunk = vec![0; length + 2];
        stream.read_exact(&mut chunk).await.unwrap();
        chunk.truncate(length);
        body.extend(chunk);
        if length == 0 {
            return body;
        }
    }
}

/// Uploads a large file, from its path or from standard input. What haul said, the heads that the server got, and the body.
async fn put(
    is_stdin: bool,
    flags: &[&str],
    answers: &[Answer],
) -> (HaulOutput, Vec<String>, Vec<u8>) {
    let dir = HaulDirectory::new();
    dir.write("large", large());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/file", listener.local_addr().unwrap());
    let input = if is_stdin { "-" } else { "large" };
    let args = [&["put", input, &url], flags].concat();
    let run = dir.run_redirected("< large", &args);
    let both = async { tokio::join!(run, serve(&listener, answers)) };
    let (output, (heads, body)) = within(LIMIT, both).await;
    (output, heads, body)
}

#[tokio::test]
async fn a_server_that_refuses_the_expectation_gets_the_body_at_once() {
    for is_stdin in [false, true] {
        let (output, heads, body) = put(is_stdin, &[], &[REFUSED, STORED]).await;
        output.assert_code(0);
        assert!(body == large(), "{} bytes", body.len());
        assert!(heads[0].contains("expect: 100-continue"), "{heads:?}");
        assert!(!heads[1].contains("expect"), "{heads:?}");
    }
}

/// A file that might go in parts: the server is asked on another connection, and gets no byte of the body before it has answered.
#[tokio::test]
async fn the_question_about_parts_is_sent_beside_the_put() {
    let dir = HaulDirectory::new();
    let file = large().repeat(6);
    dir.write("large", &file);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/folder/file", listener.local_addr().unwrap());
    let args = ["put", "large", &url];
    let run = dir.run_redirected("", &args);
    let serve = async {
        let (mut put, mut options) = (None, None);
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().await.unwrap();
            let head = read_until(&mut stream, b"\r\n\r\n").await;
            let head = String::from_utf8(head).unwrap().to_lowercase();
            if head.starts_with("put ") {
                put = Some((stream, head))
            } else {
                options = Some(stream)
            }
        }
        let ((mut put, head), mut options) = (put.unwrap(), options.unwrap());
        put.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")
            .await
            .unwrap();
        let early = tokio::time::timeout(Duration::from_millis(300), put.read_u8()).await;
        assert!(early.is_err(), "a byte of the body came early");
        let answer = b"HTTP/1.1 204 No Content\r\n\r\n";
        options.write_all(answer).await.unwrap();
        let body = read_body(&mut put, &head).await;
        let stored = b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n";
        put.write_all(stored).await.unwrap();
        body
    };
    let (output, body) = within(LIMIT, async { tokio::join!(run, serve) }).await;
    output.assert_code(0);
    assert!(body == file, "{} bytes", body.len());
}

#[tokio::test]
async fn a_server_that_refuses_every_request_is_asked_twice() {
    for is_stdin in [false, true] {
        let (output, ..) = put(is_stdin, &[], &[REFUSED, REFUSED]).await;
        output.assert_code(5).assert_stderr_has("417");
    }
}

#[tokio::test]
async fn a_user_can_remove_the_expectation() {
    for is_stdin in [false, true] {
        let (output, heads, body) = put(is_stdin, &["-H", "Expect:"], &[STORED]).await;
        output.assert_code(0);
        assert!(body == large() && !heads[0].contains("expect"), "{heads:?}");
    }
}

#[tokio::test]
async fn standard_input_of_which_nothing_was_read_is_sent_again() {
    for first in [BUSY, "307 Temporary Redirect\r\nLocation: /there"] {
        let answers = [Answer::before_body(first), STORED];
        let (output, heads, body) = put(true, &[], &answers).await;
        output.assert_code(0);
        assert!(body == large(), "{first}: {} bytes, {heads:?}", body.len());
    }
}

#[tokio::test]
async fn standard_input_that_was_read_is_not_sent_again() {
    let busy = Answer {
        head: BUSY,
        ..STORED
    };
    let (output, ..) = put(true, &[], &[busy]).await;
    output.assert_code(5).assert_stderr_has("503");
}
