//! Why a server did not begin: what happened, what to do, and with which code it ends.

use haul_serve::tls::TlsError;
use haul_service::listen::{HandedError, ListenError};

use crate::exit::Exit;
use crate::message::{self, Form};
use crate::settings::{By, SettingError};

/// What there is to tell.
#[derive(Debug)]
pub(crate) struct Trouble {
    /// What happened.
    text: String,
    /// What to do about it.
    hint: Option<String>,
    /// How the program ends.
    exit: Exit,
}

impl Trouble {
    /// On this machine: a disk, a limit, a permission.
    pub(crate) fn local(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            hint: None,
            exit: Exit::LocalIo,
        }
    }

    /// On the command line.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self {
            exit: Exit::Usage,
            ..Self::local(text)
        }
    }

    /// Of the network, or of whoever is asked over it.
    pub(crate) fn network(text: impl Into<String>) -> Self {
        Self {
            exit: Exit::Network,
            ..Self::local(text)
        }
    }

    /// What was looked for is not there.
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self {
            exit: Exit::SomeFailed,
            ..Self::local(text)
        }
    }

    /// With what to do about it.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }

    /// Of what the key of a file says: with its place. Of a flag as it is.
    pub(crate) fn of(self, by: &By) -> Self {
        match by {
            By::Flag(_) => self,
            By::Key { .. } => Self {
                text: format!("{by}: {}", self.text),
                ..self
            },
        }
    }

    /// What happened, without what to do.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Prints it.
    pub(crate) fn tell(&self) -> Exit {
        Form::default().fail(self.exit, &self.text, self.hint.as_deref())
    }
}

impl From<SettingError> for Trouble {
    fn from(error: SettingError) -> Self {
        Self {
            text: message::chain(&error),
            hint: error.advice().map(str::to_owned),
            exit: error.exit(),
        }
    }
}

impl From<ListenError> for Trouble {
    fn from(error: ListenError) -> Self {
        Self {
            text: message::chain(&error),
            hint: error.hint(),
            exit: Exit::of_listen(&error),
        }
    }
}

impl From<HandedError> for Trouble {
    fn from(error: HandedError) -> Self {
        ListenError::from(error).into()
    }
}

impl From<TlsError> for Trouble {
    fn from(error: TlsError) -> Self {
        Self {
            text: message::chain(&error),
            hint: error.hint(),
            exit: Exit::Usage,
        }
    }
}
