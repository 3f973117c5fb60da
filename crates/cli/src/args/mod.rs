//! The command line as it is typed. [`settings`](crate::settings) makes of it what the engine takes; nobody else reads it.

mod batch;
mod get;
mod network;
mod peer;
mod serve;
mod sign;
mod tunnel;
mod values;

use clap::{Parser, Subcommand};

pub(crate) use batch::{BatchArgs, LayoutKind, ListFormatArg, OnErrorArg};
pub(crate) use get::{GetArgs, GetMessageArgs, ProgressKind};
pub(crate) use network::{ConnectionArgs, RequestArgs};
pub(crate) use peer::{AddressArgs, PeerTlsArgs, ProxyTlsArgs};
pub(crate) use serve::{
    AccessArgs, CorsArgs, FileArgs, LimitArgs, RunningArgs, ServeArgs, TlsArgs,
};
pub(crate) use sign::SignArgs;
pub(crate) use tunnel::{
    StatusArgs, TargetArgs, TunnelArgs, TunnelCommand, TunnelConnectionArgs, TunnelProxyArgs,
};
pub(crate) use values::{
    BearerArg, DurationArg, HeaderArg, HttpUrl, OptionalTimeArg, ProxyUrl, ResolveArg, SecretText,
    SizeArg, UrlArg, UserArg, ValueError, keepalive, listen_address, no_proxy, positive_number,
    target, thread_count, token, warm_connections,
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
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Download files: over several connections, resumed, verified.
    Get(Box<GetArgs>),
    /// Serve a folder: downloads, and uploads where they are wanted.
    Serve(Box<ServeArgs>),
    /// Lead local ports anywhere through HTTP or SOCKS proxies: mail, ssh, git, databases.
    Tunnel(Box<TunnelArgs>),
    /// Sign a URL of `haul serve`, so that who has it needs no login until it expires.
    ///
    /// The URL is printed on standard output. Signing asks nobody: whoever has the key can do it anywhere.
    Sign(SignArgs),
    /// Show what parallel connections bring, against an origin inside this program.
    ///
    /// The origin listens on loopback and limits each connection, as many do. The file is downloaded over one
    /// connection and then with haul's defaults; nothing else of this machine or its network is used, and nothing is left.
    Demo(DemoArgs),
    /// Print a completion script for a shell.
    Completions(CompletionsArgs),
}

/// `haul demo`.
#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Bytes in the file that is downloaded.
    #[arg(long, value_name = "SIZE", default_value = "96M")]
    pub(crate) size: SizeArg,
    /// What the origin gives each connection, in bytes a second.
    #[arg(long, value_name = "SIZE", default_value = "8M")]
    pub(crate) rate: SizeArg,
}

/// `haul completions`.
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// For which shell.
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}
