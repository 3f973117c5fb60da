//! A file store over HTTP.
pub mod access;
mod key;
pub mod observe;
pub mod page;
pub mod store;
pub use key::{Key, KeyError, Named, RESERVED, escaped_name};
