//! The beginning of a target's answer, before the client hears it.
//!
//! Where a request was passed on, the head of its answer may be none of the client's business, or be for it in other words. So what the
//! target says is kept until somebody has made out what it is; what the client says goes on meanwhile, and the rest of the answer
//! then goes on as in any relay.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use haul_net::Error;

use super::direction::with_room;
use super::end::{RelayReader, RelayWriter};

/// Bytes that are kept at most. Whatever they are, they go on then.
const MOST: usize = 64 << 10;

/// Bytes that are looked at whenever there are more of them. Behind these it is once a line: somebody may send a byte at a time.
const OFTEN: usize = 512;

/// What somebody makes of the beginning of an answer.
#[derive(Debug)]
pub enum ResponseAction {
    /// More is needed to tell.
    Part,
    /// It is for the client as it is.
    Whatever,
    /// So many bytes are for the client as they are, and are not yet the answer.
    Before(usize),
    /// The client gets these words in place of so many bytes, and the rest as it is.
    Words(usize, Vec<u8>),
    /// It is not for the client.
    Refused(Box<Error>),
}

/// Who makes something of it.
pub struct ResponseObserver {
    hears: Box<ResponseObserverFn>,
    /// What it is when there is nothing to be heard.
    silence: Option<Box<Error>>,
}

type ResponseObserverFn = dyn FnMut(&[u8]) -> ResponseAction + Send;

impl ResponseObserver {
    /// One who is given all that came so far, without what he took for bytes before the answer.
    pub fn new(listener: impl FnMut(&[u8]) -> ResponseAction + Send + 'static) -> Self {
        Self {
            hears: Box::new(listener),
            silence: None,
        }
    }

    /// To whom an end without a word before it is this error, and not for the client.
    #[must_use]
    pub fn unless_silent(self, error: Error) -> Self {
        Self {
            silence: Some(Box::new(error)),
            ..self
        }
    }
}

impl fmt::Debug for ResponseObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listener")
    }
}

/// Why the rest does not go on.
#[derive(Debug)]
pub(super) enum ResponseReadError {
    /// It is not for the client.
    Refused(Box<Error>),
    /// The target broke.
    Reading(io::Error),
    /// The client did.
    Writing(io::Error),
}

/// An answer that is being heard.
#[derive(Debug)]
pub(super) struct ResponseReader {
    listener: ResponseObserver,
    /// What came, and was not made out.
    said: BytesMut,
    /// What the client gets before the answer.
    before: Bytes,
    /// Whether what came last is worth a look.
    is_news: bool,
}

impl ResponseReader {
    pub(super) fn new(listener: ResponseObserver, said: &[u8]) -> Self {
        Self {
            listener,
            said: said.into(),
            before: Bytes::new(),
            is_news: true,
        }
    }

    /// Ready when it is made out, with what goes on first.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        (from, to): (&mut RelayReader<'_>, &mut RelayWriter<'_>),
        moved: &AtomicU64,
    ) -> Poll<Result<Bytes, ResponseReadError>> {
        loop {
            while !self.before.is_empty() {
                let wrote =
                    ready!(to.poll_write(cx, &self.before)).map_err(ResponseReadError::Writing)?;
                self.before.advance(wrote);
                moved.fetch_add(wrote as u64, Ordering::Relaxed);
            }
            ready!(to.poll_flush(cx)).map_err(ResponseReadError::Writing)?;
            if std::mem::take(&mut self.is_news) {
                match (self.listener.hears)(&self.said) {
                    ResponseAction::Part if self.said.len() < MOST => {}
                    ResponseAction::Part | ResponseAction::Whatever => {
                        return Poll::Ready(Ok(self.given_up()));
                    }
                    ResponseAction::Words(length, words) => {
                        return Poll::Ready(Ok([&words, &self.said[length..]].concat().into()));
                    }
                    ResponseAction::Refused(error) => {
                        return Poll::Ready(Err(ResponseReadError::Refused(error)));
                    }
                    ResponseAction::Before(length) => {
                        self.before = self.said.split_to(length).freeze();
                        self.is_news = true;
                        continue;
                    }
                }
            }
            let read = with_room(|room| {
                let read = ready!(from.poll_read(cx, room))?;
                self.said.extend_from_slice(&room[..read]);
                let is_much = self.said.len() >= MOST;
                self.is_news = is_much || self.said.len() < OFTEN || room[..read].contains(&b'\n');
                Poll::Ready(Ok(read))
            });
            if ready!(read).map_err(ResponseReadError::Reading)? == 0 {
                return Poll::Ready(match self.listener.silence.take() {
                    Some(error) if self.said.is_empty() => Err(ResponseReadError::Refused(error)),
                    // An end is seen again by whoever reads on.
                    _ => Ok(self.given_up()),
                });
            }
        }
    }

    /// What came and was not made out.
    pub(super) fn given_up(&mut self) -> Bytes {
        std::mem::take(&mut self.said).freeze()
    }
}
