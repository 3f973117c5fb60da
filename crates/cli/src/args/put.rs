//! Flags of `haul put`.

use std::path::PathBuf;

use clap::Args;
use haul_plan::DigestAlgorithm;

use super::get::ProgressKind;
use super::key_filter::KeyFilterArgs;
use super::network::{ConnectionArgs, LoginArgs};
use super::s3::S3Args;
use super::values::{SizeArg, connection_count, part_size};

/// Text below the flags.
const AFTER: &str = "\
SIZE takes k, M, G, T, powers of 1024; TIME takes ms, s, m, h, d, and seconds without a unit.
The same command continues an interrupted upload.
Exit codes: 0 done, 1 some of several failed, 2 usage, 3 the file changed or the store has other bytes,
4 local disk, 5 network or store, 130 interrupted.";

/// `haul put`.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub(crate) struct PutArgs {
    /// Files, with -r folders, or `-` for standard input; the last argument is the target: s3://BUCKET/KEY, s3://BUCKET/PREFIX/, or a URL.
    ///
    /// A file goes to the key or the URL itself, or below it if it ends with a slash or there are several files. To an http:// or https://
    /// URL haul sends each file with one PUT, as `curl -T` does: to haul serve -w, or to nginx with its dav module. To haul serve --s3 it
    /// sends a large file in parts, so that an interrupted upload can continue. -H, -u, --bearer and --netrc are for these URLs; the flags
    /// for objects are for s3:// only.
    #[arg(value_name = "FILE", required = true)]
    pub(crate) words: Vec<String>,
    /// Expected size of standard input: haul makes the parts large enough for it.
    ///
    /// Without this flag 156G fit. haul holds up to four parts in memory, or one part that is larger than 64M.
    #[arg(
        long,
        value_name = "SIZE",
        allow_negative_numbers = true,
        help_heading = "Speed"
    )]
    pub(crate) expected_size: Option<SizeArg>,
    /// Upload the files that LIST names, one path a line; `-` is standard input.
    ///
    /// The key of a file is the prefix and its path, without `./` or `/` at the beginning of the path. `find photos -name '*.jpg' |
    /// haul put -i - s3://BUCKET/` keeps the folders.
    #[arg(short, long, value_name = "LIST", conflicts_with = "abort")]
    pub(crate) input: Option<PathBuf>,
    /// Write a row for each file into FILE, and skip files that FILE lists as done and that still have the same content.
    ///
    /// FILE ends in .jsonl or .csv: url, path, state, bytes, checksum, etag, error.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["abort", "dry_run"])]
    pub(crate) manifest: Option<PathBuf>,
    /// Upload folders with everything below them.
    ///
    /// The content of FOLDER goes below the target: FOLDER/a/b becomes PREFIX/a/b. haul follows symbolic links to files.
    /// It reports each entry that is not a file or cannot be read as failed, and uploads the others.
    #[arg(short, long)]
    pub(crate) recursive: bool,
    /// With -r, follow symbolic links to folders, too.
    #[arg(long, requires = "recursive")]
    pub(crate) follow_links: bool,
    #[command(flatten)]
    pub(crate) filter: KeyFilterArgs,
    /// Show what haul would upload, or with --abort remove, and do nothing.
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// Remove the unfinished uploads of earlier runs of the same command.
    ///
    /// With s3://BUCKET/PREFIX alone, haul removes all unfinished uploads of keys that begin with PREFIX.
    #[arg(long, conflicts_with = "no_resume")]
    pub(crate) abort: bool,
    #[command(flatten)]
    pub(crate) resume: UploadResumeArgs,
    #[command(flatten)]
    pub(crate) conditions: PutConditionArgs,
    #[command(flatten)]
    pub(crate) object: ObjectArgs,
    #[command(flatten)]
    pub(crate) speed: UploadSpeedArgs,
    #[command(flatten)]
    pub(crate) login: LoginArgs,
    #[command(flatten)]
    pub(crate) s3: S3Args,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    #[command(flatten)]
    pub(crate) messages: MessageArgs,
}

/// How uploads are continued.
#[derive(Debug, Args)]
pub(crate) struct UploadResumeArgs {
    /// Do not continue an earlier upload, and leave nothing at the store if this one fails.
    #[arg(long)]
    pub(crate) no_resume: bool,
    /// Remember uploads in DIR, to continue them [default: $XDG_STATE_HOME/haul/uploads].
    #[arg(long, value_name = "DIR")]
    pub(crate) state_dir: Option<PathBuf>,
}

