//! `haul rm`.

use haul_transfer::bucket::{
    DeletionSummary, KeyPattern, NamedObjects, StoreSession, delete_named,
};

use super::super::run_loop::with_events;
use super::DeletionOutput;
use crate::args::RmArgs;
use crate::exit::ExitReason;
use crate::message::{self, JsonOutputs};

/// Deletes what the arguments name.
pub(super) async fn delete(args: &RmArgs, session: StoreSession) -> Result<ExitReason, ExitReason> {
    check_addresses(args)?;
    let output = DeletionOutput {
        dry_run: args.dry_run,
        json: args.json,
        quiet: args.quiet,
    };
    let named =
        |address| NamedObjects::new(address, args.recursive, !args.globoff, &args.filter.filter);
    let named: Vec<NamedObjects> = args.addresses.iter().map(named).collect();
    let (max, options) = (args.max_delete, output.options());
    let ended = with_events(
        |events| delete_named(&session, &named, max, options, events),
        |event| output.print(&event),
    );
    let result = ended.await?;
    if let Ok(DeletionSummary {
        deleted: 0,
        failed: 0,
        ..
    }) = result
    {
        let text = "there is nothing to delete";
        return Ok(JsonOutputs::default().report_failure(ExitReason::SomeFailed, text, None));
    }
    DeletionOutput::finish(result, JsonOutputs::default())
}

/// A bucket's objects are all deleted only if the user says so.
fn check_addresses(args: &RmArgs) -> Result<(), ExitReason> {
    let fail = |text: &str, hint| {
        JsonOutputs::default().report_failure(ExitReason::Usage, text, Some(hint))
    };
    for address in &args.addresses {
        if address.key.is_empty() && !args.recursive {
            let text = format!("{address} is a bucket");
            return Err(fail(&text, "-r deletes all of its objects"));
        }
        if address.key.ends_with('/') && !args.recursive && !KeyPattern::is_pattern(&address.key) {
            let text = format!("{} is a folder", message::sanitize(&address.to_string()));
            return Err(fail(&text, "-r deletes everything below it"));
        }
    }
    Ok(())
}
