//! The user's logins: passwords from prompts, tokens and logins from files.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use haul_net::{Login, Netrc, Secret, Target, UserCredentials};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use url::Url;

use super::SettingError;
use crate::args::{BearerArg, LoginArgs, UserArg, token};
use crate::password_prompt::{self, PromptError};

/// The hint where haul cannot ask for a password.
const PASSWORD_HINT: &str = "give it with -u USER:PASSWORD or --netrc";

/// The logins that flags and their files give.
pub(super) fn user_credentials(args: &LoginArgs) -> Result<UserCredentials, SettingError> {
    let bearer = match &args.bearer {
        None => None,
        Some(BearerArg::Token(token)) => Some(token.clone()),
        Some(BearerArg::File(file)) => {
            let wrong = |error| {
                SettingError::new(format!("--bearer: {} contains no token", file.display()))
                    .caused_by(error)
            };
            Some(token(&read_text("--bearer", file)?).map_err(wrong)?)
        }
    };
    let netrc = match (&args.netrc_file, args.netrc) {
        (Some(file), _) => Some(read_netrc("--netrc-file", file)?),
        (None, true) => Some(read_netrc("--netrc", &home_netrc_path()?)?),
        (None, false) => None,
    };
    Ok(UserCredentials {
        login: args.user.as_ref().map(login).transpose()?,
        bearer,
        netrc,
    })
}

fn login(user: &UserArg) -> Result<Login, SettingError> {
    let password = user
        .password
        .clone()
        .map_or_else(|| ask_password(&user.name, PASSWORD_HINT), Ok)?;
    Ok(Login {
        user: user.name.clone(),
        password,
    })
}

/// Completes each URL that names a user without a password: with that of `-u` or the netrc for this user, or by a prompt, once for each
/// user of an origin. Without a terminal the password stays empty.
pub(crate) fn complete_passwords<'a>(
    urls: impl Iterator<Item = &'a mut Url>,
    known: &UserCredentials,
) -> Result<(), SettingError> {
    let mut prompted: HashMap<String, Secret> = HashMap::new();
    // A token replaces every login.
    for url in urls.filter(|_| known.bearer.is_none()) {
        if url.username().is_empty() || url.password().is_some() {
            continue;
        }
        let user = percent_decode_str(url.username()).decode_utf8_lossy();
        let login = known.login.as_ref().filter(|login| login.user == user);
        let in_netrc = || known.netrc.as_ref()?.password(url.host_str()?, &user);
        let host = Target::from_url(url).map_or_else(String::new, |target| target.to_string());
        let user_at_host = format!("{user} at {host}");
        let password = match login.map(|login| login.password.clone()).or_else(in_netrc) {
            Some(password) => password,
            None if prompted.contains_key(&user_at_host) => prompted[&user_at_host].clone(),
            None if password_prompt::can_prompt() => {
                let password = ask_password(&user_at_host, PASSWORD_HINT)?;
                prompted.insert(user_at_host, password.clone());
                password
            }
            None => continue,
        };
        let encoded = utf8_percent_encode(password.expose(), NON_ALPHANUMERIC).to_string();
        // A URL with a user can have a password.
        let _ = url.set_password(Some(&encoded));
    }
    Ok(())
}

/// Asks for a password on the terminal. `otherwise` is the hint where there is none.
pub(super) fn ask_password(user: &str, otherwise: &'static str) -> Result<Secret, SettingError> {
    password_prompt::prompt(&format!("Password for {user}: "))
        .map(Secret::new)
        .map_err(|error| match error {
            PromptError::Interrupted => SettingError::interrupted(),
            PromptError::End => SettingError::new(format!("no password was given for {user}")),
            PromptError::NoTerminal(error) => {
                SettingError::new("cannot ask for the password: there is no terminal")
                    .caused_by(error)
                    .with_hint(otherwise)
            }
            PromptError::Unreadable(error) => {
                SettingError::new("the password cannot be read from the terminal").caused_by(error)
            }
        })
}

pub(super) fn home_netrc_path() -> Result<PathBuf, SettingError> {
    let home = || std::env::home_dir().map(|home| home.join(".netrc"));
    let named = std::env::var_os("NETRC").map(PathBuf::from).or_else(home);
    named.ok_or_else(|| {
        SettingError::new("--netrc: there is no home directory")
            .with_hint("name the file with --netrc-file FILE")
    })
}

pub(super) fn read_netrc(flag: &str, path: &Path) -> Result<Netrc, SettingError> {
    let text = read_text(flag, path)?;
    Netrc::parse(&text).map_err(|error| {
        SettingError::new(format!("{flag}: {} cannot be used", path.display())).caused_by(error)
    })
}

pub(super) fn read_file(flag: &str, path: &Path) -> Result<Vec<u8>, SettingError> {
    std::fs::read(path).map_err(|error| {
        SettingError::new(format!("{flag}: cannot read {}", path.display())).caused_by(error)
    })
}

pub(super) fn read_text(flag: &str, path: &Path) -> Result<String, SettingError> {
    let bytes = read_file(flag, path)?;
    String::from_utf8(bytes)
        .map_err(|_| SettingError::new(format!("{flag}: {} is not text", path.display())))
}
