//! Addresses and patterns of objects, as arguments name them.

use haul_s3::S3Address;
use haul_transfer::bucket::{KeyFilter, KeyPattern, KeyRule, NamedObjects};
use pyo3::prelude::*;

use crate::errors::HaulError;
use crate::settings::argument;

/// `include=` and `exclude=`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct FilterArguments {
    include: Vec<String>,
    exclude: Vec<String>,
}

/// Objects of a store.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct ObjectArguments {
    addresses: Vec<String>,
    recursive: bool,
    glob: bool,
    filter: FilterArguments,
}

impl FilterArguments {
    pub(crate) fn is_given(&self) -> bool {
        !self.include.is_empty() || !self.exclude.is_empty()
    }

    /// What is excluded is excluded whatever includes it: the last rule counts.
    pub(crate) fn filter(&self) -> KeyFilter {
        let patterns = |texts: &[String], rule: fn(KeyPattern) -> KeyRule| {
            let parsed = texts.iter().map(|text| rule(KeyPattern::parse(text)));
            parsed.collect::<Vec<_>>()
        };
        let mut rules = patterns(&self.include, KeyRule::Include);
        rules.extend(patterns(&self.exclude, KeyRule::Exclude));
        KeyFilter::new(rules)
    }
}

impl ObjectArguments {
    /// The objects that each address names.
    ///
    /// # Errors
    /// An address that cannot be used, or a filter without a folder.
    pub(crate) fn named(&self, name: &str) -> Result<Vec<NamedObjects>, HaulError> {
        if self.filter.is_given() && !self.recursive {
            let text = "include and exclude: they choose among what is below a folder";
            return Err(HaulError::usage(text).with_hint("add recursive=True"));
        }
        let filter = self.filter.filter();
        let named = self.addresses.iter().map(|text| {
            let address = object_address(name, text)?;
            self.check(&address)?;
            let objects = NamedObjects::new(&address, self.recursive, self.glob, &filter);
            Ok(objects)
        });
        named.collect()
    }

    /// All objects of a bucket or a folder are meant only if the caller says so.
    fn check(&self, address: &S3Address) -> Result<(), HaulError> {
        let is_pattern = self.glob && KeyPattern::is_pattern(&address.key);
        if self.recursive || is_pattern || !address.is_prefix() {
            return Ok(());
        }
        let what = if address.key.is_empty() {
            "bucket"
        } else {
            "folder"
        };
        let error = HaulError::usage(format!("{address} is a {what}"));
        Err(error.with_hint("recursive=True means everything below it"))
    }
}

/// An address of a store.
///
/// # Errors
/// The text is none.
pub(crate) fn object_address(name: &str, text: &str) -> Result<S3Address, HaulError> {
    let address = argument(name, text.parse::<S3Address>());
    address.map_err(|error| error.with_hint("an address looks like s3://BUCKET/KEY"))
}
