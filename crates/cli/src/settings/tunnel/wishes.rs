//! What may be wished of a tunnel: by flags, by the file as a whole, by one of its tunnels. The same in all three, nothing of it needed.
//!
//! [`Wishes::over`] lays one above another. What belongs together is taken together: a proxy's login, header fields and certificates
//! are for the proxies that they stand beside, and go to no other that is named above them. Nor do those of flags, or the variable,
//! go to proxies that one tunnel of the file names for itself: they were given for all.

use std::path::PathBuf;
use std::time::Duration;

use haul_net::{Family, NoProxy, Secret};

use crate::args::{Field, MaybeTime, ProxyArgs, Resolve, SecretText, TargetArgs, User, WayArgs};

/// What is wished. All that is `None` or empty is left to others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Wishes {
    /// Proxies in a row, each a text with alternatives between commas; an empty text is none.
    pub(crate) proxies: Option<Vec<Place>>,
    /// Whether one tunnel names those for itself: what is said of all tunnels' proxies is not about them.
    pub(crate) is_own: bool,
    /// Who we are to the first of them.
    pub(crate) login: LoginWish,
    /// What a CONNECT to it carries.
    pub(crate) headers: Vec<Field>,
    /// TLS with it.
    pub(crate) proxy_tls: TlsWish,
    /// Targets that are reached straight.
    pub(crate) no_proxy: Option<NoProxy>,
    /// Whether targets are reached straight when no proxy can be.
    pub(crate) direct_fallback: Option<bool>,
    /// Whether there is TLS with targets.
    pub(crate) target_tls: Option<bool>,
    /// How that is made.
    pub(crate) tls: TlsWish,
    /// For a connection to be made.
    pub(crate) connect_timeout: Option<Duration>,
    /// For one on which nothing moves.
    pub(crate) idle_timeout: Option<MaybeTime>,
    /// Before a silent peer is probed.
    pub(crate) keepalive: Option<MaybeTime>,
    /// Connections that stand ready.
    pub(crate) warm: Option<usize>,
    /// How long one may.
    pub(crate) warm_idle: Option<Duration>,
    /// Addresses told by hand.
    pub(crate) resolve: Vec<Resolve>,
    /// Which addresses may be used.
    pub(crate) family: Option<Family>,
}

/// One place in a row of proxies: those that will do, as they are written. They may hold passwords.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// In the order in which they are tried.
    pub(crate) proxies: Vec<Secret>,
    /// The flag by which they were told, for messages.
    pub(crate) flag: &'static str,
}

/// Who we are to a proxy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LoginWish {
    /// The user, perhaps with the password.
    pub(crate) user: Option<User>,
    /// The file that holds the password, or both.
    pub(crate) file: Option<PathBuf>,
}

/// Files of TLS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TlsWish {
    /// The only authorities to trust.
    pub(crate) cacert: Option<PathBuf>,
    /// Whether anybody is trusted.
    pub(crate) insecure: Option<bool>,
    /// The certificate that we show.
    pub(crate) cert: Option<PathBuf>,
    /// Its key.
    pub(crate) key: Option<PathBuf>,
}

