//! `haul serve`.

use std::path::PathBuf;

use clap::Args;
use haul_serve::accept::Accept;
use haul_serve::listen::Address;
use haul_serve::store::Durability;

use super::values::Size;

/// `haul serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The folder whose files are served.
    #[arg(value_name = "DIR", default_value = ".")]
    pub(crate) folder: PathBuf,
    /// Where to listen: [HOST]:PORT, PORT, unix:PATH, systemd. Repeatable.
    #[arg(short, long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    pub(crate) listen: Vec<Address>,
    /// Let files be put and deleted.
    #[arg(short, long)]
    pub(crate) writable: bool,
    /// What an acknowledged upload has survived: none, file or full.
    #[arg(long, value_name = "LEVEL", default_value = "file")]
    pub(crate) durability: Durability,
    /// Take no larger uploads.
    #[arg(long, value_name = "SIZE")]
    pub(crate) max_body: Option<Size>,
    /// Hold no more bytes than this.
    #[arg(long, value_name = "SIZE")]
    pub(crate) quota: Option<Size>,
    /// The certificate to be met with, PEM.
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) cert: Option<PathBuf>,
    /// Its key, PEM.
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// How threads share a port: work-stealing, reuseport, round-robin or single.
    #[arg(long, value_name = "WAY", default_value_t)]
    pub(crate) accept: Accept,
    /// Threads that serve.
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Throw uploads away instead of writing them: null.
    #[arg(long, value_name = "null")]
    pub(crate) sink: Option<String>,
}
