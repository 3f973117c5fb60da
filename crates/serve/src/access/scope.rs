//! Rights, and the part of the store for which somebody has them.
//!
//! A scope holds a prefix as a whole: who may read `/a/b` may read, and list, that key and all beneath it, and nothing beside or
//! above it. So a user of `/a/b` may not list `/` or `/a`, not even to see the way to what is theirs: a listing shows names, and
//! the names beside the way are others'. They begin at `/a/b/`. In return a folder that may be listed may be listed to its
//! depths, and nobody has to look at each entry of a listing or a tar file whether it may be shown.

use std::fmt;
use std::str::FromStr;

use http::Method;

use crate::{Key, KeyError};

/// What may be done with a key. The later implies the earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Right {
    /// Read it, and list it when it is a folder.
    Read,
    /// Read, replace and delete it.
    Write,
}

impl Right {
    /// What a method needs; `None` for OPTIONS, which is about the server and not about what it holds. Methods that are not known
    /// need the most.
    #[must_use]
    pub fn needed(method: &Method) -> Option<Self> {
        match *method {
            Method::OPTIONS => None,
            Method::GET | Method::HEAD => Some(Self::Read),
            _ => Some(Self::Write),
        }
    }
}

impl FromStr for Right {
    type Err = ScopeError;

    fn from_str(text: &str) -> Result<Self, ScopeError> {
        match text {
            "ro" => Ok(Self::Read),
            "rw" => Ok(Self::Write),
            _ => Err(ScopeError::Right),
        }
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "ro",
            Self::Write => "rw",
        })
    }
}

/// A right to a key and all that lies beneath it. As text: `ro`, `rw`, `rw:/team/uploads`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Scope {
    /// The most that may be done there.
    pub right: Right,
    /// Where. The root is everything.
    pub prefix: Key,
}

/// Why a text is no scope. Says nothing of the text: it may be the end of a password with a colon in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ScopeError {
    /// Another word than the two.
    #[error("the right is neither `ro` (read) nor `rw` (read and write)")]
    Right,
    /// A colon in the prefix, or in what came before.
    #[error("there are too many colons: in a prefix a colon is written %3A")]
    Colons,
    /// The prefix is no key.
    #[error("the prefix is written as in a URL, like `/team/my%20files`")]
    Prefix(#[source] KeyError),
}

impl Scope {
    /// A right to everything.
    #[must_use]
    pub fn everywhere(right: Right) -> Self {
        Self {
            right,
            prefix: Key::root(),
        }
    }

    /// Whether it covers that.
    #[must_use]
    pub fn covers(&self, right: Right, key: &Key) -> bool {
        right <= self.right && key.is_within(&self.prefix)
    }
}

impl FromStr for Scope {
    type Err = ScopeError;

    /// A slash at the end of the prefix makes no difference.
    fn from_str(text: &str) -> Result<Self, ScopeError> {
        let Some((right, prefix)) = text.split_once(':') else {
            return Ok(Self::everywhere(text.parse()?));
        };
        let right = right.parse()?;
        if prefix.contains(':') {
            return Err(ScopeError::Colons);
        }
        let named = Key::parse(prefix).map_err(ScopeError::Prefix)?;
        Ok(Self {
            right,
            prefix: named.key,
        })
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.prefix.is_root() {
            return self.right.fmt(f);
        }
        write!(f, "{}:{}", self.right, self.prefix.escaped())
    }
}

/// What those may do who do not say who they are. Those who do may do the same, besides what is theirs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Anonymous {
    /// Nothing, unless nothing at all is configured: then there is nobody else, and they may do everything.
    #[default]
    None,
    /// This much and no more, whatever else is configured.
    Some(Vec<Scope>),
}
