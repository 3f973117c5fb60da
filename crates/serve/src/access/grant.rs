//! What a request was granted.

use std::sync::Arc;

use crate::{Key, Named};

use super::scope::{Right, Scope};
use super::signed::Signable;

/// By what a request was granted something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Nothing is configured: everybody may do everything.
    Open,
    /// By what is granted to those who do not say who they are.
    Anonymous,
    /// By a name and a password. Browsers send these along with requests that another page made, see
    /// [`is_cross_site`](super::is_cross_site).
    Login,
    /// By a token.
    Token,
    /// By the URL itself.
    Signature,
}

/// What a request may do. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Grant {
    /// Who it is, for the log. It is a name from the configuration and never one that a stranger made up.
    pub user: Option<Arc<str>>,
    /// By what. Answers to what was not granted to all alike ([`Grant::is_personal`]) do not belong into shared caches.
    pub how: How,
    rights: Rights,
}

#[derive(Debug, Clone)]
enum Rights {
    All,
    /// Of one's own, and those that all have.
    Scopes(Arc<[Scope]>, Arc<[Scope]>),
    /// One method for one path.
    Signed(Signable, Arc<Named>),
}

impl Grant {
    pub(super) fn open() -> Self {
        Self {
            user: None,
            how: How::Open,
            rights: Rights::All,
        }
    }

    pub(super) fn anonymous(common: &Arc<[Scope]>) -> Self {
        Self::scoped((How::Anonymous, None), &Arc::from([]), common)
    }

    pub(super) fn scoped(
        (how, user): (How, Option<Arc<str>>),
        own: &Arc<[Scope]>,
        common: &Arc<[Scope]>,
    ) -> Self {
        Self {
            user,
            how,
            rights: Rights::Scopes(Arc::clone(own), Arc::clone(common)),
        }
    }

    pub(super) fn signed(method: Signable, named: &Named) -> Self {
        Self {
            user: None,
            how: How::Signature,
            rights: Rights::Signed(method, Arc::new(named.clone())),
        }
    }

    /// Whether it reaches that far. [`Access::judge`](super::Access::judge) asked this for the request's own method and key;
    /// whoever touches another key, or shows on a page what could be done, asks again.
    ///
    /// A signed URL reaches its own key, and nothing beneath it.
    #[must_use]
    pub fn may(&self, right: Right, key: &Key) -> bool {
        let covered = |scopes: &[Scope]| scopes.iter().any(|scope| scope.covers(right, key));
        match &self.rights {
            Rights::All => true,
            Rights::Scopes(own, common) => covered(own) || covered(common),
            Rights::Signed(method, named) => method.right() == right && named.key == *key,
        }
    }

    /// Whether it may see the names in that folder, and all that is beneath it. To be asked before a listing or a tar file is made
    /// of a key, however the request was written.
    ///
    /// A signed URL lists the folder that it was made for, with its slash at the end.
    #[must_use]
    pub fn may_list(&self, folder: &Key) -> bool {
        let is_listable = match &self.rights {
            Rights::Signed(_, named) => named.is_folder,
            Rights::All | Rights::Scopes(..) => true,
        };
        is_listable && self.may(Right::Read, folder)
    }

    /// Whether it came from something that not everybody has.
    #[must_use]
    pub fn is_personal(&self) -> bool {
        !matches!(self.how, How::Open | How::Anonymous)
    }
}
