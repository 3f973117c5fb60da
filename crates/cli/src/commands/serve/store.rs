//! Opens the store, and says in a user's words what is in the way.
//!
//! The store's own errors are made for answers to requests. Here they are about one folder, and about the room in it where
//! uploads are until they are whole.

use std::path::Path;
use std::sync::Arc;

use haul_serve::RESERVED_NAME;
use haul_serve::store::{FileStore, FileStoreOptions, StoreError, StoreRoot};

use crate::commands::service::command_error::CommandError;
use crate::message;

/// Opens a folder as a store. Blocks: with a quota, for a look at every file.
pub(super) fn open(
    folder: &Path,
    options: &FileStoreOptions,
) -> Result<Arc<FileStore>, CommandError> {
    match FileStore::open(folder, options.clone()) {
        Ok(store) => Ok(Arc::new(store)),
        // Whose fault it is: the folder's, or that of the room in it.
        Err(error) => match StoreRoot::open(folder) {
            Err(error) => Err(folder_error(folder, error)),
            Ok(_) => Err(upload_folder_error(folder, error)),
        },
    }
}

fn folder_error(folder: &Path, error: StoreError) -> CommandError {
    let shown = folder.display();
    match error {
        StoreError::NotFound => CommandError::local(format!("there is no folder {shown}"))
            .with_hint(if folder.to_string_lossy().contains("://") {
                "haul serve DIR serves a folder of this machine; haul get URL downloads".to_owned()
            } else {
                format!("make it first: mkdir -p {shown}")
            }),
        StoreError::Conflict | StoreError::IsFolder | StoreError::SpecialFile => {
            let above = folder.ancestors().find(|above| above.is_dir());
            let above = above.unwrap_or_else(|| Path::new("."));
            CommandError::local(format!("{shown} is not a folder")).with_hint(format!(
                "to serve the folder that it is in: haul serve {}",
                above.display()
            ))
        }
        StoreError::PermissionDenied => {
            CommandError::local(format!("no permission to read {shown}"))
                .with_hint("choose another folder, or run haul as somebody who may")
        }
        error => CommandError::local(format!(
            "cannot serve {shown}: {}",
            message::chain_text(&error)
        )),
    }
}

fn upload_folder_error(folder: &Path, error: StoreError) -> CommandError {
    let (shown, room) = (folder.display(), folder.join(RESERVED_NAME));
    let is_folder = room.symlink_metadata().is_ok_and(|meta| meta.is_dir());
    let room = room.display();
    match error {
        // The room is well; the one file in it that is opened is a link, or a folder.
        StoreError::Conflict | StoreError::NotFound | StoreError::IsFolder if is_folder => {
            CommandError::local(format!("{room}/lock is not a file")).with_hint(
                "haul makes it, to know of other servers of the same folder: remove what is there",
            )
        }
        StoreError::PermissionDenied => CommandError::local(format!(
            "no permission to write in {shown}"
        ))
        .with_hint(format!(
            "uploads are in {room} until they are whole; without -w/--writable nothing is written"
        )),
        StoreError::Conflict | StoreError::NotFound => {
            CommandError::local(format!("{room} is not a folder"))
                .with_hint("haul keeps uploads there until they are whole: move it away")
        }
        StoreError::NoSpace => CommandError::local(format!("no space is left in {shown}")),
        error => CommandError::local(format!(
            "cannot write in {shown}: {}",
            message::chain_text(&error)
        )),
    }
}
