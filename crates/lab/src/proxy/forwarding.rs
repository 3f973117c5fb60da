//! What an HTTP proxy does with a request that its rules leave alone: a tunnel, or the request passed on.
//!
//! A request in absolute-form is passed on with `Connection: close` in both directions: one connection is one request, which is
//! conforming, if not fast.

use std::io;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::host_map::HostMap;
use super::relay::relay;
use crate::origin::request_log::{LogPosition, RequestLog};
use crate::origin::{
    ClientStream, OriginResponse, OriginResponseBody, OriginResponseFraming, RecordedRequest,
    ResponseRule, response_writer,
};

/// Header fields that concern only the client and the proxy (RFC 9110 7.6.1, and what clients of old send).
const HOP_BY_HOP: [&str; 5] = [
    "connection",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
];

/// What a proxy knows.
#[derive(Debug, Default)]
pub(crate) struct ForwardingProxyState {
    /// Where names are.
    pub(crate) host_map: HostMap,
    /// Applied in this order to what it would answer.
    pub(crate) rules: Vec<ResponseRule>,
}

impl OriginResponse {
    /// Makes it what a proxy says to a CONNECT, unless a rule wants it otherwise: there is no body (RFC 9110 9.3.6).
    fn accept_connect(&mut self) {
        if self.framing == OriginResponseFraming::ContentLength {
            self.framing = OriginResponseFraming::Undeclared;
        }
        self.reason
            .get_or_insert_with(|| "Connection established".into());
    }
}

/// A request that is passed on.
#[derive(Debug)]
pub(crate) struct ForwardedRequest {
    /// The request.
    pub(crate) request: RecordedRequest,
    /// What a tunnel begins with.
    pub(crate) response: OriginResponse,
    /// What the client sent behind the request's head.
    pub(crate) early_bytes: Vec<u8>,
}

impl ForwardingProxyState {
    /// What it answers before rules: consent to what it can do.
    pub(crate) fn respond(&self, asked: &RecordedRequest) -> OriginResponse {
        if !is_proxy_request(asked) {
            let mut reply = OriginResponse::empty(400);
            reply.body = OriginResponseBody::Bytes(b"this is a proxy\n".to_vec());
            return reply;
        }
        OriginResponse::empty(200)
    }

    /// Whether the rules have left a request to be passed on.
    pub(crate) fn is_forwarded(asked: &RecordedRequest, reply: &OriginResponse) -> bool {
        (200..300).contains(&reply.status) && !reply.is_replaced() && is_proxy_request(asked)
    }

    /// Passes a request on, and relays until both sides have closed.
    pub(crate) async fn forward(
        &self,
        mut client: impl ClientStream,
        mut passage: ForwardedRequest,
        (log, place): (&RequestLog, LogPosition),
    ) -> io::Result<()> {
        let Some((authority, head)) = target_and_head(&passage.request) else {
            return refuse(&mut client, 400, (log, place)).await;
        };
        let Ok(mut target) = self.host_map.connect(&authority).await else {
            return refuse(&mut client, 502, (log, place)).await;
        };
        match head {
            None => {
                passage.response.accept_connect();
                response_writer::write_tunnel_head(&mut client, &passage.response).await?;
            }
            Some(head) => target.write_all(head.as_bytes()).await?,
        }
        send_early_bytes(&mut target, &passage.early_bytes).await?;
        relay(client, target, |bytes| log.add_bytes_sent(place, bytes)).await
    }
}

async fn send_early_bytes(target: &mut TcpStream, early: &[u8]) -> io::Result<()> {
    if early.is_empty() {
        return Ok(());
    }
    target.write_all(early).await
}

async fn refuse(
    client: &mut impl ClientStream,
    status: u16,
    (log, place): (&RequestLog, LogPosition),
) -> io::Result<()> {
    log.set_status(place, status);
    let mut reply = OriginResponse::empty(status);
    reply.set_header("Connection", "close");
    client.write_all(&reply.head()).await?;
    client.shutdown().await
}

fn is_proxy_request(asked: &RecordedRequest) -> bool {
    asked.method == "CONNECT" || asked.target.starts_with("http://")
}

/// Where a request goes, and the head that it goes on with; a CONNECT has none.
fn target_and_head(asked: &RecordedRequest) -> Option<(String, Option<String>)> {
    if asked.method == "CONNECT" {
        return Some((asked.target.clone(), None));
    }
    let rest = asked.target.strip_prefix("http://")?;
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let slash = if path.starts_with('/') { "" } else { "/" };
    let mut head = format!("{} {slash}{path} HTTP/1.1\r\n", asked.method);
    for (name, value) in &asked.headers {
        if !HOP_BY_HOP.contains(&name.as_str()) {
            head.extend([name, ": ", value, "\r\n"]);
        }
    }
    head.push_str("Via: 1.1 lab\r\nConnection: close\r\n\r\n");
    let bare = authority.rsplit('@').next().unwrap_or(authority);
    let has_port = bare
        .rsplit_once(':')
        .is_some_and(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    let port = if has_port { "" } else { ":80" };
    Some((format!("{bare}{port}"), Some(head)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(target: &str) -> (String, String) {
        let head = format!("GET {target} HTTP/1.1\r\nHost: h\r\nProxy-Authorization: x\r\n\r\n");
        let (authority, head) = target_and_head(&RecordedRequest::parse(&head).unwrap()).unwrap();
        (authority, head.unwrap().lines().next().unwrap().to_owned())
    }

    #[test]
    fn a_url_is_where_to_and_what_for() {
        for (url, authority, line) in [
            ("http://h/a?b", "h:80", "GET /a?b HTTP/1.1"),
            ("http://h:8080", "h:8080", "GET / HTTP/1.1"),
            ("http://h?q", "h:80", "GET /?q HTTP/1.1"),
            ("http://[::1]:81/x", "[::1]:81", "GET /x HTTP/1.1"),
            ("http://[::1]/x", "[::1]:80", "GET /x HTTP/1.1"),
        ] {
            assert_eq!(to(url), (authority.into(), line.into()), "{url}");
        }
    }

    #[test]
    fn what_is_for_the_proxy_stays_there() {
        let head = "GET http://h/ HTTP/1.1\r\nHost: h\r\nProxy-Authorization: x\r\n\r\n";
        let (_, head) = target_and_head(&RecordedRequest::parse(head).unwrap()).unwrap();
        let head = head.unwrap();
        assert!(head.contains("host: h\r\n"), "{head}");
        assert!(!head.contains("authorization"), "{head}");
    }
}
