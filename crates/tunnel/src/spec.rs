//! A tunnel as users write it: its listener and its target. `[bind:]port:host:hostport`, as for `ssh -L`.
//!
//! The target is read from the right, since a host is a name or has brackets. The rest is a [`ListenAddress`]: a port on this machine,
//! `bind:port`, `unix:/path`, or `systemd:name`.

use std::fmt;
use std::str::FromStr;

use haul_net::{Target, TargetError};
use haul_service::listen::{ListenAddress, ListenAddressError};

/// A listener and its target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TunnelSpec {
    pub listen: ListenAddress,
    /// Where clients are connected to.
    pub target: Target,
}

/// Why a text is not a tunnel.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TunnelSpecError {
    /// It is a URL, as for a proxy.
    #[error("this is a URL")]
    Url,
    /// It is a listener alone.
    #[error("there is no target behind the listener")]
    NoTarget,
    /// It is a target alone, or not even that.
    #[error("there is no port to listen on before the target")]
    NoListener,
    /// The target is wrong.
    #[error("the target: {0}")]
    Target(#[from] TargetError),
    /// The listener is wrong.
    #[error("the listener: {0}")]
    Listener(#[from] ListenAddressError),
}

impl TunnelSpecError {
    /// How a tunnel is written, for messages.
    pub const SYNTAX: &str = "[BIND:]PORT:HOST:HOSTPORT, as 9993:imap.example.com:993; unix:PATH:HOST:HOSTPORT; IPv6 in brackets";
}

impl FromStr for TunnelSpec {
    type Err = TunnelSpecError;

    fn from_str(text: &str) -> Result<Self, TunnelSpecError> {
        if text.contains("://") {
            return Err(TunnelSpecError::Url);
        }
        let (listen, target) = split(text)?;
        // What was taken for the host may be the path, or stand behind the last of many colons.
        if listen == "unix" && target.starts_with(['/', '.']) {
            return Err(TunnelSpecError::NoTarget);
        }
        if listen == "unix" {
            return Err(ListenAddressError::Path.into());
        }
        let is_named = listen.starts_with("unix:") || listen.starts_with("systemd:");
        if listen.ends_with(':') && !is_named {
            return Err(ListenAddressError::UnbracketedIpv6(listen.into()).into());
        }
        let target = target.parse()?;
        // An empty address before the colon means all of them, as for ssh.
        let listen: ListenAddress = listen.parse()?;
        Ok(Self { listen, target })
    }
}

/// Splits the listener from the target.
fn split(text: &str) -> Result<(&str, &str), TunnelSpecError> {
    let (before, _port) = text
        .rsplit_once(':')
        .ok_or_else(|| error_without_colon(text))?;
    let host = match before.strip_suffix(']') {
        Some(rest) => rest.rfind('[').ok_or(TargetError::Host)?,
        None => before.rfind(':').map_or(0, |colon| colon + 1),
    };
    let listen = text[..host].strip_suffix(':');
    match listen {
        Some(listen) if !listen.is_empty() => Ok((listen, &text[host..])),
        _ => Err(error_with_one_colon(text)),
    }
}

fn error_without_colon(text: &str) -> TunnelSpecError {
    if is_number(text) {
        TunnelSpecError::NoTarget
    } else {
        TunnelSpecError::NoListener
    }
}

/// The error of a text with one colon: part of a listener or of a target.
fn error_with_one_colon(text: &str) -> TunnelSpecError {
    match text.split_once(':') {
        Some(("unix", path)) if path.contains('/') => TunnelSpecError::NoTarget,
        Some((port, "")) if is_number(port) => TunnelSpecError::NoTarget,
        Some((port, rest)) if is_number(port) && is_number(rest) => TargetError::NoHost.into(),
        Some((port, _)) if is_number(port) => TargetError::NoPort.into(),
        _ => TunnelSpecError::NoListener,
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

impl fmt::Display for TunnelSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.listen, self.target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> (String, String) {
        let spec: TunnelSpec = text.parse().unwrap();
        (spec.listen.to_string(), spec.target.to_string())
    }

    #[test]
    fn every_form_is_parsed() {
        for (text, listen, target) in [
            ("9993:imap.test:993", "127.0.0.1:9993", "imap.test:993"),
            ("0:[::1]:22", "127.0.0.1:0", "[::1]:22"),
            ("127.0.0.2:80:a.test:8080", "127.0.0.2:80", "a.test:8080"),
            ("localhost:80:a.test:80", "localhost:80", "a.test:80"),
            ("[::1]:80:[fe80::2]:80", "[::1]:80", "[fe80::2]:80"),
            ("*:80:a.test:80", ":80", "a.test:80"),
            (":80:a.test:80", ":80", "a.test:80"),
            (
                "unix:/run/a:b.sock:a.test:80",
                "unix:/run/a:b.sock",
                "a.test:80",
            ),
            (
                "unix:/a?mode=660:10.0.0.1:80",
                "unix:/a?mode=660",
                "10.0.0.1:80",
            ),
            ("systemd:a.test:80", "systemd", "a.test:80"),
            ("systemd:mail:a.test:80", "systemd:mail", "a.test:80"),
        ] {
            assert_eq!(parse(text), (listen.into(), target.into()), "{text}");
            let spec: TunnelSpec = text.parse().unwrap();
            assert_eq!(spec.to_string().parse(), Ok(spec), "{text}");
        }
    }

    #[test]
    fn errors_name_the_part_that_is_wrong() {
        use TunnelSpecError as E;
        for (text, error) in [
            ("", E::NoListener),
            ("80", E::NoTarget),
            ("80:", E::NoTarget),
            ("unix:/a.sock", E::NoTarget),
            ("unix:/a.sock:22", E::NoTarget),
            ("unix:a.test:22", E::Listener(ListenAddressError::Path)),
            ("unix::a.test:22", E::Listener(ListenAddressError::Path)),
            (
                "systemd::a.test:22",
                E::Listener(ListenAddressError::SystemdName),
            ),
            ("http://me:pw@a.test:80", E::Url),
            ("a.test:80", E::NoListener),
            ("[::1]:80", E::NoListener),
            ("80:a.test", E::Target(TargetError::NoPort)),
            ("80:22", E::Target(TargetError::NoHost)),
            ("80:a.test:0", E::Target(TargetError::Port)),
            ("80:a.test:ssh", E::Target(TargetError::Port)),
            ("80::22", E::Target(TargetError::NoHost)),
            ("80:[a.test]:22", E::Target(TargetError::Host)),
            ("80:a b:22", E::Target(TargetError::Host)),
            ("80:::1]:22", E::Target(TargetError::Host)),
            (
                "80:fd00::1:22",
                E::Listener(ListenAddressError::UnbracketedIpv6("80:fd00:".into())),
            ),
            (
                "80:::1:22",
                E::Listener(ListenAddressError::UnbracketedIpv6("80::".into())),
            ),
            (
                "70000:a.test:22",
                E::Listener(ListenAddressError::Port("70000".into())),
            ),
            (
                "a.test:a.test:22",
                E::Listener(ListenAddressError::NoPort("a.test".into())),
            ),
            (
                "::1:80:a.test:22",
                E::Listener(ListenAddressError::UnbracketedIpv6("::1:80".into())),
            ),
        ] {
            assert_eq!(text.parse::<TunnelSpec>(), Err(error), "{text}");
        }
    }
}
