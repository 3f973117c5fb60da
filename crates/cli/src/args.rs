//! The command line as it is typed. [`settings`](crate::settings) turns it into options of the library crates.

mod batch;
mod bench;
mod get;
mod given;
mod key_filter;
mod network;
mod objects;
mod parse_problem;
mod peer;
mod put;
mod s3;
mod serve;
mod sign;
mod sync;
mod tunnel;
mod values;

use std::ffi::OsString;

use clap::{ArgAction, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

pub(crate) use batch::{BatchArgs, LayoutKind, OnErrorArg};
pub(crate) use bench::{BenchArgs, BenchCommand, BenchLoadArgs, BenchRunArgs};
pub(crate) use get::{GetArgs, GetMessageArgs, OutputArgs, ProgressKind};
pub(crate) use given::{GivenOptionError, GivenOptions, OptionSource, Sourced, option_names};
pub(crate) use network::{ConnectionArgs, DownloadLimitArgs, LoginArgs};
pub(crate) use objects::{CpArgs, LsArgs, PresignArgs, RmArgs};
pub(crate) use parse_problem::{argument_name, context_strings, is_value_missing, value_problem};
pub(crate) use peer::{AddressArgs, PeerTlsArgs, ProxyTlsArgs};
pub(crate) use put::{
    MessageArgs, ObjectArgs, PutArgs, PutConditionArgs, StorageArgs, UploadResumeArgs,
    UploadSpeedArgs,
};
pub(crate) use s3::S3Args;
pub(crate) use serve::{
    AccessArgs, CorsArgs, FileArgs, LimitArgs, RunningArgs, ServeArgs, TlsArgs,
};
pub(crate) use sign::SignArgs;
pub(crate) use sync::SyncArgs;
pub(crate) use tunnel::{
    LayeredOptions, OPTION_GROUPS, ProcessOptions, ProxyOptions, ProxyTable, StatusArgs,
    TunnelArgs, TunnelCommand, TunnelOptions, TunnelTable,
};
pub(crate) use values::{
    BearerArg, ChecksumArg, DownloadUrl, HeaderArg, HttpUrl, ProxyAlternative, ResolveArg,
    SecretText, SizeArg, UrlArg, UserArg, ValueError, token,
};

/// Moves bytes over HTTP as fast as the link allows, and never leaves a wrong file.
#[derive(Debug, Parser)]
#[command(
    name = "haul",
    version,
    max_term_width = 100,
    arg_required_else_help = true
)]
pub(crate) struct CliArgs {
    /// The command.
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

impl CliArgs {
    /// Parses a command line. A flag without a value may be repeated, as with other programs.
    ///
    /// # Errors
    /// When the words cannot be understood, or ask for help.
    pub(crate) fn parse_words(
        words: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    ) -> Result<Self, clap::Error> {
        let repeatable = |arg: clap::Arg| {
            let id = arg.get_id().clone();
            match arg.get_action() {
                ArgAction::SetTrue => arg.overrides_with(id),
                _ => arg,
            }
        };
        let command = Self::command().mut_subcommands(|command| command.mut_args(repeatable));
        let mut matches = command.try_get_matches_from(words)?;
        Self::from_arg_matches_mut(&mut matches)
    }

    /// What `--version` prints.
    pub(crate) fn version_text() -> String {
        Self::command().render_version()
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Download files: over several connections, resumed, verified.
    Get(Box<GetArgs>),
    /// Serve a folder over HTTP, and accept uploads with -w.
    Serve(Box<ServeArgs>),
    /// Forward local ports through HTTP or SOCKS proxies: mail, ssh, git, databases.
    Tunnel(Box<TunnelArgs>),
    /// Upload files to S3: in parts over several connections, resumed, verified.
    Put(Box<PutArgs>),
    /// Make an S3 prefix match a folder, or the reverse; --delete removes other files.
    Sync(Box<SyncArgs>),
    /// List buckets, or the objects of an S3 bucket.
    Ls(Box<LsArgs>),
    /// Copy objects inside an S3 store, which moves the bytes itself.
    Cp(Box<CpArgs>),
    /// Delete objects of an S3 bucket, 1000 with each request.
    Rm(Box<RmArgs>),
    /// Print a URL of an S3 object that needs no credentials until it expires.
    Presign(Box<PresignArgs>),
    /// Sign a URL of `haul serve`, so that it needs no login until it expires.
    ///
    /// haul prints the URL on standard output. It needs the key, but no connection to the server.
    Sign(SignArgs),
    /// Measure ways to move bytes, on this machine or against your server: tables, intervals, charts.
    Bench(Box<BenchArgs>),
    /// Show the effect of parallel connections, with an origin inside this program.
    ///
    /// The origin listens on loopback and limits the rate of each connection, as many servers do. haul downloads a file over one connection
    /// and then with its defaults. It contacts no other host and leaves no file behind.
    Demo(DemoArgs),
    /// Print a completion script for a shell.
    #[command(alias = "completion")]
    Completions(CompletionsArgs),
    /// The same as --version.
    #[command(hide = true)]
    Version,
}

/// `haul demo`.
#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Size of the file to download.
    #[arg(long, value_name = "SIZE", default_value = "96M")]
    pub(crate) size: SizeArg,
    /// The origin's limit for each connection, in bytes a second.
    #[arg(long, value_name = "SIZE", default_value = "8M")]
    pub(crate) rate: SizeArg,
}

/// `haul completions`.
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[cfg(test)]
mod tests;
