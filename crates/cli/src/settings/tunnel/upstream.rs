//! Builds from the options of a tunnel how its targets are reached: proxies with logins and certificates, timeouts, TLS.
//!
//! Tunnels with the same options share an upstream, and so what it learns: which alternative works, which login a proxy accepts.

use std::sync::Arc;

use haul_net::{ConnectorConfig, NoProxy, Proxy, ProxyRules, ProxyScheme, Target, TlsOptions};
use haul_tunnel::{Upstream, UpstreamConfigError, UpstreamOptions};
use http::HeaderMap;

use super::config_file::ProxyChainHop;
use super::layers::{MergedOptions, TunnelLayers};
use crate::args::{GivenOptions, OPTION_GROUPS, ProxyOptions, Sourced, TunnelOptions};
use crate::settings::proxies::{check_use, connect_headers, proxy_tls};
use crate::settings::proxy_login::{PromptedPasswords, ProxyLoginOptions, ProxyLogins};
use crate::settings::tls::TlsFiles;
use crate::settings::{
    EnvironmentReader, SettingError, address_family, no_proxy_warnings, pinned_address,
};

/// How the targets of a tunnel are reached.
#[derive(Debug, Clone)]
pub(crate) struct TunnelUpstream {
    pub(crate) upstream: Arc<Upstream>,
    /// The proxies, for people.
    proxies: String,
    /// Targets without a proxy.
    no_proxy: NoProxy,
}

/// Builds upstreams, each once.
#[derive(Debug)]
pub(super) struct Upstreams<'a> {
    layers: &'a TunnelLayers,
    logins: ProxyLogins<'a>,
    /// The proxies of the environment.
    environment: ProxyRules,
    /// Upstreams by their options, and by whether they ignore the environment's proxy.
    built: Vec<(MergedOptions, bool, TunnelUpstream)>,
    /// Proxies in the environment that are invalid and that no tunnel needs.
    pub(super) warnings: Vec<String>,
}

impl TunnelUpstream {
    /// Whether a target is reached through a proxy.
    pub(crate) fn uses_proxy(&self, target: &Target) -> bool {
        !self.proxies.is_empty() && !self.no_proxy.matches(&target.host, target.port)
    }

    /// The route to a target, for people.
    pub(crate) fn route_text(&self, target: Option<&Target>) -> String {
        let is_direct =
            target.is_some_and(|target| self.no_proxy.matches(&target.host, target.port));
        if self.proxies.is_empty() || is_direct {
            "directly".to_owned()
        } else {
            format!("via {}", self.proxies)
        }
    }
}

impl<'a> Upstreams<'a> {
    pub(super) fn new(
        layers: &'a TunnelLayers,
        passwords: &'a PromptedPasswords,
        environment: EnvironmentReader,
    ) -> Result<Self, SettingError> {
        Ok(Self {
            layers,
            logins: ProxyLogins::new(environment, layers.netrc()?, passwords)?,
            environment: ProxyRules::from_environment(environment),
            built: Vec::new(),
            warnings: Vec::new(),
        })
    }

    /// The upstream with these options, for one target or for those that clients name.
    pub(super) fn build(
        &mut self,
        merged: &MergedOptions,
        options: &TunnelOptions,
        target: Option<&Target>,
    ) -> Result<TunnelUpstream, SettingError> {
        // These may differ between tunnels that share an upstream.
        let other = ["idle-timeout", "warm", "warm-idle"];
        let mut key = merged.clone();
        key.given = merged.given.filtered(|name| !other.contains(&name));
        // A wrong variable does no harm to targets without a proxy.
        let no_proxy = options.proxies.no_proxy.hosts.as_ref();
        let no_proxy = no_proxy.unwrap_or(&self.environment.no_proxy);
        let ignores_variable = matches!(self.environment.https, Some(Err(_)))
            && target.is_some_and(|target| no_proxy.matches(&target.host, target.port));
        let is_same = |(known, ignores, _): &&(MergedOptions, bool, _)| {
            *known == key && *ignores == ignores_variable
        };
        if let Some((.., upstream)) = self.built.iter().find(is_same) {
            return Ok(upstream.clone());
        }
        let upstream = self.build_new(merged, options, ignores_variable)?;
        self.built.push((key, ignores_variable, upstream.clone()));
        Ok(upstream)
    }

