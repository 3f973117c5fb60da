//! The layers of options: flags, one tunnel of the file, the top of the file. Merges them, and refuses options without effect.

use haul_net::Netrc;

use super::config_file::ConfigFile;
use crate::args::{
    GivenOptions, LayeredOptions, OPTION_GROUPS, OptionSource, ProxyOptions, TunnelArgs,
    option_names,
};
use crate::settings::credentials::{home_netrc_path, read_netrc};
use crate::settings::{SettingError, world_readable_warning};

/// Options about TLS with the target.
const TARGET_TLS: &[&str] = &["cacert", "insecure", "cert", "key"];

/// Options that mean nothing without listeners.
const FOR_LISTENERS: &[&str] = &[
    "max-connections",
    "log",
    "log-format",
    "grace",
    "threads",
    "warm",
    "warm-idle",
];

/// The flags, and the file with its tunnels.
#[derive(Debug)]
pub(super) struct TunnelLayers {
    flags: GivenOptions,
    pub(super) file: ConfigFile,
    /// The names of options about one proxy.
    proxy_options: Vec<String>,
}

/// The options of a tunnel, from all layers.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct MergedOptions {
    pub(super) given: GivenOptions,
    /// Whether the tunnel's table names its proxies. Then options of other layers, and the variable HAUL_PROXY_USER, are not for them.
    pub(super) has_own_proxies: bool,
    /// Whether the tunnel's table has options about TLS with its target.
    has_own_target_tls: bool,
}

impl TunnelLayers {
    /// Reads the file, if there is one.
    pub(super) fn read(args: &TunnelArgs) -> Result<Self, SettingError> {
        let path = args.config.as_deref();
        Ok(Self {
            flags: args.options.options.clone(),
            file: path.map(ConfigFile::read).transpose()?.unwrap_or_default(),
            proxy_options: option_names::<ProxyOptions>(),
        })
    }

    /// The options of a tunnel with this table, or of one that flags name.
    ///
    /// A login, header fields and certificates are for the proxies that they are given with. They go to no other proxies that a layer above
    /// names, and those of flags and the top of the file, which are for all tunnels, go to no proxies that one tunnel names.
    pub(super) fn merged(&self, table: Option<&GivenOptions>) -> MergedOptions {
        let mut layers = vec![&self.flags];
        layers.extend(table);
        layers.push(&self.file.options);
        let is_about_proxy = |name: &str| self.proxy_options.iter().any(|option| option == name);
        let top = layers.len() - 1;
        let with_proxies = layers.iter().position(|layer| layer.contains("proxy"));
        let proxy_layers = match with_proxies.filter(|layer| *layer < top) {
            Some(layer) => &layers[layer..=layer],
            None => &layers[..],
        };
        let filter = |layers: &[&GivenOptions], is_wanted: bool| -> Vec<GivenOptions> {
            let filtered = layers.iter();
            filtered
                .map(|layer| layer.filtered(|name| is_about_proxy(name) == is_wanted))
                .collect()
        };
        let about_proxies = filter(proxy_layers, true);
        let others = filter(&layers, false);
        let all: Vec<&GivenOptions> = about_proxies.iter().chain(&others).collect();
        MergedOptions {
            given: GivenOptions::merge(&all, OPTION_GROUPS),
            has_own_proxies: table.is_some() && with_proxies == Some(1),
            has_own_target_tls: table.is_some_and(|table| table.first_source(TARGET_TLS).is_some()),
        }
    }

    /// Refuses flags about a proxy if each tunnel of the file names its own.
    pub(super) fn check_proxy_flags(&self, tunnels: &[&MergedOptions]) -> Result<(), SettingError> {
        let names: Vec<&str> = self.proxy_options.iter().map(String::as_str).collect();
        let all_own = tunnels.iter().all(|tunnel| tunnel.has_own_proxies);
        match self.flags.first_source(&names).filter(|_| all_own) {
            Some(flag) => Err(SettingError::at(&flag, "every tunnel names its own proxy")
                .with_hint("put it into the file, beside that proxy; or name a proxy for all tunnels with -p")),
            None => Ok(()),
        }
    }

