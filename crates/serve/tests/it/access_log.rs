//! The access log of failed requests: each request that started has a line with its status and the
//! bytes sent and received until the failure.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use haul_lab::ResourceContent;
use haul_serve::accept::AcceptStrategy;
use haul_serve::observe::{AccessLog, AccessLogFormat};
use haul_serve::{FileServerOptions, TimeoutOptions};
use haul_service::observe::{LineLog, LogSink};
use http::Request;

use crate::client::{TestClient, TestTransport, request_head};
use crate::harness::{LIMIT, NAME, ServerSetup, TestServer, wait_until};
use crate::http2;

/// More than both ends' socket buffers hold.
const LARGE: usize = 16 << 20;

/// The timeout that a test shortens to this value.
const SHORT: Duration = Duration::from_millis(300);

/// Keeps lines in memory.
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

struct LoggedServer {
    server: TestServer,
    log: Arc<LineLog>,
    lines: MemoryLog,
}

impl LoggedServer {
    fn start(accept: AcceptStrategy, timeouts: TimeoutOptions) -> Self {
        let lines = MemoryLog::default();
        let log = LineLog::start(AccessLog::NAME, Box::new(lines.clone()), 1 << 20).unwrap();
        let log = Arc::new(log);
        let mut setup = ServerSetup::with_strategy(accept);
        setup.server = FileServerOptions {
            timeouts,
            access_log: Some(AccessLog::new(Arc::clone(&log), AccessLogFormat::Json)),
            ..FileServerOptions::default()
        };
        let server = setup.start();
        server.write_file("f", ResourceContent::random(1, LARGE as u64).to_vec());
        Self { server, log, lines }
    }

    /// The only log line of a request target.
    #[track_caller]
    fn line(&self, target: &str) -> String {
        let target = format!("\"target\":\"{target}\"");
        let mut found = Vec::new();
        wait_until("the request is logged", || {
            let all = self.lines.0.lock().unwrap_or_else(PoisonError::into_inner);
            let all = String::from_utf8(all.clone()).unwrap();
            let of_target = all.lines().filter(|line| line.contains(&target));
            found = of_target.map(str::to_owned).collect();
            !found.is_empty()
        });
        assert_eq!(found.len(), 1, "{found:#?}");
        found.remove(0)
    }

    /// Closes the log, so that no more lines are written.
    fn close(&self) {
        assert!(http2::block_on(self.log.close(LIMIT)), "the log is written");
    }
}

/// The value of a numeric field in a log line.
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

/// Asserts the log lines of requests that a shutdown aborted: a download whose client did not read,
/// and an unfinished upload.
#[track_caller]
fn assert_aborted(logged: &LoggedServer, context: &str) {
    let read = logged.line("/f");
    let sent = number(&read, "sent");
    assert_eq!(number(&read, "status"), 200, "{context}: {read}");
    assert!(sent > 0 && sent < LARGE as u64, "{context}: {read}");
    assert!(read.contains("\"cut_short\":true"), "{context}: {read}");
    let written = logged.line("/key");
    // The server aborted the upload, not the client.
    assert_eq!(number(&written, "status"), 503, "{context}: {written}");
    assert!(number(&written, "received") > 0, "{context}: {written}");
    assert!(
        written.contains("\"cut_short\":true"),
        "{context}: {written}"
    );
}

#[test]
fn requests_aborted_at_shutdown_are_logged() {
    for accept in AcceptStrategy::ALL {
        for transport in TestTransport::HTTP1 {
            let mut logged = LoggedServer::start(accept, TimeoutOptions::default());
            let mut unread_client = TestClient::connect(&logged.server, transport);
            unread_client.send(request_head("GET", "/f", &[]));
            unread_client.take(1).unwrap();
            let mut writer = TestClient::connect(&logged.server, transport);
            writer
                .send(request_head(
                    "PUT",
                    "/key",
                    &[("Content-Length", "1000000")],
                ))
                .send(vec![b'x'; 500_000]);
            wait_until("the upload has a temporary file", || {
                logged.server.temporary_files() == 1
            });
            assert_eq!(logged.server.shut_down(SHORT), 2);
            logged.close();
            assert_aborted(&logged, &format!("{accept} {transport:?}"));
        }
    }
}

/// Malformed heads are often attack probes, so operators want them in the log.
#[test]
fn malformed_heads_are_logged() {
    for transport in TestTransport::HTTP1 {
        let mut logged = LoggedServer::start(AcceptStrategy::Single, short());
        let two_lengths =
            "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n";
        let long = format!(
            "GET / HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n",
            "y".repeat(1 << 18)
        );
        for head in [
            "GET /\0 HTTP/1.1\r\nHost: x\r\n\r\n",
            two_lengths,
            &long,
            "GET / HTTP/1.1\r\n",
        ] {
            let mut client = TestClient::connect(&logged.server, transport);
            // The server may have closed the connection by then.
            let _ = client.try_send(head);
            wait_until("the request is refused", || client.has_ended());
        }
        assert_eq!(logged.server.shut_down(LIMIT), 0);
        logged.close();
        let lines = logged.lines.0.lock().unwrap().clone();
        let lines = String::from_utf8(lines).unwrap();
        let nothing = "\"method\":null,\"target\":null,\"version\":null";
        assert!(lines.lines().all(|line| line.contains(nothing)), "{lines}");
        let mut found: Vec<u64> = lines.lines().map(|line| number(line, "status")).collect();
        found.sort_unstable();
        assert_eq!(found, [400, 400, 408, 431], "{transport:?}");
    }
}

