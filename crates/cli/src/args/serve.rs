//! `haul serve`, flag by flag: what is served, where, to whom, and how long anybody is waited for.
//!
//! Flags stand in groups, a struct and a heading each: who may do what and how that is secured in [`access`], limits and what
//! a running server does in [`running`]. What contradicts what is told by [`settings`](crate::settings), with a hint.

mod access;
mod running;

use std::path::PathBuf;

use clap::Args;
use haul_serve::store::UploadDurability;
use haul_service::listen::ListenAddress;
use http::HeaderValue;

use super::values::{SizeArg, cache_control, choice, listen_address, positive_number};
pub(crate) use access::{AccessArgs, CorsArgs, TlsArgs};
pub(crate) use running::{LimitArgs, RunningArgs};

/// What stands below the flags.
const AFTER: &str = "\
SIZE takes k, M, G, T, powers of 1024; TIME takes ms, s, m, h, d, and seconds without a unit.
SIGHUP reads certificates again and begins a new access log; Ctrl-C and SIGTERM let requests end.
Exit codes: 0 ended with all requests answered, 1 some were cut off, 2 usage, 4 local disk,
5 cannot listen, 130 ended by a second signal.";

/// `haul serve`.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub(crate) struct ServeArgs {
    /// The folder whose files are served.
    #[arg(value_name = "DIR", default_value = ".")]
    pub(crate) folder: PathBuf,
    /// Where to listen: HOST:PORT, PORT, unix:PATH, systemd. Repeatable.
    ///
    /// A PORT alone is this machine's, `:PORT` is every interface; port 0 is any free one. `unix:PATH?mode=660` says who may
    /// connect to a socket file; `systemd` takes the sockets that a .socket unit opened, `systemd:NAME` those of one name.
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
    pub(crate) tls: TlsArgs,
    #[command(flatten)]
    pub(crate) cors: CorsArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    #[command(flatten)]
    pub(crate) running: RunningArgs,
}

/// What may be done with the files, and what becomes of them.
#[derive(Debug, Args)]
#[command(next_help_heading = "Files")]
pub(crate) struct FileArgs {
    /// Let files be put and deleted.
    ///
    /// Everybody may, unless there are logins. Uploads are in DIR/.haul until they are whole; nobody sees part of one.
    #[arg(short, long)]
    pub(crate) writable: bool,
    /// What an acknowledged upload survives [default: file].
    #[arg(long, value_name = "LEVEL", value_parser = choice::<UploadDurability, 3>([
        ("none", "A crash of haul; a power cut may lose the file"),
        ("file", "A power cut leaves the old file or the new one, each whole"),
        ("full", "A power cut leaves the new one"),
    ]))]
    pub(crate) durability: Option<UploadDurability>,
    /// Take no larger uploads [default: what the disk has].
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub(crate) max_body: Option<SizeArg>,
    /// Hold no more bytes than this in all files together.
    ///
    /// What is there is counted at the start, by a look at every file. Where an upload would go beyond it is answered 507.
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub(crate) quota: Option<SizeArg>,
    /// Send files with this Cache-Control, as `max-age=3600`.
    #[arg(long, value_name = "VALUE", value_parser = cache_control)]
    pub(crate) cache_control: Option<HeaderValue>,
    /// Keep at most N files open between requests [default: 4096, or what ulimit -n has room for].
    #[arg(long, value_name = "N", value_parser = positive_number, allow_negative_numbers = true)]
    pub(crate) open_files: Option<usize>,
}
