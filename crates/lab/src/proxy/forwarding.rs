//! How an HTTP proxy handles a request that its rules do not answer: by a tunnel, or by forwarding it.
//!
//! A request in absolute-form is forwarded with `Connection: close` in both directions: one connection is one request, which is
//! conforming, if not fast.

use std::io;

use tokio::io::AsyncWriteExt;

use super::target::{HostMap, relay};
use crate::origin::request_log::{LogPosition, RequestLog};
use crate::origin::response_writer::write_tunnel_head;
use crate::origin::{
    ClientStream, OriginResponse, OriginResponseBody, RecordedRequest, ResponseRule,
};

/// Header fields that concern only the client and the proxy (RFC 9110 7.6.1, and those that old clients send).
const HOP_BY_HOP: [&str; 5] = [
    "connection",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
];

/// The state that all connections of a proxy share.
#[derive(Debug, Default)]
pub(crate) struct ForwardingProxyState {
    pub(crate) host_map: HostMap,
    /// Applied in this order to the response before anything is forwarded.
    pub(crate) rules: Vec<ResponseRule>,
}

#[derive(Debug)]
pub(crate) struct ForwardedRequest {
    pub(crate) request: RecordedRequest,
    /// The head of a tunnel.
    pub(crate) response: OriginResponse,
    /// Bytes that the client sent after the request's head.
    pub(crate) early_bytes: Vec<u8>,
}

impl ForwardingProxyState {
    /// The response before rules: 200 to every request for a proxy.
    pub(crate) fn respond(&self, request: &RecordedRequest) -> OriginResponse {
        if !is_proxy_request(request) {
            let mut response = OriginResponse::empty(400);
            response.body = OriginResponseBody::Bytes(b"this is a proxy\n".to_vec());
            return response;
        }
        OriginResponse::empty(200)
    }

    /// Whether the rules have left a request to be forwarded.
    pub(crate) fn is_forwarded(request: &RecordedRequest, response: &OriginResponse) -> bool {
        (200..300).contains(&response.status)
            && !response.is_replaced()
            && is_proxy_request(request)
    }

    /// Forwards a request, and relays until both sides have closed.
    pub(crate) async fn forward(
        &self,
        mut client: impl ClientStream,
        mut forwarded: ForwardedRequest,
        log: &RequestLog,
        position: LogPosition,
    ) -> io::Result<()> {
        let Some((authority, head)) = target_and_head(&forwarded.request) else {
            log.set_status(position, 400);
            return refuse(&mut client, 400).await;
        };
        let Ok(mut target) = self.host_map.connect(&authority).await else {
            log.set_status(position, 502);
            return refuse(&mut client, 502).await;
        };
        match head {
            None => {
                forwarded.response.accept_connect();
                write_tunnel_head(&mut client, &forwarded.response).await?;
            }
            Some(head) => target.write_all(head.as_bytes()).await?,
        }
        target.write_all(&forwarded.early_bytes).await?;
        let sent = |bytes| log.add_bytes_sent(position, bytes);
        relay(client, target, sent).await
    }
}

async fn refuse(client: &mut impl ClientStream, status: u16) -> io::Result<()> {
    let mut response = OriginResponse::empty(status);
    response.set_header("Connection", "close");
    client.write_all(&response.head()).await?;
    client.shutdown().await
}

fn is_proxy_request(request: &RecordedRequest) -> bool {
    request.method == "CONNECT" || request.target.starts_with("http://")
}

/// The host and port of a request, and the head that is forwarded; a CONNECT has none.
fn target_and_head(request: &RecordedRequest) -> Option<(String, Option<String>)> {
    if request.method == "CONNECT" {
        return Some((request.target.clone(), None));
    }
    let rest = request.target.strip_prefix("http://")?;
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let slash = if path.starts_with('/') { "" } else { "/" };
    let mut head = format!("{} {slash}{path} HTTP/1.1\r\n", request.method);
    for (name, value) in &request.headers {
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
    fn the_url_is_split_into_target_and_request_line() {
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
    fn header_fields_for_the_proxy_are_not_forwarded() {
        let head = "GET http://h/ HTTP/1.1\r\nHost: h\r\nProxy-Authorization: x\r\n\r\n";
        let (_, head) = target_and_head(&RecordedRequest::parse(head).unwrap()).unwrap();
        let head = head.unwrap();
        assert!(head.contains("host: h\r\n"), "{head}");
        assert!(!head.contains("authorization"), "{head}");
    }
}
