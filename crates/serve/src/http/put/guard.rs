//! An upload in a request's future, which may be dropped at any moment.

use crate::store::{CommittedUpload, DiskThreads, StoreError, Upload};

/// Discards an unfinished upload on a thread that may block, wherever the guard is dropped.
pub(super) struct UploadGuard {
    /// `None` once the upload was taken.
    upload: Option<Box<Upload>>,
    disk: DiskThreads,
}

impl UploadGuard {
    /// Guards an upload.
    pub(super) fn new(upload: Upload, disk: &DiskThreads) -> Self {
        Self {
            upload: Some(Box::new(upload)),
            disk: disk.clone(),
        }
    }

    #[expect(
        clippy::expect_used,
        reason = "it is given away by what consumes the holder's use of it"
    )]
    pub(super) fn upload(&mut self) -> &mut Upload {
        self.upload.as_mut().expect("it is held")
    }

    /// Takes the upload to commit it.
    #[expect(clippy::expect_used, reason = "the same")]
    pub(super) fn take(&mut self) -> Upload {
        *self.upload.take().expect("it is held")
    }

    /// Commits the upload if that needs no waiting.
    pub(super) fn try_commit(&mut self) -> Option<Result<CommittedUpload, StoreError>> {
        match self.take().try_commit() {
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
            // The task starts at once; nothing needs to wait for it.
            drop(self.disk.run(move || drop(upload)));
        }
    }
}
