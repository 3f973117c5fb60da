//! Connections that are kept or not, TLS sessions, HTTP/2, proxies, and the requests on all of them.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use haul_lab::http2::{Http2Origin, Http2Settings, StreamAction, alpn_server_config};
use haul_lab::{HttpProxy, RequestMatcher, faults};
use rustls::HandshakeKind;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_kept_or_not_and_both_clients_count_the_same() {
    for client in BOTH_CLIENTS {
        for (is_kept_alive, connections) in [(true, 4), (false, 100)] {
            // Slow enough that each worker has its turn.
            let origin = Origin::builder()
                .resource("/f", resource(1000))
                .latency(Duration::from_millis(5))
                .start()
                .await;
            let measured = run(LoadPlan {
                client,
                is_kept_alive,
                ..plan(&origin.url("/f"))
            })
            .await;
            assert_eq!((measured.successes, errors(&measured).as_str()), (100, ""));
            assert_eq!(measured.connections, Some(connections));
            assert_eq!(origin.connection_count() as u64, connections);
            assert_eq!(origin.requests().len(), 100);
            let phases = measured.phases.unwrap();
            assert!(phases.connect_s > 0.0 && phases.dns_s == 0.0 && phases.tls_s == 0.0);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kept_connection_that_breaks_is_replaced_once() {
    let second = RequestMatcher::matching(|request| request.number_for_path % 2 == 1);
    for client in BOTH_CLIENTS {
        // Every other request finds its connection broken; it succeeds on the next one.
        let origin = serve(resource(10).rule(second.clone(), faults::reset_connection)).await;
        let measured = run(LoadPlan {
            client,
            concurrency: 1,
            ..plan(&origin.url("/f"))
        })
        .await;
        assert_eq!((measured.successes, errors(&measured).as_str()), (100, ""));
        assert_eq!(measured.connections, Some(100));
        // Something of a response came: an error.
        let origin = serve(resource(10).rule(second.clone(), faults::reset_after(5))).await;
        let measured = run(LoadPlan {
            client,
            concurrency: 1,
            ..plan(&origin.url("/f"))
        })
        .await;
        assert_eq!(
            (measured.successes, measured.failures()),
            (50, 50),
            "{measured:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_looked_up_and_urls_have_numbers_and_logins() {
    let origin = Origin::builder().start().await;
    let port = origin.address().port();
    let login = format!("http://us%40er:pass@localhost:{port}/a{{}}/?s=1-");
    let urls = [login, origin.url("/b")];
    let measured = run(LoadPlan {
        urls: urls.iter().map(|url| url.parse().unwrap()).collect(),
        files: Some(2),
        method: LoadMethod::Delete,
        end: LoadEnd::Requests(4),
        concurrency: 1,
        ..plan("http://unused/")
    })
    .await;
    let failures = format!(
        "2 status 404 at {}, 2 status 404 at http://localhost:{port}/a%7B%7D/",
        urls[1]
    );
    assert_eq!(errors(&measured), failures);
    assert_eq!(measured.connections, Some(2));
    let requests = origin.requests();
    let targets: Vec<&str> = requests
        .iter()
        .map(|request| request.target.as_str())
        .collect();
    // What stands in a URL is taken as it is.
    assert_eq!(
        targets,
        ["/a%7B%7D/?s=1-0", "/b1", "/a%7B%7D/?s=1-0", "/b1"]
    );
    assert!(requests.iter().all(|request| request.method == "DELETE"));
    let host = format!("localhost:{port}");
    assert_eq!(requests[0].header("host"), Some(host.as_str()));
    // us@er:pass
    assert_eq!(
        requests[0].header("authorization"),
        Some("Basic dXNAZXI6cGFzcw==")
    );
    assert_eq!(requests[1].header("authorization"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_gets_absolute_targets_and_connect_to_replaces_the_address() {
    let origin = serve(resource(1000)).await;
    let proxy = HttpProxy::builder()
        .route("files.test:80", origin.address())
        .start()
        .await;
    for client in BOTH_CLIENTS {
        let proxied = run(LoadPlan {
            client,
            proxy: Some(proxy.address()),
            ..plan("http://files.test/f")
        })
        .await;
        assert_eq!((proxied.successes, proxied.bytes), (100, 100_000));
        let direct = run(LoadPlan {
            client,
            connect_to: Some(origin.address()),
            ..plan("http://files.test/f")
        })
        .await;
        assert_eq!((direct.successes, direct.bytes), (100, 100_000));
    }
    let requests = proxy.requests();
    assert_eq!(requests.len(), 200);
    assert!(
        requests
            .iter()
            .all(|request| request.target == "http://files.test/f")
    );
    let hosts: Vec<_> = origin.requests();
    assert!(
        hosts
            .iter()
            .all(|request| request.header("host") == Some("files.test"))
    );
}

/// What a server saw: the kinds of its handshakes, and the bytes of bodies.
#[derive(Default)]
struct ServerView {
    handshakes: Vec<Option<HandshakeKind>>,
    body_bytes: Vec<u64>,
}

/// An HTTPS server that reads bodies. It answers each request with 200 and 2 bytes.
async fn serve_tls(
    authority: &CertificateAuthority,
    view: Arc<Mutex<ServerView>>,
) -> (SocketAddr, JoinSet<()>) {
    let config = authority.issue(&["files.test"]).server_config(None);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, view) = (TlsAcceptor::from(Arc::clone(&config)), Arc::clone(&view));
            connections.spawn(async move {
                let stream = acceptor.accept(stream).await.unwrap();
                let kind = stream.get_ref().1.handshake_kind();
                let lock = || view.lock().unwrap_or_else(PoisonError::into_inner);
                lock().handshakes.push(kind);
                let mut stream = BufReader::new(stream);
                let mut length = 0;
                let mut line = String::new();
                while stream
                    .read_line(&mut line)
                    .await
                    .is_ok_and(|count| count > 0)
                {
                    let text = std::mem::take(&mut line).to_ascii_lowercase();
                    if let Some(value) = text.strip_prefix("content-length: ") {
                        length = value.trim().parse().unwrap();
                    }
                    if text == "\r\n" {
                        let mut body = (&mut stream).take(length);
                        let read = tokio::io::copy(&mut body, &mut tokio::io::sink()).await;
                        lock().body_bytes.push(read.unwrap());
                        let response = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
                        if stream.write_all(response).await.is_err()
                            || stream.flush().await.is_err()
                        {
                            return;
                        }
                    }
                }
            });
        }
    });
    (address, tasks)
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_sessions_are_resumed_or_not() {
    let authority = CertificateAuthority::new();
    for client in BOTH_CLIENTS {
        for (protocol, resumed) in [(LoadProtocol::Https, 0), (LoadProtocol::HttpsResumed, 19)] {
            let view = Arc::new(Mutex::new(ServerView::default()));
            let (address, _tasks) = serve_tls(&authority, Arc::clone(&view)).await;
            let measured = run(LoadPlan {
                client,
                protocol,
                method: LoadMethod::Put,
                put_bytes: 3_000_000,
                connect_to: Some(address),
                concurrency: 1,
                is_kept_alive: false,
                end: LoadEnd::Requests(20),
                tls: client_tls(&authority),
                ..plan("https://files.test/f")
            })
            .await;
            assert_eq!((measured.successes, errors(&measured).as_str()), (20, ""));
            assert_eq!(measured.bytes, 60_000_000);
            let phases = measured.phases.unwrap();
            assert!(phases.tls_s > 0.0 && phases.connect_s > 0.0, "{phases:?}");
            let view = view.lock().unwrap();
            assert_eq!(view.body_bytes, vec![3_000_000; 20]);
            let kinds = view.handshakes.iter();
            let found = kinds
                .filter(|kind| **kind == Some(HandshakeKind::Resumed))
                .count();
            assert_eq!((view.handshakes.len(), found), (20, resumed));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_untrusted_certificate_is_an_error_of_tls() {
    let (address, _tasks) = serve_tls(&CertificateAuthority::new(), Arc::default()).await;
    for client in BOTH_CLIENTS {
        let measured = run(LoadPlan {
            client,
            connect_to: Some(address),
            end: LoadEnd::Requests(3),
            ..plan("https://files.test/f")
        })
        .await;
        assert_eq!(errors(&measured), "3 TLS");
    }
}

async fn serve_http2(
    authority: &CertificateAuthority,
    script: impl Fn(usize) -> StreamAction + Send + Sync + 'static,
) -> Http2Origin {
    let tls = alpn_server_config(&authority.issue(&["files.test"]), None, &["h2", "http/1.1"]);
    Http2Origin::start(tls, Http2Settings::default(), move |request| {
        script(request.number)
    })
    .await
}

fn http2_plan(authority: &CertificateAuthority, origin: &Http2Origin) -> LoadPlan {
    LoadPlan {
        protocol: LoadProtocol::Http2,
        connect_to: Some(origin.address()),
        tls: client_tls(authority),
        files: Some(100),
        ..plan("https://u:p@files.test/f/")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn http2_shares_a_connection_or_has_one_for_each_request() {
    let authority = CertificateAuthority::new();
    let body = Bytes::from(vec![7; 100_000]);
    for client in BOTH_CLIENTS {
        for is_kept_alive in [true, false] {
            let body = body.clone();
            let origin =
                serve_http2(&authority, move |_| StreamAction::Respond(body.clone())).await;
            let plan = LoadPlan {
                client,
                is_kept_alive,
                ..http2_plan(&authority, &origin)
            };
            let threads = worker_slots(&plan).len() as u64;
            let measured = run(plan).await;
            assert_eq!((measured.successes, errors(&measured).as_str()), (100, ""));
            assert_eq!(measured.bytes, 10_000_000);
            let connections = if is_kept_alive { threads } else { 100 };
            assert_eq!(measured.connections, Some(connections));
            assert_eq!(origin.connection_count() as u64, connections);
            assert!(measured.phases.unwrap().tls_s > 0.0);
            let requests = origin.requests();
            assert!(requests.iter().all(|request| request.is_http2));
            assert!(
                requests
                    .iter()
                    .all(|request| request.authority == "files.test")
            );
            assert!(requests.iter().any(|request| request.path == "/f/99"));
            assert_eq!(requests[0].headers["authorization"], "Basic dTpw");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_of_http2_are_counted() {
    let authority = CertificateAuthority::new();
    let tls = alpn_server_config(&authority.issue(&["files.test"]), None, &["http/1.1"]);
    let other = Http2Origin::start(tls, Http2Settings::default(), |_| {
        StreamAction::Respond(Bytes::new())
    })
    .await;
    let measured = run(http2_plan(&authority, &other)).await;
    // A server that has no protocol in common may end the handshake itself (RFC 7301 3.2).
    assert_eq!(errors(&measured), "100 TLS");
    let broken = serve_http2(&authority, |number| match number % 4 {
        0 => StreamAction::Respond(Bytes::from_static(b"ok")),
        1 => StreamAction::Reset(2),
        2 => StreamAction::RespondWith(503, Vec::new(), Bytes::new()),
        _ => StreamAction::GoAway(Bytes::from_static(b"ok")),
    })
    .await;
    let measured = run(LoadPlan {
        concurrency: 1,
        ..http2_plan(&authority, &broken)
    })
    .await;
    assert_eq!(errors(&measured), "25 status 503, 25 stream reset");
    assert_eq!((measured.successes, measured.connections), (50, Some(25)));
}
