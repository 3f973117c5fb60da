//! The S3 keys of `haul serve --s3`, and the temporary folder that it serves without any.

use std::ffi::OsString;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use haul_s3server::{S3Authenticator, S3Dialect, S3KeyRule, S3Keys, S3Options};
use haul_serve::ObjectKey;
use haul_serve::access::AccessRight;
use rand::Rng as _;
use rand::distr::Alphanumeric;
use tempfile::TempDir;

use crate::args::ServeArgs;
use crate::settings::SettingError;

/// A key a line.
const KEYS_VARIABLE: &str = "HAUL_S3_KEYS";

/// How S3 is served.
#[derive(Debug)]
pub(crate) struct S3Settings {
    pub(crate) dialect: Arc<S3Dialect>,
    /// Whether requests without a signature may be plain HTTP.
    pub(crate) is_http_on: bool,
    /// How many keys there are.
    pub(crate) keys: usize,
    /// Whether a key is limited to a bucket.
    pub(super) has_bucket_scopes: bool,
    /// Present without a folder and a key.
    pub(crate) temporary: Option<TemporaryStore>,
}

/// A folder that is removed at the end, and its key.
#[derive(Debug)]
pub(crate) struct TemporaryStore {
    pub(crate) folder: TempDir,
    pub(crate) access_key: String,
    pub(crate) secret: String,
}

impl TemporaryStore {
    fn new() -> Result<Self, SettingError> {
        // The key protects the objects from other users of this machine, too.
        let private = Permissions::from_mode(0o700);
        let mut builder = tempfile::Builder::new();
        let made = builder.prefix("haul-s3-").permissions(private).tempdir();
        let folder = made.map_err(|error| {
            SettingError::new("a temporary folder cannot be made")
                .caused_by(error)
                .with_hint("TMPDIR sets where it goes; or name a folder and a key: haul serve DIR -w --s3 --s3-key ACCESS:SECRET")
        })?;
        let random = |length| -> String {
            let characters = rand::rng().sample_iter(Alphanumeric).take(length);
            characters.map(char::from).collect()
        };
        Ok(Self {
            folder,
            access_key: format!("HAUL{}", random(16).to_ascii_uppercase()),
            secret: random(40),
        })
    }
}

/// Resolves the flags of S3; `None` without --s3.
pub(super) fn s3_settings(
    args: &ServeArgs,
    is_http_on: bool,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Option<S3Settings>, SettingError> {
    if !args.s3.s3 {
        return Ok(None);
    }
    let mut rules = key_rules(args, variable)?;
    let temporary = match (rules.is_empty(), &args.folder) {
        (false, _) => None,
        (true, None) => {
            let temporary = TemporaryStore::new()?;
            let rule = format!("{}:{}", temporary.access_key, temporary.secret);
            rules.extend(rule.parse::<S3KeyRule>());
            Some(temporary)
        }
        (true, Some(_)) => {
            return Err(SettingError::new("--s3 has no key, so nobody could use it").with_hint(
                "give one: --s3-key ACCESS:SECRET, --s3-key-file FILE or the variable HAUL_S3_KEYS; without DIR haul makes a key and a \
                 temporary folder",
            ));
        }
    };
    let anonymous = args.access.anonymous.iter();
    let everywhere = |right| move |scope: &&_| covers_everything(scope, right);
    let anonymous = if anonymous
        .clone()
        .any(|scope| everywhere(AccessRight::Write)(&scope))
    {
        Some(AccessRight::Write)
    } else {
        anonymous
            .clone()
            .find(everywhere(AccessRight::Read))
            .map(|_| AccessRight::Read)
    };
    let keys = rules.len();
    let has_bucket_scopes = rules.iter().any(|rule| rule.scope.bucket.is_some());
    let keys_of_rules = S3Keys::new(rules)
        .map_err(|error| SettingError::new("the S3 keys contradict each other").caused_by(error))?;
    Ok(Some(S3Settings {
        dialect: Arc::new(S3Dialect::new(S3Options {
            authenticator: S3Authenticator::new(keys_of_rules, &args.s3.s3_region),
            anonymous,
            is_http_on,
            domains: args.s3.s3_domain.clone(),
            upload_expiry: args.s3.s3_upload_expiry.0,
        })),
        is_http_on,
        keys,
        has_bucket_scopes,
        temporary,
    }))
}

fn covers_everything(scope: &haul_serve::access::AccessScope, right: AccessRight) -> bool {
    scope.covers(right, &ObjectKey::root())
}

/// The rules of the flag, the files and the variable.
fn key_rules(
    args: &ServeArgs,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Vec<S3KeyRule>, SettingError> {
    let refused = |place: &str| {
        let text = format!("{place} cannot be used");
        move |error: Box<dyn std::error::Error + Send + Sync>| {
            SettingError::new(text).caused_by(error)
        }
    };
    let mut rules = Vec::new();
    for text in &args.s3.s3_key {
        let rule = text.0.expose().parse::<S3KeyRule>();
        rules.push(rule.map_err(|error| refused("--s3-key")(error.into()))?);
    }
    for path in &args.s3.s3_key_file {
        let found = S3KeyRule::read(path);
        rules.extend(found.map_err(|error| refused("--s3-key-file")(error.into()))?);
    }
    if let Some(value) = variable(KEYS_VARIABLE) {
        let text = value
            .into_string()
            .map_err(|_| SettingError::new(format!("the variable {KEYS_VARIABLE} is not UTF-8")))?;
        let found = S3KeyRule::parse_lines(&text)
            .map_err(|error| refused("the variable HAUL_S3_KEYS")(error.into()))?;
        if found.is_empty() {
            // A secret that was not filled in.
            let text = format!("the variable {KEYS_VARIABLE} is set and empty");
            return Err(SettingError::new(text).with_hint("unset it if it is not needed"));
        }
        rules.extend(found);
    }
    Ok(rules)
}

pub(super) fn served_folder(args: &ServeArgs, s3: Option<&S3Settings>) -> PathBuf {
    let temporary = s3.and_then(|s3| s3.temporary.as_ref());
    match (temporary, &args.folder) {
        (Some(temporary), _) => temporary.folder.path().to_owned(),
        (None, Some(folder)) => folder.clone(),
        (None, None) => PathBuf::from("."),
    }
}
