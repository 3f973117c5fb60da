//! The transports of a server, and single requests over each of them.

use super::{TestClient, TestResponse};
use crate::harness::{NAME, TestServer};
use crate::http2;

/// The protocol and socket of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TestTransport {
    /// HTTP/1.1 over TCP: the kernel sends files.
    Plain,
    /// HTTP/1.1 over a Unix socket.
    Unix,
    /// HTTP/1.1 over TLS.
    Tls,
    /// HTTP/2 by prior knowledge.
    Http2,
    /// HTTP/2 over TLS, by ALPN.
    Http2Tls,
}

impl TestTransport {
    pub(crate) const ALL: [Self; 5] = [
        Self::Plain,
        Self::Unix,
        Self::Tls,
        Self::Http2,
        Self::Http2Tls,
    ];

    /// The transports of HTTP/1.1.
    pub(crate) const HTTP1: [Self; 3] = [Self::Plain, Self::Unix, Self::Tls];
}

impl TestServer {
    /// Sends a request on a new connection.
    #[track_caller]
    pub(crate) fn request(
        &self,
        transport: TestTransport,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
    ) -> TestResponse {
        match transport {
            TestTransport::Plain | TestTransport::Unix | TestTransport::Tls => {
                TestClient::connect(self, transport).request(method, path, fields)
            }
            TestTransport::Http2 | TestTransport::Http2Tls => {
                let request = http2::TestHttp2Request {
                    method,
                    path,
                    fields,
                    body: None,
                };
                http2::request(self, transport, &request).unwrap()
            }
        }
    }

    /// Sends a GET on a new connection.
    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> TestResponse {
        self.request(TestTransport::Plain, "GET", path, &[])
    }

    /// Uploads a body on a new connection.
    #[track_caller]
    pub(crate) fn put(
        &self,
        transport: TestTransport,
        path: &str,
        fields: &[(&str, &str)],
        body: &[u8],
    ) -> TestResponse {
        if matches!(transport, TestTransport::Http2 | TestTransport::Http2Tls) {
            let (method, body) = ("PUT", Some(body));
            let request = http2::TestHttp2Request {
                method,
                path,
                fields,
                body,
            };
            return http2::request(self, transport, &request).unwrap();
        }
        let length = body.len().to_string();
        let mut fields = fields.to_vec();
        fields.push(("Content-Length", &length));
        let mut client = TestClient::connect(self, transport);
        client.send(request_head("PUT", path, &fields)).send(body);
        client.read_response_to("PUT")
    }
}

pub(crate) fn request_head(method: &str, path: &str, fields: &[(&str, &str)]) -> String {
    let lines: String = fields
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    format!("{method} {path} HTTP/1.1\r\nHost: {NAME}\r\n{lines}\r\n")
}
