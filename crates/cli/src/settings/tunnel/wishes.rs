//! What may be wished of a tunnel: by flags, by the file as a whole, by one of its tunnels. The same in all three, nothing of it needed.
//!
//! [`TunnelOptionsLayer::over`] lays one above another. What belongs together is taken together: a proxy's login, header fields and certificates
//! are for the proxies that they stand beside, and go to no other that is named above them. Nor do those of flags, or the variable,
//! go to proxies that one tunnel of the file names for itself: they were given for all.

use std::time::Duration;

use haul_net::{AddressFamily, NoProxy};

use super::beside::{ProxyChainStep, ProxyTlsOptions};
use crate::args::{
    HeaderArg, OptionalTimeArg, ResolveArg, SecretText, TargetArgs, TunnelConnectionArgs,
    TunnelProxyArgs,
};
use crate::settings::proxy_login::ProxyLoginOptions;
use crate::settings::{OptionSource, Sourced, address_family};

/// What is wished. All that is `None` or empty is left to others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TunnelOptionsLayer {
    /// Proxies in a row, each a text with alternatives between commas; an empty text is none.
    pub(crate) proxies: Option<Vec<ProxyChainStep>>,
    /// Whether one tunnel names those for itself: what is said of all tunnels' proxies is not about them.
    pub(crate) is_own: bool,
    /// Who we are to the first of them.
    pub(crate) login: ProxyLoginOptions,
    /// What a CONNECT to it carries.
    pub(crate) headers: Vec<Sourced<HeaderArg>>,
    /// TLS with it.
    pub(crate) proxy_tls: ProxyTlsOptions,
    /// Targets that are reached straight.
    pub(crate) no_proxy: Option<NoProxy>,
    /// Whether targets are reached straight when no proxy can be.
    pub(crate) direct_fallback: Option<bool>,
    /// Whether there is TLS with targets.
    pub(crate) target_tls: Option<bool>,
    /// How that is made.
    pub(crate) tls: ProxyTlsOptions,
    /// For a connection to be made.
    pub(crate) connect_timeout: Option<Duration>,
    /// For one on which nothing moves.
    pub(crate) idle_timeout: Option<OptionalTimeArg>,
    /// Before a silent peer is probed.
    pub(crate) keepalive: Option<OptionalTimeArg>,
    /// Connections that stand ready.
    pub(crate) warm: Option<usize>,
    /// How long one may.
    pub(crate) warm_idle: Option<Duration>,
    /// Addresses told by hand.
    pub(crate) resolve: Vec<ResolveArg>,
    /// Which addresses may be used.
    pub(crate) family: Option<AddressFamily>,
}

impl TunnelOptionsLayer {
    /// What flags say.
    pub(super) fn of_flags(
        proxy: &TunnelProxyArgs,
        way: &TunnelConnectionArgs,
        target: &TargetArgs,
    ) -> Self {
        let given = |is_given: bool| is_given.then_some(true);
        let by_proxy = &proxy.by_proxy;
        let field = |field| Sourced::flag("-H", field);
        let places = || {
            proxy
                .proxies
                .iter()
                .map(|SecretText(text)| ProxyChainStep::of(text.expose(), OptionSource::Flag("-p")))
        };
        Self {
            proxies: (!proxy.proxies.is_empty()).then(|| places().collect()),
            is_own: false,
            login: ProxyLoginOptions {
                user: said("--proxy-user", proxy.proxy_user.as_ref()),
                file: said("--proxy-password-file", proxy.proxy_password_file.as_ref()),
            },
            headers: proxy.headers.iter().cloned().map(field).collect(),
            proxy_tls: ProxyTlsOptions {
                cacert: said("--proxy-cacert", by_proxy.proxy_cacert.as_ref()),
                insecure: said("--proxy-insecure", given(by_proxy.proxy_insecure).as_ref()),
                cert: said("--proxy-cert", by_proxy.proxy_cert.as_ref()),
                key: said("--proxy-key", by_proxy.proxy_key.as_ref()),
            },
            no_proxy: by_proxy.no_proxy.clone(),
            direct_fallback: given(proxy.direct_fallback),
            target_tls: given(target.target_tls),
            tls: ProxyTlsOptions {
                cacert: said("--cacert", target.tls.cacert.as_ref()),
                insecure: said("--insecure", given(target.tls.insecure).as_ref()),
                cert: said("--cert", target.tls.cert.as_ref()),
                key: said("--key", target.tls.key.as_ref()),
            },
            connect_timeout: way.connect_timeout.map(|time| time.0),
            idle_timeout: way.idle_timeout,
            keepalive: way.keepalive,
            warm: way.warm,
            warm_idle: way.warm_idle.map(|time| time.0),
            resolve: way.addresses.resolve.clone(),
            family: address_family(&way.addresses),
        }
    }

