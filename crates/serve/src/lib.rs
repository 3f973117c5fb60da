//! A file store over HTTP.
pub mod accept;
mod body;
mod conn;
mod http;
mod key;
pub mod listen;
mod sendfile;
pub mod access;
pub mod observe;
pub mod page;
pub mod store;
pub use crate::http::{Server, ServerOptions};
pub use key::{Key, KeyError, Named, RESERVED, RESERVED_PREFIX, escaped_name, is_reserved};
