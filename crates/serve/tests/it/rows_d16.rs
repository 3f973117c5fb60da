//! D16: the client of an upload that is refused before its body arrived gets the status, and the
//! connection stays usable.

use bytes::Bytes;
use haul_serve::FileServerOptions;
use haul_serve::access::{AccessControl, AccessOptions};
use haul_serve::store::FileStoreOptions;
use http::{Request, Version};

use crate::client::{TestClient, TestTransport, request_head};
use crate::harness::{NAME, ServerSetup, TestServer};
use crate::http2::{block_on, connect, send_body};

/// More than the HTTP/2 window of a stream and more than socket buffers hold.
const BODY_BYTES: usize = 6 << 20;

struct RefusedUpload {
    server: TestServer,
    method: &'static str,
    fields: &'static [(&'static str, &'static str)],
    status: u16,
}

fn refused_uploads() -> Vec<RefusedUpload> {
    let writable = || ServerSetup::default().store;
    let start = |store: FileStoreOptions, server: FileServerOptions| {
        let setup = ServerSetup {
            store,
            server,
            ..ServerSetup::default()
        };
        let server = setup.start();
        server.write_file("f", "content");
        server
    };
    let access = AccessControl::new(AccessOptions {
        users: vec!["ann:secret:rw".parse().unwrap()],
        ..AccessOptions::default()
    });
    let with_logins = FileServerOptions {
        access: access.unwrap(),
        ..FileServerOptions::default()
    };
    let with_limit = FileServerOptions {
        max_body: Some(1 << 20),
        ..FileServerOptions::default()
    };
    let with_quota = FileStoreOptions {
        quota: Some(1 << 20),
        ..writable()
    };
    let refused = |server, method, fields, status| RefusedUpload {
        server,
        method,
        fields,
        status,
    };
    // The password of the first is `wrong`.
    let wrong_login = &[("authorization", "Basic YW5uOndyb25n")];
    let only_new = &[("if-none-match", "*")];
    let default = FileServerOptions::default;
    vec![
        refused(start(writable(), with_logins), "PUT", wrong_login, 401),
        refused(
            start(FileStoreOptions::default(), default()),
            "PUT",
            &[],
            405,
        ),
        refused(start(writable(), default()), "POST", &[], 405),
        refused(start(writable(), default()), "PUT", only_new, 412),
        refused(start(writable(), with_limit), "PUT", &[], 413),
        refused(start(with_quota, default()), "PUT", &[], 507),
    ]
}

fn http2_request(method: &str, fields: &[(&str, &str)], length: Option<usize>) -> Request<()> {
    let mut request = Request::builder()
        .method(method)
        .uri(format!("http://{NAME}/f"))
        .version(Version::HTTP_2);
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    if let Some(length) = length {
        request = request.header("content-length", length);
    }
    request.body(()).unwrap()
}

/// Sends all of the body before it reads the response, as Python's httpx does.
#[test]
fn d16_a_refused_http2_upload_gets_its_status_and_the_connection_stays_usable() {
    let body = vec![b'x'; BODY_BYTES];
    for upload in refused_uploads() {
        for transport in [TestTransport::Http2, TestTransport::Http2Tls] {
            // Without a Content-Length, the limits are exceeded in the middle of the body.
            for length in [Some(body.len()), None] {
                let exchanges = async {
                    let stream = connect(&upload.server, transport).await;
                    let (mut sender, connection) = h2::client::handshake(stream).await.unwrap();
                    let exchange = async {
                        for _ in 0..3 {
                            sender = sender.ready().await.unwrap();
                            let request = http2_request(upload.method, upload.fields, length);
                            let (response, mut stream) =
                                sender.send_request(request, false).unwrap();
                            send_body(&mut stream, &body).await.unwrap();
                            stream.send_data(Bytes::new(), true).unwrap();
                            let mut response = response.await.unwrap();
                            assert_eq!(response.status(), upload.status);
                            while let Some(data) = response.body_mut().data().await {
                                data.unwrap();
                            }
                        }
                    };
                    tokio::select! {
                        ended = connection => panic!("the connection ended: {ended:?}"),
                        () = exchange => {}
                    }
                };
                block_on(exchanges);
            }
        }
        assert_eq!(upload.server.temporary_files(), 0);
    }
}

#[test]
fn d16_a_refused_http1_upload_gets_its_status() {
    let body = vec![b'x'; BODY_BYTES];
    let length = body.len().to_string();
    for upload in refused_uploads() {
        for transport in TestTransport::HTTP1 {
            let mut client = TestClient::connect(&upload.server, transport);
            let fields = [upload.fields, &[("content-length", &length)]].concat();
            client.send(request_head(upload.method, "/f", &fields));
            client.send(&body);
            let response = client.read_response_to(upload.method);
            assert_eq!(response.status, upload.status, "{transport:?}");
        }
    }
}

/// The server reads a refused body only up to a limit, and then resets the stream with NO_ERROR.
#[test]
fn d16_the_stream_of_an_endless_refused_upload_is_reset_with_no_error() {
    let server = ServerSetup {
        store: FileStoreOptions::default(),
        ..ServerSetup::default()
    };
    let server = server.start();
    let chunk = Bytes::from(vec![b'x'; 1 << 20]);
    block_on(async {
        let stream = connect(&server, TestTransport::Http2).await;
        let (sender, connection) = h2::client::handshake(stream).await.unwrap();
        let exchange = async {
            let mut sender = sender.ready().await.unwrap();
            let request = http2_request("PUT", &[], None);
            let (response, mut stream) = sender.send_request(request, false).unwrap();
            assert_eq!(response.await.unwrap().status(), 405);
            let mut sent = 0_usize;
            loop {
                stream.reserve_capacity(chunk.len());
                let capacity = std::future::poll_fn(|cx| stream.poll_capacity(cx)).await;
                let Some(Ok(capacity)) = capacity else { break };
                if stream.send_data(chunk.slice(..capacity), false).is_err() {
                    break;
                }
                sent += capacity;
            }
            let reset = std::future::poll_fn(|cx| stream.poll_reset(cx)).await;
            assert_eq!(reset.unwrap(), h2::Reason::NO_ERROR);
            assert!((256 << 20..280 << 20).contains(&sent), "{sent}");
        };
        tokio::select! {
            ended = connection => panic!("the connection ended: {ended:?}"),
            () = exchange => {}
        }
    });
}
