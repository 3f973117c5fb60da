//! Lists for somebody who looks: a folder as such, or all objects of a selection.

use haul_s3::{ListedObject, ObjectListRequest, S3Address};

use super::lister::ListProgress;
use super::object_keys::KeyFilter;
use super::retries::BucketError;
use super::selection::{ObjectSelection, SelectedObjects};
use super::session::StoreSession;

/// A list that is read page by page.
#[derive(Debug)]
pub enum ObjectListing {
    /// What a folder would show.
    Folder(FolderObjects),
    /// All objects of a selection, whatever folders they are in.
    Selection(SelectedObjects),
}

/// A part of a list: its folders, then its objects, each in their order.
#[derive(Debug, Default)]
pub struct ListingPage {
    /// Keys of folders, with the slash at the end.
    pub folders: Vec<String>,
    pub objects: Vec<ListedObject>,
}

#[derive(Debug)]
pub struct FolderObjects {
    session: StoreSession,
    bucket: String,
    /// `None` behind the last page.
    request: Option<ObjectListRequest>,
    progress: ListProgress,
}

impl ObjectListing {
    /// Lists the objects that match an address with a pattern, everything below it that the filter leaves if it `is_recursive`, or what it
    /// would show as a folder.
    #[must_use]
    pub fn start(
        session: &StoreSession,
        address: &S3Address,
        is_pattern: bool,
        is_recursive: bool,
        filter: KeyFilter,
    ) -> Self {
        if is_pattern {
            Self::Selection(session.list(ObjectSelection::matching(address)))
        } else if is_recursive {
            Self::Selection(session.list(ObjectSelection::below(address.clone(), filter)))
        } else {
            Self::Folder(FolderObjects {
                session: session.clone(),
                bucket: address.bucket.clone(),
                request: Some(ObjectListRequest {
                    prefix: address.key.clone(),
                    delimiter: "/".to_owned(),
                    ..ObjectListRequest::default()
                }),
                progress: ListProgress::default(),
            })
        }
    }

    /// The next page; `None` at the end.
    ///
    /// # Errors
    /// The list ends with the error.
    pub async fn next_page(&mut self) -> Result<Option<ListingPage>, BucketError> {
        match self {
            Self::Folder(folder) => folder.next_page().await,
            Self::Selection(objects) => {
                let page = objects.next_page().await.transpose()?;
                Ok(page.map(|objects| ListingPage {
                    objects,
                    ..ListingPage::default()
                }))
            }
        }
    }
}

impl FolderObjects {
    async fn next_page(&mut self) -> Result<Option<ListingPage>, BucketError> {
        let Some(request) = self.request.take() else {
            return Ok(None);
        };
        let (client, bucket) = (&self.session.client, &self.bucket);
        let page = self
            .session
            .request(|| client.list_objects(bucket, &request))
            .await?;
        self.progress.check(bucket, &page)?;
        self.request = page.next_token.map(|token| ObjectListRequest {
            token: Some(token),
            ..request
        });
        Ok(Some(ListingPage {
            folders: page.prefixes,
            objects: page.objects,
        }))
    }
}
