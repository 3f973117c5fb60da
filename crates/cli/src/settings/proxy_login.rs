//! The login for a proxy: from its URL, a flag or a file, the variable, a netrc, or a prompt, in this order. `haul get` and `haul tunnel` share it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use haul_net::{Login, Netrc, Proxy, Secret};

use super::credentials::{ask_password, read_text};
use super::{SettingError, Sourced};
use crate::args::UserArg;
use crate::password_prompt;

/// A login that lists of processes do not show.
pub(super) const VARIABLE: &str = "HAUL_PROXY_USER";

/// The login that flags or a file give for a proxy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ProxyLoginOptions {
    /// The user, with or without the password.
    pub(crate) user: Option<Sourced<UserArg>>,
    /// The file with the password, or with user and password.
    pub(crate) file: Option<Sourced<PathBuf>>,
}

impl ProxyLoginOptions {
    /// A user and the file of a password belong together.
    pub(super) fn over(&self, below: Self) -> Self {
        match *self == Self::default() {
            true => below,
            false => self.clone(),
        }
    }
}

/// Logins from elsewhere than the options of a proxy.
#[derive(Debug)]
pub(super) struct ProxyLogins<'a> {
    pub(super) variable: Option<UserArg>,
    pub(super) netrc: Option<Netrc>,
    pub(super) passwords: &'a PromptedPasswords,
}

/// The login in the variable.
pub(super) fn of_variable(value: Option<String>) -> Result<Option<UserArg>, SettingError> {
    let user = value.map(|text| text.parse::<UserArg>()).transpose();
    // A variable that is set but empty is an error: a secret was not filled in.
    user.map_err(|error| {
        SettingError::new(format!("the variable {VARIABLE} cannot be used"))
            .caused_by(error)
            .with_hint("write it as USER:PASSWORD")
    })
}

impl ProxyLogins<'_> {
    /// The login for a proxy. `wished` is that of its options; `is_first` says whether the variable applies to it.
    pub(super) fn of(
        &self,
        proxy: &Proxy,
        wished: &ProxyLoginOptions,
        is_first: bool,
    ) -> Result<Option<Login>, SettingError> {
        if let Some(login) = &proxy.login {
            return self.completed(login, proxy, (wished, is_first)).map(Some);
        }
        if let Some(login) = self.wished(proxy, wished)? {
            return Ok(Some(login));
        }
        if let Some(user) = self.variable.as_ref().filter(|_| is_first) {
            return self.with_password(user, proxy).map(Some);
        }
        Ok(self
            .netrc
            .as_ref()
            .and_then(|netrc| netrc.login(&proxy.host)))
    }

    /// A user of a URL without a password: the one that is known for this user, or nothing.
    fn completed(
        &self,
        login: &Login,
        proxy: &Proxy,
        (wished, is_first): (&ProxyLoginOptions, bool),
    ) -> Result<Login, SettingError> {
        if !login.password.expose().is_empty() {
            return Ok(login.clone());
        }
        let user = &login.user;
        if let Some(found) = self.wished_of(user, wished)? {
            return Ok(found);
        }
        let variable = self.variable.as_ref().filter(|_| is_first);
        let variable = variable.filter(|other| other.name == *user);
        let password = variable
            .and_then(|user| user.password.clone())
            .or_else(|| self.netrc.as_ref()?.password(&proxy.host, user));
        let password = match password {
            Some(password) => password,
            None if self.passwords.may_ask() || self.passwords.knows(&whose(user, proxy)) => {
                self.passwords.ask(&whose(user, proxy))?
            }
            None => login.password.clone(),
        };
        Ok(Login {
            user: user.clone(),
            password,
        })
    }

    /// What is wished, if that is about this user.
    fn wished_of(
        &self,
        user: &str,
        wished: &ProxyLoginOptions,
    ) -> Result<Option<Login>, SettingError> {
        let login = |password| Login {
            user: user.to_owned(),
            password,
        };
        match (&wished.user, &wished.file) {
            (Some(wished), _) if wished.value.name != user => Ok(None),
            (
                Some(Sourced {
                    value:
                        UserArg {
                            password: Some(password),
                            ..
                        },
                    ..
                }),
                _,
            ) => Ok(Some(login(password.clone()))),
            (_, Some(file)) => Ok(Some(login(Secret::new(content(file)?)))),
            _ => Ok(None),
        }
    }

    fn wished(
        &self,
        proxy: &Proxy,
        wished: &ProxyLoginOptions,
    ) -> Result<Option<Login>, SettingError> {
        match (&wished.user, &wished.file) {
            (None, None) => Ok(None),
            (Some(user), Some(file)) if user.value.password.is_some() => Err(file
                .by
                .wrong("a password is given besides")
                .with_hint("leave one of them out")),
            (Some(user), None) => self.with_password(&user.value, proxy).map(Some),
            (Some(user), Some(file)) => Ok(Some(Login {
                user: user.value.name.clone(),
                password: Secret::new(content(file)?),
            })),
            (None, Some(file)) => both(file).map(Some),
        }
    }

    fn with_password(&self, user: &UserArg, proxy: &Proxy) -> Result<Login, SettingError> {
        let in_netrc = || self.netrc.as_ref()?.password(&proxy.host, &user.name);
        let password = match user.password.clone().or_else(in_netrc) {
            Some(password) => password,
            None => self.passwords.ask(&whose(&user.name, proxy))?,
        };
        Ok(Login {
            user: user.name.clone(),
            password,
        })
    }
}

