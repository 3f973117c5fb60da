//! Flags for S3 stores, the same for every command that reads or writes `s3://` addresses.

use clap::Args;
use haul_s3::AddressingStyle;

use super::values::{HttpUrl, choice};

/// S3 stores.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "S3")]
pub(crate) struct S3Args {
    /// The store's URL, unless it is AWS [default: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the profile's endpoint_url].
    #[arg(long, value_name = "URL")]
    pub(crate) endpoint_url: Option<HttpUrl>,
    /// The region [default: AWS_REGION, the profile's, us-east-1].
    ///
    /// haul finds the region of each bucket by itself; this one saves a request.
    #[arg(long, value_name = "REGION")]
    pub(crate) region: Option<String>,
    /// The profile of AWS's files [default: AWS_PROFILE].
    ///
    /// haul finds credentials as AWS's own programs do: variables, ~/.aws/credentials and config (also SSO, assumed roles and
    /// credential_process), web identities, and the metadata services of ECS and EC2. With --profile, haul ignores the variables.
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Send requests without a signature, for public buckets.
    #[arg(long, conflicts_with = "profile")]
    pub(crate) no_sign_request: bool,
    /// Pay for requests to buckets that charge the requester.
    #[arg(long)]
    pub(crate) request_payer: bool,
    /// Where URLs name the bucket.
    #[arg(long, value_name = "STYLE", default_value = "auto", value_parser = choice([
        ("auto", AddressingStyle::Auto, "in the host name at AWS, in the path elsewhere"),
        ("path", AddressingStyle::Path, "in the path"),
        ("virtual", AddressingStyle::Virtual, "in the host name"),
    ]))]
    pub(crate) addressing_style: AddressingStyle,
}
