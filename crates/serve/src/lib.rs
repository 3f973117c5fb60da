//! A file store over HTTP.
pub mod access;
mod key;
pub mod observe;
pub mod store;
pub use key::{Key, KeyError, Named, RESERVED, RESERVED_PREFIX, escaped_name, is_reserved};
