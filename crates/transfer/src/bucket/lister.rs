//! Lists the objects below a prefix, in the byte order of their keys.
//!
//! A store returns a thousand keys a request, so a list of a million takes a thousand requests one after the other. If the first page
//! is not all, the prefix is split at its folders, and several of these are listed at a time. They are put out in their order: all keys
//! of a folder stand together, wherever a key without its slash stands. A prefix with a great many folders is not split, for each would
//! cost a request.

use std::collections::VecDeque;

use haul_s3::{ListedObject, ObjectListRequest, ObjectPage, S3Address, S3Client, S3Error};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::retries::{BucketError, retrying};
use crate::recovery::RetryOptions;

/// How many folders are listed at a time.
const PARALLEL_LISTS: usize = 8;

/// Pages of each list that wait for their turn.
const PAGES_AHEAD: usize = 4;

/// A prefix with more folders is listed as a whole.
const MAX_SPLIT: usize = 500;

/// How many folders with a single folder in them haul enters to find a place to split.
const MAX_DESCENT: usize = 8;

/// More consecutive pages without an object are an endless list. A store that hides deleted objects may have some.
const MAX_EMPTY_PAGES: u32 = 1000;

/// A page of objects, or why there are no more.
pub type ListedPage = Result<Vec<ListedObject>, BucketError>;

/// A list on its way. Dropped, it ends.
#[derive(Debug)]
pub struct ObjectLister {
    pages: mpsc::Receiver<ListedPage>,
    tasks: JoinSet<()>,
    /// For a thread that waits.
    runtime: Handle,
}

/// What the tasks of a list share.
#[derive(Clone)]
struct ListContext {
    client: S3Client,
    bucket: String,
    retry: RetryOptions,
    stop: CancellationToken,
}

/// Something in the order of keys.
enum ListItem {
    Object(ListedObject),
    /// All keys that begin with this.
    Folder(String),
}

impl ObjectLister {
    /// Lists all objects whose keys begin with the address's key.
    #[must_use]
    pub fn start(
        client: S3Client,
        prefix: &S3Address,
        retry: RetryOptions,
        stop: CancellationToken,
    ) -> Self {
        let context = ListContext {
            client,
            bucket: prefix.bucket.clone(),
            retry,
            stop,
        };
        let key = prefix.key.clone();
        Self::run(|sender| async move { Box::pin(context.list(key, &sender)).await })
    }

    /// Runs a task that sends pages.
    fn run<F>(list: impl FnOnce(mpsc::Sender<ListedPage>) -> F) -> Self
    where
        F: Future<Output = Result<(), BucketError>> + Send + 'static,
    {
        let (sender, pages) = mpsc::channel(PAGES_AHEAD);
        let listing = list(sender.clone());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            if let Err(error) = listing.await {
                // A closed channel is not an error.
                let _ = sender.send(Err(error)).await;
            }
        });
        Self {
            pages,
            tasks,
            runtime: Handle::current(),
        }
    }

    /// The next objects, for a thread that may wait; `None` at the end. A panic of the list is passed on, as by [`Self::next_page`].
    pub fn blocking_next_page(&mut self) -> Option<ListedPage> {
        let runtime = self.runtime.clone();
        runtime.block_on(self.next_page())
    }

    /// The next objects; `None` at the end. Cancel safe.
    ///
    /// # Errors
    /// The list ends with the error.
    pub async fn next_page(&mut self) -> Option<ListedPage> {
        let page = self.pages.recv().await;
        if page.is_none() {
            // A panic is passed on: a list without its end must not look complete.
            while let Some(ended) = self.tasks.join_next().await {
                if let Err(error) = ended
                    && error.is_panic()
                {
                    std::panic::resume_unwind(error.into_panic());
                }
            }
        }
        page
    }
}

impl ListContext {
    /// Lists a prefix, split where that is worth it.
    async fn list(
        &self,
        prefix: String,
        sender: &mpsc::Sender<ListedPage>,
    ) -> Result<(), BucketError> {
        let mut progress = ListProgress::default();
        let mut first = self.page(&self.request(&prefix)).await?;
        progress.check(&self.bucket, &first)?;
        let objects = std::mem::take(&mut first.objects);
        let last = objects
            .last()
            .map_or_else(String::new, |object| object.key.clone());
        if !send(sender, objects).await || first.next_token.is_none() {
            return Ok(());
        }
        match self.split(&prefix).await? {
            Some(items) => self.list_items(items, &last, sender).await,
            None => {
                let rest = ObjectListRequest {
                    token: first.next_token,
                    ..self.request(&prefix)
                };
                self.list_flat(rest, progress, sender).await
            }
        }
    }

    /// The objects and folders of a prefix in the order of keys, if it is worth listing the folders one by one.
    async fn split(&self, prefix: &str) -> Result<Option<Vec<ListItem>>, BucketError> {
        let mut prefix = prefix.to_owned();
        for _ in 0..MAX_DESCENT {
            let request = ObjectListRequest {
                delimiter: "/".to_owned(),
                ..self.request(&prefix)
            };
            let page = self.page(&request).await?;
            if page.next_token.is_some() || page.prefixes.len() > MAX_SPLIT {
                return Ok(None);
            }
            match (page.prefixes.as_slice(), page.objects.is_empty()) {
                ([], _) => return Ok(None),
                ([only], true) => prefix.clone_from(only),
                _ => return Ok(Some(in_order(page))),
            }
        }
        Ok(None)
    }

