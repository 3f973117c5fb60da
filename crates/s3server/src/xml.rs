//! XML of requests and responses.
//!
//! `reader` reads a document element by element, within limits; `requests` has the documents that
//! operations take. `writer` writes responses. Namespaces are ignored, as S3 itself does: clients
//! send the right one, an old one or none.

mod reader;
mod requests;
mod writer;

pub(crate) use requests::{
    CompletedPart, MAX_COMPLETE_DOCUMENT, MAX_DELETE_DOCUMENT, MAX_SMALL_DOCUMENT, ObjectToDelete,
    parse_complete_upload, parse_create_bucket, parse_delete, parse_tagging,
};
pub(crate) use writer::{KeyEncoding, XmlDocument};
