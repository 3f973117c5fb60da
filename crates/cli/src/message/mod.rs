//! Messages for people: what happened, to what, and a hint what to do.
//!
//! One line `haul: error: ...` with the causes separated by colons, then perhaps `hint: ...`. Colour marks the words "error", "warning" and
//! "hint" only and carries no meaning; `NO_COLOR` and pipes turn it off. Failing to write to standard error is no failure, since nobody is
//! left to tell. [`mod@usage`] explains wrong command lines, [`json_outputs`] selects the format of failures before any job.

mod background;
mod foreign_commands;
mod foreign_flags;
mod json_outputs;
mod server_hints;
mod tunnel_hints;
mod usage;

use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;

use haul_net::{AddressFamily, Kind, ProxyName, ProxyRefusal, TlsProblem};
use haul_plan::RedirectError;
use haul_transfer::{GetError, TransferTimeLimit};
use url::Url;

pub(crate) use background::{finish_printing, print_in_background};
pub(crate) use json_outputs::JsonOutputs;
pub(crate) use server_hints::{certificate_hint, listen_hint};
pub(crate) use tunnel_hints::tunnel_hint;
pub(crate) use usage::report_usage_error;

/// An error and its causes in one line. A cause that the line already contains is left out.
pub(crate) fn chain_text(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let cause_text = error.to_string();
        if !text.contains(&cause_text) {
            // Writing into a String cannot fail.
            let _ = write!(text, ": {cause_text}");
        }
        cause = error.source();
    }
    sanitize(&text)
}

/// Replaces control characters and marks of direction: texts of peers and file names may contain escape sequences, which must not reach a
/// terminal, and `\u{202e}gpj.exe` would look like another name there.
pub(crate) fn sanitize(text: &str) -> String {
    let is_direction = |c| matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars()
        .map(|c| {
            if c.is_control() || is_direction(c) {
                '\u{fffd}'
            } else {
                c
            }
        })
        .collect()
}

/// An error and its hint as printed.
pub(crate) fn error_text(text: &str, hint: Option<&str>) -> String {
    format!("haul: \x1b[1;31merror\x1b[0m: {text}{}", hint_text(hint))
}

pub(crate) fn print_error(text: &str, hint: Option<&str>) {
    print_line(&error_text(text, hint));
}

/// A warning as printed.
pub(crate) fn warning_text(text: &str) -> String {
    warning_with_hint(text, None)
}

/// A warning, and what the user can do about it, as printed.
pub(crate) fn warning_with_hint(text: &str, hint: Option<&str>) -> String {
    format!("haul: \x1b[1;33mwarning\x1b[0m: {text}{}", hint_text(hint))
}

fn hint_text(hint: Option<&str>) -> String {
    hint.map_or_else(String::new, |hint| format!("\n\x1b[1mhint\x1b[0m: {hint}"))
}

/// Prints a line to standard error, without colours where they are not wanted.
pub(crate) fn print_line(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

/// What the user can do about an error: hints about flags come from here, others from the engine.
pub(crate) fn error_hint(error: &GetError) -> Option<String> {
    let hint = match error {
        _ if is_descriptor_shortage(error) => Some(
            "too many open files: raise the limit with ulimit -n N, or use a lower -x N or fewer URLs at once",
        ),
        GetError::Transport { source, .. } => transport_hint(source),
        GetError::Status {
            status,
            retry_after: None,
            ..
        } if status.is_server_error() || status.as_u16() == 429 => {
            Some("the origin has a problem: try again later, or retry more often with --retries N")
        }
        GetError::Status {
            url,
            status,
            response_text,
            ..
        } if status.as_u16() == 400
            && is_plain_http(url)
            && response_text.as_deref().is_none_or(mentions_tls) =>
        {
            Some(EXPECTS_TLS)
        }
        _ => None,
    };
    let limit = TransferTimeLimit::of_download(error).map(time_limit_hint);
    let engine_hint = error.hint();
    match (hint.or(limit), engine_hint) {
        (Some(hint), Some(resumes)) if limit.is_some() => Some(format!("{resumes}; {hint}")),
        (hint, engine_hint) => hint.map(str::to_owned).or(engine_hint),
    }
}

/// The flag for a time limit that was too short.
pub(crate) fn time_limit_hint(limit: TransferTimeLimit) -> &'static str {
    match limit {
        TransferTimeLimit::Response => {
            "--response-timeout TIME waits longer for the start of a response"
        }
        TransferTimeLimit::Stall => "--stall-timeout TIME waits longer in the middle of a body",
        TransferTimeLimit::RequestedWait => {
            "--max-wait TIME sets how long haul waits when a server asks for it"
        }
        TransferTimeLimit::MinRate => {
            "--min-rate RATE:TIME sets which downloads are too slow, and 0 allows all"
        }
        TransferTimeLimit::MaxTime => "--max-time TIME gives each file more time",
    }
}

/// For what servers that speak TLS do with a request that does not.
const EXPECTS_TLS: &str = "if the server speaks TLS on this port, use https:// instead of http://";

/// Whether the text of a 400 is that of nginx, Go or another server whose port speaks TLS.
fn mentions_tls(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    text.contains("https") || text.contains("ssl")
}

/// Whether a URL is of a server that might speak TLS instead.
fn is_plain_http(url: &Url) -> bool {
    url.scheme() == "http" && url.port().is_some()
}

