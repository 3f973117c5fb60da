//! The store.
mod error;
mod list;
mod root;
pub use error::StoreError;
pub use list::{Begin, Cursor, CursorError, Entries, Entry, Folder, Kind, Page, PageAsk, Sort};
pub(crate) use list::{Opened, modified};
pub use root::Root;
