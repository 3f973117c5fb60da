//! What flags and the file of `--config` say, together: what in it contradicts itself, or could not mean anything.

use haul_net::Netrc;

use super::EnvironmentReader;
use super::beside::ProxyTlsOptions;
use super::file::{ConfiguredTunnel, TunnelConfigFile};
use super::running::{NetrcOption, ProcessOptions};
use super::way::TunnelUpstreams;
use super::wishes::TunnelOptionsLayer;
use crate::args::TunnelArgs;
use crate::settings::credentials::{home_netrc_path, read_netrc};
use crate::settings::proxy_login::{self, PromptedPasswords, ProxyLogins, of_variable};
use crate::settings::{OptionSource, SettingError, world_readable_warning};

/// What flags and the file say.
pub(super) struct TunnelLayers {
    /// By flags.
    pub(super) flags: TunnelOptionsLayer,
    /// By the file.
    pub(super) config: TunnelConfigFile,
    /// Of the process, by both.
    pub(super) running: ProcessOptions,
}

impl TunnelLayers {
    /// Reads the file, if there is one.
    pub(super) fn by(args: &TunnelArgs) -> Result<Self, SettingError> {
        let config = args
            .config
            .as_deref()
            .map(TunnelConfigFile::read)
            .transpose()?;
        let mut config = config.unwrap_or_default();
        let below = std::mem::take(&mut config.running);
        Ok(Self {
            flags: TunnelOptionsLayer::of_flags(&args.proxy, &args.way, &args.target),
            running: ProcessOptions::of_flags(args).over(below),
            config,
        })
    }

    /// What makes ways of wishes.
    pub(super) fn ways<'a>(
        &'a self,
        passwords: &'a PromptedPasswords,
        environment: EnvironmentReader,
    ) -> Result<TunnelUpstreams<'a>, SettingError> {
        Ok(TunnelUpstreams {
            named: &self.config.proxies,
            logins: ProxyLogins {
                variable: of_variable(environment(proxy_login::VARIABLE))?,
                netrc: self.netrc()?,
                passwords,
            },
            environment,
            made: Vec::new(),
            warnings: Vec::new(),
        })
    }

    /// What is about TLS with the target makes no sense where there is none.
    pub(super) fn certificates_are_used<'a>(
        &self,
        mut wished: impl Iterator<Item = &'a TunnelOptionsLayer>,
    ) -> Result<(), SettingError> {
        const TOLD: &str = "there is no TLS with the target, and so nothing for certificates";
        let given = [&self.flags, &self.config.all];
        let given = given.into_iter().find_map(|wishes| wishes.tls.by());
        if let Some(by) = given
            && !wished.any(|wishes| wishes.target_tls == Some(true))
        {
            return Err(by.wrong(TOLD).with_hint(tls_hint(by)));
        }
        let has_tls = |listed: &ConfiguredTunnel| {
            let (own, all) = (&listed.wishes, &self.config.all);
            let layers = [&self.flags, own, all];
            let wished = layers.iter().find_map(|wishes| wishes.target_tls);
            own.tls == ProxyTlsOptions::default() || wished == Some(true)
        };
        let mut without = self.config.tunnels.iter().filter(|listed| !has_tls(listed));
        match without.find_map(|listed| listed.wishes.tls.by()) {
            Some(by) => Err(by.wrong(TOLD).with_hint(tls_hint(by))),
            None => Ok(()),
        }
    }

    /// Connections in advance are kept for someone, where flags want them.
    pub(super) fn warmth_is_used(&self, is_warm: bool) -> Result<(), SettingError> {
        if self.flags.warm.is_some_and(|ready| ready > 0) && !is_warm {
            let wrong = SettingError::new("--warm, and no listener has a target of its own");
            return Err(wrong.with_hint(
                "clients of --socks and --http say where to: nothing can be ready for them before",
            ));
        }
        if self.flags.warm_idle.is_some() && !is_warm {
            return Err(
                SettingError::new("--warm-idle, and no connections are kept ready")
                    .with_hint("--warm N keeps N of them"),
            );
        }
        Ok(())
    }

    /// For --stdio: nothing would listen that the file wants to.
    pub(super) fn listens_nowhere(&self) -> Result<(), SettingError> {
        let (by, what) = match (self.config.tunnels.first(), &self.running.admin) {
            (Some(tunnel), _) => {
                let listen = &tunnel.listen;
                (&listen.by, format!("a tunnel at {}", listen.value))
            }
            (None, Some(admin)) => (&admin.by, "an admin endpoint".to_owned()),
            (None, None) => return Ok(()),
        };
        Err(by
            .wrong(format!("--stdio listens nowhere, and the file has {what}"))
            .with_hint("a file without it, with the proxy alone, serves for --stdio"))
    }

    /// For --stdio: settings of the file that mean nothing without listeners.
    pub(super) fn is_for_listeners(&self) -> Option<String> {
        let mut idle = self.running.of_listeners();
        let all = &self.config.all;
        idle.extend(all.warm.map(|_| "warm"));
        idle.extend(all.warm_idle.map(|_| "warm-idle"));
        let path = self.config.path.display();
        (!idle.is_empty()).then(|| {
            format!(
                "{path}: --stdio has no listeners, and so no use for {}",
                idle.join(", ")
            )
        })
    }

    /// What flags say of the proxy is for nobody where every tunnel has one for itself.
    pub(super) fn flags_have_a_proxy<'a>(
        &self,
        mut wished: impl Iterator<Item = &'a TunnelOptionsLayer>,
    ) -> Result<(), SettingError> {
        if self.flags.is_about_a_proxy() && wished.all(|wishes| wishes.is_own) {
            let told = "a login, header fields or certificates for the proxy are given, and every tunnel names a proxy of its own";
            return Err(SettingError::new(told).with_hint(
                "they go beside that proxy in the file; or -p names one for all tunnels",
            ));
        }
        Ok(())
    }

    fn netrc(&self) -> Result<Option<Netrc>, SettingError> {
        let Some(said) = &self.running.netrc else {
            return Ok(None);
        };
        let by = said.by.to_string();
        match &said.value {
            NetrcOption::File(file) => read_netrc(&by, file).map(Some),
            NetrcOption::Home => read_netrc(&by, &home_netrc_path()?).map(Some),
        }
    }

    /// Files that all can read, and should not.
    pub(super) fn warnings(&self) -> Vec<String> {
        let tunnels = self.config.tunnels.iter().map(|listed| &listed.wishes);
        let wishes = [&self.flags, &self.config.all].into_iter().chain(tunnels);
        let wished = wishes.flat_map(|wishes| {
            [
                wishes.login.file.as_ref(),
                wishes.proxy_tls.key.as_ref(),
                wishes.tls.key.as_ref(),
            ]
        });
        let named = self.config.proxies.values();
        let named = named.flat_map(|named| [named.login.file.as_ref(), named.tls.key.as_ref()]);
        let mut files: Vec<_> = wished
            .chain(named)
            .flatten()
            .map(|said| &said.value)
            .collect();
        files.sort();
        files.dedup();
        let exposed = files
            .into_iter()
            .filter_map(|path| world_readable_warning(path));
        self.config
            .warnings
            .iter()
            .cloned()
            .chain(exposed)
            .collect()
    }
}

fn tls_hint(by: &OptionSource) -> &'static str {
    match by.is_key() {
        true => "target-tls = true speaks it; proxy-cacert and the like are for the proxy",
        false => "--target-tls speaks it; --proxy-cacert and the like are for the proxy",
    }
}