impl Wishes {
    /// What flags say.
    pub(super) fn of_flags(proxy: &ProxyArgs, way: &WayArgs, target: &TargetArgs) -> Self {
        let given = |is_given: bool| is_given.then_some(true);
        let places = || {
            proxy
                .proxies
                .iter()
                .map(|SecretText(text)| Place::of(text.expose(), "-p"))
        };
        Self {
            proxies: (!proxy.proxies.is_empty()).then(|| places().collect()),
            is_own: false,
            login: LoginWish {
                user: proxy.proxy_user.clone(),
                file: proxy.proxy_password_file.clone(),
            },
            headers: proxy.headers.clone(),
            proxy_tls: TlsWish {
                cacert: proxy.proxy_cacert.clone(),
                insecure: given(proxy.proxy_insecure),
                cert: proxy.proxy_cert.clone(),
                key: proxy.proxy_key.clone(),
            },
            no_proxy: proxy.no_proxy.clone(),
            direct_fallback: given(proxy.direct_fallback),
            target_tls: given(target.target_tls),
            tls: TlsWish {
                cacert: target.cacert.clone(),
                insecure: given(target.insecure),
                cert: target.cert.clone(),
                key: target.key.clone(),
            },
            connect_timeout: way.connect_timeout.map(|time| time.0),
            idle_timeout: way.idle_timeout,
            keepalive: way.keepalive,
            warm: way.warm,
            warm_idle: way.warm_idle.map(|time| time.0),
            resolve: way.resolve.clone(),
            family: match (way.ipv4, way.ipv6) {
                (true, _) => Some(Family::V4),
                (_, true) => Some(Family::V6),
                _ => None,
            },
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

impl Wishes {
    /// Whether there is anything in it about the first proxy.
    pub(super) fn is_about_a_proxy(&self) -> bool {
        self.login != LoginWish::default()
            || !self.headers.is_empty()
            || self.proxy_tls != TlsWish::default()
    }
}

/// A list is taken whole.
fn either<T: Clone>(above: &[T], below: &[T]) -> Vec<T> {
    let taken = if above.is_empty() { below } else { above };
    taken.to_vec()
}

impl Place {
    /// Alternatives with commas between.
    pub(super) fn of(text: &str, flag: &'static str) -> Self {
        let each = |text: &str| Secret::new(text.trim().to_owned());
        Self {
            proxies: text.split(',').map(each).collect(),
            flag,
        }
    }

    /// Whether it says that there is no proxy.
    pub(super) fn is_none(&self) -> bool {
        self.proxies.iter().all(|text| text.expose().is_empty())
    }
}

impl LoginWish {
    /// A user and the file of a password belong together.
    pub(super) fn over(&self, below: Self) -> Self {
        match *self == Self::default() {
            true => below,
            false => self.clone(),
        }
    }
}

impl TlsWish {
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

    fn with_proxy(proxy: Option<&str>, user: Option<&str>) -> Wishes {
        Wishes {
            proxies: proxy.map(|proxy| vec![Place::of(proxy, "-p")]),
            login: LoginWish {
                user: user.map(|user| user.parse().unwrap()),
                file: None,
            },
            ..Wishes::default()
        }
    }

    #[test]
    fn a_login_goes_to_the_proxies_that_it_stands_beside() {
        let name = |wishes: &Wishes| wishes.login.user.as_ref().map(|user| user.name.clone());
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
        let all = Wishes {
            headers: vec!["X-Token: t".parse().unwrap()],
            proxy_tls: TlsWish {
                insecure: Some(true),
                ..TlsWish::default()
            },
            ..with_proxy(None, Some("flag:f"))
        };
        let own = Wishes {
            is_own: true,
            ..with_proxy(Some("b:1"), None)
        };
        let top = with_proxy(Some("a:1"), Some("file:x"));
        let over = all.over(&own).over(&top);
        assert_eq!(over, own);
        let own = Wishes {
            is_own: true,
            ..with_proxy(Some("b:1"), Some("own:o"))
        };
        assert_eq!(all.over(&own).over(&top), own);
        // Where -p takes the tunnel's place, they are for that.
        let flags = Wishes {
            proxies: with_proxy(Some("c:1"), None).proxies,
            ..all
        };
        assert_eq!(flags.over(&own).over(&top), flags);
    }

    #[test]
    fn an_authority_above_is_not_undone_by_carelessness_below() {
        let strict = TlsWish {
            cacert: Some("ca".into()),
            ..TlsWish::default()
        };
        let careless = TlsWish {
            insecure: Some(true),
            cert: Some("me".into()),
            ..TlsWish::default()
        };
        let over = strict.over(careless.clone());
        assert_eq!((over.insecure, over.cert), (None, careless.cert));
    }

    #[test]
    fn alternatives_have_commas_between() {
        let place = Place::of("a:1, http://b:2", "-p");
        let texts: Vec<_> = place.proxies.iter().map(Secret::expose).collect();
        assert_eq!(texts, ["a:1", "http://b:2"]);
        assert!(Place::of("", "-p").is_none() && !Place::of("a", "-p").is_none());
    }
}
