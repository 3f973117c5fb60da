//! Messages as people read them: what happened, to what, and below it what to do.
//!
//! One line `haul: print_error: ...`, causes joined by colons, then perhaps `error_hint: ...`. Colour is for the words "error",
//! "warning" and "hint" only and never carries meaning alone; `NO_COLOR` and pipes turn it off. A standard error that is
//! closed leaves nobody to tell, so failing to write there is no failure. What is wrong with a command line is in
//! [`mod@report_usage_error`], in which
//! form what comes before any job is told in [`form`].

mod json_outputs;
mod tunnel_hints;
mod usage;

use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;

use haul_net::{AddressFamily, Kind, ProxyName, ProxyRefusal, ProxySource, TlsProblem};
use haul_plan::RedirectError;
use haul_transfer::GetError;

pub(crate) use json_outputs::JsonOutputs;
pub(crate) use tunnel_hints::tunnel_hint;
pub(crate) use usage::report_usage_error;

/// An error and all its causes in one line. A cause that the line says already is left out.
pub(crate) fn chain_text(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            // Writing into a String cannot fail.
            let _ = write!(text, ": {said}");
        }
        cause = error.source();
    }
    sanitize(&text)
}

/// What peers and file names say may hold escape sequences; on a terminal they must do nothing.
pub(crate) fn sanitize(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

/// An error and its hint as they are printed.
pub(crate) fn error_text(text: &str, hint: Option<&str>) -> String {
    let hint = hint.map_or_else(String::new, |hint| format!("\n\x1b[1mhint\x1b[0m: {hint}"));
    format!("haul: \x1b[1;31merror\x1b[0m: {text}{hint}")
}

/// Prints an error and its hint.
pub(crate) fn print_error(text: &str, hint: Option<&str>) {
    print_line(&error_text(text, hint));
}

/// A warning as it is printed.
pub(crate) fn warning_text(text: &str) -> String {
    format!("haul: \x1b[1;33mwarning\x1b[0m: {text}")
}

/// Prints a line, without its colours where they are not wanted.
pub(crate) fn print_line(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

/// What a user may do: the engine's word, or ours where it takes a flag of ours.
pub(crate) fn error_hint(error: &GetError) -> Option<String> {
    let hint = match error {
        _ if is_descriptor_shortage(error) => Some(
            "too many files are open: ulimit -n N allows more, -x N and fewer URLs at once need fewer",
        ),
        GetError::Transport { source, .. } => transport_hint(source),
        GetError::Status { status, .. } if status.is_server_error() || status.as_u16() == 429 => {
            Some("the origin is in trouble: try again later, or --retries N for longer")
        }
        _ => None,
    };
    hint.map(str::to_owned).or_else(|| error.hint())
}

/// Whether there were no descriptors left, for a connection or a file.
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
    if let Some(proxy) = error.proxy()
        && let Some(hint) = proxy_hint(proxy, error.kind())
    {
        return Some(hint);
    }
    Some(match error.kind() {
        Kind::NoSuchHost(_) => {
            "check the name; --resolve HOST:PORT:ADDRESS gives it an address by hand"
        }
        Kind::Resolve(_) => "check the network connection and the name servers",
        Kind::Connect(_) | Kind::ConnectTimeout(_) => {
            "is the host up, the port right, and is a proxy needed (--proxy)?"
        }
        Kind::NoAddress(_, AddressFamily::V4) => "leave out -4/--ipv4",
        Kind::NoAddress(..) => "leave out -6/--ipv6",
        Kind::UnusableProxyVariable(_) => "--proxy '' goes without, --proxy URL names another",
        Kind::ProxyAuth(_) => PROXY_LOGIN,
        Kind::ProxyRefused(_) => match error.proxy_refusal() {
            Some(ProxyRefusal::TargetUnreachable) => {
                "is the target up, and its host and port right?"
            }
            Some(ProxyRefusal::NotAllowed) => {
                "the proxy does not allow this target; --proxy '' goes around it"
            }
            _ => {
                "the proxy does not say why: is the target up, and allowed? --proxy '' goes around it"
            }
        },
        Kind::NotSocks => "an HTTP proxy is written with http:// or https://",
        Kind::Tls(TlsProblem::NotTls) => "try http:// in place of https://, or another port",
        Kind::Tls(TlsProblem::UnknownIssuer) => {
            "--cacert FILE trusts an authority of your own or one self-made certificate, --insecure anyone"
        }
        Kind::Tls(TlsProblem::Expired | TlsProblem::WrongHost) => {
            "--insecure goes on all the same, at your risk"
        }
        Kind::Tls(TlsProblem::RootsUnavailable) => {
            "SSL_CERT_FILE or --cacert says where trusted certificates are"
        }
        Kind::Redirect(RedirectError::Downgrade) => "--allow-downgrade follows it",
        Kind::Redirect(RedirectError::TooMany(_)) => "--max-redirs N follows more",
        Kind::Redirect(_) => "the origin is at fault here; check the URL",
        Kind::Protocol => "something else than HTTP answers there: check the port, or try https://",
        _ => return None,
    })
}

/// How a proxy gets its login, short of showing it to everyone who lists processes.
const PROXY_LOGIN: &str = "give its login before its host, as user:password@host:port, in --proxy or, seen by fewer, in http_proxy, https_proxy or all_proxy";

/// What goes wrong at a proxy is mended at the proxy.
fn proxy_hint(proxy: &ProxyName, kind: &Kind) -> Option<&'static str> {
    Some(match kind {
        Kind::NoSuchHost(_) | Kind::Resolve(_) | Kind::Connect(_) | Kind::ConnectTimeout(_) => {
            match proxy.source {
                ProxySource::ProxyFlag | ProxySource::Flag(_) => {
                    "is that proxy up, and its port right?"
                }
                ProxySource::Variable(_) => {
                    "is that proxy up? --proxy URL names another, --proxy '' goes without"
                }
            }
        }
        Kind::Tls(TlsProblem::NotTls) => "that proxy may want to be written with http://",
        Kind::Tls(TlsProblem::UnknownIssuer) => {
            "--proxy-cacert FILE trusts an authority of your own, --proxy-insecure anyone"
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
