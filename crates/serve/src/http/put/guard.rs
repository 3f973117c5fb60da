//! An upload in the hands of a request, which may be dropped at any moment.

use crate::store::{CommittedUpload, DiskThreads, StoreError, Upload};

/// An upload that ends, whoever drops it, where waiting is allowed.
pub(super) struct UploadGuard {
    /// `None` when it was given away.
    upload: Option<Box<Upload>>,
    disk: DiskThreads,
}

impl UploadGuard {
    /// Of one that has begun.
    pub(super) fn new(upload: Upload, disk: &DiskThreads) -> Self {
        Self {
            upload: Some(Box::new(upload)),
            disk: disk.clone(),
        }
    }

    /// It.
    #[expect(
        clippy::expect_used,
        reason = "it is given away by what consumes the holder's use of it"
    )]
    pub(super) fn upload(&mut self) -> &mut Upload {
        self.upload.as_mut().expect("it is held")
    }

    /// For whoever commits it.
    #[expect(clippy::expect_used, reason = "the same")]
    pub(super) fn give(&mut self) -> Upload {
        *self.upload.take().expect("it is held")
    }

    /// Commits it, if that can be done without waiting.
    pub(super) fn commit_now(&mut self) -> Option<Result<CommittedUpload, StoreError>> {
        match self.give().try_commit() {
            Ok(done) => Some(done),
            Err(upload) => {
                self.upload = Some(upload);
                None
            }
        }
    }
}

impl Drop for UploadGuard {
    fn drop(&mut self) {
        if let Some(upload) = self.upload.take() {
            // It is begun at once; nobody needs to wait for it.
            drop(self.disk.run(move || drop(upload)));
        }
    }
}
