//! `haul ls`, `haul rm`, `haul presign`: commands about the objects of a store that move no bytes.
//!
//! Each is a task on a runtime that a first signal stops and a second one ends. Results go to standard output.

mod deletion;
mod ls;
mod presign;
mod rm;

use std::future::Future;
use std::process::ExitCode;

use haul_transfer::bucket::{BucketError, StoreSession};
use tokio_util::sync::CancellationToken;

use super::run_loop::{block_on, stop_on_signals};
use crate::args::{ConnectionArgs, LsArgs, PresignArgs, RmArgs, S3Args};
use crate::exit::ExitReason;
use crate::message::{self, JsonOutputs};
use crate::settings::{connection_config, retry_options, s3_config};
pub(crate) use deletion::DeletionOutput;

/// Lists buckets or objects.
pub(crate) fn ls(args: &LsArgs) -> ExitCode {
    let outputs = json_outputs(args.json);
    run(&args.s3, &args.connection, outputs, |session| {
        ls::list(args, session)
    })
}

/// Deletes objects.
pub(crate) fn rm(args: &RmArgs) -> ExitCode {
    let outputs = json_outputs(args.json);
    run(&args.s3, &args.connection, outputs, |session| {
        rm::delete(args, session)
    })
}

/// Prints a presigned URL.
pub(crate) fn presign(args: &PresignArgs) -> ExitCode {
    let outputs = JsonOutputs::default();
    run(&args.s3, &args.connection, outputs, |session| {
        presign::print(args, session)
    })
}

fn json_outputs(result: bool) -> JsonOutputs {
    JsonOutputs {
        result,
        progress: false,
    }
}

/// Connects to the store and runs a command with it.
pub(super) fn run<F: Future<Output = Result<ExitReason, ExitReason>>>(
    s3: &S3Args,
    connection: &ConnectionArgs,
    outputs: JsonOutputs,
    command: impl FnOnce(StoreSession) -> F,
) -> ExitCode {
    let run = || {
        let config = connection_config(connection, None).map_err(|error| error.report(outputs))?;
        block_on(outputs, async {
            let client = s3_config(s3).connect(config).await.map_err(|error| {
                outputs.report_failure(ExitReason::Usage, &message::chain_text(&error), None)
            })?;
            let stop = CancellationToken::new();
            let _signals = stop_on_signals(stop.clone()).map_err(|error| error.report(outputs))?;
            let retry = retry_options(connection);
            Box::pin(command(StoreSession {
                client,
                retry,
                stop,
            }))
            .await
        })
    };
    run().unwrap_or_else(|exit| exit).into()
}

/// Reports why a command could not go on.
pub(super) fn report(error: &BucketError, outputs: JsonOutputs) -> ExitReason {
    let exit = ExitReason::from_class(error.class());
    outputs.report_failure(
        exit,
        &message::chain_text(error),
        message::bucket_hint(error).as_deref(),
    )
}
