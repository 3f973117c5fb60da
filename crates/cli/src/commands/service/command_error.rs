//! Why a server did not begin: what happened, what to do, and with which code it ends.

use haul_serve::tls::CertificateError;
use haul_service::listen::{InheritedSocketsError, ListenError};

use crate::exit::ExitReason;
use crate::message::{self, JsonOutputs};
use crate::settings::{OptionSource, SettingError};

/// What there is to tell.
#[derive(Debug)]
pub(crate) struct CommandError {
    /// What happened.
    text: String,
    /// What to do about it.
    hint: Option<String>,
    /// How the program ends.
    exit: ExitReason,
}

impl CommandError {
    /// On this machine: a disk, a limit, a permission.
    pub(crate) fn local(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            hint: None,
            exit: ExitReason::LocalIo,
        }
    }

    /// On the command line.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self {
            exit: ExitReason::Usage,
            ..Self::local(text)
        }
    }

    /// Of the network, or of whoever is asked over it.
    pub(crate) fn network(text: impl Into<String>) -> Self {
        Self {
            exit: ExitReason::Network,
            ..Self::local(text)
        }
    }

    /// What was looked for is not there.
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self {
            exit: ExitReason::SomeFailed,
            ..Self::local(text)
        }
    }

    /// With what to do about it.
    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }

    /// Of what the key of a file says: with its place. Of a flag as it is.
    pub(crate) fn at_source(self, by: &OptionSource) -> Self {
        match by {
            OptionSource::Flag(_) => self,
            OptionSource::Key { .. } => Self {
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
    pub(crate) fn report(&self) -> ExitReason {
        JsonOutputs::default().report_failure(self.exit, &self.text, self.hint.as_deref())
    }
}

impl From<SettingError> for CommandError {
    fn from(error: SettingError) -> Self {
        Self {
            text: message::chain_text(&error),
            hint: error.hint().map(str::to_owned),
            exit: error.exit_reason(),
        }
    }
}

impl From<ListenError> for CommandError {
    fn from(error: ListenError) -> Self {
        Self {
            text: message::chain_text(&error),
            hint: error.hint(),
            exit: ExitReason::from_listen_error(&error),
        }
    }
}

impl From<InheritedSocketsError> for CommandError {
    fn from(error: InheritedSocketsError) -> Self {
        ListenError::from(error).into()
    }
}

impl From<CertificateError> for CommandError {
    fn from(error: CertificateError) -> Self {
        Self {
            text: message::chain_text(&error),
            hint: error.hint(),
            exit: ExitReason::Usage,
        }
    }
}
