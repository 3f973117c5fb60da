//! Uploads of `haul put`, `haul cp` and `haul sync`: what is found on one thread is sent by the engine, and reported here.

mod jobs;
mod manifest;
mod object_headers;
mod running;
mod session;

pub(crate) use jobs::{BadInput, FOLLOW_LINKS_HINT, FoundUpload, UploadJobSource, folder_problem};
pub(crate) use object_headers::{ObjectHeaders, field_value, storage_headers};
pub(crate) use running::UploadRun;
pub(crate) use session::{UploadSettings, connect, dry_run};
