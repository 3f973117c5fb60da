//! Who the user is: passwords asked for, tokens and logins read from the files that flags name.

use std::path::{Path, PathBuf};

use haul_net::{Credentials, Login, Netrc, Secret};

use super::SettingError;
use crate::args::{Bearer, RequestArgs, User, token};
use crate::question::{self, NoAnswer};

/// Who the user is, by flags and the files they name.
pub(super) fn credentials(args: &RequestArgs) -> Result<Credentials, SettingError> {
    let bearer = match &args.bearer {
        None => None,
        Some(Bearer::Token(token)) => Some(token.clone()),
        Some(Bearer::File(file)) => {
            let wrong = |error| {
                SettingError::new(format!("--bearer: {} holds no token", file.display()))
                    .because(error)
            };
            Some(token(&text("--bearer", file)?).map_err(wrong)?)
        }
    };
    let netrc = match (&args.netrc_file, args.netrc) {
        (Some(file), _) => Some(netrc("--netrc-file", file)?),
        (None, true) => Some(netrc("--netrc", &home_netrc()?)?),
        (None, false) => None,
    };
    Ok(Credentials {
        login: args.user.as_ref().map(login).transpose()?,
        bearer,
        netrc,
    })
}

fn login(user: &User) -> Result<Login, SettingError> {
    let password = user
        .password
        .clone()
        .map_or_else(|| ask_password(&user.name), Ok)?;
    Ok(Login {
        user: user.name.clone(),
        password,
    })
}

/// Asks on the terminal, without showing what is typed.
fn ask_password(user: &str) -> Result<Secret, SettingError> {
    question::ask(&format!("Password for {user}: "))
        .map(Secret::new)
        .map_err(|no| match no {
            NoAnswer::Interrupted => SettingError::interrupted(),
            NoAnswer::End => SettingError::new(format!("no password was given for {user}")),
            NoAnswer::NoTerminal(error) => {
                SettingError::new("there is no terminal to ask for the password on")
                    .because(error)
                    .hint("-u USER:PASSWORD, or --netrc")
            }
            NoAnswer::Unreadable(error) => {
                SettingError::new("the password cannot be read from the terminal").because(error)
            }
        })
}

fn home_netrc() -> Result<PathBuf, SettingError> {
    let home = || std::env::home_dir().map(|home| home.join(".netrc"));
    let named = std::env::var_os("NETRC").map(PathBuf::from).or_else(home);
    named.ok_or_else(|| {
        SettingError::new("--netrc: there is no home directory").hint("--netrc-file FILE names one")
    })
}

fn netrc(flag: &str, path: &Path) -> Result<Netrc, SettingError> {
    let text = text(flag, path)?;
    Netrc::parse(&text).map_err(|error| {
        SettingError::new(format!("{flag}: {} cannot be used", path.display())).because(error)
    })
}

/// The bytes of a file that a flag names.
pub(super) fn read(flag: &str, path: &Path) -> Result<Vec<u8>, SettingError> {
    std::fs::read(path).map_err(|error| {
        SettingError::new(format!("{flag}: cannot read {}", path.display())).because(error)
    })
}

fn text(flag: &str, path: &Path) -> Result<String, SettingError> {
    let bytes = read(flag, path)?;
    String::from_utf8(bytes)
        .map_err(|_| SettingError::new(format!("{flag}: {} is not text", path.display())))
}
