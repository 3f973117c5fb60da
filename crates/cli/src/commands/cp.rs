//! `haul cp`: copies objects inside a store.

use std::process::ExitCode;

use haul_transfer::bucket::NamedObjects;
use haul_transfer::put::{CopyJobs, CopySettings, CopyTargetError, UploadJobSource};

use super::objects::report;
use super::run_loop::{RunLoop, block_on};
use super::uploads::{UploadRun, UploadSettings, connect, dry_run};
use crate::args::{CpArgs, ProgressKind};
use crate::exit::ExitReason;
use crate::message::JsonOutputs;
use crate::output;
use crate::settings::storage_headers;

/// Copies what the arguments name.
pub(crate) fn run(args: &CpArgs) -> ExitCode {
    let outputs = JsonOutputs {
        result: args.messages.json,
        progress: args.messages.progress == ProgressKind::Json,
    };
    copy(args, outputs).unwrap_or_else(|exit| exit).into()
}

fn copy(args: &CpArgs, outputs: JsonOutputs) -> Result<ExitReason, ExitReason> {
    let copies = settings(args, outputs)?;
    if args.messages.json {
        output::check_stdout().map_err(|error| output::report_write_error(&error))?;
    }
    block_on(outputs, Box::pin(run_copies(args, copies, outputs)))
}

/// What is copied where.
fn settings(args: &CpArgs, outputs: JsonOutputs) -> Result<CopySettings, ExitReason> {
    let fail = |text: &str, hint| outputs.report_failure(ExitReason::Usage, text, hint);
    let Some((target, sources)) = args.addresses.split_last() else {
        return Err(fail("there is nothing to copy", None));
    };
    let named =
        |source| NamedObjects::new(source, args.recursive, !args.globoff, &args.filter.filter);
    let headers = storage_headers(&args.storage).map_err(|error| error.report(outputs))?;
    let settings = CopySettings::new(sources.iter().map(named).collect(), target.clone(), headers);
    settings.map_err(|error| {
        let hint = match error {
            CopyTargetError::IsFolder(_) => "-r copies everything below it",
            CopyTargetError::Inside { .. } => "choose a target outside of it",
        };
        fail(&error.to_string(), Some(hint))
    })
}

async fn run_copies(
    args: &CpArgs,
    copies: CopySettings,
    outputs: JsonOutputs,
) -> Result<ExitReason, ExitReason> {
    let settings = UploadSettings {
        max_connections: args.max_connections,
        part_size: args.part_size.map(|size| size.0),
        ..UploadSettings::new(&args.s3, &args.connection)
    };
    let mut session = connect(settings, outputs).await?;
    let (run_loop, events) = RunLoop::start().map_err(|error| error.report(outputs))?;
    session.stop = run_loop.stop();
    let known_count = copies.known_count();
    let source = UploadJobSource::from_iterator(CopyJobs::new(copies, session.clone()));
    if args.dry_run {
        let exit = dry_run(&args.messages, source, "copy", outputs).await?;
        return Ok(match session.check_stop() {
            Err(error) if exit != ExitReason::Interrupted => report(&error, outputs),
            _ => exit,
        });
    }
    let run = UploadRun {
        messages: &args.messages,
        options: settings.put_options(&session),
        session,
        source,
        known_count,
        manifest: None,
        run_loop,
        events,
    };
    let (report, mut renderer) = Box::pin(run.run()).await;
    if report.summary.counts.listed == 0 && !report.summary.counts.is_interrupted() {
        let text = "there is nothing to copy";
        return Ok(outputs.report_failure(ExitReason::SomeFailed, text, None));
    }
    let hint = "the same command copies them again";
    Ok(report.finish(args.messages.quiet, hint, &mut *renderer))
}
