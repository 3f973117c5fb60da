//! Rights, and the part of the store that they cover.
//!
//! A scope covers a prefix as a whole: a user who may read `/a/b` may read and list that key and
//! all beneath it, and nothing beside or above it. So that user may not list `/` or `/a`, not even
//! to find `/a/b/`: a listing shows names, and the other names there belong to other users. In
//! return, a folder that may be listed may be listed to any depth, and a listing or tar file needs
//! no check for each entry.

use std::fmt;
use std::str::FromStr;

use http::Method;

use crate::{ObjectKey, ObjectKeyError};

/// What may be done with a key. The later implies the earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccessRight {
    /// Read it, and list it if it is a folder.
    Read,
    /// Read, replace and delete it.
    Write,
}

impl AccessRight {
    /// The right that a method needs; `None` for OPTIONS, which concerns the server and not its
    /// files. Unknown methods need the highest.
    #[must_use]
    pub fn required_for(method: &Method) -> Option<Self> {
        match *method {
            Method::OPTIONS => None,
            Method::GET | Method::HEAD => Some(Self::Read),
            _ => Some(Self::Write),
        }
    }
}

impl FromStr for AccessRight {
    type Err = AccessScopeError;

    fn from_str(text: &str) -> Result<Self, AccessScopeError> {
        match text {
            "ro" => Ok(Self::Read),
            "rw" => Ok(Self::Write),
            _ => Err(AccessScopeError::Right),
        }
    }
}

impl fmt::Display for AccessRight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "ro",
            Self::Write => "rw",
        })
    }
}

/// A right to a key and all beneath it. As text: `ro`, `rw`, `rw:/team/uploads`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AccessScope {
    /// The highest right.
    pub right: AccessRight,
    /// The key. The root covers everything.
    pub prefix: ObjectKey,
}

/// Why a text is not a scope. Contains nothing of the text: it may be the end of a password with a
/// colon in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AccessScopeError {
    /// A word other than `ro` and `rw`.
    #[error("the right is neither `ro` (read) nor `rw` (read and write)")]
    Right,
    /// A colon in the prefix, or in the password before it.
    #[error("there are too many colons: in a prefix a colon is written %3A")]
    Colons,
    /// The prefix is not a valid key.
    #[error("the prefix is written as in a URL, like `/team/my%20files`")]
    Prefix(#[source] ObjectKeyError),
}

impl AccessScope {
    /// A right to the whole store.
    #[must_use]
    pub fn everywhere(right: AccessRight) -> Self {
        Self {
            right,
            prefix: ObjectKey::root(),
        }
    }

    /// Whether this scope permits `right` on `key`.
    #[must_use]
    pub fn covers(&self, right: AccessRight, key: &ObjectKey) -> bool {
        right <= self.right && key.is_within(&self.prefix)
    }
}

impl FromStr for AccessScope {
    type Err = AccessScopeError;

    /// Ignores a slash at the end of the prefix.
    fn from_str(text: &str) -> Result<Self, AccessScopeError> {
        let Some((right, prefix)) = text.split_once(':') else {
            return Ok(Self::everywhere(text.parse()?));
        };
        let right = right.parse()?;
        if prefix.contains(':') {
            return Err(AccessScopeError::Colons);
        }
        let path = ObjectKey::parse(prefix).map_err(AccessScopeError::Prefix)?;
        Ok(Self {
            right,
            prefix: path.key,
        })
    }
}

impl fmt::Display for AccessScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.prefix.is_root() {
            return self.right.fmt(f);
        }
        write!(f, "{}:{}", self.right, self.prefix.escaped())
    }
}

/// What requests without credentials may do. Requests with credentials may do the same, besides
/// what their own scopes permit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum AnonymousAccess {
    /// Nothing; but if no access is configured at all, everything.
    #[default]
    None,
    /// What these scopes permit, whatever else is configured.
    Some(Vec<AccessScope>),
}
