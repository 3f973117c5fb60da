//! Who signs: credentials as all AWS programs find them, kept until shortly before they expire.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use aws_smithy_runtime_api::client::identity::Identity;
use tokio::sync::Mutex;

/// Credentials are replaced so long before they expire: a request that was signed with them may be on its way for a while.
const EXPIRY_MARGIN: Duration = Duration::from_secs(300);

/// Keeps credentials. One refresh serves all requests that wait for it (row F22).
#[derive(Debug)]
pub(crate) struct CredentialsCache {
    provider: SharedCredentialsProvider,
    cached: Mutex<Option<Arc<SigningCredentials>>>,
}

/// Credentials as the signing library takes them.
#[derive(Debug)]
pub(crate) struct SigningCredentials {
    pub(crate) identity: Identity,
    /// What tells them from those that replace them.
    pub(crate) name: CredentialsName,
    expiry: Option<SystemTime>,
}

/// Why there are no credentials.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MissingCredentials {
    /// No provider has any.
    #[error("no AWS credentials were found")]
    None,
    /// A provider has some and cannot get at them.
    #[error("the AWS credentials cannot be read")]
    Provider(#[source] CredentialsError),
}

impl MissingCredentials {
    fn from_provider(error: CredentialsError) -> Self {
        match error {
            CredentialsError::CredentialsNotLoaded(_) => Self::None,
            error => Self::Provider(error),
        }
    }
}

/// A session token, or the key of credentials that last.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct CredentialsName(Arc<str>);

impl fmt::Debug for CredentialsName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CredentialsName(..)")
    }
}

impl CredentialsCache {
    pub(crate) fn new(provider: SharedCredentialsProvider) -> Self {
        Self {
            provider,
            cached: Mutex::new(None),
        }
    }

    /// Credentials that are valid now.
    ///
    /// # Errors
    /// There are none, or the service that issues them does not respond.
    pub(crate) async fn get(
        &self,
        now: SystemTime,
    ) -> Result<Arc<SigningCredentials>, MissingCredentials> {
        let mut cached = self.cached.lock().await;
        if let Some(credentials) = cached.as_ref().filter(|found| found.is_fresh(now)) {
            return Ok(Arc::clone(credentials));
        }
        let found = self
            .provider
            .provide_credentials()
            .await
            .map_err(MissingCredentials::from_provider)?;
        let found = Arc::new(SigningCredentials::new(found));
        *cached = Some(Arc::clone(&found));
        Ok(found)
    }

    /// Forgets credentials that the service says have expired. Those that replaced them meanwhile are kept.
    pub(crate) async fn forget(&self, refused: &CredentialsName) {
        let mut cached = self.cached.lock().await;
        if cached.as_ref().is_some_and(|found| found.name == *refused) {
            *cached = None;
        }
    }
}

impl SigningCredentials {
    fn new(credentials: Credentials) -> Self {
        let name = credentials
            .session_token()
            .unwrap_or_else(|| credentials.access_key_id());
        Self {
            name: CredentialsName(name.into()),
            expiry: credentials.expiry(),
            identity: credentials.into(),
        }
    }

    fn is_fresh(&self, now: SystemTime) -> bool {
        self.expiry
            .is_none_or(|expiry| expiry > now + EXPIRY_MARGIN)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use aws_credential_types::provider::future;

    use super::*;

    /// Makes credentials that are valid for an hour, and numbers them.
    #[derive(Debug, Default)]
    struct NumberedProvider(AtomicU32);

    impl ProvideCredentials for NumberedProvider {
        fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
        where
            Self: 'a,
        {
            let token = self.0.fetch_add(1, Ordering::Relaxed).to_string();
            let expiry = SystemTime::UNIX_EPOCH + Duration::from_secs(3600);
            let made = Credentials::new("key", "secret", Some(token), Some(expiry), "test");
            future::ProvideCredentials::ready(Ok(made))
        }
    }

    #[tokio::test]
    async fn f22_credentials_are_refreshed_before_they_expire_and_once_for_all() {
        let cache =
            CredentialsCache::new(SharedCredentialsProvider::new(NumberedProvider::default()));
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let name = async |seconds| cache.get(at(seconds)).await.unwrap().name.clone();
        let numbered = |number: &str| CredentialsName(number.into());
        assert_eq!(name(0).await, numbered("0"));
        assert_eq!(name(3000).await, numbered("0"));
        assert_eq!(name(3400).await, numbered("1"));
        let refused = numbered("1");
        tokio::join!(cache.forget(&refused), cache.forget(&refused));
        assert_eq!(name(0).await, numbered("2"));
        cache.forget(&refused).await;
        let kept = name(0).await;
        assert_eq!(kept, numbered("2"), "a late refusal of older ones");
    }
}
