//! What can be wrong with a Metalink file.

use crate::checksum::DigestAlgorithm;
use crate::piece_digests::PieceDigestsError;

/// A Metalink document cannot be used, or one file of it. Of a document nothing should be used then: what follows the place may be
/// missing. The files around one that cannot be used are as good as ever.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct MetalinkError {
    /// Where: the line that was reached, from 1 on.
    pub line: u64,
    /// What.
    pub problem: MetalinkProblem,
}

impl MetalinkProblem {
    /// Whether this is wrong with one file alone: the document can be read on behind it.
    #[must_use]
    pub fn affects_one_file(&self) -> bool {
        match self {
            Self::UnknownEntity
            | Self::TextTooLong
            | Self::TooManyUrls
            | Self::UnusableName
            | Self::InvalidSize
            | Self::InvalidDigest(_)
            | Self::PiecesOutOfOrder
            | Self::InvalidPieces(_)
            | Self::PieceCountMismatch => true,
            Self::DocumentTooLarge
            | Self::NotUtf8
            | Self::InvalidXml(_)
            | Self::DocumentType
            | Self::Truncated
            | Self::NestedTooDeeply
            | Self::NotMetalink
            | Self::TooManyFiles => false,
        }
    }
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MetalinkProblem {
    /// More than anybody takes.
    #[error("the document is larger than {} MiB", super::MAX_DOCUMENT_BYTES >> 20)]
    DocumentTooLarge,
    /// Bytes that are no text.
    #[error("the document is not UTF-8")]
    NotUtf8,
    /// No XML.
    #[error("{0}")]
    InvalidXml(String),
    /// A DTD, which Metalink has no use for and attackers have.
    #[error("the document has a document type, which is not accepted")]
    DocumentType,
    /// An entity that XML does not know by itself.
    #[error("an entity that XML does not have")]
    UnknownEntity,
    /// The document ends within an element.
    #[error("the document ends too early")]
    Truncated,
    /// Elements in elements in elements.
    #[error("elements are nested too deeply")]
    NestedTooDeeply,
    /// A text without end.
    #[error("a text is too long")]
    TextTooLong,
    /// Another kind of document.
    #[error("this is no Metalink document")]
    NotMetalink,
    /// More than anybody lists.
    #[error("more than {} files", super::MAX_FILES)]
    TooManyFiles,
    /// More than anybody lists.
    #[error("more than {} URLs for one file", super::MAX_URLS)]
    TooManyUrls,
    /// A file without a name that can be used.
    #[error("a file without a usable name")]
    UnusableName,
    /// A size that is no number.
    #[error("a size that is no number of bytes")]
    InvalidSize,
    /// A digest that is none.
    #[error("a {0} digest is {len} hexadecimal digits", len = .0.digest_len() * 2)]
    InvalidDigest(DigestAlgorithm),
    /// A piece's number does not follow the one before.
    #[error("digests of pieces are not in order")]
    PiecesOutOfOrder,
    /// Pieces that cannot be those of anything.
    #[error(transparent)]
    InvalidPieces(#[from] PieceDigestsError),
    /// Pieces of a file of another size.
    #[error("the digests of pieces are not those of a file of the size given")]
    PieceCountMismatch,
}
