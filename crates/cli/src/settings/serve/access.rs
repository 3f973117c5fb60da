//! Builds the [`AccessControl`] of `haul serve` from flags, variables and files, and a summary for people.
//!
//! A variable that is set but empty is an error: a secret that was not filled in must not open the store.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fmt;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::str::FromStr;

use haul_net::Secret;
use haul_serve::access::{
    AccessControl, AccessOptions, AccessRight, AccessScope, AnonymousAccess, AuthFile,
    AuthFileError, AuthFileErrorKind, AuthRuleError, TokenFile,
};
use haul_serve::store::FileStoreOptions;

use crate::args::{AccessArgs, SecretText};
use crate::settings::{SettingError, read_signing_key, world_readable_warning};

/// A login a line.
const LOGINS_VARIABLE: &str = "HAUL_AUTH";
/// A token a line.
const TOKENS_VARIABLE: &str = "HAUL_TOKEN";

/// A summary of access for people.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AccessSummary {
    users: usize,
    tokens: usize,
    has_signed_urls: bool,
    /// Access without a login; `None`: everything.
    anonymous: Option<Vec<AccessScope>>,
    /// Whether some access is limited to a prefix, as that of a signed URL is.
    pub(crate) has_prefixes: bool,
}

impl AccessSummary {
    /// Whether clients send passwords or tokens.
    pub(crate) fn has_secrets(&self) -> bool {
        self.users + self.tokens > 0
    }

    fn allows_nobody(&self) -> bool {
        let others = self.anonymous.as_ref();
        self.users + self.tokens == 0 && !self.has_signed_urls && others.is_some_and(Vec::is_empty)
    }

    /// Whether writing needs no login.
    pub(crate) fn allows_anonymous_writes(&self) -> bool {
        let others = self.anonymous.as_ref();
        others.is_none_or(|scopes| scopes.iter().any(|scope| scope.right == AccessRight::Write))
    }
}

impl fmt::Display for AccessSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(others) = &self.anonymous else {
            return f.write_str("to everybody");
        };
        let number = |n: usize, what: &str| match n {
            0 => None,
            1 => Some(format!("1 {what}")),
            n => Some(format!("{n} {what}s")),
        };
        let signed = self.has_signed_urls.then(|| "signed URLs".to_owned());
        let known: Vec<String> = [
            number(self.users, "user"),
            number(self.tokens, "token"),
            signed,
        ]
        .into_iter()
        .flatten()
        .collect();
        let others: Vec<String> = others.iter().map(ToString::to_string).collect();
        match (&known[..], &others[..]) {
            ([], []) => f.write_str("to nobody"),
            (known, []) => write!(f, "to {}", known.join(", ")),
            ([], others) => write!(f, "to everybody ({})", others.join(", ")),
            (known, others) => write!(
                f,
                "to {}, and to everybody ({})",
                known.join(", "),
                others.join(", ")
            ),
        }
    }
}

