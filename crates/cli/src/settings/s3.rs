//! Turns the flags for S3 stores into the dialect's settings.

use haul_s3::S3Config;

use crate::args::S3Args;

/// The settings of the S3 dialect. What no flag sets comes from AWS's variables and files.
pub(crate) fn s3_config(args: &S3Args) -> S3Config {
    S3Config {
        endpoint_url: args.endpoint_url.as_ref().map(|url| url.0.clone()),
        region: args.region.clone(),
        profile: args.profile.clone(),
        access_key: None,
        no_sign_request: args.no_sign_request,
        request_payer: args.request_payer,
        addressing_style: args.addressing_style,
    }
}