#[test]
fn aborted_http2_streams_are_logged() {
    for transport in [TestTransport::Http2, TestTransport::Http2Tls] {
        let mut logged = LoggedServer::start(AcceptStrategy::Single, TimeoutOptions::default());
        http2::block_on(async {
            let stream = http2::connect(&logged.server, transport).await;
            let (sender, connection) = h2::client::handshake(stream).await.unwrap();
            let send_requests = async {
                let mut sender = sender.ready().await.unwrap();
                let get = Request::get(format!("http://{NAME}/f")).body(()).unwrap();
                let (response, _) = sender.send_request(get, true).unwrap();
                let mut body = response.await.unwrap().into_body();
                body.data().await.unwrap().unwrap();
                let put = Request::put(format!("http://{NAME}/key")).body(()).unwrap();
                let (_response, mut upload) = sender.send_request(put, false).unwrap();
                upload.send_data(vec![b'x'; 100_000].into(), false).unwrap();
                while logged.server.temporary_files() == 0 {
                    tokio::task::yield_now().await;
                }
                // On another thread, since `shut_down` drops a runtime.
                let ended = std::thread::scope(|scope| {
                    let ending = scope.spawn(|| logged.server.shut_down(SHORT));
                    ending.join().unwrap()
                });
                assert_eq!(ended, 1);
            };
            tokio::pin!(connection);
            tokio::select! {
                biased;
                () = send_requests => {}
                ended = &mut connection => panic!("{ended:?}"),
            }
        });
        logged.close();
        assert_aborted(&logged, &format!("{transport:?}"));
    }
}

#[test]
fn slow_bodies_get_408_and_are_logged_with_it() {
    for transport in TestTransport::HTTP1 {
        for (index, framing) in [("Content-Length", "10"), ("Transfer-Encoding", "chunked")]
            .into_iter()
            .enumerate()
        {
            let logged = LoggedServer::start(AcceptStrategy::Single, short());
            let path = format!("/slow-{index}");
            let mut slow = TestClient::connect(&logged.server, transport);
            slow.send(request_head("PUT", &path, &[framing]));
            let response = slow.read_response_to("PUT");
            assert_eq!(response.status, 408, "{transport:?} {framing:?}");
            assert_eq!(response.header("connection"), Some("close"));
            assert!(response.text().contains("too slowly"), "{response:?}");
            let line = logged.line(&path);
            assert_eq!(number(&line, "status"), 408, "{transport:?} {line}");
            assert!(logged.server.read_file(&path[1..]).is_none());
        }
    }
}

#[test]
fn a_slow_form_upload_gets_408() {
    let logged = LoggedServer::start(AcceptStrategy::Single, short());
    let mut slow = TestClient::connect_plain(&logged.server);
    let kind = ("Content-Type", "multipart/form-data; boundary=x");
    slow.send(request_head(
        "POST",
        "/",
        &[("Content-Length", "1000"), kind],
    ));
    assert_eq!(slow.read_response_to("POST").status, 408);
    assert_eq!(number(&logged.line("/"), "status"), 408);
}

#[test]
fn slow_http2_bodies_are_logged_with_408() {
    let logged = LoggedServer::start(AcceptStrategy::Single, short());
    http2::block_on(async {
        let stream = http2::connect(&logged.server, TestTransport::Http2).await;
        let (sender, connection) = h2::client::handshake(stream).await.unwrap();
        let mut sender = sender.ready().await.unwrap();
        let put = Request::put(format!("http://{NAME}/slow"))
            .body(())
            .unwrap();
        let (_response, _upload) = sender.send_request(put, false).unwrap();
        let _ = connection.await;
    });
    assert_eq!(number(&logged.line("/slow"), "status"), 408);
}

#[test]
fn a_slow_head_gets_408() {
    let logged = LoggedServer::start(AcceptStrategy::Single, short());
    for transport in TestTransport::HTTP1 {
        // The first head of a connection, or a later one.
        for is_first in [true, false] {
            let mut slow = TestClient::connect(&logged.server, transport);
            if !is_first {
                assert_eq!(slow.request("GET", "/none", &[]).status, 404);
            }
            slow.send("GET /f HTTP/1.1\r\nHost: x\r\n");
            let response = slow.read_response();
            assert_eq!(response.status, 408, "{transport:?}");
            assert_eq!(response.header("connection"), Some("close"));
            slow.assert_closed();
        }
    }
}

#[test]
fn slow_readers_are_logged() {
    for transport in TestTransport::HTTP1 {
        let logged = LoggedServer::start(AcceptStrategy::Single, short());
        let mut unread_client = TestClient::connect(&logged.server, transport);
        unread_client.send(request_head("GET", "/f", &[]));
        unread_client.take(1).unwrap();
        let line = logged.line("/f");
        let sent = number(&line, "sent");
        assert_eq!(number(&line, "status"), 200, "{transport:?}: {line}");
        assert!(sent > 0 && sent < LARGE as u64, "{transport:?}: {line}");
        assert!(line.contains("\"cut_short\":true"), "{transport:?}: {line}");
    }
}

#[test]
fn a_client_that_disconnects_before_the_response_is_logged() {
    let logged = LoggedServer::start(AcceptStrategy::Single, TimeoutOptions::default());
    let mut client = TestClient::connect_plain(&logged.server);
    client
        .send(request_head(
            "PUT",
            "/key",
            &[("Content-Length", "1000000")],
        ))
        .send(vec![b'x'; 100_000]);
    wait_until("the upload has a temporary file", || {
        logged.server.temporary_files() == 1
    });
    client.reset();
    let line = logged.line("/key");
    assert!([400, 499].contains(&number(&line, "status")), "{line}");
    assert!(line.contains("\"received\":100000"), "{line}");
}
