//! What can be wrong with a Metalink document.

use haul_plan::DigestAlgorithm;

use crate::get::PieceDigestsError;

/// A Metalink document, or one file of it, cannot be used. A malformed document must not be used at
/// all: its end may be missing. If one file cannot be used, the others still can.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct MetalinkError {
    /// The line of the mistake, from 1 on.
    pub line: u64,
    /// The mistake.
    pub problem: MetalinkProblem,
}

impl MetalinkProblem {
    /// The problem of a digest with this type, which is shown up to a length.
    pub(super) fn unknown_digest(name: &str) -> Self {
        Self::UnknownDigest(name.chars().take(40).collect())
    }

    /// Whether the mistake affects one file alone: the rest of the document can be read.
    #[must_use]
    pub fn affects_one_file(&self) -> bool {
        match self {
            Self::UnknownEntity
            | Self::TextTooLong
            | Self::TooManyUrls
            | Self::UnusableName
            | Self::InvalidSize
            | Self::InvalidDigest(_)
            | Self::UnknownDigest(_)
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

/// A mistake in a document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MetalinkProblem {
    /// More than [`MAX_DOCUMENT_BYTES`](super::MAX_DOCUMENT_BYTES).
    #[error("the document is larger than {} MiB", super::MAX_DOCUMENT_BYTES >> 20)]
    DocumentTooLarge,
    /// Bytes that are not text.
    #[error("the document is not UTF-8")]
    NotUtf8,
    /// Not well-formed XML.
    #[error("{0}")]
    InvalidXml(String),
    /// A DTD, which Metalink does not need and attackers use.
    #[error("the document has a document type, which is not accepted")]
    DocumentType,
    /// Neither one of the five entities of XML nor a character reference.
    #[error("an unknown entity")]
    UnknownEntity,
    /// The document ends within an element.
    #[error("the document ends too early")]
    Truncated,
    /// More than 32 levels of elements.
    #[error("elements are nested too deeply")]
    NestedTooDeeply,
    /// More than 16 KiB in one element.
    #[error("a text is too long")]
    TextTooLong,
    /// Another root element or namespace.
    #[error("the document is not a Metalink document")]
    NotMetalink,
    /// More than [`MAX_FILES`](super::MAX_FILES).
    #[error("more than {} files", super::MAX_FILES)]
    TooManyFiles,
    /// More than [`MAX_URLS`](super::MAX_URLS).
    #[error("more than {} URLs for one file", super::MAX_URLS)]
    TooManyUrls,
    /// The name has no component that can be used.
    #[error("a file without a usable name")]
    UnusableName,
    /// A size that is not a number.
    #[error("a size that is not a number of bytes")]
    InvalidSize,
    /// The digest of an algorithm that haul does not know.
    #[error("{0:?} is a digest that haul cannot compare; it knows {names}", names = DigestAlgorithm::names())]
    UnknownDigest(String),
    /// Not the digits of a digest.
    #[error("a {0} digest is {len} hexadecimal digits", len = .0.digest_len() * 2)]
    InvalidDigest(DigestAlgorithm),
    /// A piece's number does not follow the one before.
    #[error("digests of pieces are not in order")]
    PiecesOutOfOrder,
    /// The digests of the pieces cannot be used.
    #[error(transparent)]
    InvalidPieces(#[from] PieceDigestsError),
    /// The pieces are those of a file of another size.
    #[error("the digests of pieces do not match the size of the file")]
    PieceCountMismatch,
}
