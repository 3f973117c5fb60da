//! The page's upload form: `multipart/form-data` (RFC 7578), streamed.
//!
//! [`FormReader`] reads the body and passes it to `MultipartParser`, which returns the heads of
//! parts and chunks of their contents. No part is held in memory; what is held is one chunk of the
//! body, the tail of the one before as long as a delimiter, and a head under its limit.
//!
//! Unlike a PUT, a form can be posted by any page on the web with the credentials that a browser
//! has for this server, without asking first. So the caller must check
//! [`is_cross_site`](crate::access::is_cross_site).

mod disposition;
mod parser;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};

use self::parser::{MultipartEvent, MultipartParser};
use crate::{ObjectKey, ObjectKeyError};

/// Maximum parts of a form, files or not. A browser that sends more at once has chosen a whole
/// tree.
pub const MAX_PARTS: usize = 1000;

/// Maximum bytes of a part's head.
pub const MAX_PART_HEAD: usize = 8 * 1024;

/// Maximum bytes before the first part; browsers send none.
pub const MAX_PREAMBLE: usize = 4 * 1024;

/// Why a form cannot be read, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum FormError {
    /// The content is not a form, or has no boundary: a 415.
    #[error("the content is not multipart/form-data with a boundary")]
    NotAForm,
    /// The form is malformed: a 400, like all that follow.
    #[error("the form is malformed: {0}")]
    Malformed(&'static str),
    #[error("the form has more than {MAX_PARTS} parts")]
    TooManyParts,
    /// A file's name is not valid as a key.
    #[error("a file's name is not usable: {0}")]
    FileName(#[source] ObjectKeyError),
    /// The body ended before the form did.
    #[error("the form ended early")]
    Truncated,
    /// The body could not be read.
    #[error("the body could not be read")]
    Body(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// A form that is being read.
///
/// Call [`next_file`](Self::next_file), then [`chunk`](Self::chunk) until it returns `None`, and
/// again, until there is no next file. A file is complete only when `chunk` has returned `None`:
/// after an error the current file must be discarded. Both are cancel safe, as nothing is consumed
/// before it is returned.
#[derive(Debug)]
pub struct FormReader<B> {
    /// The request's body.
    body: B,
    parser: MultipartParser,
    /// The folder that the files go to.
    folder: ObjectKey,
    /// Parts so far.
    parts: usize,
    /// Whether `chunk` has more of the current file.
    in_file: bool,
}

impl<B, E> FormReader<B>
where
    B: Stream<Item = Result<Bytes, E>> + Unpin,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    /// Reads a form whose files go to `folder`. `content_type` is the value of that field.
    ///
    /// # Errors
    /// When the content is not a form.
    pub fn new(content_type: &str, folder: ObjectKey, body: B) -> Result<Self, FormError> {
        let boundary = disposition::boundary(content_type).ok_or(FormError::NotAForm)?;
        Ok(Self {
            body,
            parser: MultipartParser::new(&boundary),
            folder,
            parts: 0,
            in_file: false,
        })
    }

    /// The next file's key: its name is the last segment of the name that the browser sent. `None`
    /// at the end of the form.
    ///
    /// Skips the rest of the current file, parts that are no files, and the empty part that a
    /// browser sends when no file was chosen.
    pub async fn next_file(&mut self) -> Result<Option<ObjectKey>, FormError> {
        self.in_file = false;
        loop {
            match self.next_event().await? {
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

    /// The next chunk of the current file; `None` when it is complete.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, FormError> {
        if !self.in_file {
            return Ok(None);
        }
        match self.next_event().await? {
            MultipartEvent::Data(bytes) => Ok(Some(bytes)),
            MultipartEvent::Part(_) | MultipartEvent::PartEnd | MultipartEvent::End => {
                self.in_file = false;
                Ok(None)
            }
        }
    }

    async fn next_event(&mut self) -> Result<MultipartEvent, FormError> {
        loop {
            if let Some(event) = self.parser.poll()? {
                return Ok(event);
            }
            match self.body.next().await {
                Some(Ok(bytes)) => self.parser.push(&bytes),
                Some(Err(error)) => return Err(FormError::Body(error.into())),
                None => return Err(FormError::Truncated),
            }
        }
    }
}

#[cfg(test)]
mod tests;
