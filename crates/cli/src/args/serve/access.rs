//! Flags of `haul serve` for access and TLS.
//!
//! Logins and tokens are kept as text and parsed with the settings, so that no error of the parser can repeat one.

use std::path::PathBuf;

use clap::Args;
use haul_serve::access::{AccessScope, AllowedOrigins};

use crate::args::values::{DurationArg, SecretText, host_name};

/// Logins, tokens and anonymous access. Without these flags everybody may do all that the server does.
#[derive(Debug, Args)]
#[command(next_help_heading = "Access")]
pub(crate) struct AccessArgs {
    /// A login with read (ro) or write (rw) access. Repeatable.
    ///
    /// With any flag of this group haul refuses everybody else. /PREFIX limits the login to that path and below; a user may have several.
    /// Other users of this machine can see arguments: use the variable HAUL_AUTH (one login a line) or --auth-file for passwords.
    #[arg(long, value_name = "USER:PASSWORD:ro|rw[:/PREFIX]")]
    pub(crate) auth: Vec<SecretText>,
    /// Read logins with hashed passwords from a file. Repeatable.
    ///
    /// One USER:HASH:ro|rw[:/PREFIX] a line. HASH is argon2 or bcrypt, as `htpasswd -nB USER` prints it.
    #[arg(long, value_name = "FILE")]
    pub(crate) auth_file: Vec<PathBuf>,
    /// A token (Authorization: Bearer) with read (ro) or write (rw) access. Repeatable.
    ///
    /// The variable HAUL_TOKEN can contain more, one token a line.
    #[arg(long, value_name = "TOKEN:ro|rw[:/PREFIX]")]
    pub(crate) token: Vec<SecretText>,
    /// Read tokens from a file, one a line. Repeatable.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Vec<PathBuf>,
    /// Allow access without a login. Repeatable.
    #[arg(long, value_name = "ro|rw[:/PREFIX]")]
    pub(crate) anonymous: Vec<AccessScope>,
    /// Accept URLs that `haul sign` signed with this key.
    #[arg(long, value_name = "FILE")]
    pub(crate) sign_key: Option<PathBuf>,
}

/// TLS.
#[derive(Debug, Args)]
#[command(next_help_heading = "TLS")]
pub(crate) struct TlsArgs {
    /// The server's certificate (PEM, with its chain). Repeatable.
    ///
    /// Of several, haul uses the one for the name that the client asks for, or the first. It reloads them when the files change.
    #[arg(long, value_name = "FILE")]
    pub(crate) cert: Vec<PathBuf>,
    /// Private key of --cert (PEM), unless that file contains it. One for each --cert.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Vec<PathBuf>,
    /// Make a certificate for this run and print its fingerprint.
    ///
    /// It is valid for localhost, this machine's name and the addresses that haul listens on. Browsers warn of it: compare the fingerprint
    /// before you continue.
    #[arg(long, conflicts_with_all = ["cert", "key"])]
    pub(crate) self_signed: bool,
}

/// Access for pages of other sites.
#[derive(Debug, Args)]
#[command(next_help_heading = "Pages of other sites (CORS)")]
pub(crate) struct CorsArgs {
    /// Allow scripts of these pages to read: https://host, several with commas, or `*`.
    #[arg(long = "cors", value_name = "ORIGINS")]
    pub(crate) origins: Option<AllowedOrigins>,
    /// Allow them to write, too.
    #[arg(long)]
    pub(crate) cors_write: bool,
    /// Allow them to use logins stored in the browser.
    #[arg(long)]
    pub(crate) cors_credentials: bool,
    /// Accept requests for this host name, too; `*` is any. Repeatable.
    ///
    /// A server on loopback without logins and TLS refuses requests for other names than this machine's. Otherwise a page of a foreign site
    /// could read and write everything, if its name resolves to this machine (DNS rebinding). Use this flag if a reverse proxy sends another
    /// name.
    #[arg(long, value_name = "NAME", value_parser = host_name)]
    pub(crate) allow_host: Vec<String>,
}

/// S3: the same files for clients of S3, folders below DIR as buckets.
#[derive(Debug, Args)]
#[command(next_help_heading = "S3")]
pub(crate) struct S3ServerArgs {
    /// Serve clients of S3, too: a folder below DIR is a bucket, a file in it an object.
    ///
    /// Requests must be signed with a key of --s3-key. haul refuses unsigned requests, unless --auth, --token or --anonymous allow
    /// plain HTTP. With neither DIR nor a key, haul serves a temporary folder, for tests, and prints its key.
    #[arg(long)]
    pub(crate) s3: bool,
    /// An S3 key with read (ro) or read and write (rw) access, to all buckets or one. Repeatable.
    ///
    /// A key without ro or rw can read and write. Other users of this machine can see arguments: use the variable HAUL_S3_KEYS (one key a
    /// line) or --s3-key-file.
    #[arg(long, value_name = "ACCESS:SECRET[:ro|rw[:BUCKET]]", requires = "s3")]
    pub(crate) s3_key: Vec<SecretText>,
    /// Read S3 keys from a file, one a line. Repeatable.
    #[arg(long, value_name = "FILE", requires = "s3")]
    pub(crate) s3_key_file: Vec<PathBuf>,
    /// The region that clients must sign for.
    #[arg(
        long,
        value_name = "REGION",
        default_value = "us-east-1",
        requires = "s3"
    )]
    pub(crate) s3_region: String,
    /// Take the name before this domain as the bucket, as in `bucket.s3.example.org`. Repeatable.
    ///
    /// `bucket.localhost` works without this flag.
    #[arg(long, value_name = "DOMAIN", value_parser = host_name, requires = "s3")]
    pub(crate) s3_domain: Vec<String>,
    /// Remove an unfinished upload in parts this long after its last part.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "7d",
        allow_negative_numbers = true,
        requires = "s3"
    )]
    pub(crate) s3_upload_expiry: DurationArg,
}
