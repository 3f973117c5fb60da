//! The page's upload form: `multipart/form-data` (RFC 7578), streamed.
//!
//! [`FormReader`] drives, [`MultipartParser`] decides: bytes go in as they come, and the heads of parts and pieces of their bodies
//! come out. No part is held; what is held is a piece of the body, a delimiter's length of the one before, and a head under its limit. (The
//! crate that is kept for this reads whatever is ready before it looks at any of it, and has no limit on a head.)
//!
//! A form can be posted from any page on the web with the credentials that a browser has for us, unlike a PUT, which it asks about
//! first. So whoever takes one has to ask [`is_cross_site`](crate::access::is_cross_site).

mod disposition;
mod parser;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};

use self::parser::{MultipartEvent, MultipartParser};
use crate::{ObjectKey, ObjectKeyError};

/// Parts of a form, files or not. A browser that sends more at once has chosen a whole tree.
pub const MAX_PARTS: usize = 1000;

/// Bytes of a part's head.
pub const MAX_PART_HEAD: usize = 8 * 1024;

/// Bytes before the first part, which a browser does not send at all.
pub const MAX_PREAMBLE: usize = 4 * 1024;

/// Why a form is not taken, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum FormError {
    /// The content is no form, or does not say where its parts begin: a 415.
    #[error("the content is no multipart/form-data with a boundary")]
    NotAForm,
    /// It is not written as a form is: a 400, like all that follow.
    #[error("the form is malformed: {0}")]
    Malformed(&'static str),
    /// Too many parts.
    #[error("the form has more than {MAX_PARTS} parts")]
    TooManyParts,
    /// A file has a name that no key can have.
    #[error("a file's name cannot be taken: {0}")]
    FileName(#[source] ObjectKeyError),
    /// The body ended before the form did.
    #[error("the form is cut off")]
    Truncated,
    /// The body could not be read.
    #[error("the body could not be read")]
    Body(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// A form that is being read.
///
/// [`next_file`](Self::next_file), then [`chunk`](Self::chunk) until it says `None`, then again, until there is no next file. A file is
/// complete when `chunk` has said `None`, and not before: any error means that what came of the current one must be thrown away. Both are
/// cancel safe, as nothing is taken out before it is given out.
#[derive(Debug)]
pub struct FormReader<B> {
    /// The request's body.
    body: B,
    splitter: MultipartParser,
    /// Where the files go.
    folder: ObjectKey,
    /// So far.
    parts: usize,
    /// Whether `chunk` has more of the current file.
    in_file: bool,
}

impl<B, E> FormReader<B>
where
    B: Stream<Item = Result<Bytes, E>> + Unpin,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    /// Begins to read a form whose files go to `folder`. `content_type` is the value of that field.
    ///
    /// # Errors
    /// When it is no form.
    pub fn new(content_type: &str, folder: ObjectKey, body: B) -> Result<Self, FormError> {
        let boundary = disposition::boundary(content_type).ok_or(FormError::NotAForm)?;
        Ok(Self {
            body,
            splitter: MultipartParser::new(&boundary),
            folder,
            parts: 0,
            in_file: false,
        })
    }

    /// The next file's key: its name is the last segment of what the browser said. `None` at the end of the form.
    ///
    /// What is left of the current file is passed over, and so is what is no file, and the empty part that a browser sends when
    /// none was chosen.
    ///
    /// # Errors
    /// See [`FormError`].
    pub async fn next_file(&mut self) -> Result<Option<ObjectKey>, FormError> {
        self.in_file = false;
        loop {
            match self.event().await? {
                MultipartEvent::Part(head) => {
                    self.parts += 1;
                    if self.parts > MAX_PARTS {
                        return Err(FormError::TooManyParts);
                    }
                    if let Some(name) = disposition::file_name(&head)? {
                        let key = self.folder.child(&name).map_err(FormError::FileName)?;
                        self.in_file = true;
                        return Ok(Some(key));
                    }
                }
                MultipartEvent::Data(_) | MultipartEvent::PartEnd => {}
                MultipartEvent::End => return Ok(None),
            }
        }
    }

    /// More of the current file; `None` when it is complete.
    ///
    /// # Errors
    /// See [`FormError`].
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, FormError> {
        if !self.in_file {
            return Ok(None);
        }
        match self.event().await? {
            MultipartEvent::Data(bytes) => Ok(Some(bytes)),
            MultipartEvent::Part(_) | MultipartEvent::PartEnd | MultipartEvent::End => {
                self.in_file = false;
                Ok(None)
            }
        }
    }

    async fn event(&mut self) -> Result<MultipartEvent, FormError> {
        loop {
            if let Some(event) = self.splitter.poll()? {
                return Ok(event);
            }
            match self.body.next().await {
                Some(Ok(bytes)) => self.splitter.push(&bytes),
                Some(Err(error)) => return Err(FormError::Body(error.into())),
                None => return Err(FormError::Truncated),
            }
        }
    }
}

#[cfg(test)]
mod tests;
