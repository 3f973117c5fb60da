//! The login for a proxy: from its URL, a flag or a file, the variable, a netrc, or a prompt, in this order. `haul get` and `haul tunnel` share it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use haul_net::{Login, Netrc, Proxy, Secret};

use super::credentials::{ask_password, read_text};
use super::{EnvironmentReader, SettingError};
use crate::args::{OptionSource, Sourced, UserArg};
use crate::password_prompt;

/// A login that lists of processes do not show.
const VARIABLE: &str = "HAUL_PROXY_USER";

#[derive(Debug, Default)]
pub(super) struct ProxyLoginOptions {
    /// The user, with or without the password.
    pub(super) user: Option<UserArg>,
    /// The file with the password, or with user and password.
    pub(super) password_file: Option<Sourced<PathBuf>>,
}

/// Logins from elsewhere than the options of a proxy.
#[derive(Debug)]
pub(super) struct ProxyLogins<'a> {
    variable: Option<UserArg>,
    netrc: Option<Netrc>,
    passwords: &'a PromptedPasswords,
}

/// Passwords from prompts, each asked for once. A running tunnel asks for none: it cannot wait for an answer.
#[derive(Debug, Default)]
pub(crate) struct PromptedPasswords {
    /// By user and proxy.
    known: Mutex<HashMap<String, Secret>>,
    is_silent: AtomicBool,
}

impl<'a> ProxyLogins<'a> {
    pub(super) fn new(
        environment: EnvironmentReader,
        netrc: Option<Netrc>,
        passwords: &'a PromptedPasswords,
    ) -> Result<Self, SettingError> {
        let variable = environment(VARIABLE).map(|text| text.parse::<UserArg>());
        Ok(Self {
            // A variable that is set but empty is an error: a secret was not filled in.
            variable: variable.transpose().map_err(|error| {
                SettingError::new(format!("the variable {VARIABLE} cannot be used"))
                    .caused_by(error)
                    .with_hint("write it as USER:PASSWORD")
            })?,
            netrc,
            passwords,
        })
    }

    /// The login for a proxy with these options.
    pub(super) fn login(
        &self,
        proxy: &Proxy,
        options: &ProxyLoginOptions,
        takes_variable: bool,
    ) -> Result<Option<Login>, SettingError> {
        let in_url = proxy.login.as_ref();
        if let Some(login) = in_url.filter(|login| !login.password.expose().is_empty()) {
            return Ok(Some(login.clone()));
        }
        let url_user = in_url.map(|login| login.user.as_str());
        let of_options = user_of_options(options, url_user)?;
        let variable = self.variable.clone().filter(|_| takes_variable);
        let candidates: Vec<UserArg> = of_options.into_iter().chain(variable).collect();
        let first = candidates.first().map(|user| user.name.as_str());
        let Some(user) = url_user.or(first).map(str::to_owned) else {
            let netrc = self.netrc.as_ref();
            return Ok(netrc.and_then(|netrc| netrc.login(&proxy.host)));
        };
        let mut of_user = candidates
            .into_iter()
            .filter(|candidate| candidate.name == user);
        let known = of_user
            .find_map(|candidate| candidate.password)
            .or_else(|| self.netrc.as_ref()?.password(&proxy.host, &user));
        let user_at_proxy = format!("{user} at {}", proxy.address());
        let password = match known {
            Some(password) => password,
            None if url_user.is_none() || self.passwords.is_available(&user_at_proxy) => {
                self.passwords.ask(&user_at_proxy)?
            }
            // A URL may mean a user without a password.
            None => Secret::new(String::new()),
        };
        Ok(Some(Login { user, password }))
    }
}

/// The user of -U and --proxy-password-file. Without -U the file has both, or the password of the user in the URL.
fn user_of_options(
    options: &ProxyLoginOptions,
    url_user: Option<&str>,
) -> Result<Option<UserArg>, SettingError> {
    let Some(Sourced {
        value: file,
        source,
    }) = &options.password_file
    else {
        return Ok(options.user.clone());
    };
    let line = first_line(source, file)?;
    let named = options.user.as_ref();
    if named.is_some_and(|user| user.password.is_some()) {
        let error = SettingError::at(source, "a password is given elsewhere, too");
        return Err(error.with_hint("leave one of them out"));
    }
    if let Some(name) = named.map(|user| user.name.as_str()).or(url_user) {
        return Ok(Some(UserArg {
            name: name.to_owned(),
            password: Some(Secret::new(line)),
        }));
    }
    let user: Option<UserArg> = line.parse().ok();
    match user.filter(|user| user.password.is_some()) {
        Some(user) => Ok(Some(user)),
        None => {
            let text = format!("{} contains only a password", file.display());
            Err(
                SettingError::at(source, text).with_hint(if source.is_key() {
                    "name the user with user = \"NAME\"; or write USER:PASSWORD into the file"
                } else {
                    "name the user with -U USER; or write USER:PASSWORD into the file"
                }),
            )
        }
    }
}

fn first_line(source: &OptionSource, path: &Path) -> Result<String, SettingError> {
    let text = read_text(&source.to_string(), path)?;
    match text.lines().next().unwrap_or_default() {
        "" => {
            let text = format!("the first line of {} is empty", path.display());
            Err(SettingError::at(source, text))
        }
        line => Ok(line.to_owned()),
    }
}