fn whose(user: &str, proxy: &Proxy) -> String {
    format!("{user} at {}", proxy.address())
}

/// The first line of a file.
fn content(file: &Sourced<PathBuf>) -> Result<String, SettingError> {
    let text = read_text(&file.by.to_string(), &file.value)?;
    let line = text.lines().next().unwrap_or_default();
    let shown = file.value.display();
    match line.is_empty() {
        true => Err(file.by.wrong(format!("the first line of {shown} is empty"))),
        false => Ok(line.to_owned()),
    }
}

/// A user and the password.
fn both(file: &Sourced<PathBuf>) -> Result<Login, SettingError> {
    let line = content(file)?;
    let user: Option<UserArg> = line.parse().ok();
    match user {
        Some(UserArg {
            name,
            password: Some(password),
        }) => Ok(Login {
            user: name,
            password,
        }),
        _ => {
            let shown = file.value.display();
            let told = file.by.wrong(format!("{shown} holds a password alone"));
            let user = match file.by.is_key() {
                true => "user = \"NAME\" says whose it is; or write USER:PASSWORD into the file",
                false => "-U USER says whose it is; or write USER:PASSWORD into the file",
            };
            Err(told.with_hint(user))
        }
    }
}

/// Passwords from prompts. haul asks for each once, and for none when a running tunnel reads its settings again.
#[derive(Debug, Default)]
pub(crate) struct PromptedPasswords {
    /// By user and proxy.
    known: Mutex<HashMap<String, Secret>>,
    is_silent: AtomicBool,
}

impl PromptedPasswords {
    /// Asks no more from here on: a running tunnel cannot wait for the user.
    pub(crate) fn silence(&self) {
        self.is_silent.store(true, Ordering::Relaxed);
    }

    /// Whether haul may ask, and there is a terminal.
    fn may_ask(&self) -> bool {
        !self.is_silent() && password_prompt::can_prompt()
    }

