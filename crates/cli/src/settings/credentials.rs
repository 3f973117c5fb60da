//! Who the user is: passwords asked for, tokens and logins read from the files that flags name.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use haul_net::{Login, Netrc, Secret, Target, UserCredentials};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use url::Url;

use super::SettingError;
use crate::args::{BearerArg, RequestArgs, UserArg, token};
use crate::password_prompt::{self, PromptError};

/// How a password is given where nobody can be asked.
const PASSWORD_HINT: &str = "-u USER:PASSWORD, or --netrc";

/// Who the user is, by flags and the files they name.
pub(super) fn user_credentials(args: &RequestArgs) -> Result<UserCredentials, SettingError> {
    let bearer = match &args.bearer {
        None => None,
        Some(BearerArg::Token(token)) => Some(token.clone()),
        Some(BearerArg::File(file)) => {
            let wrong = |error| {
                SettingError::new(format!("--bearer: {} holds no token", file.display()))
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

/// Gives each URL that names a user and no password the one that is meant: that of `-u` or the netrc for this user, or one that
/// is asked for, once for each user of an origin. Where nobody can be asked it stays empty.
pub(super) fn complete_passwords<'a>(
    urls: impl Iterator<Item = &'a mut Url>,
    known: &UserCredentials,
) -> Result<(), SettingError> {
    let mut asked: HashMap<String, Secret> = HashMap::new();
    // A token goes before every login.
    for url in urls.filter(|_| known.bearer.is_none()) {
        if url.username().is_empty() || url.password().is_some() {
            continue;
        }
        let user = percent_decode_str(url.username()).decode_utf8_lossy();
        let given = known.login.as_ref().filter(|login| login.user == user);
        let in_netrc = || known.netrc.as_ref()?.password(url.host_str()?, &user);
        let host = Target::from_url(url).map_or_else(String::new, |target| target.to_string());
        let whose = format!("{user} at {host}");
        let password = match given.map(|login| login.password.clone()).or_else(in_netrc) {
            Some(password) => password,
            None if asked.contains_key(&whose) => asked[&whose].clone(),
            None if password_prompt::can_prompt() => {
                let password = ask_password(&whose, PASSWORD_HINT)?;
                asked.insert(whose, password.clone());
                password
            }
            None => continue,
        };
        let written = utf8_percent_encode(password.expose(), NON_ALPHANUMERIC).to_string();
        // A URL with a user can have a password.
        let _ = url.set_password(Some(&written));
    }
    Ok(())
}

/// Asks on the terminal, without showing what is typed. `otherwise` is how a password is given where there is none.
pub(super) fn ask_password(user: &str, otherwise: &'static str) -> Result<Secret, SettingError> {
    password_prompt::prompt(&format!("Password for {user}: "))
        .map(Secret::new)
        .map_err(|no| match no {
            PromptError::Interrupted => SettingError::interrupted(),
            PromptError::End => SettingError::new(format!("no password was given for {user}")),
            PromptError::NoTerminal(error) => {
                SettingError::new("there is no terminal to ask for the password on")
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
            .with_hint("--netrc-file FILE names one")
    })
}

pub(super) fn read_netrc(flag: &str, path: &Path) -> Result<Netrc, SettingError> {
    let text = read_text(flag, path)?;
    Netrc::parse(&text).map_err(|error| {
        SettingError::new(format!("{flag}: {} cannot be used", path.display())).caused_by(error)
    })
}

/// The bytes of a file that a flag names.
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
