//! A file store over HTTP.
mod key;
pub mod access;
pub mod observe;
pub use key::{Key, KeyError, Named, RESERVED, escaped_name};
