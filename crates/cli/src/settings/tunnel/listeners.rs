//! Where is to be listened: what flags say of it, and whether what flags and the file say is apart.

use haul_service::listen::{Address, AddressError, Host};
use haul_tunnel::{Local, Spec, SpecError};

use super::wishes::Wishes;
use crate::args::TunnelArgs;
use crate::settings::{Said, SettingError};

/// A listener that there is to be.
#[derive(Debug)]
pub(super) struct Wanted {
    /// Where it listens.
    pub(super) listen: Said<Address>,
    /// What its clients say.
    pub(super) local: Local,
    /// What is wished of it; nothing of its own if it is of a flag.
    pub(super) wishes: Option<Wishes>,
}

impl Wanted {
    fn flag(name: &'static str, listen: Address, local: Local) -> Self {
        Self {
            listen: Said::flag(name, listen),
            local,
            wishes: None,
        }
    }
}

/// An address that the file names must be apart from those before it. Of two flags that is found when they are listened on, and so is
/// what a name comes to.
pub(super) fn are_apart(wanted: &[Wanted]) -> Result<(), SettingError> {
    for (at, later) in wanted.iter().enumerate() {
        let later = &later.listen;
        let mut before = wanted[..at].iter().map(|wanted| &wanted.listen);
        let earlier = before.find(|earlier| overlap(&earlier.value, &later.value));
        if let Some(earlier) = earlier.filter(|_| later.by.is_key()) {
            let told = format!("{} is taken by {}", later.value, earlier.by);
            return Err(later.by.wrong(told).hint(
                "each tunnel listens at an address of its own; every interface includes each of them",
            ));
        }
    }
    Ok(())
}

/// Whether both cannot be listened on. Any free port is another one each time, and of sockets that were handed over there may be several.
fn overlap(a: &Address, b: &Address) -> bool {
    match (a, b) {
        (Address::Unix { path: a, .. }, Address::Unix { path: b, .. }) => a == b,
        (Address::Tcp { host: a, port: one }, Address::Tcp { host: b, port: two }) => {
            one == two && *one != 0 && (a == b || includes(a, b) || includes(b, a))
        }
        _ => false,
    }
}

/// Whether one is all that the other is among.
fn includes(all: &Host, one: &Host) -> bool {
    match (all, one) {
        (Host::Every, _) => true,
        (Host::Ip(all), Host::Ip(one)) => all.is_unspecified() && (all.is_ipv6() || one.is_ipv4()),
        (Host::Ip(_) | Host::Name(_), _) => false,
    }
}

/// What flags listen on; nothing is wished of those that is not wished of all.
pub(super) fn flagged(args: &TunnelArgs) -> Result<Vec<Wanted>, SettingError> {
    let specs = args.specs.iter().zip(1..).map(|(text, number)| {
        if text == "status" {
            return Err(SettingError::new("status stands among the SPECs")
                .hint("haul tunnel status takes --admin and --json alone"));
        }
        let spec: Spec = text.parse().map_err(|error| wrong_spec(number, &error))?;
        Ok(Wanted::flag(
            "SPEC",
            spec.listen,
            Local::Forward(spec.target),
        ))
    });
    let mut wanted: Vec<_> = specs.collect::<Result<_, SettingError>>()?;
    let of = |name, addresses: &[Address], local: Local| -> Vec<Wanted> {
        let each = addresses.iter().cloned();
        each.map(|address| Wanted::flag(name, address, local.clone()))
            .collect()
    };
    wanted.extend(of("--socks", &args.socks, Local::Socks));
    wanted.extend(of("--http", &args.http, Local::Http));
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
        SpecError::Url => "this is a URL, and no tunnel: a proxy is named by -p".to_owned(),
        // Whose colons those are cannot be told.
        SpecError::Listener(AddressError::Brackets(_)) => {
            "several colons, and no brackets around an IPv6 address".to_owned()
        }
        SpecError::Listener(AddressError::NoPort(_)) => {
            "the listener: there is no port: it is PORT or BIND:PORT".to_owned()
        }
        SpecError::Listener(
            AddressError::Path
            | AddressError::Option(_)
            | AddressError::Mode(_)
            | AddressError::SystemdName,
        ) => error.to_string(),
        SpecError::Listener(AddressError::Port(_)) => {
            "the listener: the port is no number from 0 to 65535".to_owned()
        }
        SpecError::Listener(_) => "the listener: this is no address".to_owned(),
        _ => error.to_string(),
    };
    SettingError::new(format!("SPEC {number}: {told}"))
        .hint(format!("a SPEC is {}", SpecError::GRAMMAR))
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_overlaps_is_told_from_what_is_apart() {
        let overlap = |a: &str, b: &str| {
            let (a, b) = (a.parse().unwrap(), b.parse().unwrap());
            assert_eq!(super::overlap(&a, &b), super::overlap(&b, &a));
            super::overlap(&a, &b)
        };
        for (a, b) in [
            ("9993", "127.0.0.1:9993"),
            ("9993", "*:9993"),
            ("[::1]:9993", ":9993"),
            ("0.0.0.0:9993", "127.0.0.2:9993"),
            ("[::]:9993", "9993"),
            ("unix:a", "unix:a?mode=600"),
            ("localhost:1", "localhost:1"),
        ] {
            assert!(overlap(a, b), "{a} {b}");
        }
        for (a, b) in [
            ("9993", "127.0.0.2:9993"),
            ("9993", "*:9994"),
            ("0", "0"),
            ("*:0", "0"),
            ("0.0.0.0:1", "[::1]:1"),
            ("unix:a", "unix:b"),
            ("systemd", "systemd"),
            ("localhost:1", "1"),
        ] {
            assert!(!overlap(a, b), "{a} {b}");
        }
    }
}
