//! Why something that was named, or found in a folder or a list, is not transferred. The rest of the run is not concerned.

use std::io;
use std::path::PathBuf;

use haul_s3::S3Address;

use crate::bucket::BucketError;
use crate::error::ErrorClass;
use crate::folder_walk::{FolderProblem, FolderProblemKind};
use crate::put::UnusableNameError;
use crate::sync::ContentError;

/// Why something is not transferred.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// A file or folder cannot be read.
    #[error("cannot read {name}")]
    Unreadable {
        /// Its path.
        name: String,
        /// The system's error.
        source: io::Error,
    },
    /// A list of paths cannot be read any further.
    #[error("cannot read {name}")]
    List {
        /// The list.
        name: String,
        /// The system's error.
        source: io::Error,
    },
    /// A folder was named, and folders are not walked.
    #[error("{} is a folder", .0.display())]
    IsFolder(PathBuf),
    /// What was named is not a file.
    #[error("{0}")]
    Named(FolderProblem),
    /// A name of a folder.
    #[error("{0}")]
    InFolder(FolderProblem),
    /// No target has the file's name.
    #[error("{} is not uploaded", path.display())]
    Name {
        path: PathBuf,
        source: UnusableNameError,
    },
    /// Another file goes to the same target.
    #[error("{} is not uploaded: another {} was", path.display(), name.display())]
    TargetTaken {
        path: PathBuf,
        /// Its name below the target.
        name: PathBuf,
    },
    /// Another object is copied to the same target.
    #[error("{object} is not copied: another {name} was")]
    CopyTargetTaken {
        object: S3Address,
        /// Its name below the target.
        name: String,
    },
    /// The target of a copy is its source.
    #[error("{0} would be copied to itself")]
    CopyToItself(S3Address),
    /// The store does not say what there is.
    #[error(transparent)]
    Store(Box<BucketError>),
    /// The store does not say what an object is.
    #[error(transparent)]
    Object(Box<BucketError>),
    /// The lists of a sync are in no order.
    #[error("{0}")]
    Disordered(String),
    /// A file of a sync would be written behind a link to a folder.
    #[error("{0} is a link to a folder, which haul does not follow: nothing below it was copied")]
    BehindLink(String),
    /// The folder gives the name of another file back for its own (row B10).
    #[error(
        "{0} is the name of another file, which differs only in the case or form of letters: the folder has one file for both"
    )]
    FoldedName(String),
    /// The contents of both sides of a sync cannot be compared.
    #[error("{name}")]
    Comparison {
        /// The file of the source.
        name: String,
        source: Box<ContentError>,
    },
}

impl From<BucketError> for InputError {
    fn from(error: BucketError) -> Self {
        Self::Store(Box::new(error))
    }
}

impl InputError {
    /// What kind of failure it is.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Named(problem) if !problem.is_special_file() => ErrorClass::LocalIo,
            Self::IsFolder(_)
            | Self::Named(_)
            | Self::TargetTaken { .. }
            | Self::CopyTargetTaken { .. }
            | Self::CopyToItself(_) => ErrorClass::Usage,
            Self::Disordered(_) => ErrorClass::Network,
            _ => self
                .store_error()
                .map_or(ErrorClass::LocalIo, BucketError::class),
        }
    }

    /// The path or address that is not transferred, or that is in the way; `None` if it is not about one.
    #[must_use]
    pub fn name(&self) -> Option<String> {
        Some(match self {
            Self::Unreadable { name, .. }
            | Self::BehindLink(name)
            | Self::FoldedName(name)
            | Self::Comparison { name, .. } => name.clone(),
            Self::Named(FolderProblem { path, .. })
            | Self::InFolder(FolderProblem { path, .. })
            | Self::IsFolder(path)
            | Self::Name { path, .. }
            | Self::TargetTaken { path, .. } => path.display().to_string(),
            Self::CopyTargetTaken { object, .. } | Self::CopyToItself(object) => object.to_string(),
            Self::Object(error) => match &**error {
                BucketError::Store(error) => error.address.to_string(),
                BucketError::Interrupted => return None,
            },
            Self::List { .. } | Self::Store(_) | Self::Disordered(_) => return None,
        })
    }

    /// The error of the store, if it is one.
    #[must_use]
    pub fn store_error(&self) -> Option<&BucketError> {
        match self {
            Self::Store(error) | Self::Object(error) => Some(error),
            Self::Comparison { source, .. } => match &**source {
                ContentError::Store(error) => Some(error),
                ContentError::File(_) => None,
            },
            _ => None,
        }
    }

    /// Whether it is not a file, or haul does not follow it. The user may know that.
    #[must_use]
    pub fn is_left_out(&self) -> bool {
        match self {
            Self::InFolder(problem) => problem.is_left_out(),
            Self::BehindLink(_) | Self::FoldedName(_) => true,
            _ => false,
        }
    }

    /// Whether a link to a folder is in the way.
    #[must_use]
    pub fn is_folder_link(&self) -> bool {
        match self {
            Self::InFolder(problem) => matches!(problem.kind, FolderProblemKind::FolderLink),
            Self::BehindLink(_) => true,
            _ => false,
        }
    }
}