/// Builds the access control and its summary. Also returns warnings.
pub(super) fn access_control(
    args: &AccessArgs,
    store: &FileStoreOptions,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<(AccessControl, AccessSummary, Vec<String>), SettingError> {
    let options = access_options(args, variable)?;
    check_store_is_writable(&options, store)?;
    let secrets = args
        .auth_file
        .iter()
        .chain(&args.token_file)
        .chain(&args.sign_key);
    let mut warnings: Vec<String> = secrets
        .filter_map(|path| world_readable_warning(path))
        .collect();
    let mut summary = access_summary(&options);
    let may_write = all_scopes(&options).any(|scope| scope.right == AccessRight::Write)
        || summary.has_signed_urls;
    let access = AccessControl::new(options)
        .map_err(|error| SettingError::new("the logins contradict each other").caused_by(error))?;
    if access.is_open() {
        summary.anonymous = None;
    } else if summary.allows_nobody() {
        warnings
            .push("nobody has access: the given files contain no login and no token".to_owned());
    } else if store.writable && !may_write {
        warnings.push("--writable has no effect: no rule allows writing (rw)".to_owned());
    }
    Ok((access, summary, warnings))
}

/// The options of flags, variables and files.
fn access_options(
    args: &AccessArgs,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<AccessOptions, SettingError> {
    let logins = |path: &PathBuf| {
        AuthFile::read(path).map_err(|error| auth_file_error("--auth-file", error))
    };
    let tokens = |path: &PathBuf| {
        TokenFile::read(path).map_err(|error| auth_file_error("--token-file", error))
    };
    let key = args.sign_key.as_deref();
    Ok(AccessOptions {
        users: rules("--auth", &args.auth, LOGINS_VARIABLE, &variable)?,
        auth_files: read_each(&args.auth_file, logins)?,
        tokens: rules("--token", &args.token, TOKENS_VARIABLE, &variable)?,
        token_files: read_each(&args.token_file, tokens)?,
        anonymous: match &args.anonymous[..] {
            [] => AnonymousAccess::None,
            scopes => AnonymousAccess::Some(scopes.to_vec()),
        },
        signing_key: key
            .map(|key| read_signing_key("--sign-key", key))
            .transpose()?,
        ..AccessOptions::default()
    })
}

fn read_each<T>(
    paths: &[PathBuf],
    read: impl Fn(&PathBuf) -> Result<T, SettingError>,
) -> Result<Vec<T>, SettingError> {
    paths.iter().map(read).collect()
}

/// The rules of a flag and a variable, the flag's first.
fn rules<T: FromStr<Err = AuthRuleError>>(
    flag: &str,
    typed: &[SecretText],
    variable_name: &str,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Vec<T>, SettingError> {
    let typed = typed.iter().map(|text| parse_rule(flag, &text.0));
    let mut rules: Vec<T> = typed.collect::<Result<_, _>>()?;
    rules.extend(rules_from_variable(variable_name, variable)?);
    Ok(rules)
}

fn parse_rule<T: FromStr<Err = AuthRuleError>>(
    place: &str,
    text: &Secret,
) -> Result<T, SettingError> {
    let to_error = |error| {
        let hint = match error {
            AuthRuleError::Login | AuthRuleError::Token | AuthRuleError::Scope(_) => {
                Some("ro allows reading, rw also writing; rw:/in allows both below /in only")
            }
            AuthRuleError::Colons(_) => Some("put the login into a file: --auth-file FILE"),
            AuthRuleError::NoPassword => Some("is it from a variable that is not set?"),
            _ => None,
        };
        let setting_error = SettingError::new(format!("{place} cannot be used")).caused_by(error);
        match hint {
            Some(hint) => setting_error.with_hint(hint),
            None => setting_error,
        }
    };
    text.expose().parse().map_err(to_error)
}

/// The rules in a variable, a line each; `#` starts a comment.
fn rules_from_variable<T: FromStr<Err = AuthRuleError>>(
    name: &str,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Vec<T>, SettingError> {
    let Some(value) = variable(name) else {
        return Ok(Vec::new());
    };
    let value = value
        .into_string()
        .map_err(|_| SettingError::new(format!("the variable {name} is not UTF-8")))?;
    // As in files.
    let lines = value.lines().map(str::trim).zip(1_usize..);
    let entries = lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
    let rules: Vec<T> = entries
        .map(|(line, number)| {
            let place = format!("the variable {name}, line {number},");
            parse_rule(&place, &Secret::new(line.to_owned()))
        })
        .collect::<Result<_, _>>()?;
    if rules.is_empty() {
        return Err(
            SettingError::new(format!("the variable {name} is set and empty"))
                .with_hint("unset it if it is not needed"),
        );
    }
    Ok(rules)
}

fn auth_file_error(flag: &str, error: AuthFileError) -> SettingError {
    let hint = match &error.kind {
        AuthFileErrorKind::Hash(_) => {
            Some("`htpasswd -nB USER` prints a line with a hash; add :ro or :rw to it")
        }
        AuthFileErrorKind::Format => Some("`htpasswd -nB USER` prints the first two parts"),
        AuthFileErrorKind::Io(error) => match error.kind() {
            ErrorKind::IsADirectory => Some("name a file with an entry a line"),
            ErrorKind::NotFound => Some("name a file with an entry a line"),
            ErrorKind::PermissionDenied => {
                Some("the user that haul runs as must be able to read it")
            }
            _ => None,
        },
        _ => None,
    };
    let setting_error = SettingError::new(format!("{flag} cannot be used")).caused_by(error);
    match hint {
        Some(hint) => setting_error.with_hint(hint),
        None => setting_error,
    }
}

/// Refuses a right to write on a read-only server. Rules in files may be shared with another server, so they are not checked.
fn check_store_is_writable(
    options: &AccessOptions,
    store: &FileStoreOptions,
) -> Result<(), SettingError> {
    let mut typed = options
        .users
        .iter()
        .map(|rule| &rule.scope)
        .chain(options.tokens.iter().map(|rule| &rule.scope))
        .chain(anonymous_scopes(options));
    if store.writable || !typed.any(|scope| scope.right == AccessRight::Write) {
        return Ok(());
    }
    Err(
        SettingError::new("a rule allows writing (rw), but the server does not accept uploads")
            .with_hint("add -w/--writable, or use ro"),
    )
}

fn anonymous_scopes(options: &AccessOptions) -> &[AccessScope] {
    match &options.anonymous {
        AnonymousAccess::None => &[],
        AnonymousAccess::Some(scopes) => scopes,
    }
}

fn all_scopes(options: &AccessOptions) -> impl Iterator<Item = &AccessScope> {
    let users = options.users.iter().map(|rule| &rule.scope);
    let files = options.auth_files.iter().flat_map(|file| &file.rules);
    let tokens = options
        .tokens
        .iter()
        .chain(options.token_files.iter().flat_map(|file| &file.rules));
    users
        .chain(files.map(|rule| &rule.scope))
        .chain(tokens.map(|rule| &rule.scope))
        .chain(anonymous_scopes(options))
}

fn access_summary(options: &AccessOptions) -> AccessSummary {
    let files = options.auth_files.iter().flat_map(|file| &file.rules);
    let users: HashSet<&str> = options
        .users
        .iter()
        .map(|rule| rule.user.as_str())
        .chain(files.map(|rule| rule.user.as_str()))
        .collect();
    let tokens: HashSet<&str> = options
        .tokens
        .iter()
        .chain(options.token_files.iter().flat_map(|file| &file.rules))
        .map(|rule| rule.token.expose())
        .collect();
    AccessSummary {
        users: users.len(),
        tokens: tokens.len(),
        has_signed_urls: options.signing_key.is_some(),
        anonymous: Some(anonymous_scopes(options).to_vec()),
        has_prefixes: options.signing_key.is_some()
            || all_scopes(options).any(|scope| !scope.prefix.is_root()),
    }
}
