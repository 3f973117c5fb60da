//! D4: uploads, downloads and removals of one key at one time.

use std::sync::atomic::{AtomicUsize, Ordering};

use haul_lab::ResourceContent;
use haul_serve::accept::AcceptStrategy;
use http::Request;

use crate::client::{RequestPathway, TestClient, request};
use crate::harness::{NAME, ServerSetup, TestServer, eventually};
use crate::http2;

/// More than both ends' socket buffers hold.
const LARGE: u64 = 16 << 20;

#[test]
fn d4_the_last_of_two_uploads_wins_whole() {
    let served = TestServer::start();
    for (size, road) in [
        (100, RequestPathway::Plain),
        (1 << 20, RequestPathway::Plain),
        (1 << 20, RequestPathway::Tls),
    ] {
        let [first, second] = [b'1', b'2'].map(|byte| vec![byte; size]);
        let length = size.to_string();
        let head = request("PUT", "/key", &[("Content-Length", &length)]);
        let mut one = TestClient::on(&served, road);
        one.send(&head).send(&first[..size / 2]);
        let mut two = TestClient::on(&served, road);
        two.send(&head).send(&second[..size / 3]);
        one.send(&first[size / 2..]);
        assert!([201, 204].contains(&one.answer_to("PUT").status));
        assert_eq!(served.get("/key").body, first);
        two.send(&second[size / 3..]);
        assert_eq!(two.answer_to("PUT").status, 204);
        assert_eq!(served.get("/key").body, second);
    }
    eventually("temporaries are gone", || served.temporaries() == 0);
}

/// Versions are told apart by their byte, and each has a length of its own.
fn version(number: usize) -> Vec<u8> {
    let byte = u8::try_from(b'a' as usize + number % 26).unwrap();
    vec![byte; 1000 + 30_000 * (number % 7)]
}

#[test]
fn d4_every_reader_sees_one_version_while_many_write() {
    for accept in AcceptStrategy::ALL {
        let served = ServerSetup::accept(accept).start();
        served.file("key", version(0));
        let (reads, writes) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let (served, reads, writes) = (&served, &reads, &writes);
        let is_over =
            move || reads.load(Ordering::Relaxed) > 300 && writes.load(Ordering::Relaxed) > 100;
        std::thread::scope(|scope| {
            for road in [RequestPathway::Plain, RequestPathway::Tls] {
                scope.spawn(move || {
                    let mut client = TestClient::on(served, road);
                    while !is_over() {
                        let number = writes.fetch_add(1, Ordering::Relaxed);
                        let body = version(number);
                        let length = body.len().to_string();
                        client
                            .send(request("PUT", "/key", &[("Content-Length", &length)]))
                            .send(body);
                        assert_eq!(client.answer_to("PUT").status, 204);
                    }
                });
            }
            for road in RequestPathway::FIRST {
                scope.spawn(move || {
                    let mut client = TestClient::on(served, road);
                    while !is_over() {
                        let answer = client.ask("GET", "/key", &[]);
                        assert_eq!(answer.status, 200);
                        let first = answer.body[0];
                        assert!(
                            answer.body.iter().all(|byte| *byte == first),
                            "{road:?}: two versions"
                        );
                        assert_eq!(
                            (answer.body.len() - 1000) % 30_000,
                            0,
                            "{road:?}: part of one"
                        );
                        reads.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
    }
}

/// What is done to a file while somebody reads it.
type ReadFileChange = fn(&TestServer);

#[test]
fn d4_a_reader_that_is_under_way_gets_its_version() {
    let old = ResourceContent::random(4, LARGE).to_vec();
    let doings: [(ReadFileChange, Option<&[u8]>); 3] = [
        (
            |served| {
                assert_eq!(
                    served
                        .put(RequestPathway::Plain, "/key", &[], b"new")
                        .status,
                    204
                )
            },
            Some(b"new"),
        ),
        (
            |served| {
                assert_eq!(
                    served
                        .ask(RequestPathway::Plain, "DELETE", "/key", &[])
                        .status,
                    204
                )
            },
            None,
        ),
        (
            |served| {
                served.file("other", "moved");
                std::fs::rename(served.root().join("other"), served.root().join("key")).unwrap();
            },
            Some(b"moved"),
        ),
    ];
    for road in RequestPathway::ALL {
        let is_second = matches!(road, RequestPathway::Http2 | RequestPathway::Http2Tls);
        // HTTP/2's windows are smaller.
        let old = if is_second { &old[..3 << 20] } else { &old[..] };
        for (index, (done, after)) in doings.iter().enumerate() {
            let served = TestServer::start();
            served.file("key", old);
            let body = read_while(&served, road, || done(&served));
            assert!(body == old, "{road:?} {index}");
            let now = served.ask(road, "GET", "/key", &[]);
            assert_eq!(
                (now.status == 200).then_some(&now.body[..]),
                *after,
                "{road:?} {index}"
            );
        }
    }
}

/// Reads some of a body, does something else, reads the rest.
fn read_while(served: &TestServer, road: RequestPathway, done: impl FnOnce()) -> Vec<u8> {
    if !matches!(road, RequestPathway::Http2 | RequestPathway::Http2Tls) {
        let mut client = TestClient::on(served, road);
        client.send(request("GET", "/key", &[]));
        let head = client.head();
        let length: usize = head.field("content-length").unwrap().parse().unwrap();
        let mut body = client.take(100_000).unwrap();
        done();
        body.extend(client.take(length - body.len()).unwrap());
        return body;
    }
    http2::run(async {
        let stream = http2::connect(served, road).await;
        let (sender, connection) = h2::client::handshake(stream).await.unwrap();
        let download = async {
            let mut sender = sender.ready().await.unwrap();
            let request = Request::get(format!("http://{NAME}/key")).body(()).unwrap();
            let (answer, _) = sender.send_request(request, true).unwrap();
            let mut incoming = answer.await.unwrap().into_body();
            let (mut body, mut done) = (Vec::new(), Some(done));
            while let Some(data) = incoming.data().await {
                let data = data.unwrap();
                incoming
                    .flow_control()
                    .release_capacity(data.len())
                    .unwrap();
                body.extend_from_slice(&data);
                if let Some(done) = done.take_if(|_| body.len() > 30_000) {
                    done();
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
fn d4_a_removal_ends_no_upload() {
    let served = TestServer::start();
    served.file("key", "old");
    let mut client = TestClient::plain(&served);
    let body = vec![b'n'; 200_000];
    client
        .send(request("PUT", "/key", &[("Content-Length", "200000")]))
        .send(&body[..100_000]);
    eventually("it is being written", || served.temporaries() == 1);
    assert_eq!(
        served
            .ask(RequestPathway::Plain, "DELETE", "/key", &[])
            .status,
        204
    );
    assert_eq!(served.get("/key").status, 404);
    client.send(&body[100_000..]);
    assert_eq!(client.answer_to("PUT").status, 201);
    assert_eq!(served.get("/key").body, body);
}
