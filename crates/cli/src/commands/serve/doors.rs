//! Where a server listens, and with what connections are met there.

use std::io;
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use haul_serve::Server;
use haul_serve::accept::Crew;
use haul_serve::access::Hosts;
use haul_serve::listen::tls::{Pair, Tls, TlsError, own_names};
use haul_serve::listen::{
    Address, BindOptions, Bound, Handed, Host, ListenError, Local, SocketFile, bind,
};

use super::trouble::Trouble;
use crate::settings::{ServeSettings, TlsSettings};

/// Everything that is listened on.
#[derive(Debug)]
pub(super) struct Doors {
    /// The sockets.
    bound: Vec<Bound>,
    /// How connections are secured.
    pub(super) tls: Option<Tls>,
    /// Sockets that were handed over and that no address is.
    pub(super) left: Vec<String>,
}

/// Files of sockets that others find us by. They go when this is dropped.
pub(super) type SocketFiles = Vec<Option<SocketFile>>;

impl Doors {
    /// Listens, and gets the certificates ready.
    pub(super) fn open(settings: &ServeSettings) -> Result<Self, Trouble> {
        let options = BindOptions {
            sockets: NonZeroUsize::new(settings.crew.sockets()).unwrap_or(NonZeroUsize::MIN),
            ..BindOptions::default()
        };
        // Files are read first: a certificate that is not there is told of before ports are taken.
        let tls = match &settings.tls {
            TlsSettings::Files(pairs) => Some(from_files(pairs)?),
            TlsSettings::Off | TlsSettings::SelfSigned => None,
        };
        let mut handed = Handed::take()?;
        let mut bound = Vec::new();
        for address in &settings.listen {
            let more = bind(address, &options, &mut handed);
            let more = more.map_err(|error| match is_own(&error, &locals(&bound)) {
                true => twice("-l", address, "every interface includes each of them"),
                false => error.into(),
            })?;
            bound.extend(more);
        }
        let mut doors = Self {
            bound,
            tls,
            left: handed.names(),
        };
        if settings.tls == TlsSettings::SelfSigned {
            doors.tls = Some(Tls::self_signed(own_names(&doors.locals()))?);
        }
        Ok(doors)
    }

    /// Where they are.
    pub(super) fn locals(&self) -> Vec<Local> {
        locals(&self.bound)
    }

    /// The names that it goes by, if nothing but the name keeps a stranger's page out: see [`Hosts`].
    pub(super) fn hosts(&self, settings: &ServeSettings) -> Option<Hosts> {
        let is_private = !self.bound.iter().any(|bound| is_public(&bound.local));
        let is_trusting = self.tls.is_none() && settings.server.access.lets_strangers_in();
        let allowed = settings
            .hosts
            .clone()
            .filter(|_| is_private && is_trusting)?;
        let own = own_names(&[]);
        // As it is called by multicast DNS.
        let local = own
            .iter()
            .map(|name| name.split('.').next().unwrap_or(name));
        let local: Vec<String> = local.map(|name| format!("{name}.local")).collect();
        Some(Hosts::new(allowed.into_iter().chain(own).chain(local)))
    }

    /// Lets a crew in.
    pub(super) fn staff(
        self,
        server: &Arc<Server>,
        settings: &ServeSettings,
    ) -> Result<(Crew, SocketFiles), Trouble> {
        let mut files = Vec::new();
        let mut sockets = Vec::new();
        for bound in self.bound {
            let config = self.tls.as_ref().map(|tls| Arc::clone(&tls.config));
            sockets.push((bound.listeners, config));
            files.push(bound.file);
        }
        let crew =
            Crew::start(sockets, server, &settings.crew).map_err(|error| no_threads(&error))?;
        Ok((crew, files))
    }
}

fn locals(bound: &[Bound]) -> Vec<Local> {
    bound.iter().map(|bound| bound.local.clone()).collect()
}

/// Whether the server that has taken an address is this one, which listens at `locals`.
pub(super) fn is_own(error: &ListenError, locals: &[Local]) -> bool {
    let covers = |one: IpAddr, other: IpAddr| {
        one == other || one.is_unspecified() && (one.is_ipv6() || other.is_ipv4())
    };
    let is_same = |local: &Local| match (error, local) {
        (
            ListenError::Taken {
                address: Address::Tcp { host, port },
            },
            Local::Tcp(local),
        ) => {
            let ip = local.ip().to_canonical();
            let meets = match host {
                Host::Ip(host) => {
                    let host = host.to_canonical();
                    covers(host, ip) || covers(ip, host)
                }
                Host::Every | Host::Name(_) => true,
            };
            *port == local.port() && meets
        }
        (ListenError::Running { path }, Local::Unix(Some(local))) => is_one(path, local),
        _ => false,
    };
    locals.iter().any(is_same)
}

