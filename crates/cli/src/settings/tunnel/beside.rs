//! A place in a row of proxies, and the certificates for them.

use std::path::PathBuf;

use haul_net::Secret;

use crate::settings::tls::TlsFileOptions;
use crate::settings::{OptionSource, Sourced};

/// One place in a row of proxies: those that will do, as they are written. They may hold passwords.
#[derive(Debug, Clone)]
pub(crate) struct ProxyChainStep {
    /// In the order in which they are tried.
    pub(crate) proxies: Vec<Secret>,
    /// Who has named them.
    pub(crate) by: OptionSource,
}

/// Files of TLS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ProxyTlsOptions {
    /// The only authorities to trust.
    pub(crate) cacert: Option<Sourced<PathBuf>>,
    /// Whether anybody is trusted.
    pub(crate) insecure: Option<Sourced<bool>>,
    /// The certificate that we show.
    pub(crate) cert: Option<Sourced<PathBuf>>,
    /// Its key.
    pub(crate) key: Option<Sourced<PathBuf>>,
}

impl ProxyChainStep {
    /// Alternatives with commas between.
    pub(super) fn of(text: &str, by: OptionSource) -> Self {
        let each = |text: &str| Secret::new(text.trim().to_owned());
        Self {
            proxies: text.split(',').map(each).collect(),
            by,
        }
    }

    /// Whether it says that there is no proxy.
    pub(super) fn is_none(&self) -> bool {
        self.proxies.iter().all(|text| text.expose().is_empty())
    }
}

impl PartialEq for ProxyChainStep {
    fn eq(&self, other: &Self) -> bool {
        self.proxies == other.proxies
    }
}

impl Eq for ProxyChainStep {}

impl ProxyTlsOptions {
    /// Who has wished the first thing of it.
    pub(super) fn by(&self) -> Option<&OptionSource> {
        let files = [&self.cacert, &self.cert, &self.key];
        let file = files.into_iter().flatten().map(|said| &said.by).next();
        file.or_else(|| self.insecure.as_ref().map(|said| &said.by))
    }

    /// The files, whose flags begin so and whose keys are called alike.
    pub(super) fn names(&self, flags: &'static str) -> TlsFileOptions<'_> {
        let is_key = self.by().is_some_and(OptionSource::is_key);
        TlsFileOptions {
            flags: match is_key {
                true => flags.trim_start_matches('-'),
                false => flags,
            },
            cacert: self.cacert.as_ref().map(Sourced::as_ref),
            insecure: self.insecure.as_ref().is_some_and(|said| said.value),
            cert: self.cert.as_ref().map(Sourced::as_ref),
            key: self.key.as_ref().map(Sourced::as_ref),
        }
    }

    /// Whom to trust is one wish, what to show another.
    pub(super) fn over(&self, below: Self) -> Self {
        let trusts = self.cacert.is_some() || self.insecure.is_some();
        let shows = self.cert.is_some() || self.key.is_some();
        let own = self.clone();
        let (cacert, insecure) = match trusts {
            true => (own.cacert, own.insecure),
            false => (below.cacert, below.insecure),
        };
        let (cert, key) = match shows {
            true => (own.cert, own.key),
            false => (below.cert, below.key),
        };
        Self {
            cacert,
            insecure,
            cert,
            key,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_above_is_not_undone_by_carelessness_below() {
        let strict = ProxyTlsOptions {
            cacert: Some(Sourced::flag("--cacert", "ca".into())),
            ..ProxyTlsOptions::default()
        };
        let careless = ProxyTlsOptions {
            insecure: Some(Sourced::flag("-k", true)),
            cert: Some(Sourced::flag("--cert", "me".into())),
            ..ProxyTlsOptions::default()
        };
        let over = strict.over(careless.clone());
        assert_eq!((over.insecure, over.cert), (None, careless.cert));
    }

    #[test]
    fn alternatives_have_commas_between() {
        let place = ProxyChainStep::of("a:1, http://b:2", OptionSource::Flag("-p"));
        let texts: Vec<_> = place.proxies.iter().map(Secret::expose).collect();
        assert_eq!(texts, ["a:1", "http://b:2"]);
        assert!(
            ProxyChainStep::of("", OptionSource::Flag("-p")).is_none()
                && !ProxyChainStep::of("a", OptionSource::Flag("-p")).is_none()
        );
    }
}
