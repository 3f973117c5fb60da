//! Opens the store, with errors for people.
//!
//! The store's errors are made for responses to requests. Here they are about one folder, and about the folder in it for unfinished
//! uploads.

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
        // Which of the two folders is the cause.
        Err(error) => match StoreRoot::open(folder) {
            Err(error) => Err(folder_error(folder, error)),
            Ok(_) => Err(upload_folder_error(folder, error)),
        },
    }
}

fn folder_error(folder: &Path, error: StoreError) -> CommandError {
    let shown = folder.display();
    match error {
        StoreError::NotFound => CommandError::local(format!("the folder {shown} does not exist"))
            .with_hint(if folder.to_string_lossy().contains("://") {
                "haul serve DIR serves a folder of this machine; haul get URL downloads".to_owned()
            } else if shown.to_string().parse::<u16>().is_ok() {
                format!("to listen on port {shown}: haul serve -l {shown}; -l :{shown} for every interface")
            } else {
                format!("create it: mkdir -p {shown}")
            }),
        StoreError::Conflict | StoreError::IsFolder | StoreError::SpecialFile => {
            let parent = folder.ancestors().find(|parent| parent.is_dir()).unwrap_or_else(|| Path::new("."));
            CommandError::local(format!("{shown} is not a folder")).with_hint(format!(
                "to serve the folder that it is in: haul serve {}",
                parent.display()
            ))
        }
        StoreError::PermissionDenied => {
            CommandError::local(format!("no permission to read {shown}"))
                .with_hint("choose another folder, or run haul as a user who may read it")
        }
        error => CommandError::local(format!(
            "cannot serve {shown}: {}",
            message::chain_text(&error)
        )),
    }
}

fn upload_folder_error(folder: &Path, error: StoreError) -> CommandError {
    let (shown, upload_folder) = (folder.display(), folder.join(RESERVED_NAME));
    let is_folder = upload_folder
        .symlink_metadata()
        .is_ok_and(|meta| meta.is_dir());
    let upload_folder = upload_folder.display();
    match error {
        // The folder is fine; its lock file is a link, or a folder.
        StoreError::Conflict | StoreError::NotFound | StoreError::IsFolder if is_folder => {
            CommandError::local(format!("{upload_folder}/lock is not a file")).with_hint(
                "haul creates a file of this name to detect other servers of the folder: remove it",
            )
        }
        StoreError::PermissionDenied => CommandError::local(format!(
            "no permission to write in {shown}"
        ))
        .with_hint(format!(
            "uploads are in {upload_folder} until they are complete; without -w/--writable haul writes nothing"
        )),
        StoreError::Conflict | StoreError::NotFound => {
            CommandError::local(format!("{upload_folder} is not a folder"))
                .with_hint("haul keeps uploads there until they are complete: move the file away")
        }
        StoreError::NoSpace => CommandError::local(format!("no space is left in {shown}")),
        error => CommandError::local(format!(
            "cannot write in {shown}: {}",
            message::chain_text(&error)
        )),
    }
}
