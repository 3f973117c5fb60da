//! Errors on their way to Python: the exceptions of `haul`, with the words of the engine and hints that name Python's arguments.

use std::error::Error;
use std::fmt;

use haul_net::redacted_url;
use haul_transfer::batch::error_chain;
use haul_transfer::bucket::{BucketError, DeletionFailure};
use haul_transfer::put::PutError;
use haul_transfer::{ErrorClass, GetError, InputError, is_busy_status};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use url::Url;

use crate::remedies::remedies_hint;

/// An error as its exception has it.
#[derive(Debug, Clone)]
pub(crate) struct HaulError {
    /// Selects the class of the exception.
    pub(crate) class: ErrorClass,
    /// The message with its sources, in one line.
    pub(crate) text: String,
    /// The cause in a few words, the same for all URLs.
    pub(crate) kind: String,
    /// The status of the last response, if that is why it failed.
    pub(crate) status: Option<u16>,
    /// The URL without secrets.
    pub(crate) url: Option<String>,
    /// What the user can do about it.
    pub(crate) hint: Option<String>,
    /// Whether the same call may succeed later.
    pub(crate) is_retryable: bool,
}

impl HaulError {
    /// A wrong argument, or an object that cannot be used as it was.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::of_class(ErrorClass::Usage, text)
    }

    /// An error without a response.
    pub(crate) fn of_class(class: ErrorClass, text: impl Into<String>) -> Self {
        Self {
            class,
            text: text.into(),
            kind: class.name().to_owned(),
            status: None,
            url: None,
            hint: None,
            is_retryable: false,
        }
    }

    /// An argument that was refused, with the reason.
    pub(crate) fn argument(name: &str, error: &dyn Error) -> Self {
        Self::usage(format!("{name}: {}", chain_text(error)))
    }

    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }

    /// An error of this machine's files.
    pub(crate) fn local(text: &str, error: &dyn Error) -> Self {
        Self::of_class(
            ErrorClass::LocalIo,
            format!("{text}: {}", chain_text(error)),
        )
    }

    /// A download that failed.
    pub(crate) fn of_download(error: &GetError, url: &Url) -> Self {
        Self {
            class: error.class(),
            text: chain_text(error),
            kind: error.cause(),
            status: error.status().map(|status| status.as_u16()),
            url: Some(redacted_url(url)),
            hint: remedies_hint(&error.remedies()),
            is_retryable: error.is_transient(),
        }
    }

    /// An upload that failed.
    pub(crate) fn of_upload(error: &PutError, target: String) -> Self {
        let status = match error {
            PutError::Status { status, .. } => Some(status.as_u16()),
            PutError::Store(error) => error.status().map(|status| status.as_u16()),
            _ => None,
        };
        let is_retryable = match error {
            PutError::Store(error) => error.is_transient(),
            PutError::Transport { source, .. } => source.is_transient(),
            PutError::Status {
                status,
                retry_after,
                ..
            } => is_busy_status(*status) || retry_after.is_some(),
            PutError::Changed { .. } | PutError::Locked { .. } | PutError::Interrupted { .. } => {
                true
            }
            _ => false,
        };
        let class = error.class();
        Self {
            class,
            text: chain_text(error),
            kind: status.map_or_else(|| class.name().to_owned(), |status| status.to_string()),
            status,
            url: Some(target),
            hint: remedies_hint(&error.remedies()),
            is_retryable,
        }
    }

    /// A request about a bucket that failed.
    pub(crate) fn of_bucket(error: &BucketError, url: Option<String>) -> Self {
        let BucketError::Store(store) = error else {
            return Self::of_class(error.class(), error.to_string());
        };
        let status = store.status().map(|status| status.as_u16());
        let class = error.class();
        Self {
            kind: status.map_or_else(|| class.name().to_owned(), |status| status.to_string()),
            status,
            url,
            hint: remedies_hint(&store.remedies()),
            is_retryable: store.is_transient(),
            ..Self::of_class(class, chain_text(error))
        }
    }

    /// Something that was named or found, and is not transferred.
    pub(crate) fn of_input(error: &InputError) -> Self {
        let text = chain_text(error);
        if let Some(store) = error.store_error() {
            return Self {
                text,
                ..Self::of_bucket(store, None)
            };
        }
        let hint = match error {
            InputError::TargetTaken { .. } => Some("upload it to another prefix"),
            InputError::CopyTargetTaken { .. } => Some("copy it to another prefix"),
            error if error.is_folder_link() => Some("follow_links=True follows such links"),
            _ => None,
        };
        Self {
            hint: hint.map(str::to_owned),
            ..Self::of_class(error.class(), text)
        }
    }

    /// A file or an object that was not deleted.
    pub(crate) fn of_deletion(failure: &DeletionFailure, target: String) -> Self {
        match failure {
            DeletionFailure::Object { failure: cause, .. } => Self {
                kind: cause.code.clone(),
                url: Some(target),
                ..Self::of_class(ErrorClass::Network, failure.to_string())
            },
            DeletionFailure::File { .. } => {
                Self::of_class(ErrorClass::LocalIo, failure.to_string())
            }
        }
    }
}

impl fmt::Display for HaulError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for HaulError {}

impl From<HaulError> for PyErr {
    fn from(error: HaulError) -> Self {
        Python::attach(|py| exception(py, &error).unwrap_or_else(|failure| failure))
    }
}

fn exception(py: Python<'_>, error: &HaulError) -> PyResult<PyErr> {
    static CONSTRUCTOR: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let constructor = CONSTRUCTOR.get_or_try_init(py, || {
        let module = py.import("haul._errors")?;
        PyResult::Ok(module.getattr("_from_parts")?.unbind())
    })?;
    let value = constructor.bind(py).call1((
        error.class.name(),
        &error.text,
        &error.kind,
        error.status,
        &error.url,
        &error.hint,
        error.is_retryable,
    ))?;
    Ok(PyErr::from_value(value))
}

/// An exception for what must not happen.
pub(crate) fn bug(text: &str) -> PyErr {
    PyRuntimeError::new_err(format!("{text}: this is a bug of haul"))
}

/// An error and its sources in one line.
pub(crate) fn chain_text(error: &dyn Error) -> String {
    error_chain(error).replace(char::is_control, "\u{fffd}")
}
