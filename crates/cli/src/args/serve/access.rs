//! `haul serve`: who may do what, and how that is secured.
//!
//! Logins and tokens are taken as they stand, and parsed where settings are made: nothing of the parser's can repeat one.

use std::path::PathBuf;

use clap::Args;
use haul_serve::access::{AccessScope, AllowedOrigins};

use crate::args::values::{SecretText, host_name};

/// Who may do what. With none of these everybody may do all that the server does.
#[derive(Debug, Args)]
#[command(next_help_heading = "Who may do what")]
pub(crate) struct AccessArgs {
    /// A login, and whether it may read (ro) or also write (rw). Repeatable.
    ///
    /// With any of the flags of this group all others are kept out. /PREFIX is a part of the store, with all beneath it; a user may have several.
    /// Other users of this machine see arguments: the variable HAUL_AUTH, a login a line, and --auth-file keep passwords from them.
    #[arg(long, value_name = "USER:PASSWORD:ro|rw[:/PREFIX]")]
    pub(crate) auth: Vec<SecretText>,
    /// Logins from a file, with hashes of their passwords. Repeatable.
    ///
    /// A line each, USER:HASH:ro|rw[:/PREFIX], where HASH is of argon2 or bcrypt, as `htpasswd -nB USER` prints it.
    #[arg(long, value_name = "FILE")]
    pub(crate) auth_file: Vec<PathBuf>,
    /// A token (Authorization: Bearer), and what it is good for. Repeatable.
    ///
    /// Also from the variable HAUL_TOKEN, a token a line.
    #[arg(long, value_name = "TOKEN:ro|rw[:/PREFIX]")]
    pub(crate) token: Vec<SecretText>,
    /// Tokens from a file, a line each. Repeatable.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Vec<PathBuf>,
    /// What everybody may do without logging in. Repeatable.
    #[arg(long, value_name = "ro|rw[:/PREFIX]")]
    pub(crate) anonymous: Vec<AccessScope>,
    /// Let in who has a URL that `haul sign` signed with this key.
    #[arg(long, value_name = "FILE")]
    pub(crate) sign_key: Option<PathBuf>,
}

/// Encryption.
#[derive(Debug, Args)]
#[command(next_help_heading = "TLS")]
pub(crate) struct TlsArgs {
    /// The server's certificate, PEM, with its chain. Repeatable.
    ///
    /// Of several the one for the name that a client asks for is shown, or the first. They are read again when they change.
    #[arg(long, value_name = "FILE")]
    pub(crate) cert: Vec<PathBuf>,
    /// Its private key, PEM, unless the certificate's file holds it. One for each --cert.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Vec<PathBuf>,
    /// A certificate made for this run; its fingerprint is printed.
    ///
    /// It is for localhost, this machine's name and the addresses that are listened on. Browsers warn of it, and who
    /// goes on should compare the fingerprint.
    #[arg(long, conflicts_with_all = ["cert", "key"])]
    pub(crate) self_signed: bool,
}

/// Pages of other sites.
#[derive(Debug, Args)]
#[command(next_help_heading = "Pages of other sites (CORS)")]
pub(crate) struct CorsArgs {
    /// Let scripts of these pages read: https://host, several with commas, or `*`.
    #[arg(long = "cors", value_name = "ORIGINS")]
    pub(crate) origins: Option<AllowedOrigins>,
    /// Let them write, too.
    #[arg(long)]
    pub(crate) cors_write: bool,
    /// Let them use the logins that browsers have stored.
    #[arg(long)]
    pub(crate) cors_credentials: bool,
    /// Be asked for by this name, too; `*` is any. Repeatable.
    ///
    /// Without logins, on loopback alone and without TLS, requests for other names than this machine's own are refused: a page of a
    /// stranger whose name leads here could read and write everything (DNS rebinding). A proxy in front may send such a name.
    #[arg(long, value_name = "NAME", value_parser = host_name)]
    pub(crate) allow_host: Vec<String>,
}
