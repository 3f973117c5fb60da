//! What a request was granted.

use std::sync::Arc;

use crate::{ObjectKey, RequestPath};

use super::scope::{AccessRight, AccessScope};
use super::signed_url::SignableMethod;

/// By what a request was granted something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PermissionSource {
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
pub struct Permissions {
    /// Who it is, for the log. It is a name from the configuration and never one that a stranger made up.
    pub user: Option<Arc<str>>,
    /// By what. Answers to what was not granted to all alike ([`Permissions::is_personal`]) do not belong into shared caches.
    pub source: PermissionSource,
    scope: PermissionScope,
}

#[derive(Debug, Clone)]
enum PermissionScope {
    All,
    /// Of one's own, and those that all have.
    Scopes(Arc<[AccessScope]>, Arc<[AccessScope]>),
    /// One method for one path.
    Signed(SignableMethod, Arc<RequestPath>),
}

impl Permissions {
    pub(super) fn open() -> Self {
        Self {
            user: None,
            source: PermissionSource::Open,
            scope: PermissionScope::All,
        }
    }

    pub(super) fn anonymous(common: &Arc<[AccessScope]>) -> Self {
        Self::scoped((PermissionSource::Anonymous, None), &Arc::from([]), common)
    }

    pub(super) fn scoped(
        (source, user): (PermissionSource, Option<Arc<str>>),
        own: &Arc<[AccessScope]>,
        common: &Arc<[AccessScope]>,
    ) -> Self {
        Self {
            user,
            source,
            scope: PermissionScope::Scopes(Arc::clone(own), Arc::clone(common)),
        }
    }

    pub(super) fn signed(method: SignableMethod, named: &RequestPath) -> Self {
        Self {
            user: None,
            source: PermissionSource::Signature,
            scope: PermissionScope::Signed(method, Arc::new(named.clone())),
        }
    }

    /// Whether it reaches that far. [`AccessControl::judge`](super::AccessControl::judge) asked this for the request's own method and key;
    /// whoever touches another key, or shows on a page what could be done, asks again.
    ///
    /// A signed URL reaches its own key, and nothing beneath it.
    #[must_use]
    pub fn allows(&self, right: AccessRight, key: &ObjectKey) -> bool {
        let covered = |scopes: &[AccessScope]| scopes.iter().any(|scope| scope.covers(right, key));
        match &self.scope {
            PermissionScope::All => true,
            PermissionScope::Scopes(own, common) => covered(own) || covered(common),
            PermissionScope::Signed(method, named) => {
                method.required_right() == right && named.key == *key
            }
        }
    }

    /// Whether it may see the names in that folder, and all that is beneath it. To be asked before a listing or a tar file is made
    /// of a key, however the request was written.
    ///
    /// A signed URL lists the folder that it was made for, with its slash at the end.
    #[must_use]
    pub fn allows_listing(&self, folder: &ObjectKey) -> bool {
        let is_listable = match &self.scope {
            PermissionScope::Signed(_, named) => named.is_folder,
            PermissionScope::All | PermissionScope::Scopes(..) => true,
        };
        is_listable && self.allows(AccessRight::Read, folder)
    }

    /// Whether it came from something that not everybody has.
    #[must_use]
    pub fn is_personal(&self) -> bool {
        !matches!(
            self.source,
            PermissionSource::Open | PermissionSource::Anonymous
        )
    }
}
