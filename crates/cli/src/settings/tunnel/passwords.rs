//! Passwords that are asked for on the terminal, each once: what runs cannot wait for an answer.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use haul_net::Secret;

use crate::password_prompt;
use crate::settings::SettingError;
use crate::settings::credentials::ask_password;

/// Passwords that were asked for. Nobody is asked twice, and nobody when settings are read again.
#[derive(Debug, Default)]
pub(crate) struct PromptedPasswords {
    /// By user and proxy.
    known: Mutex<HashMap<String, Secret>>,
    /// Whether the time of questions is over.
    is_silent: AtomicBool,
}

impl PromptedPasswords {
    /// Asks no more from now on: what runs cannot wait for an answer.
    pub(crate) fn silence(&self) {
        self.is_silent.store(true, Ordering::Relaxed);
    }

    /// Whether there is somebody to ask.
    pub(super) fn may_ask(&self) -> bool {
        !self.is_silent() && password_prompt::can_prompt()
    }

    fn is_silent(&self) -> bool {
        self.is_silent.load(Ordering::Relaxed)
    }

    /// All of them.
    pub(super) fn known(&self) -> MutexGuard<'_, HashMap<String, Secret>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it was asked for.
    pub(super) fn knows(&self, whose: &str) -> bool {
        self.known().contains_key(whose)
    }

    /// The password, which is asked for unless it is known.
    ///
    /// # Errors
    /// When it is not known and nobody answers.
    pub(super) fn ask(&self, whose: &str) -> Result<Secret, SettingError> {
        if let Some(known) = self.known().get(whose).cloned() {
            return Ok(known);
        }
        if self.is_silent() {
            return Err(SettingError::new(format!(
                "the password of {whose} is not known, and nobody is asked while this runs"
            ))
            .with_hint("--proxy-password-file FILE, or password-file beside the proxy in the file of --config, says where it is"));
        }
        let password = ask_password(
            whose,
            "-U USER:PASSWORD, --proxy-password-file FILE, or the variable HAUL_PROXY_USER",
        )?;
        self.known().insert(whose.to_owned(), password.clone());
        Ok(password)
    }
}
