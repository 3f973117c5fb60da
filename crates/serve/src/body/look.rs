//! Whether an open file is still what it was when it was opened.
//!
//! Its length and the time of its last writing tell. The time of change does not: that goes on when the file's name goes to another one, and this
//! one is sent to its end all the same.

use std::io;

use crate::store::Object;

/// Looks at an object. Waits for a disk where [`Object::is_remote`].
///
/// # Errors
/// When it is another than it was, or cannot be looked at.
pub(super) fn unchanged(object: &Object) -> io::Result<()> {
    let now = object.file().metadata()?;
    if now.len() == object.meta().len && now.modified()? == object.meta().modified {
        return Ok(());
    }
    Err(io::Error::other("the file was changed while it was sent"))
}
