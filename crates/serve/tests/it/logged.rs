//! What the access log says of requests that came to no good end: each that was begun has its line, and the line says how far it came.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use haul_lab::ResourceContent;
use haul_plan::serving::TimeoutOptions;
use haul_serve::FileServerOptions;
use haul_serve::accept::{AcceptStrategy, ShutdownOutcome};
use haul_serve::observe::{AccessLog, AccessLogFormat};
use haul_service::observe::{LineLog, LogSink};
use http::Request;

use crate::client::{RequestPathway, TestClient, request};
use crate::harness::{LIMIT, NAME, ServerSetup, TestServer, eventually};
use crate::http2;

/// More than both ends' socket buffers hold.
const LARGE: usize = 16 << 20;

/// What is given to everything.
const SHORT: Duration = Duration::from_millis(300);

/// Lines in memory.
#[derive(Debug, Clone, Default)]
struct MemoryLog(Arc<Mutex<Vec<u8>>>);

impl LogSink for MemoryLog {
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend_from_slice(lines);
        Ok(())
    }

    fn reopen(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A server with a log.
struct LoggedServer {
    served: TestServer,
    log: Arc<LineLog>,
    lines: MemoryLog,
}

impl LoggedServer {
    fn start(accept: AcceptStrategy, patience: TimeoutOptions) -> Self {
        let lines = MemoryLog::default();
        let log = LineLog::start(AccessLog::NAME, Box::new(lines.clone()), 1 << 20).unwrap();
        let log = Arc::new(log);
        let mut setup = ServerSetup::accept(accept);
        setup.server = FileServerOptions {
            timeouts: patience,
            access_log: Some(AccessLog::new(Arc::clone(&log), AccessLogFormat::Json)),
            ..FileServerOptions::default()
        };
        let served = setup.start();
        served.file("f", ResourceContent::random(1, LARGE as u64).to_vec());
        Self { served, log, lines }
    }

    /// The line of a target, of which there is one.
    #[track_caller]
    fn line(&self, target: &str) -> String {
        let target = format!("\"target\":\"{target}\"");
        let mut found = Vec::new();
        eventually("it is logged", || {
            let all = self.lines.0.lock().unwrap_or_else(PoisonError::into_inner);
            let all = String::from_utf8(all.clone()).unwrap();
            let of_target = all.lines().filter(|line| line.contains(&target));
            found = of_target.map(str::to_owned).collect();
            !found.is_empty()
        });
        assert_eq!(found.len(), 1, "{found:#?}");
        found.remove(0)
    }

    /// All lines are there: what is not logged by now never will be.
    fn close(&self) {
        assert!(http2::run(self.log.close(LIMIT)), "it is written");
    }
}

/// A number in a line.
#[track_caller]
fn number(line: &str, name: &str) -> u64 {
    let name = format!("\"{name}\":");
    let (_, rest) = line.split_once(&name).expect(line);
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap();
    rest[..end].parse().unwrap()
}

fn short() -> TimeoutOptions {
    TimeoutOptions {
        handshake: LIMIT,
        idle: LIMIT,
        request_head: SHORT,
        grace: SHORT,
        ..TimeoutOptions::default()
    }
}

/// What a server cut off: a download that its reader did not take, and an upload that did not end.
#[track_caller]
fn cut_off(logged: &LoggedServer, why: &str) {
    let read = logged.line("/f");
    let sent = number(&read, "sent");
    assert_eq!(number(&read, "status"), 200, "{why}: {read}");
    assert!(sent > 0 && sent < LARGE as u64, "{why}: {read}");
    assert!(read.contains("\"cut_short\":true"), "{why}: {read}");
    let written = logged.line("/key");
    // Nobody went away: it was the server that did.
    assert_eq!(number(&written, "status"), 503, "{why}: {written}");
    assert!(number(&written, "received") > 0, "{why}: {written}");
    assert!(written.contains("\"cut_short\":true"), "{why}: {written}");
}

#[test]
fn what_is_cut_off_at_the_end_is_logged() {
    for accept in AcceptStrategy::ALL {
        for road in RequestPathway::FIRST {
            let mut logged = LoggedServer::start(accept, TimeoutOptions::default());
            let mut stuck = TestClient::on(&logged.served, road);
            stuck.send(request("GET", "/f", &[]));
            stuck.take(1).unwrap();
            let mut writer = TestClient::on(&logged.served, road);
            writer
                .send(request("PUT", "/key", &[("Content-Length", "1000000")]))
                .send(vec![b'x'; 500_000]);
            eventually("it is being written", || logged.served.temporaries() == 1);
            assert_eq!(logged.served.end(SHORT), ShutdownOutcome::Aborted);
            logged.close();
            cut_off(&logged, &format!("{accept} {road:?}"));
        }
    }
}

/// Whoever probes a server shows in its log.
#[test]
fn heads_that_cannot_be_read_are_logged() {
    for road in RequestPathway::FIRST {
        let mut logged = LoggedServer::start(AcceptStrategy::Single, short());
        let twice = "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n";
        let long = format!(
            "GET / HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n",
            "y".repeat(1 << 18)
        );
        for head in [
            "GET /\0 HTTP/1.1\r\nHost: x\r\n\r\n",
            twice,
            &long,
            "GET / HTTP/1.1\r\n",
        ] {
            let mut client = TestClient::on(&logged.served, road);
            // It may have ended by then.
            let _ = client.try_send(head);
            eventually("it is refused", || client.has_ended());
        }
        assert_eq!(logged.served.end(LIMIT), ShutdownOutcome::Clean);
        logged.close();
        let lines = logged.lines.0.lock().unwrap().clone();
        let lines = String::from_utf8(lines).unwrap();
        let nothing = "\"method\":null,\"target\":null,\"version\":null";
        assert!(lines.lines().all(|line| line.contains(nothing)), "{lines}");
        let mut found: Vec<u64> = lines.lines().map(|line| number(line, "status")).collect();
        found.sort_unstable();
        assert_eq!(found, [400, 400, 408, 431], "{road:?}");
    }
}

#[test]
fn streams_that_are_cut_off_are_logged() {
    for road in [RequestPathway::Http2, RequestPathway::Http2Tls] {
        let mut logged = LoggedServer::start(AcceptStrategy::Single, TimeoutOptions::default());
        http2::run(async {
            let stream = http2::connect(&logged.served, road).await;
            let (sender, connection) = h2::client::handshake(stream).await.unwrap();
            let asking = async {
                let mut sender = sender.ready().await.unwrap();
                let get = Request::get(format!("http://{NAME}/f")).body(()).unwrap();
                let (answer, _) = sender.send_request(get, true).unwrap();
                let mut body = answer.await.unwrap().into_body();
                body.data().await.unwrap().unwrap();
                let put = Request::put(format!("http://{NAME}/key")).body(()).unwrap();
                let (_answer, mut upload) = sender.send_request(put, false).unwrap();
                upload.send_data(vec![b'x'; 100_000].into(), false).unwrap();
                while logged.served.temporaries() == 0 {
                    tokio::task::yield_now().await;
                }
                // On a thread of its own: a runtime is ended in it.
                let ended = std::thread::scope(|scope| {
                    let ending = scope.spawn(|| logged.served.end(SHORT));
                    ending.join().unwrap()
                });
                assert_eq!(ended, ShutdownOutcome::Aborted);
            };
            tokio::pin!(connection);
            tokio::select! {
                biased;
                () = asking => {}
                ended = &mut connection => panic!("{ended:?}"),
            }
        });
        logged.close();
        cut_off(&logged, &format!("{road:?}"));
    }
}

#[test]
fn bodies_that_come_too_slowly_are_answered_and_logged_as_that() {
    for road in RequestPathway::FIRST {
        for (index, framing) in [("Content-Length", "10"), ("Transfer-Encoding", "chunked")]
            .into_iter()
            .enumerate()
        {
            let logged = LoggedServer::start(AcceptStrategy::Single, short());
            let path = format!("/slow-{index}");
            let mut slow = TestClient::on(&logged.served, road);
            slow.send(request("PUT", &path, &[framing]));
            let answer = slow.answer_to("PUT");
            assert_eq!(answer.status, 408, "{road:?} {framing:?}");
            assert_eq!(answer.field("connection"), Some("close"));
            assert!(answer.text().contains("too slowly"), "{answer:?}");
            let line = logged.line(&path);
            assert_eq!(number(&line, "status"), 408, "{road:?} {line}");
            assert!(logged.served.holds(&path[1..]).is_none());
        }
    }
}

#[test]
fn a_form_that_comes_too_slowly_is_answered_like_any_body() {
    let logged = LoggedServer::start(AcceptStrategy::Single, short());
    let mut slow = TestClient::plain(&logged.served);
    let kind = ("Content-Type", "multipart/form-data; boundary=x");
    slow.send(request("POST", "/", &[("Content-Length", "1000"), kind]));
    assert_eq!(slow.answer_to("POST").status, 408);
    assert_eq!(number(&logged.line("/"), "status"), 408);
}

#[test]
fn bodies_of_http2_that_come_too_slowly_are_logged_as_that() {
    let logged = LoggedServer::start(AcceptStrategy::Single, short());
    http2::run(async {
        let stream = http2::connect(&logged.served, RequestPathway::Http2).await;
        let (sender, connection) = h2::client::handshake(stream).await.unwrap();
        let mut sender = sender.ready().await.unwrap();
        let put = Request::put(format!("http://{NAME}/slow"))
            .body(())
            .unwrap();
        let (_answer, _upload) = sender.send_request(put, false).unwrap();
        let _ = connection.await;
    });
    assert_eq!(number(&logged.line("/slow"), "status"), 408);
}

#[test]
fn a_head_that_comes_too_slowly_is_answered() {
    let logged = LoggedServer::start(AcceptStrategy::Single, short());
    for road in RequestPathway::FIRST {
        // The first of its connection, or another.
        for is_first in [true, false] {
            let mut slow = TestClient::on(&logged.served, road);
            if !is_first {
                assert_eq!(slow.ask("GET", "/none", &[]).status, 404);
            }
            slow.send("GET /f HTTP/1.1\r\nHost: x\r\n");
            let answer = slow.answer();
            assert_eq!(answer.status, 408, "{road:?}");
            assert_eq!(answer.field("connection"), Some("close"));
            slow.ends();
        }
    }
}

#[test]
fn readers_that_are_too_slow_are_logged() {
    for road in RequestPathway::FIRST {
        let logged = LoggedServer::start(AcceptStrategy::Single, short());
        let mut stuck = TestClient::on(&logged.served, road);
        stuck.send(request("GET", "/f", &[]));
        stuck.take(1).unwrap();
        let line = logged.line("/f");
        let sent = number(&line, "sent");
        assert_eq!(number(&line, "status"), 200, "{road:?}: {line}");
        assert!(sent > 0 && sent < LARGE as u64, "{road:?}: {line}");
        assert!(line.contains("\"cut_short\":true"), "{road:?}: {line}");
    }
}

#[test]
fn who_goes_away_before_an_answer_is_logged_as_gone() {
    let logged = LoggedServer::start(AcceptStrategy::Single, TimeoutOptions::default());
    let mut gone = TestClient::plain(&logged.served);
    gone.send(request("PUT", "/key", &[("Content-Length", "1000000")]))
        .send(vec![b'x'; 100_000]);
    eventually("it is being written", || logged.served.temporaries() == 1);
    gone.reset();
    let line = logged.line("/key");
    assert!([400, 499].contains(&number(&line, "status")), "{line}");
    assert!(line.contains("\"received\":100000"), "{line}");
}
