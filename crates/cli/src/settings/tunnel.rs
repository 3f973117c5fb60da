//! What `haul tunnel` was told, resolved: flags, the file of `--config`, the environment.
//!
//! What is wished of a tunnel ([`wishes`]) comes in layers, flags above what the file says of one tunnel above what it says of all;
//! [`way`] makes of it the way to targets. All of it can be resolved again while tunnels run.

mod file;
mod login;
mod running;
mod table;
mod way;
mod wishes;

use haul_net::{Netrc, Target};
use haul_service::listen::{Address, AddressError};
use haul_tunnel::{Local, ReserveOptions, Spec, SpecError, TunnelOptions};

use super::credentials::{home_netrc, netrc};
use super::{SettingError, exposed};
use crate::args::TunnelArgs;
use crate::limits;
use file::{Config, Listed};
pub(crate) use login::Passwords;
use login::{Logins, of_variable};
pub(crate) use running::RunningSettings;
use running::{NetrcWish, RunningWishes};
pub(crate) use way::Way;
use way::Ways;
use wishes::{TlsWish, Wishes};

/// How long a connection that stands ready may, unless told otherwise: proxies close idle ones after a minute or more.
const WARM_IDLE: std::time::Duration = std::time::Duration::from_secs(30);

/// What `haul tunnel` was told.
#[derive(Debug)]
pub(crate) struct TunnelSettings {
    /// Its tunnels: those of flags first, then the file's.
    pub(crate) tunnels: Vec<Planned>,
    /// What it does besides.
    pub(crate) running: RunningSettings,
    /// What is likely not meant, and no error.
    pub(crate) warnings: Vec<String>,
}

/// A tunnel that there is to be.
#[derive(Debug, Clone)]
pub(crate) struct Planned {
    /// Where it listens.
    pub(crate) listen: Address,
    /// What its clients say.
    pub(crate) local: Local,
    /// How targets are reached.
    pub(crate) way: Way,
    /// Connections that stand ready, if there are to be any.
    pub(crate) warm: Option<ReserveOptions>,
    /// Its limits.
    pub(crate) options: TunnelOptions,
}

/// What `haul tunnel --stdio` was told.
#[derive(Debug)]
pub(crate) struct StdioSettings {
    /// The way to the target.
    pub(crate) way: Way,
    /// A connection on which nothing moves for so long is ended.
    pub(crate) idle: Option<std::time::Duration>,
    /// What is likely not meant.
    pub(crate) warnings: Vec<String>,
}

/// How variables are read.
type Environment = fn(&str) -> Option<String>;

fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// What flags and the file say.
struct Told {
    flags: Wishes,
    config: Config,
    running: RunningWishes,
}

impl TunnelSettings {
    /// Resolves the arguments. Reads the files they name; may ask for passwords.
    ///
    /// # Errors
    /// Flags that contradict each other, files that cannot be read or used.
    pub(crate) fn resolve(args: &TunnelArgs, passwords: &Passwords) -> Result<Self, SettingError> {
        Self::resolve_in(args, passwords, environment)
    }

    /// The same in another environment.
    fn resolve_in(
        args: &TunnelArgs,
        passwords: &Passwords,
        environment: Environment,
    ) -> Result<Self, SettingError> {
        let told = Told::by(args)?;
        let mut wanted = flagged(args)?;
        wanted.extend(told.config.tunnels.iter().map(|listed| {
            let wishes = told.flags.over(&listed.wishes).over(&told.config.all);
            (listed.listen.clone(), listed.local.clone(), Some(wishes))
        }));
        if wanted.is_empty() {
            return Err(SettingError::new("there is nothing to listen on")
                .hint(format!("a SPEC is {}", SpecError::GRAMMAR)));
        }
        let all = told.flags.over(&told.config.all);
        let wished = wanted
            .iter()
            .map(|(.., wishes)| wishes.as_ref().unwrap_or(&all));
        told.certificates_are_used(wished.clone())?;
        told.flags_have_a_proxy(wished)?;
        let mut ways = told.ways(passwords, environment)?;
        let planned = wanted.into_iter().map(|(listen, local, wishes)| {
            planned((listen, local), wishes.as_ref().unwrap_or(&all), &mut ways)
        });
        let tunnels: Vec<Planned> = planned.collect::<Result<_, _>>()?;
        let is_warm = tunnels.iter().any(|planned| planned.warm.is_some());
        if told.flags.warm.is_some_and(|ready| ready > 0) && !is_warm {
            let wrong = SettingError::new("--warm, and no listener has a target of its own");
            return Err(wrong.hint(
                "clients of --socks and --http say where to: nothing can be ready for them before",
            ));
        }
        if told.flags.warm_idle.is_some() && !is_warm {
            return Err(
                SettingError::new("--warm-idle, and no connections are kept ready")
                    .hint("--warm N keeps N of them"),
            );
        }
        let mut warnings = told.warnings();
        warnings.extend(told.running.descriptors(limits::open_files()));
        Ok(Self {
            tunnels,
            running: told.running.settled(args.running.quiet)?,
            warnings,
        })
    }
}

