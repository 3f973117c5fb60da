//! `haul presign`.

use std::time::Duration;

use haul_transfer::bucket::StoreSession;

use crate::args::PresignArgs;
use crate::exit::ExitReason;
use crate::message::{self, JsonOutputs};
use crate::output;

/// The longest that S3 accepts.
const MAX_EXPIRY: Duration = Duration::from_secs(7 * 24 * 3600);

/// Prints the URL. Nothing is asked of the store.
pub(super) async fn print(
    args: &PresignArgs,
    session: StoreSession,
) -> Result<ExitReason, ExitReason> {
    let fail = |exit, text: &str, hint| JsonOutputs::default().report_failure(exit, text, hint);
    if args.address.key.is_empty() {
        let text = "haul signs URLs of objects, and this is a bucket";
        return Err(fail(
            ExitReason::Usage,
            text,
            Some("name it as s3://BUCKET/KEY"),
        ));
    }
    if args.expires.0 > MAX_EXPIRY || args.expires.0.as_secs() == 0 {
        let text = "--expires: S3 accepts between one second and 7 days";
        return Err(fail(ExitReason::Usage, text, None));
    }
    let presigned = session
        .client
        .presign(&args.method, &args.address, args.expires.0);
    let url = presigned.await.map_err(|error| {
        let hint =
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or choose a profile with --profile";
        let text = format!("cannot sign: {}", message::chain_text(&*error));
        fail(ExitReason::Network, &text, Some(hint))
    })?;
    output::write_stdout_lines([url]).map_err(|error| output::report_write_error(&error))?;
    Ok(ExitReason::Done)
}
