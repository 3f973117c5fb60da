//! A client of an HTTP proxy's listener: its first request says where to.
//!
//! CONNECT becomes a tunnel. A request in absolute-form is passed on, and its connection carries no other: both the peer behind and the
//! client are told so, by `Connection: close`. A request for this listener itself - a browser that was sent here, a page that tries its
//! luck - is refused.
//!
//! The listener asks for no login, so one that a client shows is for nobody: it goes no further. What a proxy behind asks for is answered
//! with a login of ours; where that will not do, the client hears what is wrong, and not the question, which it could not answer.

use std::io;

use bytes::{Bytes, BytesMut};
use haul_net::{Error, Kind, ProxyRefusal, Target};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::forward_request::ForwardRequest;
use super::{ClientReply, ClientRequest, ClientRequestError};
use crate::relay::{RelayStream, part};
use crate::upstream::UpstreamConnectError;

/// Bytes of the longest head.
const HEAD: usize = 64 << 10;

/// Fields of the longest head.
pub(super) const FIELDS: usize = 128;

/// Hears where a client wants to go.
pub(super) async fn ask(client: &mut RelayStream) -> Result<ClientRequest, ClientRequestError> {
    let mut buffer = BytesMut::with_capacity(4096);
    let length = loop {
        match head_length(&buffer) {
            Ok(Some(length)) => break length,
            Ok(None) if buffer.len() < HEAD => {}
            Ok(None) => return Err(refuse(client, 431, "the request's header is too long").await),
            Err(()) => return Err(refuse(client, 400, "this is no request for a proxy").await),
        }
        if client.read_buf(&mut buffer).await? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
    };
    let head = buffer.split_to(length).freeze();
    match understood(&head) {
        Ok(mut asked) => {
            asked.early = buffer.freeze();
            Ok(asked)
        }
        Err(why) => Err(refuse(client, 400, why).await),
    }
}

/// Bytes of the head, once all of it is there.
fn head_length(bytes: &[u8]) -> Result<Option<usize>, ()> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    match httparse::Request::new(&mut fields).parse(bytes) {
        Ok(httparse::Status::Complete(length)) => Ok(Some(length)),
        Ok(httparse::Status::Partial) => Ok(None),
        Err(_) => Err(()),
    }
}

fn understood(head: &Bytes) -> Result<ClientRequest, &'static str> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    request
        .parse(head)
        .map_err(|_| "this is no request for a proxy")?;
    let target = request.path.unwrap_or_default();
    if request.method == Some("CONNECT") {
        let target: Target = target
            .parse()
            .map_err(|_| "CONNECT wants a host and a port")?;
        return Ok(ClientRequest {
            target,
            answer: ClientReply::Connect,
            early: Bytes::new(),
            request: None,
        });
    }
    let request = ForwardRequest::of(&request)?;
    Ok(ClientRequest {
        target: request.target().clone(),
        answer: ClientReply::Request,
        early: Bytes::new(),
        request: Some(request),
    })
}

/// The tunnel is there.
pub(super) async fn connected(client: &mut RelayStream) -> io::Result<()> {
    client
        .write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
        .await?;
    client.flush().await
}

/// The target was not reached, for this reason.
pub(super) async fn unreached(client: &mut RelayStream, why: &UpstreamConnectError) {
    let status = match why.errors().last() {
        Some(error) if error.proxy_refusal() == Some(ProxyRefusal::NotAllowed) => 403,
        Some(error) if matches!(error.kind(), Kind::ConnectTimeout(_)) => 504,
        _ => 502,
    };
    let hint = why.errors().last().and_then(hint);
    let hint = hint.map_or_else(String::new, |hint| format!("\nhint: {hint}"));
    answer(client, status, &format!("{why}{hint}")).await;
}

/// What somebody can do who sees this in a browser.
fn hint(error: &Error) -> Option<&'static str> {
    let proxy = error.proxy()?;
    match error.kind() {
        Kind::ProxyAuth(_) if proxy.has_login => Some(
            "the login that haul tunnel was given for this proxy is to be checked, not that of the program that asked",
        ),
        Kind::ProxyAuth(_) => Some(
            "haul tunnel has no login for this proxy: its -U USER gives it one, or user:password@ before the proxy's host",
        ),
        _ => None,
    }
}

/// Says no, and why.
async fn refuse(client: &mut RelayStream, status: u16, why: &'static str) -> ClientRequestError {
    answer(client, status, why).await;
    ClientRequestError::Refused(why)
}

/// An answer of our own, and the end.
async fn answer(client: &mut RelayStream, status: u16, text: &str) {
    let status = http::StatusCode::from_u16(status).unwrap_or(http::StatusCode::BAD_GATEWAY);
    let body = format!("haul: {text}\n");
    let length = body.len();
    let words = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}",
    );
    part(client, words.as_bytes()).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(head: &str) -> Result<ClientRequest, &'static str> {
        let head = Bytes::copy_from_slice(head.as_bytes());
        assert_eq!(head_length(&head), Ok(Some(head.len())));
        understood(&head)
    }

    #[test]
    fn connect_and_absolute_form_are_for_a_proxy_and_nothing_else_is() {
        let connect = asked("CONNECT [::1]:22 HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        assert_eq!(
            (connect.target.to_string(), connect.answer),
            ("[::1]:22".into(), ClientReply::Connect)
        );
        let get = asked("GET http://a.test/x HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
        assert_eq!(
            (get.target.to_string(), get.answer),
            ("a.test:80".into(), ClientReply::Request)
        );
        for other in [
            "GET / HTTP/1.1\r\nHost: localhost:3128\r\n\r\n",
            "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
            "CONNECT a.test HTTP/1.1\r\n\r\n",
            "CONNECT http://a.test:80 HTTP/1.1\r\n\r\n",
            "GET https://a.test/ HTTP/1.1\r\n\r\n",
            "GET ftp://a.test/ HTTP/1.1\r\n\r\n",
        ] {
            assert!(asked(other).is_err(), "{other}");
        }
    }

    #[test]
    fn what_is_no_http_is_known_before_its_end() {
        assert_eq!(head_length(b"\x05\x01\x00"), Err(()));
        assert_eq!(head_length(b"SSH-2.0-x\r\n"), Err(()));
        assert_eq!(head_length(b"GET http://a/ HT"), Ok(None));
    }
}
