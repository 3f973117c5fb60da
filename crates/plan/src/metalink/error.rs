//! What can be wrong with a Metalink file.

use crate::checksum::DigestAlgorithm;
use crate::pieces::PieceDigestsError;

/// A Metalink document cannot be used, or one file of it. Of a document nothing should be used then: what follows the place may be
/// missing. The files around one that cannot be used are as good as ever.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct MetalinkError {
    /// Where: the line that was reached, from 1 on.
    pub line: u64,
    /// What.
    pub what: MetalinkProblem,
}

impl MetalinkProblem {
    /// Whether this is wrong with one file alone: the document can be read on behind it.
    #[must_use]
    pub fn is_of_one_file(&self) -> bool {
        match self {
            Self::Entity
            | Self::LongText
            | Self::Urls
            | Self::Name
            | Self::Size
            | Self::Digest(_)
            | Self::Order
            | Self::Pieces(_)
            | Self::Fit => true,
            Self::Large
            | Self::Encoding
            | Self::Xml(_)
            | Self::DocumentType
            | Self::Unfinished
            | Self::Deep
            | Self::Root
            | Self::Files => false,
        }
    }
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MetalinkProblem {
    /// More than anybody takes.
    #[error("the document is larger than {} MiB", super::LARGEST >> 20)]
    Large,
    /// Bytes that are no text.
    #[error("the document is not UTF-8")]
    Encoding,
    /// No XML.
    #[error("{0}")]
    Xml(String),
    /// A DTD, which Metalink has no use for and attackers have.
    #[error("the document has a document type, which is not accepted")]
    DocumentType,
    /// An entity that XML does not know by itself.
    #[error("an entity that XML does not have")]
    Entity,
    /// The document ends within an element.
    #[error("the document ends too early")]
    Unfinished,
    /// Elements in elements in elements.
    #[error("elements are nested too deeply")]
    Deep,
    /// A text without end.
    #[error("a text is too long")]
    LongText,
    /// Another kind of document.
    #[error("this is no Metalink document")]
    Root,
    /// More than anybody lists.
    #[error("more than {} files", super::FILES)]
    Files,
    /// More than anybody lists.
    #[error("more than {} URLs for one file", super::URLS)]
    Urls,
    /// A file without a name that can be used.
    #[error("a file without a usable name")]
    Name,
    /// A size that is no number.
    #[error("a size that is no number of bytes")]
    Size,
    /// A digest that is none.
    #[error("a {0} digest is {len} hexadecimal digits", len = .0.digest_len() * 2)]
    Digest(DigestAlgorithm),
    /// A piece's number does not follow the one before.
    #[error("digests of pieces are not in order")]
    Order,
    /// Pieces that cannot be those of anything.
    #[error(transparent)]
    Pieces(#[from] PieceDigestsError),
    /// Pieces of a file of another size.
    #[error("the digests of pieces are not those of a file of the size given")]
    Fit,
}
