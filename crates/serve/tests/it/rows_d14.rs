//! D14: the end, with requests under way.

use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use haul_lab::ResourceContent;
use haul_serve::accept::{AcceptStrategy, ShutdownOutcome};
use tokio::time::Instant;

use crate::client::{RequestPathway, TestClient, request};
use crate::harness::{LIMIT, ServerSetup, TestServer, eventually};

/// More than both ends' socket buffers hold.
const LARGE: u64 = 16 << 20;

#[test]
#[expect(
    clippy::too_many_lines,
    reason = "one story, told from its start to its end"
)]
fn d14_what_is_under_way_is_finished_and_nothing_is_begun() {
    let file = ResourceContent::random(14, LARGE).to_vec();
    for accept in AcceptStrategy::ALL {
        let mut served = ServerSetup::accept(accept).start();
        served.file("f", &file);
        let mut idle: Vec<_> = RequestPathway::FIRST
            .map(|road| TestClient::on(&served, road))
            .into();
        for client in &mut idle {
            assert_eq!(client.ask("HEAD", "/f", &[]).status, 200);
        }
        // Connected, and never said a word.
        idle.push(TestClient::plain(&served));
        let mut readers = RequestPathway::FIRST.map(|road| TestClient::on(&served, road));
        for reader in &mut readers {
            reader.send(request("GET", "/f", &[]));
            reader.take(1).unwrap();
        }
        let mut writers = RequestPathway::FIRST.map(|road| TestClient::on(&served, road));
        for (index, writer) in writers.iter_mut().enumerate() {
            let path = format!("/put-{index}");
            writer
                .send(request("PUT", &path, &[("Content-Length", "1000000")]))
                .send(vec![b'x'; 500_000]);
        }
        eventually("all are being written", || {
            served.temporaries() == writers.len()
        });
        // A head of which the rest has not come yet is no request.
        let mut begun = TestClient::plain(&served);
        begun.send("GET /f HTTP/1.1\r\nHost: x\r\n");
        let (plain, unix) = (served.plain, served.unix.clone());
        served.stopper().cancel();
        eventually("idle connections end", || {
            idle.iter_mut().all(|client| matches!(client.read(), Ok(0)))
        });
        eventually("no more are accepted", || {
            is_refused(TcpStream::connect(plain))
        });
        eventually("nor there", || is_refused(UnixStream::connect(&unix)));
        std::thread::scope(|scope| {
            let ended = scope.spawn(|| served.end(LIMIT));
            for (index, writer) in writers.iter_mut().enumerate() {
                writer.send(vec![b'x'; 500_000]);
                let answer = writer.answer_to("PUT");
                assert_eq!(answer.status, 201, "{accept} {index}");
                assert_eq!(answer.field("connection"), Some("close"));
                writer.ends();
            }
            for reader in &mut readers {
                let all = reader.rest();
                assert!(
                    all.ends_with(&file[1000..]),
                    "{accept}: {} bytes",
                    all.len()
                );
            }
            drop(begun);
            assert_eq!(ended.join().unwrap(), ShutdownOutcome::Clean, "{accept}");
        });
        for index in 0..writers.len() {
            assert_eq!(
                served.holds(&format!("put-{index}")).unwrap().len(),
                1_000_000
            );
        }
        assert_eq!(served.temporaries(), 0);
    }
}

/// Whether nobody listens; one that was queued before and is dropped unheard counts, too.
fn is_refused<S>(connected: std::io::Result<S>) -> bool {
    connected.is_err()
}

#[test]
fn d14_whoever_takes_too_long_is_cut_off() {
    let file = ResourceContent::random(14, LARGE).to_vec();
    for accept in AcceptStrategy::ALL {
        for road in RequestPathway::FIRST {
            let mut served = ServerSetup::accept(accept).start();
            served.file("f", &file);
            served.file("key", "old");
            let mut stuck = TestClient::on(&served, road);
            stuck.send(request("GET", "/f", &[]));
            stuck.take(1).unwrap();
            let mut writer = TestClient::on(&served, road);
            writer
                .send(request("PUT", "/key", &[("Content-Length", "1000000")]))
                .send(vec![b'x'; 500_000]);
            eventually("it is being written", || served.temporaries() == 1);
            let began = Instant::now();
            assert_eq!(
                served.end(Duration::from_millis(300)),
                ShutdownOutcome::Aborted,
                "{accept} {road:?}"
            );
            let took = began.elapsed();
            assert!(
                took >= Duration::from_millis(300) && took < Duration::from_secs(10),
                "{took:?}"
            );
            // Short, and seen to be.
            assert!(stuck.until_gone().len() < file.len());
            assert_eq!(served.holds("key").unwrap(), b"old", "{accept} {road:?}");
            assert_eq!(served.temporaries(), 0, "{accept} {road:?}");
        }
    }
}

#[test]
fn d14_a_server_that_has_nothing_to_do_ends_at_once() {
    for accept in AcceptStrategy::ALL {
        let mut served = ServerSetup::accept(accept).start();
        let _idle = RequestPathway::FIRST.map(|road| TestClient::on(&served, road));
        let began = Instant::now();
        assert_eq!(served.end(LIMIT), ShutdownOutcome::Clean, "{accept}");
        assert!(
            began.elapsed() < LIMIT / 3,
            "{accept}: {:?}",
            began.elapsed()
        );
    }
}

#[test]
fn d14_streams_of_http2_are_finished() {
    let file = ResourceContent::random(14, LARGE).to_vec();
    let file = &file[..3 << 20];
    for road in [RequestPathway::Http2, RequestPathway::Http2Tls] {
        let mut served = TestServer::start();
        served.file("f", file);
        let stopper = served.stopper();
        let body = crate::http2::run(async {
            let stream = crate::http2::connect(&served, road).await;
            let (sender, connection) = h2::client::handshake(stream).await.unwrap();
            let download = async {
                let mut sender = sender.ready().await.unwrap();
                let request = http::Request::get("http://store.test/f").body(()).unwrap();
                let (answer, _) = sender.send_request(request, true).unwrap();
                let mut incoming = answer.await.unwrap().into_body();
                stopper.cancel();
                let mut body = Vec::new();
                while let Some(data) = incoming.data().await {
                    let data = data.unwrap();
                    incoming
                        .flow_control()
                        .release_capacity(data.len())
                        .unwrap();
                    body.extend_from_slice(&data);
                }
                body
            };
            // The connection ends by itself when its last stream has.
            let (ended, body) = tokio::join!(connection, download);
            ended.unwrap();
            body
        });
        assert!(body == file, "{road:?}");
        assert_eq!(served.end(LIMIT), ShutdownOutcome::Clean, "{road:?}");
    }
}
