//! From what is wished of a tunnel to the way to its targets: proxies with logins and certificates, times, trust.
//!
//! Tunnels that wish the same share a way, and so what is learned on it: which alternative works, what a proxy wants to see.

use std::sync::Arc;

use haul_net::{ConnectorConfig, NoProxy, Proxy, ProxyRules, Target, TlsOptions};
use haul_tunnel::{Upstream, UpstreamConfigError, UpstreamOptions};

use super::EnvironmentReader;
use super::file::NamedProxies;
use super::wishes::TunnelOptionsLayer;
use crate::settings::proxy_login::ProxyLogins;
use crate::settings::tls::tls_options_from;
use crate::settings::{OptionSource, SettingError, no_proxy_warnings, pinned_address};

/// A way to targets.
#[derive(Debug, Clone)]
pub(crate) struct TunnelUpstream {
    /// What goes it.
    pub(crate) upstream: Arc<Upstream>,
    /// The proxies, for people.
    proxies: String,
    /// Targets that go without.
    no_proxy: NoProxy,
}

/// What makes ways, each once.
#[derive(Debug)]
pub(super) struct TunnelUpstreams<'a> {
    /// Proxies by name.
    pub(super) named: &'a NamedProxies,
    /// Who we are.
    pub(super) logins: ProxyLogins<'a>,
    /// What the environment says of proxies.
    pub(super) environment: EnvironmentReader,
    /// Those that there are, by what was wished.
    pub(super) made: Vec<(TunnelUpstreamKey, TunnelUpstream)>,
    /// What of the environment cannot be used, and is no reason to do nothing.
    pub(super) warnings: Vec<String>,
}

/// What a way is made of: tunnels with the same share it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TunnelUpstreamKey {
    /// What was wished.
    wishes: TunnelOptionsLayer,
    /// Whether it is straight for want of need: the variable's proxy cannot be used, and its targets are reached without.
    is_spared: bool,
}

impl TunnelUpstream {
    /// Whether a target is reached through a proxy.
    pub(crate) fn uses_proxy(&self, target: &Target) -> bool {
        !self.proxies.is_empty() && !self.no_proxy.matches(&target.host, target.port)
    }

    /// By which way a target is reached, for people.
    pub(crate) fn to(&self, target: Option<&Target>) -> String {
        let is_straight =
            target.is_some_and(|target| self.no_proxy.matches(&target.host, target.port));
        match self.proxies.is_empty() || is_straight {
            true => "directly".to_owned(),
            false => format!("via {}", self.proxies),
        }
    }
}

impl TunnelUpstreams<'_> {
    /// The way that was wished, to this target or to those that clients name.
    pub(super) fn of(
        &mut self,
        wishes: &TunnelOptionsLayer,
        target: Option<&Target>,
    ) -> Result<TunnelUpstream, SettingError> {
        let rules = ProxyRules::from_environment(self.environment);
        let listed = wishes.no_proxy.as_ref().unwrap_or(&rules.no_proxy);
        let chosen = TunnelUpstreamKey {
            is_spared: wishes.proxies.is_none()
                && matches!(rules.https, Some(Err(_)))
                && target.is_some_and(|target| listed.matches(&target.host, target.port)),
            wishes: on_the_way(wishes),
        };
        if let Some((_, made)) = self.made.iter().find(|(known, _)| *known == chosen) {
            return Ok(made.clone());
        }
        let way = self.make(&chosen, rules)?;
        self.made.push((chosen, way.clone()));
        Ok(way)
    }

    fn make(
        &mut self,
        chosen: &TunnelUpstreamKey,
        rules: ProxyRules,
    ) -> Result<TunnelUpstream, SettingError> {
        let wishes = &chosen.wishes;
        let proxies = match chosen.is_spared {
            true => Vec::new(),
            false => self.proxies(wishes, rules.https.clone())?,
        };
        let no_proxy = match &wishes.no_proxy {
            Some(wished) => wished.clone(),
            None => {
                if !proxies.is_empty() {
                    self.warn_of(&rules);
                }
                rules.no_proxy
            }
        };
        let shown = proxies_for_people(&proxies);
        let upstream = Upstream::new(UpstreamOptions {
            proxies,
            no_proxy: no_proxy.clone(),
            direct_fallback: wishes.direct_fallback.unwrap_or(false),
            target_tls: wishes.target_tls.unwrap_or(false),
            connector: connector(wishes),
            tls: target_tls(wishes)?,
        });
        let upstream = upstream.map_err(|error| match error {
            UpstreamConfigError::Certificates(error) => {
                let place = wishes
                    .tls
                    .by()
                    .map(OptionSource::prefix)
                    .unwrap_or_default();
                SettingError::new(format!("{place}TLS with the target cannot be set up"))
                    .caused_by(error)
            }
            error @ UpstreamConfigError::TooManyRoutes => {
                let first = wishes.proxies.as_ref().and_then(|places| places.first());
                let by = first.map_or(OptionSource::Flag("-p"), |place| place.by.clone());
                SettingError::new(by.to_string()).caused_by(error)
            }
        })?;
        Ok(TunnelUpstream {
            upstream: Arc::new(upstream),
            proxies: shown,
            no_proxy,
        })
    }

    /// Tells once what of the variable is left out.
    fn warn_of(&mut self, rules: &ProxyRules) {
        for warning in no_proxy_warnings(rules) {
            if !self.warnings.contains(&warning) {
                self.warnings.push(warning);
            }
        }
    }
}

/// The proxies as text: `a:3128 or b:3128 > c:443`.
fn proxies_for_people(places: &[Vec<Proxy>]) -> String {
    let place = |place: &Vec<Proxy>| {
        let names: Vec<String> = place.iter().map(Proxy::address).collect();
        names.join(" or ")
    };
    let places: Vec<String> = places.iter().map(place).collect();
    places.join(" > ")
}

/// What of the wishes makes a way; the rest may differ between tunnels that share one.
fn on_the_way(wishes: &TunnelOptionsLayer) -> TunnelOptionsLayer {
    TunnelOptionsLayer {
        idle_timeout: None,
        warm: None,
        warm_idle: None,
        ..wishes.clone()
    }
}

fn connector(wishes: &TunnelOptionsLayer) -> ConnectorConfig {
    let defaults = ConnectorConfig::default();
    ConnectorConfig {
        connect_timeout: wishes.connect_timeout.unwrap_or(defaults.connect_timeout),
        keepalive: wishes.keepalive.map_or(defaults.keepalive, |time| time.0),
        address_family: wishes.family.unwrap_or_default(),
        pinned_addresses: wishes.resolve.iter().map(pinned_address).collect(),
        ..defaults
    }
}

fn target_tls(wishes: &TunnelOptionsLayer) -> Result<TlsOptions, SettingError> {
    match wishes.target_tls {
        Some(true) => tls_options_from(wishes.tls.names("--")),
        _ => Ok(TlsOptions::default()),
    }
}
