//! What a request may do.

use std::sync::Arc;

use crate::{ObjectKey, RequestPath};

use super::rules::{AccessRight, AccessScope};
use super::signed_url::SignableMethod;

/// How a request got its permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PermissionSource {
    /// No access is configured: everybody may do everything.
    Open,
    /// The permissions of requests without credentials.
    Anonymous,
    /// A user name and a password. Browsers add these to requests that another page made, see
    /// [`is_cross_site`](super::is_cross_site).
    Login,
    Token,
    /// A signed URL.
    Signature,
}

/// What a request may do. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Permissions {
    /// The user name, for the log: always one from the configuration, never one that a client made
    /// up.
    pub user: Option<Arc<str>>,
    /// How the request got them. A response that depends on personal permissions
    /// ([`Permissions::is_personal`]) must not enter shared caches.
    pub source: PermissionSource,
    scope: PermissionScope,
}

#[derive(Debug, Clone)]
enum PermissionScope {
    All,
    /// Scopes of the user or token, and the scopes that every request has.
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

    pub(super) fn anonymous(anonymous: &Arc<[AccessScope]>) -> Self {
        Self::scoped(PermissionSource::Anonymous, None, &Arc::from([]), anonymous)
    }

    pub(super) fn scoped(
        source: PermissionSource,
        user: Option<Arc<str>>,
        own: &Arc<[AccessScope]>,
        anonymous: &Arc<[AccessScope]>,
    ) -> Self {
        Self {
            user,
            source,
            scope: PermissionScope::Scopes(Arc::clone(own), Arc::clone(anonymous)),
        }
    }

    pub(super) fn signed(method: SignableMethod, path: &RequestPath) -> Self {
        Self {
            user: None,
            source: PermissionSource::Signature,
            scope: PermissionScope::Signed(method, Arc::new(path.clone())),
        }
    }

    /// Whether `right` on `key` is permitted.
    /// [`AccessControl::authorize`](super::AccessControl::authorize) has checked this for the
    /// request's own method and key; code that touches another key, or shows on a page what the
    /// user may do, must ask again.
    ///
    /// A signed URL permits its own key and nothing beneath it.
    #[must_use]
    pub fn allows(&self, right: AccessRight, key: &ObjectKey) -> bool {
        let covered = |scopes: &[AccessScope]| scopes.iter().any(|scope| scope.covers(right, key));
        match &self.scope {
            PermissionScope::All => true,
            PermissionScope::Scopes(own, anonymous) => covered(own) || covered(anonymous),
            PermissionScope::Signed(method, path) => {
                method.required_right() == right && path.key == *key
            }
        }
    }

    /// Whether the names in that folder, and all beneath it, may be listed. To be asked before a
    /// listing or a tar file is made of a key.
    ///
    /// A signed URL permits listing the folder that it was made for, if its path ends in a slash.
    #[must_use]
    pub fn allows_listing(&self, folder: &ObjectKey) -> bool {
        let is_listable = match &self.scope {
            PermissionScope::Signed(_, path) => path.is_folder,
            PermissionScope::All | PermissionScope::Scopes(..) => true,
        };
        is_listable && self.allows(AccessRight::Read, folder)
    }

    /// Whether the permissions depend on credentials.
    #[must_use]
    pub fn is_personal(&self) -> bool {
        !matches!(
            self.source,
            PermissionSource::Open | PermissionSource::Anonymous
        )
    }
}
