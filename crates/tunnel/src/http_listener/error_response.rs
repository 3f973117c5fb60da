//! Responses of our own, each with what the log says of it.

use haul_net::{Error, Kind, ProxyRefusal};
use http::header::{CONNECTION, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};

use super::response_body::ProxyResponseBody;
use crate::log_record::TunnelOutcome;
use crate::relay::{RelayOutcome, RelaySide};
use crate::upstream::UpstreamConnectError;

type LoggedResponse = (Response<ProxyResponseBody>, TunnelOutcome);

/// This is not a request for a proxy. The connection ends with the response: the client may have meant another server.
pub(super) fn bad_request(status: StatusCode, reason: &'static str) -> LoggedResponse {
    let mut response = text(status, reason);
    close(&mut response);
    (response, TunnelOutcome::BadRequest(reason.to_owned()))
}

/// The request's body broke off, or is malformed.
pub(super) fn broken_body(error: &hyper::Error) -> LoggedResponse {
    let reason = RelayOutcome::Broken(RelaySide::Client, error.to_string());
    let mut response = text(
        StatusCode::BAD_REQUEST,
        &format!("the request's body cannot be read: {error}"),
    );
    close(&mut response);
    (response, reason.into())
}

/// The target was not reached, or gave no response.
pub(super) fn unreached(error: UpstreamConnectError) -> LoggedResponse {
    let last = error.errors().last();
    let status = match last {
        Some(error) if error.proxy_refusal() == Some(ProxyRefusal::NotAllowed) => {
            StatusCode::FORBIDDEN
        }
        Some(error) if matches!(error.kind(), Kind::ConnectTimeout(_)) => {
            StatusCode::GATEWAY_TIMEOUT
        }
        _ => StatusCode::BAD_GATEWAY,
    };
    let mut reason = match last.and_then(|error| error.url().host_str()) {
        Some(host) => format!("cannot reach {host}: {error}"),
        None => error.to_string(),
    };
    if let Some(hint) = last.and_then(hint) {
        reason = format!("{reason}\nhint: {hint}");
    }
    (text(status, &reason), TunnelOutcome::Unreached(error))
}

/// A hint for users who read this in a browser.
fn hint(error: &Error) -> Option<&'static str> {
    let proxy = error.proxy()?;
    match error.kind() {
        Kind::ProxyAuth(_) if proxy.has_login => Some(
            "check the tunnel's login for this proxy; a login of the program that sent the request is not used",
        ),
        Kind::ProxyAuth(_) => Some(
            "the tunnel has no login for this proxy; a login of the program that sent the request is not used",
        ),
        _ => None,
    }
}

/// Has the connection end with this response.
pub(super) fn close(response: &mut Response<ProxyResponseBody>) {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(CONNECTION, close);
}

fn text(status: StatusCode, reason: &str) -> Response<ProxyResponseBody> {
    let mut response = Response::new(ProxyResponseBody::text(format!("haul: {reason}\n")));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}
