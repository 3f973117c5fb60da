//! Flags of the commands about objects of a store: `haul ls`, `haul rm`, `haul cp`, `haul presign`.

use clap::Args;
use haul_s3::S3Address;
use http::Method;

use super::key_filter::KeyFilterArgs;
use super::network::ConnectionArgs;
use super::put::{MessageArgs, StorageArgs};
use super::s3::S3Args;
use super::values::{DurationArg, SizeArg, connection_count, part_size, s3_address};

/// `haul ls`.
#[derive(Debug, Args)]
pub(crate) struct LsArgs {
    /// A bucket, a prefix, or keys with `*` and `?`; without one, haul lists the buckets.
    #[arg(value_name = "s3://BUCKET/PREFIX", value_parser = s3_address)]
    pub(crate) address: Option<S3Address>,
    /// List everything below the prefix, including the contents of folders.
    #[arg(short, long)]
    pub(crate) recursive: bool,
    /// Show date, size and storage class, too.
    #[arg(short, long)]
    pub(crate) long: bool,
    /// Show sizes as 1.5 MiB; implies --long.
    #[arg(short = 'H', long)]
    pub(crate) human: bool,
    /// List unfinished uploads in parts; `haul put --abort` removes them.
    #[arg(long, conflicts_with_all = ["recursive", "long", "human"])]
    pub(crate) uploads: bool,
    /// Print one JSON object for each entry.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print only the numbers of objects and bytes.
    #[arg(long, conflicts_with = "uploads")]
    pub(crate) summary: bool,
    #[command(flatten)]
    pub(crate) s3: S3Args,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}

/// `haul rm`.
#[derive(Debug, Args)]
pub(crate) struct RmArgs {
    /// Objects; with `*` and `?`, all that match; with -r, all below a folder.
    #[arg(value_name = "s3://BUCKET/KEY", required = true, value_parser = s3_address)]
    pub(crate) addresses: Vec<S3Address>,
    /// Delete everything below folders: s3://BUCKET/photos is all of `photos/`, and 's3://BUCKET/photos*' without -r also `photos.tar`.
    #[arg(short, long)]
    pub(crate) recursive: bool,
    /// Take `*`, `?` and `[` literally.
    #[arg(short, long)]
    pub(crate) globoff: bool,
    #[command(flatten)]
    pub(crate) filter: KeyFilterArgs,
    /// Delete nothing if there are more than N objects to delete.
    #[arg(long, value_name = "N")]
    pub(crate) max_delete: Option<u64>,
    /// Show what haul would delete, and delete nothing.
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// Print one JSON object for each object.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print errors only.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) s3: S3Args,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}

/// `haul cp`.
#[derive(Debug, Args)]
pub(crate) struct CpArgs {
    /// Objects, patterns with `*` and `?`, or with -r folders; the last argument is the target: s3://BUCKET/KEY or s3://BUCKET/PREFIX/.
    ///
    /// An object goes to the target's key itself, or below it if the key ends with a slash or there are several objects. With -r the part of
    /// a key below the folder stays the same.
    #[arg(value_name = "s3://BUCKET/KEY", required = true, num_args = 2.., value_parser = s3_address)]
    pub(crate) addresses: Vec<S3Address>,
    /// Copy everything below folders: s3://BUCKET/photos is all of `photos/`.
    #[arg(short, long)]
    pub(crate) recursive: bool,
    /// Take `*`, `?` and `[` literally.
    #[arg(short, long)]
    pub(crate) globoff: bool,
    #[command(flatten)]
    pub(crate) filter: KeyFilterArgs,
    /// Show what haul would copy, and copy nothing.
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) storage: StorageArgs,
    /// Exactly N requests at a time [default: automatic, up to 16].
    #[arg(short = 'x', long, value_name = "N", value_parser = connection_count, allow_negative_numbers = true)]
    pub(crate) max_connections: Option<u16>,
    /// Copy larger objects in parts of SIZE, 5M to 5G [default: objects above 5G in parts of 512M].
    #[arg(long, value_name = "SIZE", value_parser = part_size, allow_negative_numbers = true)]
    pub(crate) part_size: Option<SizeArg>,
    #[command(flatten)]
    pub(crate) s3: S3Args,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    #[command(flatten)]
    pub(crate) messages: MessageArgs,
}

/// `haul presign`.
#[derive(Debug, Args)]
pub(crate) struct PresignArgs {
    /// The object.
    #[arg(value_name = "s3://BUCKET/KEY", value_parser = s3_address)]
    pub(crate) address: S3Address,
    /// How long the URL is valid, at most 7 days.
    #[arg(long, value_name = "TIME", default_value = "1h")]
    pub(crate) expires: DurationArg,
    /// What the URL allows: GET, PUT, HEAD or DELETE.
    #[arg(long, value_name = "METHOD", default_value = "GET", value_parser = presigned_method)]
    pub(crate) method: Method,
    #[command(flatten)]
    pub(crate) s3: S3Args,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}

fn presigned_method(text: &str) -> Result<Method, String> {
    match text.to_ascii_uppercase().as_str() {
        "GET" => Ok(Method::GET),
        "PUT" => Ok(Method::PUT),
        "HEAD" => Ok(Method::HEAD),
        "DELETE" => Ok(Method::DELETE),
        _ => Err("it is not GET, PUT, HEAD or DELETE".to_owned()),
    }
}
