//! What a job's file must be: its type, its size and its digests, as far as the user, a list, the origin or a document says.

use std::sync::Arc;

use haul_net::FetchResponse;
use haul_plan::{ExpectedDigest, ResourceVersion, expected_digests};
use http::StatusCode;
use url::Url;

use super::expected_digests::ExpectedDigests;
use super::first_request::FirstResponse;
use super::piece_verifier::PieceVerifier;
use super::{PieceChecks, PieceDigests};
use crate::disk::PartialStorage;
use crate::error::{GetError, VerificationError};
use crate::journal::JournalHeader;
use crate::options::{ConnectionCount, DownloadJob, GetOptions, JobOutput};
use crate::response::{ResponseContent, UnexpectedContent};
use crate::sources::IntegrityEvidence;

/// The name of a Metalink document, as the expected source of a digest.
pub(super) const DOCUMENT: &str = "the Metalink document";

/// What a job's file must be.
#[derive(Debug)]
pub(super) struct FileExpectations<'a> {
    job: &'a DownloadJob,
    options: &'a GetOptions,
    /// From a document that the origin leads to. The user did not ask for it, so it may be about another version.
    pub(super) document: DocumentDigests,
}

#[derive(Debug, Default)]
pub(super) struct DocumentDigests {
    pub(super) whole: Vec<ExpectedDigest>,
    pub(super) pieces: Option<PieceDigests>,
}

impl<'a> FileExpectations<'a> {
    pub(super) fn new(job: &'a DownloadJob, options: &'a GetOptions) -> Self {
        Self {
            job,
            options,
            document: DocumentDigests::default(),
        }
    }

    /// Whether a wrong digest is that of the document.
    pub(super) fn is_from_document(&self, error: &GetError) -> bool {
        let GetError::Verification { error, .. } = error else {
            return false;
        };
        match error {
            VerificationError::Checksum { expected_by, .. } => *expected_by == DOCUMENT,
            VerificationError::PieceDigest { .. } => self.has_document_pieces(),
            _ => false,
        }
    }

    /// Digests of pieces: the job's, else those of the document.
    pub(super) fn piece_digests(&self) -> Option<&PieceDigests> {
        let pieces = self.job.piece_digests.as_ref();
        pieces.or(self.document.pieces.as_ref())
    }

    /// Whether the digests of pieces are those of the document.
    pub(super) fn has_document_pieces(&self) -> bool {
        self.job.piece_digests.is_none() && self.document.pieces.is_some()
    }

    /// Whether the user or the document gives a digest to compare the bytes with.
    pub(super) fn has_digest(&self) -> bool {
        let checksums = &self.job.checksums;
        self.piece_digests().is_some() || checksums.iter().any(|sum| sum.digest.is_some())
    }

    /// The digests that the file of a response must have: the user's, and the origin's unless the bytes are decoded.
    pub(super) fn digests(
        &self,
        response: &FetchResponse,
        content: &ResponseContent,
    ) -> ExpectedDigests {
        // A digest of the response's content is one of the file where the content is all of it, as in the first part of a small file.
        let (is_whole, is_decoded) = match content {
            ResponseContent::Whole { coding, .. } => {
                (true, coding.is_some() && self.options.decode_content)
            }
            ResponseContent::Part { range, total, .. } => (*range == (0..*total), false),
            ResponseContent::Empty { .. } | ResponseContent::NotModified => (false, false),
        };
        let mut announced = Vec::new();
        if !is_decoded {
            announced = announced_digests(response, is_whole);
            announced.extend_from_slice(&self.document.whole);
        }
        ExpectedDigests {
            announced,
            piece_digests: self.piece_digests().is_some(),
            identify_version: !is_decoded && !response.redirect_digests.is_empty(),
            ..ExpectedDigests::of_user(&self.job.checksums)
        }
    }

    /// The digests that a file must have of which an earlier run left all bytes, so that no request is made.
    pub(super) fn saved_digests(&self, saved: &JournalHeader) -> ExpectedDigests {
        ExpectedDigests::of_user(&self.job.checksums).with_saved(saved)
    }