impl PromptedPasswords {
    /// Asks no more from here on.
    pub(crate) fn silence(&self) {
        self.is_silent.store(true, Ordering::Relaxed);
    }

    fn is_silent(&self) -> bool {
        self.is_silent.load(Ordering::Relaxed)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Secret>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the password is known or can be asked for.
    fn is_available(&self, user_at_proxy: &str) -> bool {
        let can_ask = !self.is_silent() && password_prompt::can_prompt();
        can_ask || self.known().contains_key(user_at_proxy)
    }

    /// The known password, or the one that the user enters.
    fn ask(&self, user_at_proxy: &str) -> Result<Secret, SettingError> {
        if let Some(known) = self.known().get(user_at_proxy).cloned() {
            return Ok(known);
        }
        if self.is_silent() {
            let text = format!(
                "the password of {user_at_proxy} is not known, and a running tunnel cannot ask for it"
            );
            return Err(SettingError::new(text).with_hint(
                "name a file with it: --proxy-password-file FILE, or password-file in the file of --config",
            ));
        }
        let password = ask_password(
            user_at_proxy,
            "give it with -U USER:PASSWORD, --proxy-password-file FILE, or the variable HAUL_PROXY_USER",
        )?;
        let mut known = self.known();
        known.insert(user_at_proxy.to_owned(), password.clone());
        Ok(password)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(url: &str) -> Proxy {
        url.parse().unwrap()
    }

    /// The options with this -U and --proxy-password-file.
    fn given_login(user: Option<&str>, file: Option<&Path>) -> ProxyLoginOptions {
        ProxyLoginOptions {
            user: user.map(|user| user.parse().unwrap()),
            password_file: file.map(|file| Sourced {
                value: file.to_owned(),
                source: OptionSource::flag("proxy-password-file"),
            }),
        }
    }

    impl ProxyLogins<'_> {
        /// `USER:PASSWORD` for a proxy.
        fn login_text(
            &self,
            url: &str,
            options: &ProxyLoginOptions,
            takes_variable: bool,
        ) -> Result<Option<String>, SettingError> {
            let login = self.login(&proxy(url), options, takes_variable)?;
            Ok(login.map(|login| format!("{}:{}", login.user, login.password.expose())))
        }
    }

    #[test]
    fn the_login_nearest_to_the_proxy_is_used() {
        let passwords = PromptedPasswords::default();
        passwords.silence();
        let netrc = "machine p.test login net password n\nmachine p.test login me password m";
        let logins = ProxyLogins {
            variable: Some("var:v".parse().unwrap()),
            netrc: Some(Netrc::parse(netrc).unwrap()),
            passwords: &passwords,
        };
        let login = |url: &str, user: Option<&str>, is_first| {
            let given = given_login(user, None);
            logins.login_text(url, &given, is_first).unwrap()
        };
        let flag = Some("flag:f");
        assert_eq!(login("http://url:u@p.test", flag, true).unwrap(), "url:u");
        assert_eq!(login("p.test:80", flag, true).unwrap(), "flag:f");
        assert_eq!(login("p.test:80", None, true).unwrap(), "var:v");
        assert_eq!(login("p.test:80", None, false).unwrap(), "net:n");
        assert_eq!(login("q.test:80", None, false), None);
        // The password of a name alone is in the netrc or in another option.
        assert_eq!(login("p.test:80", Some("me"), true).unwrap(), "me:m");
        assert_eq!(login("http://me@p.test", None, false).unwrap(), "me:m");
        assert_eq!(login("http://flag@p.test", flag, true).unwrap(), "flag:f");
        assert_eq!(login("http://x@q.test", flag, true).unwrap(), "x:");
        // The variable's password is for the first proxy only, even if another has a user with that name.
        assert_eq!(login("http://var@q.test", None, true).unwrap(), "var:v");
        assert_eq!(login("http://var@q.test", None, false).unwrap(), "var:");
        let unknown = logins.login_text("q.test:80", &given_login(Some("me"), None), true);
        assert!(unknown.unwrap_err().to_string().contains("me at q.test:80"));
    }

    #[test]
    fn a_typed_password_is_known_after_a_reload() {
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
            let login = logins.login_text(url, &given_login(user, None), true);
            assert_eq!(login.unwrap().unwrap(), "me:typed", "{url}");
        }
    }

    #[test]
    fn a_password_file_has_the_password_or_the_whole_login() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("f");
        let passwords = PromptedPasswords::default();
        let logins = ProxyLogins {
            variable: None,
            netrc: None,
            passwords: &passwords,
        };
        let login = |text: &str, user: Option<&str>| {
            std::fs::write(&file, text).unwrap();
            logins.login_text("p.test:80", &given_login(user, Some(&file)), true)
        };
        assert_eq!(login("a:b\nmore", Some("me")).unwrap().unwrap(), "me:a:b");
        assert_eq!(login("me:a:b\r\n", None).unwrap().unwrap(), "me:a:b");
        for (text, user) in [
            ("alone", None),
            ("", Some("me")),
            ("\nx", Some("me")),
            ("x", Some("me:y")),
        ] {
            let error = login(text, user).unwrap_err().to_string();
            assert!(!error.contains("alone:"), "{error}");
        }
    }
}