    fn build_new(
        &mut self,
        merged: &MergedOptions,
        options: &TunnelOptions,
        ignores_variable: bool,
    ) -> Result<TunnelUpstream, SettingError> {
        let given = &merged.given;
        let chain = match self.layers.file.chain(given)? {
            Some(chain) => chain,
            None if ignores_variable => Vec::new(),
            None => vec![vec![(self.proxy_of_environment()?, None)]],
        };
        let proxies = self.proxies(chain, merged)?;
        let no_proxy = options.proxies.no_proxy.hosts.clone();
        if no_proxy.is_none() && !proxies.is_empty() && self.warnings.is_empty() {
            self.warnings.extend(no_proxy_warnings(&self.environment));
        }
        let no_proxy = no_proxy.unwrap_or_else(|| self.environment.no_proxy.clone());
        let connection = &options.connection;
        let target_tls = options.target.target_tls;
        let tls_files = TlsFiles::of_peer(&options.target.tls, given);
        let text = chain_text(&proxies);
        let upstream = Upstream::new(UpstreamOptions {
            proxies,
            no_proxy: no_proxy.clone(),
            direct_fallback: options.proxies.direct_fallback,
            target_tls,
            connector: ConnectorConfig {
                connect_timeout: connection.connect_timeout.0,
                keepalive: connection.keepalive.0,
                address_family: address_family(&connection.addresses).unwrap_or_default(),
                pinned_addresses: connection
                    .addresses
                    .resolve
                    .iter()
                    .map(pinned_address)
                    .collect(),
                ..ConnectorConfig::default()
            },
            tls: if target_tls {
                tls_files.options()?
            } else {
                TlsOptions::default()
            },
        })
        .map_err(|error| match error {
            UpstreamConfigError::Certificates(error) => tls_files.unusable(error),
            error @ UpstreamConfigError::TooManyRoutes => {
                SettingError::new(given.source("proxy").to_string()).caused_by(error)
            }
        })?;
        Ok(TunnelUpstream {
            upstream: Arc::new(upstream),
            proxies: text,
            no_proxy,
        })
    }

    fn proxy_of_environment(&self) -> Result<Proxy, SettingError> {
        match self.environment.https.clone() {
            Some(Ok(proxy)) => Ok(proxy),
            Some(Err(variable)) => Err(SettingError::new(variable.to_string())
                .caused_by(variable.error)
                .with_hint("name another proxy with -p HOST:PORT, or none with -p ''")),
            None => Err(SettingError::new(
                "there is no proxy: neither -p nor a variable names one",
            )
            .with_hint(
                "name one with -p HOST:PORT, https_proxy or all_proxy; -p '' connects directly",
            )),
        }
    }

    /// The proxies of a chain, each with its login, header fields and certificates.
    fn proxies(
        &self,
        chain: Vec<ProxyChainHop<'_>>,
        merged: &MergedOptions,
    ) -> Result<Vec<Vec<Proxy>>, SettingError> {
        let names = crate::args::option_names::<ProxyOptions>();
        let about_first = merged
            .given
            .filtered(|name| names.iter().any(|option| option == name));
        let first: Vec<Proxy> = chain
            .iter()
            .take(1)
            .flatten()
            .map(|(proxy, _)| proxy.clone())
            .collect();
        check_use(&first, &about_first)?;
        let nothing = GivenOptions::default();
        let mut complete = Vec::new();
        for (number, step) in chain.into_iter().enumerate() {
            let is_first = number == 0;
            let above = if is_first { &about_first } else { &nothing };
            let mut alternatives = Vec::new();
            for (proxy, named) in step {
                let layers = [above, named.unwrap_or(&nothing)];
                let takes_variable = is_first && !merged.has_own_proxies;
                alternatives.push(self.complete(proxy, &layers, takes_variable)?);
            }
            complete.push(alternatives);
        }
        Ok(complete)
    }

    /// A proxy with the options of its layers, the first on top.
    fn complete(
        &self,
        proxy: Proxy,
        layers: &[&GivenOptions],
        takes_variable: bool,
    ) -> Result<Proxy, SettingError> {
        let given = GivenOptions::merge(layers, OPTION_GROUPS);
        let options: ProxyOptions = given.parse()?;
        let mut headers = HeaderMap::new();
        for layer in layers.iter().rev() {
            let options: ProxyOptions = layer.parse()?;
            headers.extend(connect_headers(
                &layer.source("header"),
                options.headers.iter(),
            )?);
        }
        let tls = match proxy.scheme {
            ProxyScheme::Https => Some(proxy_tls(TlsFiles::of_proxy(&options.tls, &given))?),
            _ => None,
        };
        let login = ProxyLoginOptions {
            user: options.proxy_user,
            password_file: options.proxy_password_file.map(|value| Sourced {
                value,
                source: given.source("proxy-password-file"),
            }),
        };
        Ok(Proxy {
            login: self.logins.login(&proxy, &login, takes_variable)?,
            is_basic_sent_first: options.proxy_basic,
            headers,
            tls,
            ..proxy
        })
    }
}

/// `a:3128 or b:3128 > c:443`.
fn chain_text(chain: &[Vec<Proxy>]) -> String {
    let step = |step: &Vec<Proxy>| {
        let names: Vec<String> = step.iter().map(Proxy::address).collect();
        names.join(" or ")
    };
    let steps: Vec<String> = chain.iter().map(step).collect();
    steps.join(" > ")
}
