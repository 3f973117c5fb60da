//! Rights, and the part of the store for which somebody has them.
//!
//! A scope holds a prefix as a whole: who may read `/a/b` may read, and list, that key and all beneath it, and nothing beside or
//! above it. So a user of `/a/b` may not list `/` or `/a`, not even to see the way to what is theirs: a listing shows names, and
//! the names beside the way are others'. They begin at `/a/b/`. In return a folder that may be listed may be listed to its
//! depths, and nobody has to look at each entry of a listing or a tar file whether it may be shown.

use std::fmt;
use std::str::FromStr;

use http::Method;

use crate::{ObjectKey, ObjectKeyError};

/// What may be done with a key. The later implies the earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccessRight {
    /// Read it, and list it when it is a folder.
    Read,
    /// Read, replace and delete it.
    Write,
}

impl AccessRight {
    /// What a method needs; `None` for OPTIONS, which is about the server and not about what it holds. Methods that are not known
    /// need the most.
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

/// A right to a key and all that lies beneath it. As text: `ro`, `rw`, `rw:/team/uploads`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AccessScope {
    /// The most that may be done there.
    pub right: AccessRight,
    /// Where. The root is everything.
    pub prefix: ObjectKey,
}

/// Why a text is no scope. Says nothing of the text: it may be the end of a password with a colon in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AccessScopeError {
    /// Another word than the two.
    #[error("the right is neither `ro` (read) nor `rw` (read and write)")]
    Right,
    /// A colon in the prefix, or in what came before.
    #[error("there are too many colons: in a prefix a colon is written %3A")]
    Colons,
    /// The prefix is no key.
    #[error("the prefix is written as in a URL, like `/team/my%20files`")]
    Prefix(#[source] ObjectKeyError),
}

impl AccessScope {
    /// A right to everything.
    #[must_use]
    pub fn everywhere(right: AccessRight) -> Self {
        Self {
            right,
            prefix: ObjectKey::root(),
        }
    }

    /// Whether it covers that.
    #[must_use]
    pub fn covers(&self, right: AccessRight, key: &ObjectKey) -> bool {
        right <= self.right && key.is_within(&self.prefix)
    }
}

impl FromStr for AccessScope {
    type Err = AccessScopeError;

    /// A slash at the end of the prefix makes no difference.
    fn from_str(text: &str) -> Result<Self, AccessScopeError> {
        let Some((right, prefix)) = text.split_once(':') else {
            return Ok(Self::everywhere(text.parse()?));
        };
        let right = right.parse()?;
        if prefix.contains(':') {
            return Err(AccessScopeError::Colons);
        }
        let named = ObjectKey::parse(prefix).map_err(AccessScopeError::Prefix)?;
        Ok(Self {
            right,
            prefix: named.key,
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

/// What those may do who do not say who they are. Those who do may do the same, besides what is theirs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum AnonymousAccess {
    /// Nothing, unless nothing at all is configured: then there is nobody else, and they may do everything.
    #[default]
    None,
    /// This much and no more, whatever else is configured.
    Some(Vec<AccessScope>),
}