/// What must hold for an object to be stored, and how it is verified.
#[derive(Debug, Args)]
#[command(next_help_heading = "Object")]
pub(crate) struct PutConditionArgs {
    /// Store only if there is no object of that name.
    #[arg(long, conflicts_with = "if_match")]
    pub(crate) if_none_match: bool,
    /// Store only if the object has this entity tag.
    #[arg(long, value_name = "ETAG")]
    pub(crate) if_match: Option<String>,
    #[arg(long, value_name = "ALGO", value_parser = s3_checksum, help = s3_checksum_help())]
    pub(crate) checksum: Option<DigestAlgorithm>,
}

/// What the object will be.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Object")]
pub(crate) struct ObjectArgs {
    /// Media type [default: from the file's name].
    #[arg(long, value_name = "TYPE")]
    pub(crate) content_type: Option<String>,
    /// The object's Cache-Control.
    #[arg(long, value_name = "VALUE")]
    pub(crate) cache_control: Option<String>,
    /// The object's Content-Disposition.
    #[arg(long, value_name = "VALUE")]
    pub(crate) content_disposition: Option<String>,
    /// The object's Content-Encoding. The file is stored as it is.
    #[arg(long, value_name = "VALUE")]
    pub(crate) content_encoding: Option<String>,
    /// The object's Content-Language.
    #[arg(long, value_name = "VALUE")]
    pub(crate) content_language: Option<String>,
    /// Add metadata to the object. Repeatable.
    #[arg(long, value_name = "NAME=VALUE", value_parser = name_and_value)]
    pub(crate) metadata: Vec<(String, String)>,
    /// Do not keep the file's time and mode in the metadata.
    ///
    /// By default haul keeps them as rclone (mtime) and s3cmd (s3cmd-attrs) do.
    #[arg(long)]
    pub(crate) no_preserve: bool,
    /// Add a tag to the object. Repeatable.
    #[arg(long, value_name = "NAME=VALUE", value_parser = name_and_value)]
    pub(crate) tag: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) storage: StorageArgs,
}

/// How a store keeps an object, and who may read it.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Object")]
pub(crate) struct StorageArgs {
    /// Storage class, such as STANDARD_IA or GLACIER.
    #[arg(long, value_name = "CLASS")]
    pub(crate) storage_class: Option<String>,
    /// Canned ACL, such as public-read.
    #[arg(long, value_name = "ACL")]
    pub(crate) acl: Option<String>,
    /// Server-side encryption: AES256 or aws:kms.
    #[arg(long, value_name = "KIND")]
    pub(crate) sse: Option<String>,
    /// The KMS key for --sse aws:kms.
    #[arg(long, value_name = "ID", requires = "sse")]
    pub(crate) sse_kms_key_id: Option<String>,
}

/// Connections, parts and rate.
#[derive(Debug, Args)]
#[command(next_help_heading = "Speed")]
pub(crate) struct UploadSpeedArgs {
    /// Exactly N requests at a time [default: automatic, up to 16].
    #[arg(short = 'x', long, value_name = "N", value_parser = connection_count, allow_negative_numbers = true)]
    pub(crate) max_connections: Option<u16>,
    /// Size of parts, 5M to 5G [default: automatic, 5M to 64M for files of up to 625G].
    #[arg(long, value_name = "SIZE", value_parser = part_size, allow_negative_numbers = true)]
    pub(crate) part_size: Option<SizeArg>,
    /// Limit the total rate, in bytes a second.
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub(crate) limit_rate: Option<SizeArg>,
}

/// Progress and results.
#[derive(Debug, Args)]
#[command(next_help_heading = "Messages")]
pub(crate) struct MessageArgs {
    /// How to show progress on standard error.
    #[arg(long, value_enum, value_name = "KIND", default_value_t = ProgressKind::Auto)]
    pub(crate) progress: ProgressKind,
    /// Print one JSON object for each file on standard output.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print errors only.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

fn name_and_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("it is not NAME=VALUE".to_owned()),
    }
}

/// The help of `--checksum`, with the names of S3's algorithms.
fn s3_checksum_help() -> String {
    let is_choice = |algorithm: &DigestAlgorithm| {
        *algorithm != DigestAlgorithm::Crc64Nvme && algorithm.s3().is_some()
    };
    let names: Vec<&str> = DigestAlgorithm::ALL
        .into_iter()
        .filter(is_choice)
        .map(DigestAlgorithm::name)
        .collect();
    format!(
        "Send this checksum in place of CRC64NVME: {}",
        names.join(", ")
    )
}

fn s3_checksum(text: &str) -> Result<DigestAlgorithm, String> {
    let algorithm: DigestAlgorithm = text
        .parse()
        .map_err(|error: haul_plan::ChecksumError| error.to_string())?;
    match algorithm.s3() {
        Some(_) => Ok(algorithm),
        None => Err(format!("S3 has no {algorithm}")),
    }
}
