//! D4: concurrent uploads, downloads and deletions of one key.

use std::sync::atomic::{AtomicUsize, Ordering};

use haul_lab::ResourceContent;
use haul_serve::accept::AcceptStrategy;
use http::Request;

use crate::client::{TestClient, TestTransport, request_head};
use crate::harness::{NAME, ServerSetup, TestServer, wait_until};
use crate::http2;

/// More than both ends' socket buffers hold.
const LARGE: u64 = 16 << 20;

#[test]
fn d4_the_last_of_two_uploads_replaces_the_file_completely() {
    let server = TestServer::start();
    for (size, transport) in [
        (100, TestTransport::Plain),
        (1 << 20, TestTransport::Plain),
        (1 << 20, TestTransport::Tls),
    ] {
        let [first, second] = [b'1', b'2'].map(|byte| vec![byte; size]);
        let length = size.to_string();
        let head = request_head("PUT", "/key", &[("Content-Length", &length)]);
        let mut one = TestClient::connect(&server, transport);
        one.send(&head).send(&first[..size / 2]);
        let mut two = TestClient::connect(&server, transport);
        two.send(&head).send(&second[..size / 3]);
        one.send(&first[size / 2..]);
        assert!([201, 204].contains(&one.read_response_to("PUT").status));
        assert_eq!(server.get("/key").body, first);
        two.send(&second[size / 3..]);
        assert_eq!(two.read_response_to("PUT").status, 204);
        assert_eq!(server.get("/key").body, second);
    }
    wait_until("the temporary files are removed", || {
        server.temporary_files() == 0
    });
}

/// The content of a version. Each has another byte and another length.
fn version(number: usize) -> Vec<u8> {
    let byte = u8::try_from(b'a' as usize + number % 26).unwrap();
    vec![byte; 1000 + 30_000 * (number % 7)]
}

#[test]
fn d4_every_reader_sees_one_version_while_many_write() {
    for accept in AcceptStrategy::ALL {
        let server = ServerSetup::with_strategy(accept).start();
        server.write_file("key", version(0));
        let (reads, writes) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let (server, reads, writes) = (&server, &reads, &writes);
        let is_over =
            move || reads.load(Ordering::Relaxed) > 300 && writes.load(Ordering::Relaxed) > 100;
        std::thread::scope(|scope| {
            for transport in [TestTransport::Plain, TestTransport::Tls] {
                scope.spawn(move || {
                    let mut client = TestClient::connect(server, transport);
                    while !is_over() {
                        let number = writes.fetch_add(1, Ordering::Relaxed);
                        let body = version(number);
                        let length = body.len().to_string();
                        client
                            .send(request_head("PUT", "/key", &[("Content-Length", &length)]))
                            .send(body);
                        assert_eq!(client.read_response_to("PUT").status, 204);
                    }
                });
            }
            for transport in TestTransport::HTTP1 {
                scope.spawn(move || {
                    let mut client = TestClient::connect(server, transport);
                    while !is_over() {
                        let response = client.request("GET", "/key", &[]);
                        assert_eq!(response.status, 200);
                        let first = response.body[0];
                        assert!(
                            response.body.iter().all(|byte| *byte == first),
                            "{transport:?}: two versions"
                        );
                        assert_eq!(
                            (response.body.len() - 1000) % 30_000,
                            0,
                            "{transport:?}: an incomplete version"
                        );
                        reads.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
    }
}

/// A change to a file while a client reads it.
type ReadFileChange = fn(&TestServer);

#[test]
fn d4_a_download_continues_with_its_version_after_the_file_changed() {
    let old = ResourceContent::random(4, LARGE).to_vec();
    let changes: [(ReadFileChange, Option<&[u8]>); 3] = [
        (
            |server| {
                assert_eq!(
                    server.put(TestTransport::Plain, "/key", &[], b"new").status,
                    204
                )
            },
            Some(b"new"),
        ),
        (
            |server| {
                assert_eq!(
                    server
                        .request(TestTransport::Plain, "DELETE", "/key", &[])
                        .status,
                    204
                )
            },
            None,
        ),
        (
            |server| {
                server.write_file("other", "moved");
                std::fs::rename(server.root().join("other"), server.root().join("key")).unwrap();
            },
            Some(b"moved"),
        ),
    ];
    for transport in TestTransport::ALL {
        let is_second = matches!(transport, TestTransport::Http2 | TestTransport::Http2Tls);
        // The HTTP/2 windows are smaller.
        let old = if is_second { &old[..3 << 20] } else { &old[..] };
        for (index, (change, after)) in changes.iter().enumerate() {
            let server = TestServer::start();
            server.write_file("key", old);
            let body = read_while(&server, transport, || change(&server));
            assert!(body == old, "{transport:?} {index}");
            let now = server.request(transport, "GET", "/key", &[]);
            assert_eq!(
                (now.status == 200).then_some(&now.body[..]),
                *after,
                "{transport:?} {index}"
            );
        }
    }
}

/// Reads a part of a body, performs the change, and reads the rest.
fn read_while(server: &TestServer, transport: TestTransport, change: impl FnOnce()) -> Vec<u8> {
    if !matches!(transport, TestTransport::Http2 | TestTransport::Http2Tls) {
        let mut client = TestClient::connect(server, transport);
        client.send(request_head("GET", "/key", &[]));
        let head = client.read_head();
        let length: usize = head.header("content-length").unwrap().parse().unwrap();
        let mut body = client.take(100_000).unwrap();
        change();
        body.extend(client.take(length - body.len()).unwrap());
        return body;
    }
    http2::block_on(async {
        let stream = http2::connect(server, transport).await;
        let (sender, connection) = h2::client::handshake(stream).await.unwrap();
        let download = async {
            let mut sender = sender.ready().await.unwrap();
            let request = Request::get(format!("http://{NAME}/key")).body(()).unwrap();
            let (response, _) = sender.send_request(request, true).unwrap();
            let mut incoming = response.await.unwrap().into_body();
            let (mut body, mut change) = (Vec::new(), Some(change));
            while let Some(data) = incoming.data().await {
                let data = data.unwrap();
                incoming
                    .flow_control()
                    .release_capacity(data.len())
                    .unwrap();
                body.extend_from_slice(&data);
                if let Some(change) = change.take_if(|_| body.len() > 30_000) {
                    change();
                }
            }
            body
        };
        tokio::select! {
            ended = connection => panic!("{ended:?}"),
            body = download => body,
        }
    })
}

#[test]
fn d4_a_deletion_does_not_end_an_upload() {
    let server = TestServer::start();
    server.write_file("key", "old");
    let mut client = TestClient::connect_plain(&server);
    let body = vec![b'n'; 200_000];
    client
        .send(request_head("PUT", "/key", &[("Content-Length", "200000")]))
        .send(&body[..100_000]);
    wait_until("the upload has a temporary file", || {
        server.temporary_files() == 1
    });
    assert_eq!(
        server
            .request(TestTransport::Plain, "DELETE", "/key", &[])
            .status,
        204
    );
    assert_eq!(server.get("/key").status, 404);
    client.send(&body[100_000..]);
    assert_eq!(client.read_response_to("PUT").status, 201);
    assert_eq!(server.get("/key").body, body);
}
