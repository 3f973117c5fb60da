//! Flags of `haul serve`: what to serve, where, to whom, with which limits.
//!
//! Each group of flags is a struct with a heading: access and TLS in [`access`], limits and operation in [`running`].
//! [`settings`](crate::settings) reports flags that contradict each other, with a hint.

mod access;
mod running;

use std::path::PathBuf;

use clap::Args;
use haul_serve::store::UploadDurability;
use haul_service::listen::ListenAddress;
use http::HeaderValue;

use super::values::{SizeArg, cache_control, choice, listen_address, positive_number};
pub(crate) use access::{AccessArgs, CorsArgs, S3ServerArgs, TlsArgs};
pub(crate) use running::{LimitArgs, RunningArgs};

/// Text below the flags.
const AFTER: &str = "\
SIZE takes k, M, G, T, powers of 1024; TIME takes ms, s, m, h, d, and seconds without a unit.
SIGHUP reloads certificates and reopens the access log; Ctrl-C and SIGTERM finish requests.
Exit codes: 0 all requests finished, 1 some were cut off, 2 usage, 4 local disk,
5 cannot listen, 130 stopped by a second signal.";

/// `haul serve`.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub(crate) struct ServeArgs {
    /// The folder to serve [default: the current one].
    #[arg(value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
    /// Address to listen on: HOST:PORT, PORT, unix:PATH, systemd. Repeatable.
    ///
    /// PORT alone is on 127.0.0.1, `:PORT` is on every interface; port 0 is any free port. `unix:PATH?mode=660` sets the permissions of a
    /// socket file; `systemd` uses the sockets of a .socket unit, `systemd:NAME` those of one name.
    #[arg(
        short,
        long,
        value_name = "ADDRESS",
        value_parser = listen_address,
        default_value = "127.0.0.1:8080"
    )]
    pub(crate) listen: Vec<ListenAddress>,
    #[command(flatten)]
    pub(crate) files: FileArgs,
    #[command(flatten)]
    pub(crate) access: AccessArgs,
    #[command(flatten)]
    pub(crate) s3: S3ServerArgs,
    #[command(flatten)]
    pub(crate) tls: TlsArgs,
    #[command(flatten)]
    pub(crate) cors: CorsArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    #[command(flatten)]
    pub(crate) running: RunningArgs,
}

/// Uploads, and how files are served.
#[derive(Debug, Args)]
#[command(next_help_heading = "Files")]
pub(crate) struct FileArgs {
    /// Allow uploads and deletions.
    ///
    /// Without logins everybody may do both. An upload stays in DIR/.haul until it is complete; nobody sees an incomplete file.
    #[arg(short, long)]
    pub(crate) writable: bool,
    /// What an acknowledged upload survives [default: file].
    #[arg(long, value_name = "LEVEL", value_parser = choice([
        ("none", UploadDurability::None, "A crash of haul; a power cut may lose the file"),
        ("file", UploadDurability::File, "A power cut leaves the old file or the new one, each whole"),
        ("full", UploadDurability::Full, "A power cut leaves the new one"),
    ]))]
    pub(crate) durability: Option<UploadDurability>,
    /// Largest upload [default: the free space of the disk].
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub(crate) max_body: Option<SizeArg>,
    /// Limit the total size of all files.
    ///
    /// haul counts existing files at the start, by looking at each of them. An upload that would exceed the limit gets status 507.
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub(crate) quota: Option<SizeArg>,
    /// Send this Cache-Control with files, as `max-age=3600`.
    #[arg(long, value_name = "VALUE", value_parser = cache_control)]
    pub(crate) cache_control: Option<HeaderValue>,
    /// Keep at most N files open between requests [default: 4096, or less if ulimit -n is low].
    #[arg(long, value_name = "N", value_parser = positive_number, allow_negative_numbers = true)]
    pub(crate) open_files: Option<usize>,
}
