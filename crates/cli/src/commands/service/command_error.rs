//! Why a server command failed: the message, the hint and the exit code.

use haul_serve::tls::CertificateError;
use haul_service::listen::{InheritedSocketsError, ListenError};

use crate::args::OptionSource;
use crate::exit::ExitReason;
use crate::message::{self, certificate_hint, listen_hint};
use crate::settings::SettingError;

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct CommandError {
    text: String,
    hint: Option<String>,
    exit: ExitReason,
}

impl CommandError {
    /// An error of this machine: a disk, a limit, a permission.
    pub(crate) fn local(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            hint: None,
            exit: ExitReason::LocalIo,
        }
    }

    /// An error in the command line.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self {
            exit: ExitReason::Usage,
            ..Self::local(text)
        }
    }

    /// An error of the network or of a peer.
    pub(crate) fn network(text: impl Into<String>) -> Self {
        Self {
            exit: ExitReason::Network,
            ..Self::local(text)
        }
    }

    /// Nothing was found, or not all.
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self {
            exit: ExitReason::SomeFailed,
            ..Self::local(text)
        }
    }

    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }

    /// Adds the file and line if a key of a file is the cause.
    pub(crate) fn at_source(self, source: &OptionSource) -> Self {
        match source {
            OptionSource::Flag(_) => self,
            OptionSource::Key { .. } => Self {
                text: format!("{source}: {}", self.text),
                ..self
            },
        }
    }

    /// The message without the hint.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn report(&self) -> ExitReason {
        message::print_line(&self.printed());
        self.exit
    }

    pub(crate) fn exit_reason(&self) -> ExitReason {
        self.exit
    }

    /// The error and its hint as printed.
    pub(crate) fn printed(&self) -> String {
        let hint = self.hint.as_deref().map(message::sanitize);
        message::error_text(&message::sanitize(&self.text), hint.as_deref())
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
            hint: listen_hint(&error),
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
            hint: certificate_hint(&error),
            exit: ExitReason::Usage,
        }
    }
}
