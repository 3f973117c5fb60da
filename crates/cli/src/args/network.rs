//! Flags of `haul get` for requests and connections.

use std::path::PathBuf;

use clap::Args;
use haul_net::{ClientConfig, ConnectorConfig, RedirectOptions};
use haul_transfer::RetryOptions;

use super::peer::{AddressArgs, NoProxyArgs, PeerTlsArgs, ProxyTlsArgs};
use super::values::{
    BearerArg, DurationArg, HeaderArg, MinRateArg, ProxyUrl, UserArg, non_negative_number,
};

/// Requests and redirects.
#[derive(Debug, Args)]
#[command(next_help_heading = "Request")]
pub(crate) struct RequestArgs {
    #[command(flatten)]
    pub(crate) login: LoginArgs,
    /// Follow at most N redirects in a row.
    #[arg(long, value_name = "N", default_value_t = RedirectOptions::default().max_redirects, value_parser = non_negative_number::<usize>, allow_negative_numbers = true)]
    pub(crate) max_redirs: usize,
    /// Follow redirects from https to http.
    #[arg(long)]
    pub(crate) allow_downgrade: bool,
}

/// Header fields and logins.
#[derive(Debug, Args)]
#[command(next_help_heading = "Request")]
pub(crate) struct LoginArgs {
    /// Add a header field; `Name:` removes one that haul sends. Repeatable.
    ///
    /// Authorization and Cookie go only to the origin of the URL, never to another origin after a redirect.
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    pub(crate) headers: Vec<HeaderArg>,
    /// Log in with Basic or Digest; haul asks for a missing password.
    ///
    /// The login goes only to the origin of the URL: Basic with the first request, Digest when the origin asks for it. haul asks on the
    /// terminal and does not show what you type. A login in the URL is used before this one.
    #[arg(short, long, value_name = "USER[:PASSWORD]", conflicts_with = "bearer")]
    pub(crate) user: Option<UserArg>,
    /// Send a token (Authorization: Bearer); `@FILE` reads it from FILE.
    #[arg(long, value_name = "TOKEN|@FILE")]
    pub(crate) bearer: Option<BearerArg>,
    /// Read logins from ~/.netrc, or the file in $NETRC.
    #[arg(long)]
    pub(crate) netrc: bool,
    /// Read logins from FILE, in the format of .netrc.
    #[arg(long, value_name = "FILE", conflicts_with = "netrc")]
    pub(crate) netrc_file: Option<PathBuf>,
}

impl LoginArgs {
    /// Whether any of them is given.
    pub(crate) fn is_given(&self) -> bool {
        let Self {
            headers,
            user,
            bearer,
            netrc,
            netrc_file,
        } = self;
        !headers.is_empty() || user.is_some() || bearer.is_some() || *netrc || netrc_file.is_some()
    }
}

/// Versions of HTTP.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct HttpVersionArgs {
    /// Use HTTP/1.1 only.
    #[arg(long = "http1.1", conflicts_with = "http2")]
    pub(crate) http1: bool,
    /// Use HTTP/2 for small files of a batch over https.
    ///
    /// By default haul offers HTTP/2 to distant origins, where many files at once on one connection are faster. Segments use HTTP/1.1,
    /// since servers limit the rate of each connection; plain http uses HTTP/1.1, too.
    #[arg(long, conflicts_with = "file")]
    pub(crate) http2: bool,
}

