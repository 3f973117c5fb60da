//! `haul get`: what a request carries and how connections are made.

use std::path::PathBuf;

use clap::Args;

use super::peer::{AddressArgs, PeerTlsArgs, ProxyTlsArgs};
use super::values::{BearerArg, DurationArg, HeaderArg, ProxyUrl, UserArg, non_negative_number};

/// What requests carry, and where redirects may lead.
#[derive(Debug, Args)]
#[command(next_help_heading = "Request")]
pub(crate) struct RequestArgs {
    /// Add a header field; `Name:` removes one of haul's own. Repeatable.
    ///
    /// Authorization and Cookie go to the origin of the URL only, never along with a redirect to another one.
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    pub(crate) headers: Vec<HeaderArg>,
    /// Log in by Basic or Digest; a missing password is asked for.
    ///
    /// For the origin of the URL only, to which Basic goes with the first request and Digest if it asks for that. The question goes to the terminal and shows nothing of what is typed. A login in
    /// the URL itself is used before this one.
    #[arg(short, long, value_name = "USER[:PASSWORD]", conflicts_with = "bearer")]
    pub(crate) user: Option<UserArg>,
    /// Send a token (Authorization: Bearer); `@FILE` reads it from there.
    #[arg(long, value_name = "TOKEN|@FILE")]
    pub(crate) bearer: Option<BearerArg>,
    /// Take logins from ~/.netrc, or the file that $NETRC names.
    #[arg(long)]
    pub(crate) netrc: bool,
    /// Take logins from FILE, written as a .netrc.
    #[arg(long, value_name = "FILE", conflicts_with = "netrc")]
    pub(crate) netrc_file: Option<PathBuf>,
    /// Follow no more redirects in a row.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = non_negative_number, allow_negative_numbers = true)]
    pub(crate) max_redirs: u32,
    /// Follow redirects from https to http.
    #[arg(long)]
    pub(crate) allow_downgrade: bool,
}

/// How connections are made, and when they are given up.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct ConnectionArgs {
    /// Through this proxy (http, https, socks5, socks5h); '' for none.
    ///
    /// Written as host:port, which is http, or scheme://host:port, with user:password@ before the host if it wants them. Without it the
    /// environment decides: http_proxy, https_proxy, all_proxy. TLS with it is as that with origins, but for --cert, unless one of the
    /// --proxy-... flags is given.
    #[arg(long, value_name = "URL")]
    pub(crate) proxy: Option<ProxyUrl>,
    /// Add a header field to the CONNECT to the proxy. Repeatable.
    #[arg(long = "proxy-header", value_name = "NAME: VALUE")]
    pub(crate) proxy_headers: Vec<HeaderArg>,
    #[command(flatten)]
    pub(crate) by_proxy: ProxyTlsArgs,
    /// HTTP/1.1 only.
    #[arg(long = "http1.1", conflicts_with = "http2")]
    pub(crate) http1: bool,
    /// HTTP/2 for small files of a batch over https.
    ///
    /// By itself haul offers HTTP/2 to origins that are far, where many files at once on one connection are faster. What comes in segments
    /// comes by HTTP/1.1, whose connections each have a limit of their own; so does all over http.
    #[arg(long, conflicts_with = "file")]
    pub(crate) http2: bool,
    #[command(flatten)]
    pub(crate) tls: PeerTlsArgs,
    #[command(flatten)]
    pub(crate) addresses: AddressArgs,
    /// Give up on a connection that is not made by then.
    #[arg(
        long,
        value_name = "TIME",
        allow_negative_numbers = true,
        default_value = "15s"
    )]
    pub(crate) connect_timeout: DurationArg,
    /// Give up on a connection that brings nothing for so long.
    #[arg(
        long,
        value_name = "TIME",
        allow_negative_numbers = true,
        default_value = "30s"
    )]
    pub(crate) stall_timeout: DurationArg,
    /// Try again at most N times without progress in between [default: 10].
    ///
    /// Connection errors, timeouts, short bodies, 408, 429 and 5xx are tried again, after a wait that grows from 0.2 to 30
    /// seconds, or the one that the origin asks for. Four mebibytes of progress give all N back. Without this flag a host that
    /// never answered is given up after 3.
    #[arg(long, value_name = "N", value_parser = non_negative_number, allow_negative_numbers = true)]
    pub(crate) retries: Option<u32>,
}
