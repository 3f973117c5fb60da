//! The ways on which a server can be asked, and asking once on each.

use super::{Answer, Client};
use crate::harness::{NAME, Served};
use crate::http2;

/// How a request gets there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Road {
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

impl Road {
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

impl Served {
    /// Asks on a connection of its own.
    #[track_caller]
    pub(crate) fn ask(
        &self,
        road: Road,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
    ) -> Answer {
        match road {
            Road::Plain | Road::Unix | Road::Tls => {
                Client::on(self, road).ask(method, path, fields)
            }
            Road::Http2 | Road::Http2Tls => {
                let asked = http2::Asked {
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
    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask(Road::Plain, "GET", path, &[])
    }

    /// Puts on a connection of its own.
    #[track_caller]
    pub(crate) fn put(
        &self,
        road: Road,
        path: &str,
        fields: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        if matches!(road, Road::Http2 | Road::Http2Tls) {
            let (method, body) = ("PUT", Some(body));
            let asked = http2::Asked {
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
        let mut client = Client::on(self, road);
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