    fn is_silent(&self) -> bool {
        self.is_silent.load(Ordering::Relaxed)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Secret>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn knows(&self, user_at_proxy: &str) -> bool {
        self.known().contains_key(user_at_proxy)
    }

    /// The password: the one that is known, or from a prompt.
    ///
    /// # Errors
    /// There is no terminal, or the user gives no password.
    fn ask(&self, user_at_proxy: &str) -> Result<Secret, SettingError> {
        if let Some(known) = self.known().get(user_at_proxy).cloned() {
            return Ok(known);
        }
        if self.is_silent() {
            return Err(SettingError::new(format!(
                "the password of {user_at_proxy} is not known, and nobody is asked while this runs"
            ))
            .with_hint("--proxy-password-file FILE, or password-file beside the proxy in the file of --config, says where it is"));
        }
        let password = ask_password(
            user_at_proxy,
            "-U USER:PASSWORD, --proxy-password-file FILE, or the variable HAUL_PROXY_USER",
        )?;
        self.known()
            .insert(user_at_proxy.to_owned(), password.clone());
        Ok(password)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn proxy(text: &str) -> Proxy {
        text.parse().unwrap()
    }

    fn wish(user: Option<&str>, file: Option<&Path>) -> ProxyLoginOptions {
        ProxyLoginOptions {
            user: user.map(|user| Sourced::flag("-U", user.parse().unwrap())),
            file: file.map(|file| Sourced::flag("--proxy-password-file", file.to_owned())),
        }
    }

    fn shown(login: Option<Login>) -> Option<String> {
        login.map(|login| format!("{}:{}", login.user, login.password.expose()))
    }

    #[test]
    fn what_is_nearer_to_the_proxy_goes_first() {
        let passwords = PromptedPasswords::default();
        passwords.silence();
        let logins = ProxyLogins {
            variable: Some("var:v".parse().unwrap()),
            netrc: Some(
                Netrc::parse(
                    "machine p.test login net password n\nmachine p.test login me password m",
                )
                .unwrap(),
            ),
            passwords: &passwords,
        };
        let of = |url: &str, user: Option<&str>, is_first| {
            shown(logins.of(&proxy(url), &wish(user, None), is_first).unwrap())
        };
        assert_eq!(
            of("http://url:u@p.test", Some("flag:f"), true).unwrap(),
            "url:u"
        );
        assert_eq!(of("p.test:80", Some("flag:f"), true).unwrap(), "flag:f");
        assert_eq!(of("p.test:80", None, true).unwrap(), "var:v");
        assert_eq!(of("p.test:80", None, false).unwrap(), "net:n");
        assert_eq!(of("q.test:80", None, false), None);
        // A name alone is completed.
        assert_eq!(of("p.test:80", Some("me"), true).unwrap(), "me:m");
        assert_eq!(of("http://me@p.test", None, false).unwrap(), "me:m");
        assert_eq!(
            of("http://flag@p.test", Some("flag:f"), true).unwrap(),
            "flag:f"
        );
        assert_eq!(of("http://x@q.test", Some("flag:f"), true).unwrap(), "x:");
        // The variable's password is the first proxy's, whoever else has a user of that name.
        assert_eq!(of("http://var@q.test", None, true).unwrap(), "var:v");
        assert_eq!(of("http://var@q.test", None, false).unwrap(), "var:");
        let nobody = logins.of(&proxy("q.test:80"), &wish(Some("me"), None), true);
        assert!(nobody.unwrap_err().to_string().contains("me at q.test:80"));
    }

    #[test]
    fn what_was_asked_for_is_known_when_settings_are_read_again() {
        let passwords = PromptedPasswords::default();
        passwords.silence();
        let secret = Secret::new("typed".to_owned());
        passwords
            .known()
            .insert("me at p.test:80".to_owned(), secret);
        let logins = ProxyLogins {
            variable: None,
            netrc: None,
            passwords: &passwords,
        };
        for (url, user) in [("p.test:80", Some("me")), ("http://me@p.test", None)] {
            let login = logins.of(&proxy(url), &wish(user, None), true).unwrap();
            assert_eq!(shown(login).unwrap(), "me:typed", "{url}");
        }
    }

    #[test]
    fn a_file_holds_the_password_or_both() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("f");
        let passwords = PromptedPasswords::default();
        let logins = ProxyLogins {
            variable: None,
            netrc: None,
            passwords: &passwords,
        };
        let of = |text: &str, user: Option<&str>| {
            std::fs::write(&file, text).unwrap();
            logins
                .of(&proxy("p.test:80"), &wish(user, Some(&file)), true)
                .map(shown)
        };
        assert_eq!(of("a:b\nmore", Some("me")).unwrap().unwrap(), "me:a:b");
        assert_eq!(of("me:a:b\r\n", None).unwrap().unwrap(), "me:a:b");
        for (text, user) in [
            ("alone", None),
            ("", Some("me")),
            ("\nx", Some("me")),
            ("x", Some("me:y")),
        ] {
            let error = of(text, user).unwrap_err().to_string();
            assert!(!error.contains("alone:"), "{error}");
        }
    }
}
