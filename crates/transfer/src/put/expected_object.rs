//! Publishes an object, and asks whether the store has it when the response to the last request was lost (row F2).

use std::sync::{Mutex, MutexGuard, PoisonError};

use haul_plan::{Checksum, DigestAlgorithm};
use haul_s3::{MultipartUpload, S3Error, StoredObject, UploadedPart};
use http::StatusCode;

use super::context::UploadContext;
use super::error::PutError;

/// What the object must be if it is ours.
pub(super) struct ExpectedObject {
    pub(super) size: u64,
    /// Checksums of the whole, as far as haul has read the bytes.
    pub(super) checksums: Vec<Checksum>,
    /// Where there is no checksum to compare: the entity tag, if it follows from the bytes.
    pub(super) etag: Option<String>,
}

impl ExpectedObject {
    /// Sends the request that publishes the object until it succeeds or fails for good. The request of a failed attempt may have been
    /// successful all the same. So a Complete is sent again only after the store was asked about the `upload`; and a repeated request may
    /// be refused because an earlier one has done it: then the object is looked up.
    pub(super) async fn publish<F: Future<Output = Result<StoredObject, S3Error>>>(
        &self,
        context: &UploadContext,
        upload: Option<&MultipartUpload>,
        mut request: impl FnMut() -> F,
    ) -> Result<StoredObject, PutError> {
        // The failure of the last request.
        let last_failure = Mutex::new(None::<S3Error>);
        let published = context.send_with_slot(|| {
            let earlier = lock(&last_failure).clone();
            let (request, last_failure) = (request(), &last_failure);
            async move {
                if let (Some(earlier), Some(upload)) = (&earlier, upload)
                    && let Some(stored) = self.find_completed(context, upload, earlier).await?
                {
                    return Ok(stored);
                }
                match request.await {
                    Err(error) if earlier.is_some() && may_be_done(&error) => {
                        self.find(context).await?.ok_or(error)
                    }
                    Err(error) => {
                        *lock(last_failure) = Some(error.clone());
                        Err(error)
                    }
                    stored => stored,
                }
            }
        });
        let stored = published.await?;
        match self.is_same_content(&stored.checksums) {
            Some(false) => Err(PutError::Checksum {
                target: context.target.clone(),
            }),
            _ => Ok(stored),
        }
    }

    /// The object, if a Complete was successful although it ended with the failure `earlier`. `None` if the store still has the upload.
    ///
    /// A store that has neither of them is still joining the parts: the failure is returned again, so that it is asked again later.
    async fn find_completed(
        &self,
        context: &UploadContext,
        upload: &MultipartUpload,
        earlier: &S3Error,
    ) -> Result<Option<StoredObject>, S3Error> {
        match context.state.client.list_parts(upload).await {
            Ok(_) => Ok(None),
            Err(error) if error.is_not_found() => {
                let found = self.find(context).await?;
                found.map_or_else(|| Err(earlier.clone()), |stored| Ok(Some(stored)))
            }
            Err(error) if error.is_transient() => Err(error),
            // Whoever may upload need not be allowed to list.
            Err(_) => self.find(context).await,
        }
    }

    /// Whether these are checksums of the same bytes, if that can be said.
    fn is_same_content(&self, theirs: &[Checksum]) -> Option<bool> {
        theirs.iter().find_map(|theirs| {
            let mut ours = self.checksums.iter();
            let ours = ours.find(|ours| ours.algorithm == theirs.algorithm)?;
            Some(ours == theirs)
        })
    }

    /// The object that the store has, if it is this one.
    pub(super) async fn find(
        &self,
        context: &UploadContext,
    ) -> Result<Option<StoredObject>, S3Error> {
        let client = &context.state.client;
        let found = match client.head_object(&context.target).await {
            Err(error) if error.is_not_found() => return Ok(None),
            found => found?,
        };
        let is_ours = self
            .is_same_content(&found.checksums)
            .unwrap_or_else(|| self.etag.as_ref() == Some(&found.etag));
        Ok(
            (found.size == self.size && is_ours).then_some(StoredObject {
                etag: found.etag,
                checksums: found.checksums,
                version_id: found.version_id,
            }),
        )
    }
}

/// A panic under the lock is a bug, which the panicking task reports.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a repeated request may have been refused since an earlier one was successful: there is no upload any more, or there is an object.
fn may_be_done(error: &S3Error) -> bool {
    error.is_not_found() || error.status() == Some(StatusCode::PRECONDITION_FAILED)
}

/// The entity tag that S3 gives an object of these parts: the MD5 of their MD5s (row F7).
pub(super) fn multipart_etag(parts: &[UploadedPart]) -> Option<String> {
    let mut digests = haul_digest::DigestSet::new([DigestAlgorithm::Md5]);
    for part in parts {
        let bytes: Option<Vec<u8>> = (0..part.etag.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(part.etag.get(at..at + 2)?, 16).ok())
            .collect();
        digests.update(&bytes.filter(|bytes| bytes.len() == 16)?);
    }
    let digest = digests.finish().pop()?.digest;
    Some(format!("{}-{}", haul_digest::hex(&digest), parts.len()))
}
