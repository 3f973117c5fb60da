//! The store.
mod error;
mod root;
pub use error::StoreError;
pub use root::Root;
