//! Which objects an address names: one, those that match a pattern, or everything below a prefix.

use haul_s3::{ListedObject, S3Address};

use super::lister::{ListedPage, ObjectLister};
use super::retries::BucketError;
use super::{KeyFilter, KeyPattern};

/// The objects that an address names.
#[derive(Debug, Clone)]
pub enum NamedObjects {
    /// One, which no list is needed for.
    One(S3Address),
    /// Those of a list.
    Selection(ObjectSelection),
}

/// Objects of a list.
#[derive(Debug, Clone)]
pub struct ObjectSelection {
    /// What the user named, for messages.
    address: S3Address,
    pub prefix: S3Address,
    /// What keys must match as a whole.
    pattern: Option<KeyPattern>,
    /// What the part of a key behind the prefix must match.
    filter: KeyFilter,
    /// Length of the folder in the prefix. Names of files begin after it.
    folder_length: usize,
}

/// The objects of a selection, as a list brings them.
#[derive(Debug)]
pub struct SelectedObjects {
    /// Which these are.
    pub(crate) selection: ObjectSelection,
    pub(super) lister: ObjectLister,
    /// Those that have come, for [`Self::blocking_next`].
    pub(super) page: std::vec::IntoIter<ListedObject>,
    /// The number in the list of the object that came last.
    pub(crate) number: u64,
}

impl SelectedObjects {
    /// The next objects; `None` at the end.
    ///
    /// # Errors
    /// The list ends with the error.
    pub async fn next_page(&mut self) -> Option<ListedPage> {
        let mut page = self.lister.next_page().await?;
        if let Ok(objects) = &mut page {
            objects.retain(|object| self.selection.contains(object));
        }
        Some(page)
    }

    /// The next object, for a thread that may wait; `None` at the end.
    pub(crate) fn blocking_next(&mut self) -> Option<Result<ListedObject, BucketError>> {
        loop {
            for object in self.page.by_ref() {
                self.number += 1;
                if self.selection.contains(&object) {
                    return Some(Ok(object));
                }
            }
            match self.lister.blocking_next_page()? {
                Ok(page) => self.page = page.into_iter(),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl NamedObjects {
    /// The objects of an address: everything below it that the filter leaves, or the matches of a pattern, or itself.
    #[must_use]
    pub fn new(
        address: &S3Address,
        is_recursive: bool,
        has_patterns: bool,
        filter: &KeyFilter,
    ) -> Self {
        if is_recursive {
            let folder = address.clone().into_folder();
            return Self::Selection(ObjectSelection {
                address: address.clone(),
                ..ObjectSelection::below(folder, filter.clone())
            });
        }
        if has_patterns && KeyPattern::is_pattern(&address.key) {
            Self::Selection(ObjectSelection::matching(address))
        } else {
            Self::One(address.clone())
        }
    }

    #[must_use]
    pub fn bucket(&self) -> &str {
        match self {
            Self::One(address) => &address.bucket,
            Self::Selection(selection) => &selection.prefix.bucket,
        }
    }
}

impl ObjectSelection {
    /// Everything below a prefix.
    #[must_use]
    pub fn below(prefix: S3Address, filter: KeyFilter) -> Self {
        Self {
            folder_length: prefix.key.rfind('/').map_or(0, |slash| slash + 1),
            address: prefix.clone(),
            prefix,
            pattern: None,
            filter,
        }
    }

    /// What matches the pattern that a key is.
    #[must_use]
    pub fn matching(address: &S3Address) -> Self {
        let pattern = KeyPattern::parse(&address.key);
        let prefix = address.with_key(pattern.literal_prefix());
        Self {
            address: address.clone(),
            pattern: Some(pattern),
            ..Self::below(prefix, KeyFilter::default())
        }
    }

    /// The address, if the list could come to objects that are stored below `target` meanwhile.
    pub(crate) fn address_around(&self, target: &S3Address) -> Option<&S3Address> {
        let listed = match self.pattern {
            Some(_) => &self.prefix.key,
            None => &self.address.key,
        };
        let is_inside = target.bucket == self.prefix.bucket && target.key.starts_with(listed);
        is_inside.then_some(&self.address)
    }

    /// Whether a listed object is one of these.
    #[must_use]
    pub fn contains(&self, object: &ListedObject) -> bool {
        let key = object.key.as_str();
        match &self.pattern {
            Some(pattern) => pattern.matches(key),
            None => self
                .filter
                .accepts(key.strip_prefix(&self.prefix.key).unwrap_or(key)),
        }
    }

    /// The name that an object has elsewhere: its key without the folder of the prefix.
    #[must_use]
    pub fn name_of<'k>(&self, key: &'k str) -> &'k str {
        key.get(self.folder_length..).unwrap_or_default()
    }
}
