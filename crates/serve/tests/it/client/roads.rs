//! The ways on which a server can be asked, and asking once on each.

use super::{TestClient, TestResponse};
use crate::harness::{NAME, TestServer};
use crate::http2;

/// How a request gets there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestPathway {
    /// HTTP/1.1 over TCP: the kernel sends files.
    Plain,
    /// The same over a unix socket.
    Unix,
    /// HTTP/1.1 over TLS.
    Tls,
    /// HTTP/2 by prior knowledge.
    Http2,
    /// HTTP/2 over TLS, by ALPN.
    Http2Tls,
}

impl RequestPathway {
    pub(crate) const ALL: [Self; 5] = [
        Self::Plain,
        Self::Unix,
        Self::Tls,
        Self::Http2,
        Self::Http2Tls,
    ];

    /// Those of HTTP/1.1.
    pub(crate) const FIRST: [Self; 3] = [Self::Plain, Self::Unix, Self::Tls];
}

impl TestServer {
    /// Asks on a connection of its own.
    #[track_caller]
    pub(crate) fn ask(
        &self,
        road: RequestPathway,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
    ) -> TestResponse {
        match road {
            RequestPathway::Plain | RequestPathway::Unix | RequestPathway::Tls => {
                TestClient::on(self, road).ask(method, path, fields)
            }
            RequestPathway::Http2 | RequestPathway::Http2Tls => {
                let asked = http2::TestHttp2Request {
                    method,
                    path,
                    fields,
                    body: None,
                };
                http2::ask(self, road, &asked).unwrap()
            }
        }
    }

    /// A GET on a connection of its own.
    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> TestResponse {
        self.ask(RequestPathway::Plain, "GET", path, &[])
    }

    /// Puts on a connection of its own.
    #[track_caller]
    pub(crate) fn put(
        &self,
        road: RequestPathway,
        path: &str,
        fields: &[(&str, &str)],
        body: &[u8],
    ) -> TestResponse {
        if matches!(road, RequestPathway::Http2 | RequestPathway::Http2Tls) {
            let (method, body) = ("PUT", Some(body));
            let asked = http2::TestHttp2Request {
                method,
                path,
                fields,
                body,
            };
            return http2::ask(self, road, &asked).unwrap();
        }
        let length = body.len().to_string();
        let mut fields = fields.to_vec();
        fields.push(("Content-Length", &length));
        let mut client = TestClient::on(self, road);
        client.send(request("PUT", path, &fields)).send(body);
        client.answer_to("PUT")
    }
}

/// A request's head.
pub(crate) fn request(method: &str, path: &str, fields: &[(&str, &str)]) -> String {
    let lines = fields
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"));
    let lines: String = lines.collect();
    format!("{method} {path} HTTP/1.1\r\nHost: {NAME}\r\n{lines}\r\n")
}
