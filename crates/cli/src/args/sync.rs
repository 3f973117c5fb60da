//! Flags of `haul sync`.

use clap::Args;

use super::key_filter::KeyFilterArgs;
use super::network::{ConnectionArgs, DownloadLimitArgs};
use super::put::{MessageArgs, StorageArgs, UploadResumeArgs, UploadSpeedArgs};
use super::s3::S3Args;

/// Text below the flags.
const AFTER: &str = "\
haul copies a file if the destination lacks it, if the sizes differ, or if the source is newer. The date of an object is the time when
it was stored.
Exit codes: 0 done, 1 some of several failed, 2 usage, or more to delete than allowed, 3 verification,
4 local disk, 5 network or store, 130 interrupted.";

/// `haul sync`.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub(crate) struct SyncArgs {
    /// Where files come from: a folder, or s3://BUCKET/PREFIX/.
    #[arg(value_name = "SOURCE")]
    pub(crate) source: String,
    /// Where they go: s3://BUCKET/PREFIX/, or a folder if the source is not a folder.
    #[arg(value_name = "DESTINATION")]
    pub(crate) destination: String,
    /// Delete files that only the destination has, at the end and only if nothing failed.
    #[arg(long)]
    pub(crate) delete: bool,
    /// Delete nothing if there are more than N files to delete.
    #[arg(long, value_name = "N", requires = "delete")]
    pub(crate) max_delete: Option<u64>,
    /// Copy a file of the same size if its content differs, whatever the dates are.
    ///
    /// haul reads the files, and asks the store for the checksums of the objects. It copies an object without a checksum that it can compute
    /// from the bytes.
    #[arg(long)]
    pub(crate) checksum: bool,
    /// Copy only files that the destination already has.
    #[arg(long, conflicts_with = "ignore_existing")]
    pub(crate) existing: bool,
    /// Copy only files that the destination lacks.
    #[arg(long)]
    pub(crate) ignore_existing: bool,
    /// Skip files that are newer at the destination.
    #[arg(short, long)]
    pub(crate) update: bool,
    #[command(flatten)]
    pub(crate) filter: KeyFilterArgs<false>,
    /// Follow symbolic links to folders, too, on both sides.
    #[arg(long)]
    pub(crate) follow_links: bool,
    /// Show what haul would copy and delete, and do neither.
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) resume: UploadResumeArgs,
    #[command(flatten)]
    pub(crate) storage: StorageArgs,
    #[command(flatten)]
    pub(crate) speed: UploadSpeedArgs,
    #[command(flatten)]
    pub(crate) s3: S3Args,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    #[command(flatten)]
    pub(crate) limits: DownloadLimitArgs,
    #[command(flatten)]
    pub(crate) messages: MessageArgs,
}
