//! A request in absolute-form (RFC 9112 section 3.2.2), as it is passed on: to the origin itself, or to the next proxy.
//!
//! What concerns the client and us alone stays here, and `Connection: close` is said in its place: one connection is one request. How it
//! is understood is in `parsing`, and how it goes on in `heads`.

mod heads;
mod parsing;

use std::fmt;

use haul_net::Target;

use crate::relay::BodyFraming;

/// A request to pass on.
#[derive(Clone)]
pub(crate) struct ForwardRequest {
    method: String,
    /// The host and port of its URL, as a field has them.
    host: String,
    /// The rest of it, as it was written.
    path: String,
    target: Target,
    /// Of HTTP/1; one who speaks 1.0 cannot read what 1.1 may answer.
    minor: u8,
    /// What goes on, in its order.
    fields: Vec<(String, Vec<u8>)>,
    /// How much belongs to it behind its head.
    body: BodyFraming,
}

impl fmt::Debug for ForwardRequest {
    /// Without its path and fields, which are the client's secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForwardRequest")
            .field("target", &self.target)
            .field("body", &self.body)
            .finish_non_exhaustive()
    }
}

impl ForwardRequest {
    /// The host and port of its URL.
    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// Its method, and its URL as a proxy is asked for it.
    pub(crate) fn line(&self) -> (&str, String) {
        (&self.method, self.absolute())
    }

    /// How much belongs to it behind its head.
    pub(crate) fn body(&self) -> BodyFraming {
        self.body
    }

    /// The same without a body and with no effect, to learn what a proxy wants to see.
    pub(crate) fn probe(&self) -> Self {
        Self {
            method: "HEAD".to_owned(),
            fields: Vec::new(),
            body: BodyFraming::bytes(0),
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What this head is understood as.
    pub(super) fn read(head: &str) -> Result<ForwardRequest, &'static str> {
        let mut fields = [httparse::EMPTY_HEADER; 16];
        let mut request = httparse::Request::new(&mut fields);
        request.parse(head.as_bytes()).unwrap();
        ForwardRequest::of(&request)
    }

    pub(super) fn request(head: &str) -> ForwardRequest {
        read(head).unwrap()
    }

    #[test]
    fn what_a_client_says_is_no_part_of_a_message() {
        let request = request("GET http://a.test/secret HTTP/1.1\r\nCookie: secret\r\n\r\n");
        let text = format!("{request:?}");
        assert!(
            text.contains("a.test") && !text.contains("secret"),
            "{text}"
        );
        let asked = crate::local::ClientRequest {
            target: request.target().clone(),
            answer: crate::local::ClientReply::Request,
            early: bytes::Bytes::from_static(b"secret"),
            request: Some(request),
        };
        let early = crate::relay::EarlyBytes {
            up: asked.early.clone(),
            down: asked.early.clone(),
            ..Default::default()
        };
        let text = format!("{asked:?} {early:?}");
        assert!(
            text.contains("a.test") && !text.contains("secret"),
            "{text}"
        );
    }
}