/// Whether there were no descriptors left for a connection or a file.
fn is_descriptor_shortage(error: &GetError) -> bool {
    match error {
        GetError::Transport { source, .. } => source.is_descriptor_limit(),
        GetError::LocalIo { source, .. } | GetError::OutputStream { source, .. } => {
            haul_net::is_descriptor_limit(source)
        }
        _ => false,
    }
}

fn transport_hint(error: &haul_net::Error) -> Option<&'static str> {
    if error.lacks_zone() {
        return Some(NO_ZONE);
    }
    if error.is_login_unasked() {
        return Some(UNASKED_LOGIN);
    }
    if let Some(proxy) = error.proxy()
        && let Some(hint) = proxy_hint(proxy, error.kind())
    {
        return Some(hint);
    }
    Some(match error.kind() {
        Kind::NoSuchHost(_) => {
            "check the name, or set its address with --resolve HOST:PORT:ADDRESS"
        }
        Kind::Resolve(_) => "check the network connection and the name servers",
        Kind::Connect(_) | Kind::ConnectTimeout(_) => {
            "is the host up, the port correct, and is a proxy needed (--proxy)?"
        }
        Kind::NoAddress(_, AddressFamily::V4) => "leave out -4/--ipv4",
        Kind::NoAddress(..) => "leave out -6/--ipv6",
        Kind::UnusableProxyVariable(_) => {
            "use another proxy with --proxy URL, or none with --proxy ''"
        }
        Kind::ProxyAuth(_) => PROXY_LOGIN,
        Kind::ProxyRefused(_) => match error.proxy_refusal() {
            Some(ProxyRefusal::TargetUnreachable) => {
                "is the target up, and are its host and port correct?"
            }
            Some(ProxyRefusal::NotAllowed) => {
                "the proxy does not allow this target; --proxy '' bypasses the proxy"
            }
            _ => {
                "the proxy gives no reason: is the target up, and allowed? --proxy '' bypasses the proxy"
            }
        },
        Kind::NotSocks => "write an HTTP proxy with http:// or https://",
        Kind::Tls(TlsProblem::PlainHttp) => "use that URL: http:// instead of https://",
        Kind::Tls(TlsProblem::NotTls) => "try http:// instead of https://, or another port",
        Kind::Tls(TlsProblem::UnknownIssuer | TlsProblem::SelfSigned) => {
            "trust your own authority or a self-signed certificate with --cacert FILE, or any with --insecure"
        }
        Kind::Tls(TlsProblem::Expired | TlsProblem::WrongHost) => {
            "continue at your own risk with --insecure"
        }
        Kind::Tls(TlsProblem::RootsUnavailable) => {
            "name the trusted certificates with SSL_CERT_FILE or --cacert"
        }
        Kind::Redirect(RedirectError::Downgrade) => "--allow-downgrade follows this redirect",
        Kind::Redirect(RedirectError::TooMany(_)) => "--max-redirs N follows more",
        Kind::Redirect(_) => "the origin sent a wrong redirect; check the URL",
        Kind::Framing(_) => {
            "the server, or a proxy on the way, does not send the body as HTTP wants it; try another mirror"
        }
        Kind::Closed if is_plain_http(error.url()) && error.is_closed_without_response() => {
            EXPECTS_TLS
        }
        Kind::Protocol => "the server does not speak HTTP: check the port, or try https://",
        _ => return None,
    })
}

/// How to give a proxy its login.
const PROXY_LOGIN: &str = "log in with -U USER; see haul get --help for other ways";

/// For a link-local address alone.
pub(crate) const NO_ZONE: &str =
    "add the interface that leads to this link-local address: [fe80::1%eth0]";

/// For a refusal that may be about the login, and may not.
pub(crate) const UNASKED_LOGIN: &str =
    "check the user name and password of the proxy, and whether it allows this target";

/// Hints for errors at a proxy.
fn proxy_hint(proxy: &ProxyName, kind: &Kind) -> Option<&'static str> {
    Some(match kind {
        Kind::NoSuchHost(_) | Kind::Resolve(_) | Kind::Connect(_) | Kind::ConnectTimeout(_) => {
            match proxy.variable {
                None => "is the proxy up, and its port correct?",
                Some(_) => "is the proxy up? use another with --proxy URL, or none with --proxy ''",
            }
        }
        Kind::Tls(TlsProblem::NotTls | TlsProblem::PlainHttp) => "try http:// for this proxy",
        Kind::Tls(TlsProblem::UnknownIssuer | TlsProblem::SelfSigned) => {
            "trust your own authority with --proxy-cacert FILE, or any certificate with --proxy-insecure"
        }
        Kind::ProxyAuth(_) if proxy.has_login => "check the user name and password of the proxy",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct ErrorLevel {
        text: &'static str,
        #[source]
        source: Option<Box<Self>>,
    }

    fn level(text: &'static str, source: Option<ErrorLevel>) -> ErrorLevel {
        ErrorLevel {
            text,
            source: source.map(Box::new),
        }
    }

    #[test]
    fn causes_are_shown_once_and_without_control_characters() {
        let error = level(
            "cannot fetch",
            Some(level(
                "closed",
                Some(level("closed", Some(level("a\x1b[2Jb\n", None)))),
            )),
        );
        assert_eq!(
            chain_text(&error),
            "cannot fetch: closed: a\u{fffd}[2Jb\u{fffd}"
        );
    }
}