    /// These, and what they leave open as others have it.
    pub(super) fn over(&self, below: &Self) -> Self {
        // What stands beside proxies is for them: where others are named above, it stays where it was.
        let theirs = match self.proxies {
            None => below.clone(),
            Some(_) => Self::default(),
        };
        // And what is said above of all proxies is not for those that a tunnel has for itself.
        let nothing = Self::default();
        let ours = if theirs.is_own { &nothing } else { self };
        Self {
            proxies: self.proxies.clone().or(theirs.proxies),
            is_own: self.is_own || theirs.is_own,
            login: ours.login.over(theirs.login),
            headers: either(&ours.headers, &theirs.headers),
            proxy_tls: ours.proxy_tls.over(theirs.proxy_tls),
            no_proxy: self.no_proxy.clone().or_else(|| below.no_proxy.clone()),
            direct_fallback: self.direct_fallback.or(below.direct_fallback),
            target_tls: self.target_tls.or(below.target_tls),
            tls: self.tls.over(below.tls.clone()),
            connect_timeout: self.connect_timeout.or(below.connect_timeout),
            idle_timeout: self.idle_timeout.or(below.idle_timeout),
            keepalive: self.keepalive.or(below.keepalive),
            warm: self.warm.or(below.warm),
            warm_idle: self.warm_idle.or(below.warm_idle),
            resolve: either(&self.resolve, &below.resolve),
            family: self.family.or(below.family),
        }
    }
}

impl TunnelOptionsLayer {
    /// Whether there is anything in it about the first proxy.
    pub(super) fn is_about_a_proxy(&self) -> bool {
        self.login != ProxyLoginOptions::default()
            || !self.headers.is_empty()
            || self.proxy_tls != ProxyTlsOptions::default()
    }
}

/// What a flag says, if it is given.
fn said<T: Clone>(name: &'static str, value: Option<&T>) -> Option<Sourced<T>> {
    value.map(|value| Sourced::flag(name, value.clone()))
}

/// A list is taken whole.
fn either<T: Clone>(above: &[T], below: &[T]) -> Vec<T> {
    let taken = if above.is_empty() { below } else { above };
    taken.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_proxy(proxy: Option<&str>, user: Option<&str>) -> TunnelOptionsLayer {
        TunnelOptionsLayer {
            proxies: proxy.map(|proxy| vec![ProxyChainStep::of(proxy, OptionSource::Flag("-p"))]),
            login: ProxyLoginOptions {
                user: user.map(|user| Sourced::flag("-U", user.parse().unwrap())),
                file: None,
            },
            ..TunnelOptionsLayer::default()
        }
    }

    #[test]
    fn a_login_goes_to_the_proxies_that_it_stands_beside() {
        let name = |wishes: &TunnelOptionsLayer| {
            wishes
                .login
                .user
                .as_ref()
                .map(|user| user.value.name.clone())
        };
        let file = with_proxy(Some("a:1"), Some("file:x"));
        let over = with_proxy(None, None).over(&file);
        assert_eq!(
            (over.proxies.clone(), name(&over)),
            (file.proxies.clone(), Some("file".into()))
        );
        let over = with_proxy(Some("b:1"), None).over(&file);
        assert_eq!(name(&over), None);
        let over = with_proxy(None, Some("flag:y")).over(&file);
        assert_eq!(
            (over.proxies.clone(), name(&over)),
            (file.proxies.clone(), Some("flag".into()))
        );
        // Nor does it come from two levels below.
        let over = with_proxy(None, None)
            .over(&with_proxy(Some("b:1"), None))
            .over(&file);
        assert_eq!(name(&over), None);
    }

    #[test]
    fn what_is_said_of_all_proxies_is_not_for_those_of_one_tunnel() {
        let all = TunnelOptionsLayer {
            headers: vec![Sourced::flag("-H", "X-Token: t".parse().unwrap())],
            proxy_tls: ProxyTlsOptions {
                insecure: Some(Sourced::flag("-k", true)),
                ..ProxyTlsOptions::default()
            },
            ..with_proxy(None, Some("flag:f"))
        };
        let own = TunnelOptionsLayer {
            is_own: true,
            ..with_proxy(Some("b:1"), None)
        };
        let top = with_proxy(Some("a:1"), Some("file:x"));
        let over = all.over(&own).over(&top);
        assert_eq!(over, own);
        let own = TunnelOptionsLayer {
            is_own: true,
            ..with_proxy(Some("b:1"), Some("own:o"))
        };
        assert_eq!(all.over(&own).over(&top), own);
        // Where -p takes the tunnel's place, they are for that.
        let flags = TunnelOptionsLayer {
            proxies: with_proxy(Some("c:1"), None).proxies,
            ..all
        };
        assert_eq!(flags.over(&own).over(&top), flags);
    }
}