impl StdioSettings {
    /// Resolves the arguments for `--stdio`.
    ///
    /// # Errors
    /// As with tunnels that listen.
    pub(crate) fn resolve(args: &TunnelArgs) -> Result<Self, SettingError> {
        let told = Told::by(args)?;
        told.listens_nowhere()?;
        let wishes = told.flags.over(&told.config.all);
        told.certificates_are_used(std::iter::once(&wishes))?;
        let passwords = Passwords::default();
        Ok(Self {
            way: told.ways(&passwords, environment)?.of(&wishes)?,
            idle: wishes.idle_timeout.and_then(|time| time.0),
            warnings: told.warnings(),
        })
    }
}

impl Told {
    fn by(args: &TunnelArgs) -> Result<Self, SettingError> {
        let config = args.config.as_deref().map(Config::read).transpose()?;
        let mut config = config.unwrap_or_default();
        let below = std::mem::take(&mut config.running);
        Ok(Self {
            flags: Wishes::of_flags(&args.proxy, &args.way, &args.target),
            running: RunningWishes::of_flags(args).over(below),
            config,
        })
    }

    fn ways<'a>(
        &'a self,
        passwords: &'a Passwords,
        environment: Environment,
    ) -> Result<Ways<'a>, SettingError> {
        Ok(Ways {
            named: &self.config.proxies,
            logins: Logins {
                variable: of_variable(environment(login::VARIABLE))?,
                netrc: self.netrc()?,
                passwords,
            },
            environment,
            made: Vec::new(),
        })
    }

    /// What is about TLS with the target makes no sense where there is none.
    fn certificates_are_used<'a>(
        &self,
        mut wished: impl Iterator<Item = &'a Wishes>,
    ) -> Result<(), SettingError> {
        let is_given = [&self.flags, &self.config.all]
            .iter()
            .any(|wishes| wishes.tls != TlsWish::default());
        if is_given && !wished.any(|wishes| wishes.target_tls == Some(true)) {
            let told = "there is no TLS with the target, and so nothing for certificates";
            return Err(SettingError::new(told)
                .hint("--target-tls speaks it; --proxy-cacert and the like are for the proxy"));
        }
        let has_tls = |listed: &Listed| {
            let (own, all) = (&listed.wishes, &self.config.all);
            let layers = [&self.flags, own, all];
            let wished = layers.iter().find_map(|wishes| wishes.target_tls);
            own.tls == TlsWish::default() || wished == Some(true)
        };
        match self.config.tunnels.iter().find(|listed| !has_tls(listed)) {
            Some(listed) => Err(SettingError::new(format!(
                "the tunnel at {}: there is no TLS with the target, and so nothing for certificates",
                listed.listen
            ))
            .hint("target-tls = true speaks it; proxy-cacert and the like are for the proxy")),
            None => Ok(()),
        }
    }

    /// For --stdio: nothing would listen that the file wants to.
    fn listens_nowhere(&self) -> Result<(), SettingError> {
        let what = match (self.config.tunnels.first(), &self.running.admin) {
            (Some(tunnel), _) => format!("a tunnel at {}", tunnel.listen),
            (None, Some(_)) => "an admin endpoint".to_owned(),
            (None, None) => return Ok(()),
        };
        Err(SettingError::new(format!(
            "--stdio listens nowhere, and the file of --config has {what}"
        ))
        .hint("a file without it, with the proxy alone, serves for --stdio"))
    }

    /// What flags say of the proxy is for nobody where every tunnel has one for itself.
    fn flags_have_a_proxy<'a>(
        &self,
        mut wished: impl Iterator<Item = &'a Wishes>,
    ) -> Result<(), SettingError> {
        if self.flags.is_about_a_proxy() && wished.all(|wishes| wishes.is_own) {
            let told = "a login, header fields or certificates for the proxy are given, and every tunnel names a proxy of its own";
            return Err(SettingError::new(told)
                .hint("they go beside that proxy in the file; or -p names one for all tunnels"));
        }
        Ok(())
    }

    fn netrc(&self) -> Result<Option<Netrc>, SettingError> {
        match &self.running.netrc {
            Some(NetrcWish::File(file)) => netrc("--netrc-file", file).map(Some),
            Some(NetrcWish::Home) => netrc("--netrc", &home_netrc()?).map(Some),
            None => Ok(None),
        }
    }

    /// Files that all can read, and should not.
    fn warnings(&self) -> Vec<String> {
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
        let mut files: Vec<_> = wished.chain(named).flatten().collect();
        files.sort();
        files.dedup();
        let exposed = files.into_iter().filter_map(|path| exposed(path));
        self.config
            .warnings
            .iter()
            .cloned()
            .chain(exposed)
            .collect()
    }
}

