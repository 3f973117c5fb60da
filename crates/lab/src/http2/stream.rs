//! One request to the conforming origin and its response.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{Request, Response};

/// What is done with a request.
#[derive(Debug, Clone)]
pub enum StreamAction {
    /// 200 with this body and its Content-Length.
    Respond(Bytes),
    /// The same after a delay.
    RespondAfter(Duration, Bytes),
    /// A response with this status, these fields and this body.
    RespondWith(u16, Vec<(&'static str, String)>, Bytes),
    /// The stream is reset before the head, with this reason.
    Reset(u32),
    /// The head, so many bytes of the body, and then nothing until the client resets the stream, which is recorded. For zero bytes
    /// the head is not sent either.
    Hang(usize, Bytes),
    /// It is served, and the connection accepts no further request.
    GoAway(Bytes),
    /// The connection is ended with GOAWAY and this reason, whatever is running.
    AbortConnection(u32),
    /// The connection is closed, whatever is running.
    CloseConnection,
}

impl StreamAction {
    /// The response, for HTTP/1.1.
    pub(super) fn into_response(self) -> (u16, Vec<(&'static str, String)>, Bytes) {
        match self {
            Self::RespondWith(status, fields, body) => (status, fields, body),
            Self::Respond(body)
            | Self::RespondAfter(_, body)
            | Self::Hang(_, body)
            | Self::GoAway(body) => (200, Vec::new(), body),
            Self::Reset(_) | Self::AbortConnection(_) | Self::CloseConnection => {
                (500, Vec::new(), Bytes::new())
            }
        }
    }
}

/// One request and its response.
pub(super) struct Http2Stream {
    pub(super) respond: SendResponse<Bytes>,
    /// The maximum length of a frame of a body, in bytes.
    pub(super) max_frame_bytes: usize,
    /// Records the reason of the client's reset.
    pub(super) reset_reasons: Arc<Mutex<Vec<u32>>>,
    /// Kept, since dropping the request resets the stream.
    pub(super) _request: Request<RecvStream>,
}

impl Http2Stream {
    pub(super) async fn run(mut self, action: StreamAction) {
        match action {
            StreamAction::Reset(reason) => self.respond.send_reset(Reason::from(reason)),
            StreamAction::Hang(0, body) if body.is_empty() => {
                let reason = poll_fn(|cx| self.respond.poll_reset(cx)).await;
                self.record_reset(reason);
            }
            StreamAction::Hang(count, body) => {
                if let Some(mut send) = self.send_head(&body) {
                    self.send_frames(&mut send, body.slice(..count), false);
                    let reason = poll_fn(|cx| send.poll_reset(cx)).await;
                    self.record_reset(reason);
                }
            }
            StreamAction::RespondAfter(delay, body) => {
                tokio::time::sleep(delay).await;
                self.respond_whole(200, Vec::new(), body);
            }
            other => {
                let (status, fields, body) = other.into_response();
                self.respond_whole(status, fields, body);
            }
        }
    }

    fn record_reset(&self, reason: Result<Reason, h2::Error>) {
        if let Ok(reason) = reason {
            let mut reasons = self
                .reset_reasons
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            reasons.push(reason.into());
        }
    }

    /// Sends the whole response. The client may be gone.
    fn respond_whole(&mut self, status: u16, fields: Vec<(&'static str, String)>, body: Bytes) {
        let mut head = Response::builder().status(status);
        for (name, value) in fields {
            head = head.header(name, value);
        }
        let head = head
            .header("content-length", body.len())
            .body(())
            .expect("header fields of a test");
        if let Ok(mut send) = self.respond.send_response(head, body.is_empty())
            && !body.is_empty()
        {
            self.send_frames(&mut send, body, true);
        }
    }

    /// Sends the head of a response with this body.
    fn send_head(&mut self, body: &Bytes) -> Option<SendStream<Bytes>> {
        let head = Response::builder()
            .header("content-length", body.len())
            .body(())
            .expect("a number");
        self.respond.send_response(head, false).ok()
    }

    /// Sends bytes of a body, in frames of the maximum length.
    fn send_frames(&self, send: &mut SendStream<Bytes>, mut body: Bytes, end: bool) {
        while !body.is_empty() {
            let piece = body.split_to(body.len().min(self.max_frame_bytes));
            let last = end && body.is_empty();
            if send.send_data(piece, last).is_err() {
                return;
            }
        }
    }
}
