//! What uploads need of the command line: a client with connections enough, and the engine's options.

use haul_plan::DigestAlgorithm;
use haul_transfer::bucket::StoreSession;
use haul_transfer::put::{PutOptions, UploadJobSource};
use haul_transfer::{ConnectionCount, default_state_directory};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::input_error::report_input;
use crate::args::{
    ConnectionArgs, LoginArgs, MessageArgs, S3Args, UploadResumeArgs, UploadSpeedArgs,
};
use crate::exit::{ExitReason, ExitTally};
use crate::message::{self, JsonOutputs};
use crate::output;
use crate::report::upload_object;
use crate::settings::{add_login, connection_config, retry_options, s3_config};

/// The flags that say how to upload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UploadSettings<'a> {
    pub(crate) s3: &'a S3Args,
    pub(crate) connection: &'a ConnectionArgs,
    /// Requests at a time, if given.
    pub(crate) max_connections: Option<u16>,
    /// In bytes.
    pub(crate) part_size: Option<u64>,
    /// In bytes, of standard input.
    pub(crate) expected_size: Option<u64>,
    /// In bytes a second.
    pub(crate) limit_rate: Option<u64>,
    /// `None` where nothing can be resumed.
    pub(crate) resume: Option<&'a UploadResumeArgs>,
    pub(crate) checksum: Option<DigestAlgorithm>,
    /// The login for `http://` and `https://` URLs.
    pub(crate) login: Option<&'a LoginArgs>,
}

impl<'a> UploadSettings<'a> {
    /// The settings that every upload has.
    pub(crate) fn new(s3: &'a S3Args, connection: &'a ConnectionArgs) -> Self {
        Self {
            s3,
            connection,
            max_connections: None,
            part_size: None,
            expected_size: None,
            limit_rate: None,
            resume: None,
            checksum: None,
            login: None,
        }
    }

    /// With these numbers, of files that can be resumed.
    pub(crate) fn with_speed(self, speed: &UploadSpeedArgs, resume: &'a UploadResumeArgs) -> Self {
        Self {
            max_connections: speed.max_connections,
            part_size: speed.part_size.map(|size| size.0),
            limit_rate: speed.limit_rate.map(|size| size.0),
            resume: Some(resume),
            ..self
        }
    }

    /// How many requests are under way at a time.
    pub(crate) fn connections(&self) -> ConnectionCount {
        self.max_connections.map_or_else(
            || PutOptions::default().connections,
            |n| ConnectionCount::Fixed(n.into()),
        )
    }

    pub(crate) fn put_options(&self, session: &StoreSession) -> PutOptions {
        let state_directory = self.resume.and_then(|resume| {
            resume
                .state_dir
                .clone()
                .or_else(|| default_state_directory("uploads"))
        });
        PutOptions {
            connections: self.connections(),
            part_bytes: self.part_size,
            stream_bytes: self.expected_size,
            resume: self.resume.is_some_and(|resume| !resume.no_resume),
            state_directory,
            retry: session.retry.clone(),
            checksum: self.checksum,
            is_batch: false,
        }
    }
}

/// Connects to the store.
///
/// # Errors
/// The settings cannot be used; it has been reported.
pub(crate) async fn connect(
    settings: UploadSettings<'_>,
    outputs: JsonOutputs,
) -> Result<StoreSession, ExitReason> {
    let mut config =
        connection_config(settings.connection, None).map_err(|error| error.report(outputs))?;
    if let Some(login) = settings.login {
        add_login(login, &mut config).map_err(|error| error.report(outputs))?;
    }
    config.connector.rate_limit = settings.limit_rate;
    config.max_idle_per_host = config.max_idle_per_host.max(settings.connections().max());
    let client = s3_config(settings.s3)
        .connect(config)
        .await
        .map_err(|error| {
            outputs.report_failure(ExitReason::Usage, &message::chain_text(&error), None)
        })?;
    Ok(StoreSession {
        client,
        retry: retry_options(settings.connection),
        stop: CancellationToken::new(),
    })
}

/// Shows what would be done. `verb` is what would be done with each: upload, copy.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) async fn dry_run(
    messages: &MessageArgs,
    mut source: UploadJobSource,
    verb: &str,
    outputs: JsonOutputs,
) -> Result<ExitReason, ExitReason> {
    let mut tally = ExitTally::default();
    let mut count = 0;
    while let Some(job) = source.next().await {
        count += 1;
        let line = match job {
            Ok(job) if messages.json => {
                let mut object = upload_object(&job.input, &job.target);
                object.insert("dry_run".into(), true.into());
                Value::from(object).to_string()
            }
            Ok(job) => {
                let name = job.input.to_string();
                message::sanitize(&format!("would {verb} {name} to {}", job.target))
            }
            Err(error) => {
                tally.add(report_input(&error, outputs));
                continue;
            }
        };
        output::write_stdout_lines([line]).map_err(|error| output::report_write_error(&error))?;
        tally.add(ExitReason::Done);
    }
    Ok(tally.exit(count))
}
