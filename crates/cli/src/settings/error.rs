//! Errors of settings.

use std::borrow::Cow;
use std::fmt::Display;

use crate::args::{GivenOptionError, OptionSource, ValueError};
use crate::exit::ExitReason;
use crate::message::{self, JsonOutputs};

/// A setting that cannot be used, or a prompt that a signal ended.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct SettingError {
    text: String,
    hint: Option<Cow<'static, str>>,
    exit: ExitReason,
    #[source]
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl SettingError {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            hint: None,
            exit: ExitReason::Usage,
            source: None,
        }
    }

    /// An error about an option, with its source.
    pub(super) fn at(source: &OptionSource, text: impl Display) -> Self {
        Self::new(format!("{source}: {text}"))
    }

    pub(super) fn caused_by(
        self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self {
            source: Some(source.into()),
            ..self
        }
    }

    pub(super) fn with_hint(self, hint: impl Into<Cow<'static, str>>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }

    /// A signal ended a prompt.
    pub(super) fn interrupted() -> Self {
        Self {
            exit: ExitReason::Interrupted,
            ..Self::new("interrupted")
        }
    }

    /// How the program ends.
    pub(crate) fn exit_reason(&self) -> ExitReason {
        self.exit
    }

    /// Reports it before any job, and returns the exit code.
    pub(crate) fn report(&self, outputs: JsonOutputs) -> ExitReason {
        outputs.report_failure(self.exit, &message::chain_text(self), self.hint())
    }

    /// What to do about it, if known.
    pub(crate) fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl From<ValueError> for SettingError {
    fn from(error: ValueError) -> Self {
        Self {
            hint: error.hint().map(|hint| hint.to_owned().into()),
            ..Self::new(error.to_string())
        }
    }
}

impl From<GivenOptionError> for SettingError {
    fn from(error: GivenOptionError) -> Self {
        Self {
            hint: error.hint.map(Cow::Owned),
            ..Self::at(&error.source, error.text)
        }
    }
}
