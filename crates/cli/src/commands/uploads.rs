//! Uploads of `haul put`, `haul cp` and `haul sync`: the settings of the engine, and what is printed about its events.

mod input_error;
mod results;
mod session;

pub(crate) use input_error::{input_exit, input_message, report_input};
pub(crate) use results::UploadRun;
pub(crate) use session::{UploadSettings, connect, dry_run};