/// Connections, proxies, TLS and timeouts.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct ConnectionArgs {
    /// Use this proxy (http, https, socks5, socks5h); '' for none.
    ///
    /// host:port, which is http, or scheme://host:port, with user:password@ before the host for a login. Without this flag the variables
    /// http_proxy, https_proxy and all_proxy apply. TLS with the proxy uses the same flags as TLS with origins, except --cert, unless one
    /// of the --proxy-... flags is given.
    #[arg(short, long, value_name = "URL")]
    pub(crate) proxy: Option<ProxyUrl>,
    /// Log in to the proxy with Basic, Digest or SOCKS; haul asks for a missing password.
    ///
    /// Other users of this machine can see arguments; the variable HAUL_PROXY_USER (USER:PASSWORD) and --proxy-password-file hide
    /// passwords from them. A login in the proxy's URL is used before this one.
    #[arg(short = 'U', long, value_name = "USER[:PASSWORD]")]
    pub(crate) proxy_user: Option<UserArg>,
    /// Read the proxy's password from FILE, or USER:PASSWORD if -U names no user.
    #[arg(long, value_name = "FILE")]
    pub(crate) proxy_password_file: Option<PathBuf>,
    /// Send the proxy's login with the first request, as Basic, before the proxy asks for it.
    ///
    /// haul does so by itself after a proxy has refused a request without asking for a login. With this flag, even a proxy that would ask
    /// for Digest sees the password.
    #[arg(long)]
    pub(crate) proxy_basic: bool,
    /// Add a header field to the CONNECT request to the proxy. Repeatable.
    #[arg(long = "proxy-header", value_name = "NAME: VALUE")]
    pub(crate) proxy_headers: Vec<HeaderArg>,
    #[command(flatten)]
    pub(crate) proxy_tls: ProxyTlsArgs,
    #[command(flatten)]
    pub(crate) no_proxy: NoProxyArgs,
    #[command(flatten)]
    pub(crate) tls: PeerTlsArgs,
    #[command(flatten)]
    pub(crate) addresses: AddressArgs,
    /// Time limit for opening a connection.
    #[arg(
        long,
        value_name = "TIME",
        allow_negative_numbers = true,
        default_value_t = ConnectorConfig::default().connect_timeout.into()
    )]
    pub(crate) connect_timeout: DurationArg,
    /// Time limit for the start of a response, from the end of the request.
    ///
    /// The server may need this time to make an archive, to scan an upload or to join its parts. haul reacts earlier if the peer is gone,
    /// or if another mirror can send the file.
    #[arg(
        long,
        value_name = "TIME",
        allow_negative_numbers = true,
        default_value_t = ClientConfig::default().response_timeout.into()
    )]
    pub(crate) response_timeout: DurationArg,
    /// Time limit for a connection that moves no bytes in the middle of a body.
    #[arg(
        long,
        value_name = "TIME",
        allow_negative_numbers = true,
        default_value_t = ClientConfig::default().stall_timeout.into()
    )]
    pub(crate) stall_timeout: DurationArg,
    /// Retry at most N times without progress in between [default: 10].
    ///
    /// haul retries after connection errors, timeouts, short bodies, 408, 429 and 5xx. It waits 0.2 to 30 seconds, growing, or as long as
    /// the origin asks. After 4 MiB of progress all N retries are available again. Without this flag haul gives up after 3 retries
    /// on a host that never responded.
    #[arg(long, value_name = "N", value_parser = non_negative_number::<u32>, allow_negative_numbers = true)]
    pub(crate) retries: Option<u32>,
    /// Longest pause that haul accepts from a server.
    ///
    /// A server that refuses requests can say when to come back, in Retry-After or in the fields of a rate limit. All files of the host wait
    /// until then. If the server asks for more than TIME, haul gives up at once.
    #[arg(
        long,
        value_name = "TIME",
        allow_negative_numbers = true,
        default_value_t = RetryOptions::default().max_retry_after.into()
    )]
    pub(crate) max_wait: DurationArg,
}

/// When downloads end that are too slow or take too long.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct DownloadLimitArgs {
    /// Give up a file that brings fewer than RATE bytes a second over TIME [default: none, in a batch 100:5m].
    ///
    /// TIME is 30s if you leave it out; a RATE of 0 means no limit. haul counts only time in which the origin sends too little. It does not
    /// count a pause that the origin asked for, a wait before a retry or for the first response, or the time that --limit-rate takes. haul
    /// keeps bytes that it can resume, and the same command continues. A batch is a list, many URLs, -r, or a sync.
    #[arg(long, value_name = "RATE[:TIME]", allow_negative_numbers = true)]
    pub(crate) min_rate: Option<MinRateArg>,
    /// Give up a file that is not complete after this time [default: none].
    ///
    /// TIME is for each file, not for the whole command. It counts from the first request for the file, and includes all retries and pauses.
    /// haul keeps bytes that it can resume, and the same command continues.
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) max_time: Option<DurationArg>,
}

impl DownloadLimitArgs {
    /// Whether any of them is given.
    pub(crate) fn is_given(&self) -> bool {
        self.min_rate.is_some() || self.max_time.is_some()
    }
}