    /// Checks the type and the size of a first response, as far as its head says.
    ///
    /// # Errors
    /// [`VerificationError::UnexpectedContent`], [`VerificationError::WrongFile`].
    pub(super) fn check_head(&self, first: &FirstResponse, url: &Url) -> Result<(), GetError> {
        let length = match &first.content {
            ResponseContent::Part { total, .. } => Some(*total),
            ResponseContent::Whole { length, .. } => *length,
            ResponseContent::Empty { .. } => Some(0),
            ResponseContent::NotModified => return Ok(()),
        };
        let headers = &first.response.headers;
        let checked = self.options.expected_content.check_head(headers, length);
        checked.map_err(|source| unexpected(url, Some(first.response.status), source))?;
        let length = first.content.file_length();
        length.map_or(Ok(()), |length| self.check_size(url, length))
    }

    /// Refuses the page of a folder, unless the user chose a name for the file.
    ///
    /// # Errors
    /// [`VerificationError::FolderListing`].
    pub(super) fn check_not_folder(&self, response: &FetchResponse) -> Result<(), GetError> {
        let is_named = !matches!(self.job.output, JobOutput::Directory(_));
        if is_named || !haul_plan::is_folder_listing(&response.headers) {
            return Ok(());
        }
        Err(GetError::verification(
            haul_net::without_credentials(&response.url),
            VerificationError::FolderListing,
        ))
    }

    /// Checks the size of a whole file.
    ///
    /// # Errors
    /// [`VerificationError::UnexpectedContent`], [`VerificationError::WrongFile`].
    pub(super) fn check_length(&self, url: &Url, length: u64) -> Result<(), GetError> {
        let checked = self.options.expected_content.check_length(length);
        checked.map_err(|source| unexpected(url, None, source))?;
        self.check_size(url, length)
    }

    /// Checks that the size of the file that a source has is the expected one.
    ///
    /// # Errors
    /// [`VerificationError::WrongFile`].
    pub(super) fn check_size(&self, url: &Url, length: u64) -> Result<(), GetError> {
        let reason = match (self.job.expected_size, self.piece_digests()) {
            (Some(size), _) if size != length => {
                format!("it has {length} bytes, and {size} were expected")
            }
            (_, Some(pieces)) if !pieces.matches_length(length) => format!(
                "it has {length} bytes, and the digests of pieces are those of a file of another size"
            ),
            _ => return Ok(()),
        };
        Err(GetError::verification(
            haul_net::without_credentials(url),
            VerificationError::WrongFile { reason },
        ))
    }

    /// Checks the size that the job's list gives, for bytes that were handed on already.
    ///
    /// # Errors
    /// [`VerificationError::WrongFile`].
    pub(super) fn check_listed_size(&self, url: &Url, length: u64) -> Result<(), GetError> {
        match self.job.expected_size {
            Some(_) => self.check_size(url, length),
            None => Ok(()),
        }
    }

    /// What would show that bytes are not bytes of the file.
    pub(super) fn evidence(&self, digests: &ExpectedDigests) -> IntegrityEvidence {
        IntegrityEvidence {
            verified: digests.verifies(),
            piece_digests: digests.piece_digests,
            user_allows_joining: self.user_allows_joining(),
        }
    }

    /// Whether bytes of several responses may be joined to one file (row A7).
    pub(super) fn may_join(&self, version: &ResourceVersion, digests: &ExpectedDigests) -> bool {
        version.may_combine_responses(digests.verifies(), self.user_allows_joining())
    }

    /// Whether the user requested several connections, and so accepted joining responses without validators.
    fn user_allows_joining(&self) -> bool {
        matches!(self.options.connections, ConnectionCount::Fixed(n) if n > 1)
    }

    /// A verifier for the pieces of a file of this length, if there are digests for them.
    pub(super) fn verifier(
        &self,
        storage: Arc<dyn PartialStorage>,
        length: u64,
    ) -> Option<PieceVerifier> {
        let pieces = self.piece_digests()?.clone();
        let checks = PieceChecks::new(pieces, length)?;
        Some(PieceVerifier::new(checks, storage))
    }
}

/// The digests that a response, and the redirects to it, announce for the whole file.
pub(super) fn announced_digests(response: &FetchResponse, is_whole: bool) -> Vec<ExpectedDigest> {
    let mut announced = expected_digests(&response.headers, is_whole);
    announced.extend_from_slice(&response.redirect_digests);
    announced
}

fn unexpected(url: &Url, status: Option<StatusCode>, source: UnexpectedContent) -> GetError {
    GetError::verification(
        haul_net::without_credentials(url),
        VerificationError::UnexpectedContent { status, source },
    )
}