    /// Refuses options about TLS with the target where there is none.
    pub(super) fn check_target_tls(&self, tunnels: &[&MergedOptions]) -> Result<(), SettingError> {
        let has_tls = |tunnel: &MergedOptions| {
            let parsed = tunnel.given.parse::<LayeredOptions>();
            parsed.is_ok_and(|options| options.tunnel.target.target_tls)
        };
        let any_has_tls = tunnels.iter().any(|tunnel| has_tls(tunnel));
        for tunnel in tunnels.iter().filter(|tunnel| !has_tls(tunnel)) {
            // Options for all tunnels may be meant for another one.
            let is_unused = tunnel.has_own_target_tls || !any_has_tls;
            if let Some(source) = tunnel.given.first_source(TARGET_TLS).filter(|_| is_unused) {
                let hint = if source.is_key() {
                    "target-tls = true turns it on; proxy-cacert and the like are for the proxy"
                } else {
                    "--target-tls turns it on; --proxy-cacert and the like are for the proxy"
                };
                let text = "there is no TLS with the target, so certificate options have no effect";
                return Err(SettingError::at(&source, text).with_hint(hint));
            }
        }
        Ok(())
    }

    /// Refuses flags about warm connections if there are none.
    pub(super) fn check_warm_flags(&self, has_warm: bool) -> Result<(), SettingError> {
        if has_warm {
            return Ok(());
        }
        if self.flags.texts("warm").any(|text| text != "0") {
            return Err(SettingError::new("--warm: no listener has a target of its own")
                .with_hint("clients of --socks and --http name their targets: haul cannot connect in advance"));
        }
        if self.flags.contains("warm-idle") {
            Err(SettingError::new("--warm-idle without warm connections")
                .with_hint("--warm N keeps N connections"))
        } else {
            Ok(())
        }
    }

    /// Refuses a file with listeners for --stdio.
    pub(super) fn check_no_listeners(&self) -> Result<(), SettingError> {
        let admin = self.file.options.first_source(&["admin"]);
        let (source, what) = match (self.file.tunnels.first(), admin) {
            (Some(tunnel), _) => {
                let listen = &tunnel.listen;
                (
                    listen.source.clone(),
                    format!("a tunnel at {}", listen.value),
                )
            }
            (None, Some(admin)) => (admin, "an admin endpoint".to_owned()),
            (None, None) => return Ok(()),
        };
        let text = format!("--stdio does not listen, but the file has {what}");
        Err(SettingError::at(&source, text).with_hint("use a file with the proxy alone"))
    }

    /// A warning about options of the file that mean nothing to --stdio.
    pub(super) fn listener_options_warning(&self) -> Option<String> {
        let unused: Vec<&str> = FOR_LISTENERS
            .iter()
            .copied()
            .filter(|name| self.file.options.contains(name))
            .collect();
        let path = self.file.path.display();
        (!unused.is_empty()).then(|| {
            let unused = unused.join(", ");
            format!("{path}: --stdio does not use {unused}, which are for listeners")
        })
    }

    /// Warnings about secrets that every user of this machine can read.
    pub(super) fn warnings(&self) -> Vec<String> {
        let mut files: Vec<_> = std::iter::once(&self.flags)
            .chain(self.file.all_options())
            .flat_map(|options| {
                let names = ["proxy-password-file", "proxy-key", "key"];
                names.into_iter().flat_map(|name| options.texts(name))
            })
            .collect();
        files.sort_unstable();
        files.dedup();
        let exposed = files
            .into_iter()
            .filter_map(|path| world_readable_warning(path.as_ref()));
        self.file.warning.iter().cloned().chain(exposed).collect()
    }

    /// The netrc, if it may be used.
    pub(super) fn netrc(&self) -> Result<Option<Netrc>, SettingError> {
        let options = &self.merged(None).given;
        let process = options.parse::<LayeredOptions>()?.process;
        let read = |name: &str, path| {
            let source: OptionSource = options.source(name);
            read_netrc(&source.to_string(), path).map(Some)
        };
        match (&process.netrc_file, process.netrc) {
            (Some(file), _) => read("netrc-file", file),
            (None, true) => read("netrc", &home_netrc_path()?),
            (None, false) => Ok(None),
        }
    }
}
