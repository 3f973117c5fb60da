//! A file store over HTTP.
pub mod accept;
pub mod access;
mod body;
mod conn;
mod http;
mod key;
pub mod listen;
pub mod observe;
pub mod page;
mod sendfile;
pub mod store;
pub use crate::http::{Server, ServerOptions};
pub use key::{Key, KeyError, Named, RESERVED, RESERVED_PREFIX, escaped_name, is_reserved};