/// What flags listen on; nothing is wished of those that is not wished of all.
fn flagged(args: &TunnelArgs) -> Result<Vec<(Address, Local, Option<Wishes>)>, SettingError> {
    let specs = args.specs.iter().zip(1..).map(|(text, number)| {
        if text == "status" {
            return Err(SettingError::new("status stands among the SPECs")
                .hint("haul tunnel status takes --admin and --json alone"));
        }
        let spec: Spec = text.parse().map_err(|error| wrong_spec(number, &error))?;
        Ok((spec.listen, Local::Forward(spec.target), None))
    });
    let mut wanted: Vec<_> = specs.collect::<Result<_, SettingError>>()?;
    let socks = args.socks.iter().map(|address| (address, Local::Socks));
    let http = args.http.iter().map(|address| (address, Local::Http));
    let more = socks.chain(http);
    wanted.extend(more.map(|(address, local)| (address.clone(), local, None)));
    Ok(wanted)
}

/// Which part of it is wrong. The text itself is not repeated: where a flag was forgotten it may be a login.
fn wrong_spec(number: usize, error: &SpecError) -> SettingError {
    let told = match error {
        SpecError::Listener(AddressError::Port(port))
            if port.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            error.to_string()
        }
        SpecError::Listener(AddressError::Brackets(_)) => {
            "the listener: several colons, and no brackets around an IPv6 address".to_owned()
        }
        SpecError::Listener(
            AddressError::Path
            | AddressError::Option(_)
            | AddressError::Mode(_)
            | AddressError::SystemdName,
        ) => error.to_string(),
        SpecError::Listener(_) => "the listener: this is no address with a port".to_owned(),
        _ => error.to_string(),
    };
    SettingError::new(format!("SPEC {number}: {told}"))
        .hint(format!("a SPEC is {}", SpecError::GRAMMAR))
}

fn planned(
    (listen, local): (Address, Local),
    wishes: &Wishes,
    ways: &mut Ways<'_>,
) -> Result<Planned, SettingError> {
    let ready = wishes.warm.unwrap_or(0);
    let is_forward = matches!(local, Local::Forward(_));
    let warm = (ready > 0 && is_forward).then(|| ReserveOptions {
        ready,
        longest: wishes.warm_idle.unwrap_or(WARM_IDLE),
    });
    let keepalive = haul_net::ConnectorConfig::default().keepalive;
    Ok(Planned {
        listen,
        local,
        way: ways.of(wishes)?,
        warm,
        options: TunnelOptions {
            idle: wishes.idle_timeout.and_then(|time| time.0),
            keepalive: wishes.keepalive.map_or(keepalive, |time| time.0),
        },
    })
}

impl Planned {
    /// Its target, if its clients do not name theirs.
    pub(crate) fn target(&self) -> Option<&Target> {
        match &self.local {
            Local::Forward(target) => Some(target),
            Local::Socks | Local::Http => None,
        }
    }
}

#[cfg(test)]
mod tests;
