//! A store that speaks enough S3 for the tests of a client, and fails as a test wants.
//!
//! Objects and uploads are in memory. Signatures are not verified. A test gives a rule that sees each request and may name a
//! [`StoreFault`]; it can look at objects, uploads and requests.

mod operations;
mod server;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::running_listener::{FirstPanic, RunningListener};

/// A running store with one bucket of any name.
#[derive(Debug)]
pub struct ObjectStore {
    listener: RunningListener,
    state: Arc<Mutex<StoreState>>,
}

/// What a request is answered with instead of what is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreFault {
    /// An error with this status and code. Nothing is done.
    Error(u16, &'static str),
    /// The connection is reset before the request is looked at.
    Reset,
    /// There is no response. Nothing is done.
    Silence,
    /// The request does its work, and the response is lost.
    LostResponse,
    /// The request does its work, and the response ends within its head.
    CutHead,
    /// The response ends after half of its body.
    CutBody,
    /// 200 with an error document of this code. Nothing is done.
    ErrorIn200(&'static str),
    /// 200 and half of the document. Nothing is done.
    CutDocument,
    /// 200 and this document. Nothing is done.
    Document(&'static str),
    /// 204, and nothing is done.
    Ignored,
    /// The request does its work, and the checksum in the response is another one.
    OtherChecksum,
}

/// A request as a rule and a test see it.
#[derive(Debug, Clone, Default)]
pub struct StoreRequest {
    /// The number of the request, from 0.
    pub number: usize,
    pub method: String,
    pub bucket: String,
    /// The key, decoded.
    pub key: String,
    /// Names and values of the query, decoded.
    pub query: BTreeMap<String, String>,
    /// Header fields with lower-case names.
    pub headers: BTreeMap<String, String>,
    pub body_length: usize,
}

/// An object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredBytes {
    pub bytes: Vec<u8>,
    /// The entity tag without its quotes.
    pub etag: String,
    /// Header fields that came with it.
    pub headers: BTreeMap<String, String>,
}

type FaultRule = Box<dyn FnMut(&StoreRequest) -> Option<StoreFault> + Send>;

/// What a store has, and how it fails.
pub(crate) struct StoreState {
    pub(crate) objects: BTreeMap<String, StoredBytes>,
    pub(crate) uploads: BTreeMap<String, PendingParts>,
    pub(crate) requests: Vec<StoreRequest>,
    pub(crate) rule: FaultRule,
    pub(crate) next_upload: usize,
    /// Parts and keys of a page.
    pub(crate) page_size: usize,
    /// Whether it refuses checksums in header fields.
    pub(crate) refuses_checksums: bool,
    /// Whether its entity tags are not MD5s.
    pub(crate) has_opaque_etags: bool,
    /// Whether its lists are without entity tags.
    pub(crate) lists_no_etags: bool,
}

/// An unfinished upload.
#[derive(Debug, Clone, Default)]
pub(crate) struct PendingParts {
    pub(crate) key: String,
    pub(crate) parts: BTreeMap<u32, StoredBytes>,
    pub(crate) headers: BTreeMap<String, String>,
}

impl std::fmt::Debug for StoreState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreState")
            .field("objects", &self.objects.keys())
            .finish_non_exhaustive()
    }
}

impl StoreRequest {
    /// Whether the query has a parameter.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.query.contains_key(name)
    }

    #[must_use]
    pub fn is_part(&self) -> bool {
        self.method == "PUT" && self.has("partNumber")
    }

    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.method == "POST" && self.has("uploadId")
    }
}

impl ObjectStore {
    /// Starts a store that works.
    pub async fn start() -> Self {
        Self::start_with(|_| None).await
    }

    /// Starts a store that fails by a rule.
    pub async fn start_with(
        rule: impl FnMut(&StoreRequest) -> Option<StoreFault> + Send + 'static,
    ) -> Self {
        let state = Arc::new(Mutex::new(StoreState {
            objects: BTreeMap::new(),
            uploads: BTreeMap::new(),
            requests: Vec::new(),
            rule: Box::new(rule),
            next_upload: 0,
            page_size: 1000,
            refuses_checksums: false,
            has_opaque_etags: false,
            lists_no_etags: false,
        }));
        let shared = Arc::clone(&state);
        let serve = move |stream| server::serve(Arc::clone(&shared), stream);
        let listener =
            RunningListener::start([127, 0, 0, 1].into(), FirstPanic::default(), serve).await;
        Self { listener, state }
    }

    /// The URL of the endpoint.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.listener.address)
    }

    fn lock(&self) -> MutexGuard<'_, StoreState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails by another rule from now on.
    pub fn set_rule(&self, rule: impl FnMut(&StoreRequest) -> Option<StoreFault> + Send + 'static) {
        self.lock().rule = Box::new(rule);
    }

    /// Gives lists in pages of so many parts or keys.
    pub fn set_page_size(&self, page_size: usize) {
        self.lock().page_size = page_size;
    }

    /// Refuses requests with checksums in header fields, as old stores do.
    pub fn refuse_checksums(&self) {
        self.lock().refuses_checksums = true;
    }

    /// Gives entity tags that look like MD5s and are none, as a store does that encrypts with keys of KMS.
    pub fn make_etags_opaque(&self) {
        self.lock().has_opaque_etags = true;
    }

    /// Leaves entity tags out of lists, as s3s-fs does.
    pub fn leave_etags_out_of_lists(&self) {
        self.lock().lists_no_etags = true;
    }

    #[must_use]
    pub fn object(&self, key: &str) -> Option<StoredBytes> {
        self.lock().objects.get(key).cloned()
    }

    pub fn insert(&self, key: &str, bytes: &[u8]) {
        self.insert_with_etag(key, bytes, &operations::md5_hex(bytes));
    }

    /// Stores an object with another entity tag than its MD5.
    pub fn insert_with_etag(&self, key: &str, bytes: &[u8], etag: &str) {
        let object = StoredBytes {
            bytes: bytes.to_vec(),
            etag: etag.to_owned(),
            headers: BTreeMap::new(),
        };
        self.lock().objects.insert(key.to_owned(), object);
    }

    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        self.lock().objects.keys().cloned().collect()
    }

    /// How many uploads are neither complete nor aborted.
    #[must_use]
    pub fn pending_uploads(&self) -> usize {
        self.lock().uploads.len()
    }

    /// Changes the entity tag of a part that the store has.
    pub fn change_part(&self, number: u32) {
        for upload in self.lock().uploads.values_mut() {
            if let Some(part) = upload.parts.get_mut(&number) {
                "other".clone_into(&mut part.etag);
            }
        }
    }

    /// Forgets all uploads, as their expiry does.
    pub fn forget_uploads(&self) {
        self.lock().uploads.clear();
    }

    /// All requests so far.
    #[must_use]
    pub fn requests(&self) -> Vec<StoreRequest> {
        self.lock().requests.clone()
    }

    /// How many requests match.
    #[must_use]
    pub fn count(&self, is_match: impl Fn(&StoreRequest) -> bool) -> usize {
        self.lock()
            .requests
            .iter()
            .filter(|request| is_match(request))
            .count()
    }
}
