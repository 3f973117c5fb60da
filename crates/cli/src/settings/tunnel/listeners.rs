//! Where is to be listened: what flags say of it, and whether what flags and the file say is apart.

use haul_service::listen::{ListenAddress, ListenAddressError, ListenHost};
use haul_tunnel::{ListenerKind, TunnelSpec, TunnelSpecError};

use super::wishes::TunnelOptionsLayer;
use crate::args::TunnelArgs;
use crate::settings::{SettingError, Sourced};

/// A listener that there is to be.
#[derive(Debug)]
pub(super) struct RequestedListener {
    /// Where it listens.
    pub(super) listen: Sourced<ListenAddress>,
    /// What its clients say.
    pub(super) local: ListenerKind,
    /// What is wished of it; nothing of its own if it is of a flag.
    pub(super) wishes: Option<TunnelOptionsLayer>,
}

impl RequestedListener {
    fn flag(name: &'static str, listen: ListenAddress, local: ListenerKind) -> Self {
        Self {
            listen: Sourced::flag(name, listen),
            local,
            wishes: None,
        }
    }
}

/// An address that the file names must be apart from those before it. Of two flags that is found when they are listened on, and so is
/// what a name comes to.
pub(super) fn are_apart(wanted: &[RequestedListener]) -> Result<(), SettingError> {
    for (at, later) in wanted.iter().enumerate() {
        let later = &later.listen;
        let mut before = wanted[..at].iter().map(|wanted| &wanted.listen);
        let earlier = before.find(|earlier| overlap(&earlier.value, &later.value));
        if let Some(earlier) = earlier.filter(|_| later.by.is_key()) {
            let told = format!("{} is taken by {}", later.value, earlier.by);
            return Err(later.by.wrong(told).with_hint(
                "each tunnel listens at an address of its own; every interface includes this one",
            ));
        }
    }
    Ok(())
}

/// Whether both cannot be listened on. Any free port is another one each time, and of sockets that were handed over there may be several.
fn overlap(a: &ListenAddress, b: &ListenAddress) -> bool {
    match (a, b) {
        (ListenAddress::Unix { path: a, .. }, ListenAddress::Unix { path: b, .. }) => a == b,
        (ListenAddress::Tcp { host: a, port: one }, ListenAddress::Tcp { host: b, port: two }) => {
            one == two && *one != 0 && (a == b || includes(a, b) || includes(b, a))
        }
        _ => false,
    }
}

/// Whether one is all that the other is among.
fn includes(all: &ListenHost, one: &ListenHost) -> bool {
    match (all, one) {
        (ListenHost::Any, _) => true,
        (ListenHost::Ip(all), ListenHost::Ip(one)) => {
            all.is_unspecified() && (all.is_ipv6() || one.is_ipv4())
        }
        (ListenHost::Ip(_) | ListenHost::Name(_), _) => false,
    }
}

/// What flags listen on; nothing is wished of those that is not wished of all.
pub(super) fn flagged(args: &TunnelArgs) -> Result<Vec<RequestedListener>, SettingError> {
    let specs = args
        .specs
        .iter()
        .chain(&args.forwards)
        .zip(1..)
        .map(|(text, number)| {
            if text == "status" {
                return Err(SettingError::new("status stands among the SPECs")
                    .with_hint("haul tunnel status takes --admin and --json alone"));
            }
            let spec: TunnelSpec = text.parse().map_err(|error| wrong_spec(number, &error))?;
            Ok(RequestedListener::flag(
                "SPEC",
                spec.listen,
                ListenerKind::Forward(spec.target),
            ))
        });
    let mut wanted: Vec<_> = specs.collect::<Result<_, SettingError>>()?;
    let of = |name, addresses: &[ListenAddress], local: ListenerKind| -> Vec<RequestedListener> {
        let each = addresses.iter().cloned();
        each.map(|address| RequestedListener::flag(name, address, local.clone()))
            .collect()
    };
    wanted.extend(of("--socks", &args.socks, ListenerKind::Socks));
    wanted.extend(of("--http", &args.http, ListenerKind::Http));
    Ok(wanted)
}

/// Which part of it is wrong. The text itself is not repeated: where a flag was forgotten it may be a login.
fn wrong_spec(number: usize, error: &TunnelSpecError) -> SettingError {
    let told = match error {
        TunnelSpecError::Listener(ListenAddressError::Port(port))
            if port.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            error.to_string()
        }
        TunnelSpecError::Url => "this is a URL, and no tunnel: a proxy is named by -p".to_owned(),
        // Whose colons those are cannot be told.
        TunnelSpecError::Listener(ListenAddressError::UnbracketedIpv6(_)) => {
            "several colons, and no brackets around an IPv6 address".to_owned()
        }
        TunnelSpecError::Listener(ListenAddressError::NoPort(_)) => {
            "the listener: there is no port: it is PORT or BIND:PORT".to_owned()
        }
        TunnelSpecError::Listener(
            ListenAddressError::Path
            | ListenAddressError::Option(_)
            | ListenAddressError::Mode(_)
            | ListenAddressError::SystemdName,
        ) => error.to_string(),
        TunnelSpecError::Listener(ListenAddressError::Port(_)) => {
            "the listener: the port is not a number from 0 to 65535".to_owned()
        }
        TunnelSpecError::Listener(_) => "the listener: this is no address".to_owned(),
        _ => error.to_string(),
    };
    SettingError::new(format!("SPEC {number}: {told}"))
        .with_hint(format!("a SPEC is {}", TunnelSpecError::SYNTAX))
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
