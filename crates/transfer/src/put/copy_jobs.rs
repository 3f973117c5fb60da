//! The copies of objects inside a store: those that addresses name, each with its target.

use std::collections::{HashSet, VecDeque};

use haul_s3::S3Address;
use http::HeaderMap;
use tokio::runtime::Handle;

use super::job_source::FoundUpload;
use super::options::{SourceObject, UploadInput, UploadJob};
use crate::bucket::{NamedObjects, SelectedObjects, StoreSession};
use crate::input_error::InputError;

/// What is copied where.
#[derive(Debug)]
pub struct CopySettings {
    sources: VecDeque<NamedObjects>,
    /// If it ends with a slash, each object gets a key below it.
    target: S3Address,
    /// The fields of all copies.
    headers: HeaderMap,
}

/// Why objects cannot be copied to a target.
#[derive(Debug, thiserror::Error)]
pub enum CopyTargetError {
    /// A folder was named, and not what is below it.
    #[error("{0} is a folder")]
    IsFolder(S3Address),
    /// The copies would appear in the list that is being read.
    #[error("{target} is inside {listed}: copies would be copied again")]
    Inside {
        /// Where the copies go.
        target: S3Address,
        /// What is listed.
        listed: S3Address,
    },
}

impl CopySettings {
    /// Copies of these objects. Several go below the target, whether it ends with a slash or not.
    pub fn new(
        sources: Vec<NamedObjects>,
        mut target: S3Address,
        headers: HeaderMap,
    ) -> Result<Self, CopyTargetError> {
        let is_single = matches!(&*sources, [NamedObjects::One(_)]);
        if !is_single && !target.is_prefix() {
            target.key.push('/');
        }
        for source in &sources {
            match source {
                NamedObjects::One(object) if object.is_prefix() => {
                    return Err(CopyTargetError::IsFolder(object.clone()));
                }
                NamedObjects::One(_) => {}
                NamedObjects::Selection(selection) => {
                    if let Some(listed) = selection.address_around(&target).cloned() {
                        return Err(CopyTargetError::Inside { target, listed });
                    }
                }
            }
        }
        Ok(Self {
            sources: sources.into(),
            target,
            headers,
        })
    }

    /// How many objects there are, if no list has to say it.
    #[must_use]
    pub fn known_count(&self) -> Option<usize> {
        let mut sources = self.sources.iter();
        let is_known = sources.all(|source| matches!(source, NamedObjects::One(_)));
        is_known.then_some(self.sources.len())
    }
}

/// The copies, found as they are needed. Waits for the store, so it is for a thread that may wait.
#[derive(Debug)]
pub struct CopyJobs {
    settings: CopySettings,
    session: StoreSession,
    runtime: Handle,
    list: Option<SelectedObjects>,
    /// The names of objects that were named one by one. A later one of the same name would replace the copy.
    names: HashSet<String>,
    next_id: u64,
}

impl CopyJobs {
    /// The copies of objects of this store. To be called on a runtime.
    #[must_use]
    pub fn new(settings: CopySettings, session: StoreSession) -> Self {
        Self {
            settings,
            session,
            runtime: Handle::current(),
            list: None,
            names: HashSet::new(),
            next_id: 0,
        }
    }

    fn open(&mut self, source: NamedObjects) -> Option<FoundUpload> {
        let selection = match source {
            NamedObjects::One(source) => return Some(self.single(source)),
            NamedObjects::Selection(selection) => selection,
        };
        let _entered = self.runtime.enter();
        self.list = Some(self.session.list(selection));
        None
    }

    /// The copy of one object, whose size and version the store has to say.
    fn single(&mut self, object: S3Address) -> FoundUpload {
        let name = object.key.rsplit('/').next().unwrap_or_default().to_owned();
        if !self.names.insert(name.clone()) {
            return Err(InputError::CopyTargetTaken { object, name });
        }
        let session = &self.session;
        let head = session.request(|| session.client.head_object(&object));
        let found = self
            .runtime
            .block_on(head)
            .map_err(|error| InputError::Object(Box::new(error)))?;
        let source = SourceObject {
            address: object,
            size: found.size,
            etag: found.etag,
        };
        self.job(source, &name)
    }

    fn next_listed(&mut self) -> Option<FoundUpload> {
        let list = self.list.as_mut()?;
        match list.blocking_next() {
            Some(Ok(object)) => {
                let name = list.selection.name_of(&object.key).to_owned();
                let source = SourceObject {
                    address: list.selection.prefix.with_key(object.key),
                    size: object.size,
                    etag: object.etag,
                };
                Some(self.job(source, &name))
            }
            end => {
                self.list = None;
                end.and_then(Result::err).map(|error| Err(error.into()))
            }
        }
    }

    fn job(&mut self, source: SourceObject, name: &str) -> FoundUpload {
        let target = &self.settings.target;
        let target = if target.is_prefix() {
            target.with_key(format!("{}{name}", target.key))
        } else {
            target.clone()
        };
        if target == source.address {
            return Err(InputError::CopyToItself(target));
        }
        let id = self.next_id;
        self.next_id += 1;
        Ok(UploadJob {
            id,
            input: UploadInput::Object(source),
            target: target.into(),
            headers: self.settings.headers.clone(),
            conditions: HeaderMap::new(),
        })
    }
}

impl Iterator for CopyJobs {
    type Item = FoundUpload;

    fn next(&mut self) -> Option<Self::Item> {
        // A run that is stopped asks for no more; somebody who only looks has to be told.
        while !self.session.stop.is_cancelled() {
            if let Some(job) = self.next_listed() {
                return Some(job);
            }
            let source = self.settings.sources.pop_front()?;
            if let Some(job) = self.open(source) {
                return Some(job);
            }
        }
        None
    }
}