    /// Lists items, folders several at a time. Keys up to `last` have been listed before.
    async fn list_items(
        &self,
        items: Vec<ListItem>,
        last: &str,
        sender: &mpsc::Sender<ListedPage>,
    ) -> Result<(), BucketError> {
        let is_new = |item: &ListItem| match item {
            ListItem::Object(object) => object.key.as_str() > last,
            ListItem::Folder(folder) => folder.as_str() > last || last.starts_with(folder),
        };
        let mut waiting: VecDeque<ListItem> = items.into_iter().filter(is_new).collect();
        let mut started: VecDeque<StartedItem> = VecDeque::new();
        loop {
            while started.len() < PARALLEL_LISTS
                && let Some(item) = waiting.pop_front()
            {
                started.push_back(match item {
                    ListItem::Object(object) => StartedItem::Object(object),
                    ListItem::Folder(folder) => {
                        StartedItem::Folder(self.start_folder(folder, last))
                    }
                });
            }
            match started.pop_front() {
                None => return Ok(()),
                Some(StartedItem::Object(object)) => {
                    let mut page = vec![object];
                    while let Some(StartedItem::Object(_)) = started.front()
                        && let Some(StartedItem::Object(object)) = started.pop_front()
                    {
                        page.push(object);
                    }
                    if !send(sender, page).await {
                        return Ok(());
                    }
                }
                Some(StartedItem::Folder(mut lister)) => {
                    while let Some(page) = lister.next_page().await {
                        if !send(sender, page?).await {
                            return Ok(());
                        }
                    }
                }
            }
        }
    }

    fn start_folder(&self, folder: String, last: &str) -> ObjectLister {
        let context = self.clone();
        let mut request = self.request(&folder);
        if last.starts_with(&folder) {
            last.clone_into(&mut request.start_after);
        }
        ObjectLister::run(|sender| async move {
            let progress = ListProgress::default();
            context.list_flat(request, progress, &sender).await
        })
    }

    /// Lists page after page.
    async fn list_flat(
        &self,
        mut request: ObjectListRequest,
        mut progress: ListProgress,
        sender: &mpsc::Sender<ListedPage>,
    ) -> Result<(), BucketError> {
        loop {
            let page = self.page(&request).await?;
            progress.check(&self.bucket, &page)?;
            if !send(sender, page.objects).await {
                return Ok(());
            }
            match page.next_token {
                None => return Ok(()),
                token => request.token = token,
            }
        }
    }

    async fn page(&self, request: &ObjectListRequest) -> Result<ObjectPage, BucketError> {
        retrying(&self.retry, &self.stop, || {
            self.client.list_objects(&self.bucket, request)
        })
        .await
    }

    fn request(&self, prefix: &str) -> ObjectListRequest {
        ObjectListRequest {
            prefix: prefix.to_owned(),
            ..ObjectListRequest::default()
        }
    }
}

/// Sees whether the pages of a list advance, beyond what their tokens say (row F36).
#[derive(Debug, Default)]
pub struct ListProgress {
    /// The last key or prefix of the page before.
    last_name: String,
    /// Pages without an object or prefix, one after the other.
    empty_pages: u32,
}

impl ListProgress {
    /// Looks at the next page.
    ///
    /// # Errors
    /// The list does not advance.
    pub fn check(&mut self, bucket: &str, page: &ObjectPage) -> Result<(), S3Error> {
        let last_key = page.objects.last().map(|object| &object.key);
        let last_name = last_key.max(page.prefixes.last());
        let reason = match last_name {
            _ if page.next_token.is_none() => return Ok(()),
            None if self.empty_pages == MAX_EMPTY_PAGES => "one page after the other is empty",
            None => {
                self.empty_pages += 1;
                return Ok(());
            }
            Some(last) if *last == self.last_name => "a page has the objects of the page before",
            Some(last) => {
                last.clone_into(&mut self.last_name);
                self.empty_pages = 0;
                return Ok(());
            }
        };
        Err(S3Error::stuck_list(bucket, reason))
    }
}

/// An item whose turn comes soon.
enum StartedItem {
    Object(ListedObject),
    Folder(ObjectLister),
}

/// Sends a page unless it is empty; false when nobody listens any more.
async fn send(sender: &mpsc::Sender<ListedPage>, page: Vec<ListedObject>) -> bool {
    page.is_empty() || sender.send(Ok(page)).await.is_ok()
}

/// Objects and folders of one page, merged.
fn in_order(page: ObjectPage) -> Vec<ListItem> {
    let mut items: Vec<ListItem> = page
        .objects
        .into_iter()
        .map(ListItem::Object)
        .chain(page.prefixes.into_iter().map(ListItem::Folder))
        .collect();
    items.sort_by(|a, b| a.key().cmp(b.key()));
    items
}

impl ListItem {
    fn key(&self) -> &str {
        match self {
            Self::Object(object) => &object.key,
            Self::Folder(prefix) => prefix,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever takes a list without its end for a complete one deletes what was not listed.
    #[tokio::test]
    async fn f28_a_panic_does_not_end_a_list_as_if_it_were_complete() {
        let list = || {
            ObjectLister::run(|sender| async move {
                assert!(send(&sender, Vec::new()).await);
                panic!("of the test");
            })
        };
        let waiting = tokio::task::spawn_blocking(move || list().blocking_next_page());
        assert!(waiting.await.unwrap_err().is_panic());
    }
}
