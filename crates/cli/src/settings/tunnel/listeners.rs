//! Where is to be listened: what flags say of it, and whether what flags and the file say is apart.

use haul_service::listen::{Address, AddressError};
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

/// An address that the file names must be one that nobody has named before. Those of flags, and what overlaps without being the same,
/// are found when they are listened on.
pub(super) fn are_apart(wanted: &[Wanted]) -> Result<(), SettingError> {
    let is_one = |address: &Address| match address {
        // Any free port is another one each time, and of handed sockets there may be several.
        Address::Tcp { port, .. } => *port != 0,
        Address::Unix { .. } => true,
        Address::Systemd { .. } => false,
    };
    for (at, later) in wanted.iter().enumerate() {
        let later = &later.listen;
        let mut before = wanted[..at].iter().map(|wanted| &wanted.listen);
        let earlier = before.find(|earlier| is_same(&earlier.value, &later.value));
        if let Some(earlier) = earlier
            && later.by.is_key()
            && is_one(&later.value)
        {
            let told = format!("{} is taken by {}", later.value, earlier.by);
            return Err(later
                .by
                .wrong(told)
                .hint("each tunnel listens at an address of its own"));
        }
    }
    Ok(())
}

/// Whether it is the same place, whoever may come there.
fn is_same(a: &Address, b: &Address) -> bool {
    match (a, b) {
        (Address::Unix { path: a, .. }, Address::Unix { path: b, .. }) => a == b,
        _ => a == b,
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
