//! A setting that cannot be used: what is wrong, what to do about it, how the program ends.

use std::borrow::Cow;

use crate::exit::ExitReason;

/// A setting that cannot be used, or a question about one that a signal ended.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct SettingError {
    /// What is wrong.
    text: String,
    /// What to do about it.
    hint: Option<Cow<'static, str>>,
    /// How the program ends.
    exit: ExitReason,
    /// What said so.
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

    /// A signal came before all settings were known.
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

    /// What to do about it, where that is known.
    pub(crate) fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}