/// Whether two paths lead to one file, however they go there.
fn is_one(path: &Path, other: &Path) -> bool {
    let whole = |path: &Path| path.canonicalize().ok();
    whole(path).is_some_and(|path| whole(other) == Some(path))
}

/// An address that the command has given away already. `why` a port may be without being the same.
pub(super) fn twice(flag: &str, address: &Address, why: &str) -> Trouble {
    let told = format!("{flag} {address} is taken by an earlier -l of this command");
    Trouble::usage(told).hint(match address {
        Address::Unix { .. } => "leave one of them out, or name another path".to_owned(),
        _ => format!("leave one of them out, or take another port: {why}"),
    })
}

/// What a thread needs that the system did not give.
fn no_threads(error: &io::Error) -> Trouble {
    let told = Trouble::local(format!("cannot start threads: {error}"));
    match error.raw_os_error() {
        Some(libc::EMFILE) => {
            told.hint("ulimit -n N allows more open files, --threads N needs fewer")
        }
        _ => told,
    }
}

/// Certificates from files. That a key is missing where none was named has a simpler cause than the library can know.
fn from_files(pairs: &[Pair]) -> Result<Tls, Trouble> {
    Tls::from_files(pairs.to_vec()).map_err(|error| {
        let is_unnamed = |path| {
            let mut both = pairs.iter().filter(|pair| pair.key == pair.certificate);
            both.any(|pair| &pair.key == path)
        };
        match &error {
            TlsError::NoKey {
                path,
                has_certificate: true,
            } if is_unnamed(path) => {
                Trouble::from(error).hint("--key FILE names the file that its key is in")
            }
            _ => error.into(),
        }
    })
}

/// Whether others than this machine get there. Who may connect to a socket file its permissions say.
pub(super) fn is_public(local: &Local) -> bool {
    match local {
        Local::Tcp(address) => !address.ip().to_canonical().is_loopback(),
        Local::Unix(_) => false,
    }
}

/// What to type into a browser, or else where it is.
pub(super) fn urls(local: &Local, is_secure: bool) -> Vec<String> {
    let Local::Tcp(address) = local else {
        return vec![local.to_string()];
    };
    let scheme = if is_secure { "https" } else { "http" };
    let url = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => format!("{scheme}://{ip}:{}/", address.port()),
        IpAddr::V6(ip) => format!("{scheme}://[{ip}]:{}/", address.port()),
    };
    let ip = address.ip().to_canonical();
    if !ip.is_unspecified() {
        return vec![url(ip)];
    }
    // No browser goes to 0.0.0.0: this machine's own, and by which others may reach it.
    let others = own_names(std::slice::from_ref(local)).into_iter();
    let others = others.filter_map(|name| name.parse::<IpAddr>().ok());
    let others = others.filter(|other| !other.is_loopback() && (ip.is_ipv6() || other.is_ipv4()));
    let own = IpAddr::from(std::net::Ipv4Addr::LOCALHOST);
    std::iter::once(own).chain(others).map(url).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(address: &str) -> Local {
        Local::Tcp(address.parse().unwrap())
    }

    #[test]
    fn urls_work_in_a_browser() {
        assert_eq!(urls(&tcp("127.0.0.1:80"), false), ["http://127.0.0.1:80/"]);
        assert_eq!(urls(&tcp("[::1]:8443"), true), ["https://[::1]:8443/"]);
        let unix = Local::Unix(Some("/run/a.sock".into()));
        assert_eq!(urls(&unix, true), ["unix:/run/a.sock"]);
        for every in ["0.0.0.0:80", "[::]:80"] {
            let urls = urls(&tcp(every), false);
            assert_eq!(urls[0], "http://127.0.0.1:80/");
            let is_for_v4 = |url: &String| !url.contains('[');
            assert!(
                every.contains('[') || urls.iter().all(is_for_v4),
                "{urls:?}"
            );
        }
    }

    #[test]
    fn who_gets_there() {
        for (local, is) in [
            ("127.0.0.1:80", false),
            ("127.9.9.9:80", false),
            ("[::1]:80", false),
            ("[::ffff:127.0.0.1]:80", false),
            ("0.0.0.0:80", true),
            ("[::]:80", true),
            ("192.0.2.1:80", true),
        ] {
            assert_eq!(is_public(&tcp(local)), is, "{local}");
        }
        assert!(!is_public(&Local::Unix(None)));
    }
}
