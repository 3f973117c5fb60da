//! `haul ls`, `haul rm`, `haul presign`: commands about the objects of a store that move no bytes.
//!
//! Each is a task on a runtime that a first signal stops and a second one ends. Results go to standard output.

mod deletion;
mod ls;
mod presign;
mod rm;

use std::future::Future;
use std::process::ExitCode;

use haul_plan::RetryOptions;
use haul_s3::{S3Client, S3Error, S3ErrorKind};
use haul_transfer::bucket::BucketError;
use tokio_util::sync::CancellationToken;

use super::run_loop::{new_runtime, stop_on_signals};
use crate::args::{ConnectionArgs, LsArgs, PresignArgs, RmArgs, S3Args};
use crate::exit::ExitReason;
use crate::message::{self, JsonOutputs};
use crate::settings::{connection_config, retry_options, s3_config};

pub(crate) use deletion::{Deletion, DeletionOutput};

/// A store, and how requests to it are retried and stopped.
#[derive(Debug, Clone)]
pub(crate) struct StoreSession {
    pub(super) client: S3Client,
    pub(super) retry: RetryOptions,
    pub(super) stop: CancellationToken,
}

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
    let prepared = connection_config(connection, None).map_err(|error| {
        outputs.report_failure(
            error.exit_reason(),
            &message::chain_text(&error),
            error.hint(),
        )
    });
    let runtime = new_runtime().map_err(|error| {
        outputs.report_failure(ExitReason::LocalIo, &format!("cannot start: {error}"), None)
    });
    let (config, runtime) = match (prepared, runtime) {
        (Ok(config), Ok(runtime)) => (config, runtime),
        (Err(exit), _) | (_, Err(exit)) => return exit.into(),
    };
    let exit = runtime.block_on(async {
        let client = s3_config(s3).connect(config).await.map_err(|error| {
            outputs.report_failure(ExitReason::Usage, &message::chain_text(&error), None)
        })?;
        let stop = CancellationToken::new();
        let _signals = stop_on_signals(stop.clone()).map_err(|error| {
            outputs.report_failure(ExitReason::LocalIo, &message::chain_text(&error), None)
        })?;
        let retry = retry_options(connection);
        Box::pin(command(StoreSession {
            client,
            retry,
            stop,
        }))
        .await
    });
    runtime.shutdown_background();
    exit.unwrap_or_else(|exit| exit).into()
}

/// Reports why a command could not go on.
pub(super) fn report(error: &BucketError, outputs: JsonOutputs) -> ExitReason {
    match error {
        BucketError::Interrupted => {
            outputs.report_failure(ExitReason::Interrupted, "interrupted", None)
        }
        BucketError::Store(error) => {
            let exit = exit_reason(error);
            outputs.report_failure(
                exit,
                &message::chain_text(error),
                message::store_hint(error).as_deref(),
            )
        }
    }
}

pub(super) fn exit_reason(error: &S3Error) -> ExitReason {
    match &error.kind {
        S3ErrorKind::Address(_) => ExitReason::Usage,
        S3ErrorKind::Network(error) if *error.kind() == haul_net::Kind::InvalidRequest => {
            ExitReason::Usage
        }
        _ => ExitReason::Network,
    }
}
