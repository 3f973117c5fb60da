//! Messages as people read them: what happened, to what, and below it what to do.
//!
//! One line `haul: error: ...`, causes joined by colons, then perhaps `hint: ...`. Colour is for the words "error" and
//! "hint" only and never carries meaning alone; `NO_COLOR` and pipes turn it off.

use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

use haul_net::{Kind, TlsProblem};
use haul_transfer::GetError;

use crate::exit::Exit;

/// An error and all its causes in one line. A cause that the line says already is left out.
pub(crate) fn chain(error: &dyn Error) -> String {
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
    text
}

/// Prints an error and its hint on standard error.
pub(crate) fn error(text: &str, hint: Option<&str>) {
    let mut err = anstream::stderr().lock();
    // A standard error that is closed leaves nobody to tell.
    let _ = writeln!(err, "haul: \x1b[1;31merror\x1b[0m: {text}");
    if let Some(hint) = hint {
        let _ = writeln!(err, "\x1b[1mhint\x1b[0m: {hint}");
    }
}

/// Prints a warning on standard error.
pub(crate) fn warning(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "haul: \x1b[1;33mwarning\x1b[0m: {text}");
}

/// Prints a line on standard error.
pub(crate) fn note(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

/// Prints a failed job. The causes of errors below ours are ours to explain.
pub(crate) fn failed(failure: &GetError) {
    error(&chain(failure), hint(failure).as_deref());
}

/// What a user may do: the engine's word, or ours where it takes a flag of ours.
pub(crate) fn hint(error: &GetError) -> Option<String> {
    let GetError::Transport { source, .. } = error else { return error.hint() };
    let hint = match source.kind() {
        Kind::NoSuchHost(_) => "check the name; --resolve HOST:PORT:ADDRESS tells an address by hand",
        Kind::Resolve(_) => "check the network connection and the name servers",
        Kind::Connect(_) | Kind::ConnectTimeout(_) => {
            "is the host up, the port right, and is a proxy needed (--proxy)?"
        }
        Kind::ProxyAuth(_) => "give the proxy's credentials: --proxy http://user:password@host:port",
        Kind::ProxyRefused(_) => "the proxy does not allow this target; --proxy '' goes around it",
        Kind::Tls(TlsProblem::UnknownIssuer) => "--cacert FILE trusts an authority of your own, --insecure anyone",
        Kind::Tls(TlsProblem::Expired | TlsProblem::WrongHost) => "--insecure goes on all the same, at your risk",
        Kind::Tls(TlsProblem::Roots) => "SSL_CERT_FILE or --cacert says where trusted certificates are",
        Kind::Redirect(haul_plan::RedirectError::Downgrade) => "--allow-downgrade follows it",
        Kind::Redirect(haul_plan::RedirectError::TooMany(_)) => "--max-redirs N follows more",
        Kind::Stall | Kind::Closed => "the same command goes on where this one stopped",
        _ => return error.hint(),
    };
    Some(hint.into())
}

/// A command line that cannot be read, or `--help` and `--version`, which are no errors.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    // A closed standard output leaves nobody to tell.
    let _ = error.print();
    if error.use_stderr() { Exit::Usage.into() } else { Exit::Done.into() }
}
