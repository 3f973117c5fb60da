//! What somebody has said, and who: a flag, or a key of a file. Whatever turns out to be wrong with it later is told with that.

use std::fmt;
use std::sync::Arc;

use super::SettingError;

/// Who has said something.
#[derive(Debug, Clone)]
pub(crate) enum OptionSource {
    /// A flag, with its dashes.
    Flag(&'static str),
    /// A key of a file.
    Key {
        /// The file and the line.
        place: Arc<str>,
        /// Its name.
        key: Arc<str>,
    },
}

/// What somebody has said. It is the same, whoever did.
#[derive(Debug, Clone)]
pub(crate) struct Sourced<T> {
    /// It.
    pub(crate) value: T,
    /// Who has said it.
    pub(crate) by: OptionSource,
}

impl OptionSource {
    /// Something is wrong with it.
    pub(super) fn wrong(&self, what: impl fmt::Display) -> SettingError {
        SettingError::new(format!("{self}: {what}"))
    }

    /// What the flag or the key is called.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Flag(name) => name,
            Self::Key { key, .. } => key,
        }
    }

    /// What is called as this is but for its end: `--proxy-cert` beside `--proxy-key`.
    pub(super) fn beside(&self, own: &str, other: &str) -> String {
        let name = self.name();
        format!("{}{other}", name.strip_suffix(own).unwrap_or(name))
    }

    /// What a message begins with that does not name the key: the file and the line, of a flag nothing.
    pub(super) fn prefix(&self) -> String {
        match self {
            Self::Flag(_) => String::new(),
            Self::Key { place, .. } => format!("{place}: "),
        }
    }

    /// Whether it is of a file.
    pub(super) fn is_key(&self) -> bool {
        matches!(self, Self::Key { .. })
    }
}

impl fmt::Display for OptionSource {
    /// `--proxy-cacert`, `tunnel.toml:5: proxy-cacert`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) => f.write_str(name),
            Self::Key { place, key } => write!(f, "{place}: {key}"),
        }
    }
}

impl<T> Sourced<T> {
    /// By a flag.
    pub(crate) fn flag(name: &'static str, value: T) -> Self {
        Self {
            value,
            by: OptionSource::Flag(name),
        }
    }

    /// Something else, said by the same.
    pub(crate) fn map<U>(self, other: impl FnOnce(T) -> U) -> Sourced<U> {
        Sourced {
            value: other(self.value),
            by: self.by,
        }
    }

    /// The same without being owned.
    pub(crate) fn as_ref<U: ?Sized>(&self) -> Sourced<&U>
    where
        T: AsRef<U>,
    {
        Sourced {
            value: self.value.as_ref(),
            by: self.by.clone(),
        }
    }
}

impl<T: PartialEq> PartialEq for Sourced<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<T: Eq> Eq for Sourced<T> {}
