//! Responses without the resource: errors, redirects, refusals.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::origin::{OriginResponse, OriginResponseBody, RecordedRequest};

/// Another status with an empty body.
pub fn status(status: u16) -> impl Fn(&RecordedRequest, &mut OriginResponse) + Send + Sync {
    move |_, response| {
        response.status = status;
        response.remove_header("Content-Range");
        response.body = OriginResponseBody::Bytes(Vec::new());
    }
}

/// Another status with a header field.
pub fn status_with_header(
    code: u16,
    name: &'static str,
    value: String,
) -> impl Fn(&RecordedRequest, &mut OriginResponse) + Send + Sync {
    move |request, response| {
        status(code)(request, response);
        response.set_header(name, &value);
    }
}

/// A redirect, to a path or to another origin (A16).
pub fn redirect(
    code: u16,
    to: impl Into<String>,
) -> impl Fn(&RecordedRequest, &mut OriginResponse) + Send + Sync {
    status_with_header(code, "Location", to.into())
}

/// A redirect with a new token in its query each time (A16), for a resource with [`expiring_token`].
pub fn redirect_with_token(
    code: u16,
    to: impl Into<String>,
) -> impl Fn(&RecordedRequest, &mut OriginResponse) + Send + Sync {
    let to = to.into();
    move |request, response| {
        redirect(code, format!("{to}?token={}", request.number_for_path))(request, response)
    }
}

/// 403 for a target, with its token, that was requested `uses` times before (A16).
pub fn expiring_token(uses: usize) -> impl Fn(&RecordedRequest, &mut OriginResponse) + Send + Sync {
    let used: Mutex<HashMap<String, usize>> = Mutex::default();
    move |request, response| {
        let mut used = used.lock().unwrap_or_else(PoisonError::into_inner);
        let count = used.entry(request.target.clone()).or_default();
        *count += 1;
        if *count > uses {
            status(403)(request, response);
        }
    }
}

/// 429 or 503, with an optional Retry-After: seconds, a date, or nonsense (A17).
pub fn overloaded(
    code: u16,
    retry_after: Option<&'static str>,
) -> impl Fn(&RecordedRequest, &mut OriginResponse) + Send + Sync {
    move |request, response| {
        status(code)(request, response);
        if let Some(value) = retry_after {
            response.set_header("Retry-After", value);
        }
    }
}

/// An error page with a status of success (A24).
pub fn error_page(request: &RecordedRequest, response: &mut OriginResponse) {
    status(200)(request, response);
    for name in ["ETag", "Last-Modified", "Accept-Ranges"] {
        response.remove_header(name);
    }
    response.set_header("Content-Type", "text/html; charset=utf-8");
    response.body = OriginResponseBody::Bytes(
        b"<!doctype html><title>Error</title><p>Please log in.\n".to_vec(),
    );
}

/// A reset instead of a response (A18, under [`RequestMatcher::above_open_connections`](crate::RequestMatcher::above_open_connections)).
pub fn reset_connection(_: &RecordedRequest, response: &mut OriginResponse) {
    response.reset_connection = true;
}
