//! What rustls says, in words for people: what is wrong with the peer, or with what came from it.
//!
//! [`TlsProblem`](crate::TlsProblem) is the kind, and says the first half of a sentence; here is the second. What to do about it depends
//! on the flags, which the binary knows.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::time::Duration;

use rustls::{AlertDescription, CertificateError, Error, PeerIncompatible};

/// An error of rustls', in other words. Its own are not shown.
#[derive(Debug)]
pub(crate) struct TlsErrorMessage {
    message: String,
    error: Option<Error>,
}

impl fmt::Display for TlsErrorMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for TlsErrorMessage {}

impl TlsErrorMessage {
    /// What an alert said, where it was one.
    pub(crate) fn alert(&self) -> Option<AlertDescription> {
        match self.error {
            Some(Error::AlertReceived(alert)) => Some(alert),
            _ => None,
        }
    }
}

/// An error of a handshake, as far as there is more to say than its kind.
pub(crate) fn handshake_error(error: io::Error) -> Option<io::Error> {
    match rustls_error(&error) {
        Some(Error::InvalidCertificate(wrong)) => {
            let words = certificate_message(wrong)?;
            Some(io::Error::new(error.kind(), words))
        }
        Some(_) => Some(stream_error(error)),
        None if error.kind() == io::ErrorKind::UnexpectedEof => Some(io::Error::new(
            error.kind(),
            "the peer ended the connection in the middle of the TLS handshake",
        )),
        None => Some(error),
    }
}

/// An error of a stream, of the same kind. Those that are not TLS' own stay as they are.
pub(crate) fn stream_error(error: io::Error) -> io::Error {
    let kind = error.kind();
    let told = match rustls_error(&error) {
        Some(inner) => TlsErrorMessage {
            message: message(inner),
            error: Some(inner.clone()),
        },
        None if kind == io::ErrorKind::UnexpectedEof => TlsErrorMessage {
            message: "the connection ended in the middle: TLS was cut off, without its own end"
                .into(),
            error: None,
        },
        None => return error,
    };
    io::Error::new(kind, told)
}

fn rustls_error(error: &io::Error) -> Option<&Error> {
    error.get_ref().and_then(|inner| inner.downcast_ref())
}

fn message(error: &Error) -> String {
    use PeerIncompatible as P;
    match error {
        Error::AlertReceived(alert) => alert_message(*alert),
        Error::InvalidCertificate(wrong) => {
            certificate_message(wrong).unwrap_or_else(|| "its certificate is not trusted".into())
        }
        Error::PeerIncompatible(
            P::ServerDoesNotSupportTls12Or13 | P::ServerTlsVersionIsDisabledByOurConfig,
        ) => "the peer speaks only versions older than TLS 1.2".into(),
        Error::PeerIncompatible(_) => {
            "the peer has no algorithms, or no extension, that are wanted here".into()
        }
        Error::NoApplicationProtocol => "the peer speaks none of the protocols offered".into(),
        Error::NoCertificatesPresented => "the peer shows no certificate".into(),
        Error::DecryptError => "what came cannot be decrypted: it was changed on its way".into(),
        Error::PeerSentOversizedRecord
        | Error::InvalidMessage(_)
        | Error::InappropriateMessage { .. }
        | Error::InappropriateHandshakeMessage { .. }
        | Error::PeerMisbehaved(_) => format!(
            "the peer does not keep to the rules of TLS ({})",
            violation_name(error)
        ),
        other => other.to_string(),
    }
}

/// What an error is called, for whoever has to look for it.
fn violation_name(error: &Error) -> String {
    match error {
        Error::InvalidMessage(what) => format!("{what:?}"),
        Error::PeerMisbehaved(what) => format!("{what:?}"),
        Error::PeerSentOversizedRecord => "an oversized record".into(),
        _ => "a message out of turn".into(),
    }
}

/// What a peer has said about us.
fn alert_message(alert: AlertDescription) -> String {
    use AlertDescription as A;
    let words = match alert {
        A::HandshakeFailure | A::InsufficientSecurity => "it has no algorithms in common with us",
        A::ProtocolVersion => "it speaks neither TLS 1.2 nor 1.3",
        A::UnrecognisedName => "it knows no host of this name",
        A::NoApplicationProtocol => "it speaks none of the protocols offered",
        A::InternalError => "something went wrong inside it",
        A::CertificateRequired => "it wants a client certificate",
        A::UnknownCA => "it does not know who signed our certificate",
        A::CertificateExpired => "our certificate has expired",
        A::CertificateRevoked => "our certificate was revoked",
        A::BadCertificate | A::UnsupportedCertificate | A::CertificateUnknown | A::AccessDenied => {
            "it does not accept our certificate"
        }
        other => return format!("the peer ended TLS with the alert {other:?}"),
    };
    format!("the peer ended TLS: {words}")
}

/// What is wrong with a certificate, behind what its kind says already.
fn certificate_message(error: &CertificateError) -> Option<String> {
    use CertificateError as E;
    Some(match error {
        E::ExpiredContext { time, not_after } => {
            let since = time.as_secs().saturating_sub(not_after.as_secs());
            format!("it expired {} ago", rough_duration(since))
        }
        E::NotValidYetContext { time, not_before } => {
            let until = not_before.as_secs().saturating_sub(time.as_secs());
            format!(
                "it will be valid in {}; is the clock right?",
                rough_duration(until)
            )
        }
        E::NotValidForNameContext {
            expected,
            presented,
        } => wrong_host_message(&expected.to_str(), presented),
        E::BadSignature => "its signature is not by the key of the authority it names".into(),
        E::BadEncoding => "it cannot be read".into(),
        E::UnhandledCriticalExtension => "it has a critical extension that is not known".into(),
        E::UnsupportedSignatureAlgorithmContext { .. }
        | E::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "it is signed by an algorithm that is not taken, as SHA-1 is none".into()
        }
        E::InvalidPurpose | E::InvalidPurposeContext { .. } => "it is not for servers".into(),
        authority if is_ca_used_as_server(authority) => {
            "it is an authority's own, or signed by itself, and is used as a server's".into()
        }
        E::Other(other) => format!("it breaks a rule for certificates ({other})"),
        _ => return None,
    })
}

/// Whose certificate it is. A list may be long.
fn wrong_host_message(expected: &str, presented: &[String]) -> String {
    const SHOWN: usize = 3;
    // `DnsName("a.test")`, as the verifier has them.
    let plain = |name: &String| match name.split_once('"') {
        Some((_, name)) => name.split('"').next().unwrap_or_default().to_owned(),
        None => name.clone(),
    };
    let mut shown: Vec<String> = presented.iter().take(SHOWN).map(plain).collect();
    if presented.len() > SHOWN {
        shown.push(format!("{} more", presented.len() - SHOWN));
    }
    match shown.is_empty() {
        true => format!("it names no host, and {expected} is wanted"),
        false => format!("it is for {}, and {expected} is wanted", shown.join(", ")),
    }
}

/// A time in one unit.
fn rough_duration(seconds: u64) -> String {
    let units = [(86_400, "day"), (3600, "hour"), (60, "minute")];
    let fits = units.into_iter().find(|(length, _)| seconds >= *length);
    let (count, unit) = match fits {
        Some((length, unit)) => (seconds / length, unit),
        None => (Duration::from_secs(seconds).as_secs(), "second"),
    };
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {unit}{plural}")
}

/// Whether a connection ended because of our certificate. In TLS 1.3 a peer says so when the handshake is over on our side,
/// in place of an answer.
pub(crate) fn is_certificate_refused(error: &(dyn StdError + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        let wrapped = error.downcast_ref::<io::Error>();
        let inner = wrapped
            .and_then(io::Error::get_ref)
            .and_then(|inner| inner.downcast_ref::<TlsErrorMessage>());
        if let Some(alert) = inner.and_then(TlsErrorMessage::alert) {
            return is_certificate_alert(alert);
        }
        next = error.source();
    }
    false
}

/// Alerts about the receiver's certificate (RFC 8446 section 6.2).
pub(crate) fn is_certificate_alert(alert: AlertDescription) -> bool {
    use AlertDescription as A;
    matches!(
        alert,
        A::CertificateRequired
            | A::BadCertificate
            | A::UnsupportedCertificate
            | A::CertificateRevoked
            | A::CertificateExpired
            | A::CertificateUnknown
            | A::UnknownCA
            | A::AccessDenied
    )
}

/// Whether all that is wrong is that an authority's certificate is used as a server's.
pub(crate) fn is_ca_used_as_server(error: &CertificateError) -> bool {
    // The verifier's own errors are of a crate that is not ours to name.
    matches!(error, CertificateError::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity"))
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::{ServerName, UnixTime};
    use rustls::{InvalidMessage, PeerMisbehaved};

    use super::*;

    fn told(error: Error) -> Option<String> {
        let error = io::Error::new(io::ErrorKind::InvalidData, error);
        handshake_error(error).map(|error| error.to_string())
    }

    fn at(seconds: u64) -> UnixTime {
        UnixTime::since_unix_epoch(Duration::from_secs(seconds))
    }

    #[test]
    fn certificates_are_told_of_in_words() {
        use CertificateError as E;
        let wrong_name = |presented: &[&str]| E::NotValidForNameContext {
            expected: ServerName::try_from("a.test").unwrap(),
            presented: presented
                .iter()
                .map(|name| format!("DnsName(\"{name}\")"))
                .collect(),
        };
        for (error, words) in [
            (
                E::ExpiredContext {
                    time: at(200_000),
                    not_after: at(1000),
                },
                Some("it expired 2 days ago"),
            ),
            (
                E::NotValidYetContext {
                    time: at(1000),
                    not_before: at(1060),
                },
                Some("it will be valid in 1 minute; is the clock right?"),
            ),
            (
                wrong_name(&["b.test"]),
                Some("it is for b.test, and a.test is wanted"),
            ),
            (
                wrong_name(&[]),
                Some("it names no host, and a.test is wanted"),
            ),
            (
                wrong_name(&["b", "c", "d", "e", "f"]),
                Some("it is for b, c, d, 2 more, and a.test is wanted"),
            ),
            // Its kind says all.
            (E::UnknownIssuer, None),
            (E::Revoked, None),
        ] {
            assert_eq!(told(Error::InvalidCertificate(error)).as_deref(), words);
        }
    }

    #[test]
    fn no_name_of_a_librarys_own_is_all_that_is_said() {
        for error in [
            Error::AlertReceived(AlertDescription::HandshakeFailure),
            Error::AlertReceived(AlertDescription::ProtocolVersion),
            Error::PeerIncompatible(PeerIncompatible::ServerDoesNotSupportTls12Or13),
            Error::PeerIncompatible(PeerIncompatible::NoCipherSuitesInCommon),
            Error::PeerMisbehaved(PeerMisbehaved::TooMuchEarlyDataReceived),
            Error::InvalidMessage(InvalidMessage::MessageTooLarge),
            Error::DecryptError,
            Error::NoCertificatesPresented,
        ] {
            let words = told(error.clone()).unwrap();
            assert!(
                words.contains("the peer ") || words.contains("cannot be"),
                "{words}"
            );
            assert!(!words.starts_with(&error.to_string()), "{words}");
        }
    }

    #[test]
    fn a_stream_that_was_cut_keeps_its_kind_and_points_to_no_manual() {
        let kind = io::ErrorKind::UnexpectedEof;
        let cut = stream_error(io::Error::new(kind, "peer closed: https://docs.rs/"));
        assert_eq!(cut.kind(), kind);
        assert!(!cut.to_string().contains("docs.rs"), "{cut}");
        let reset = stream_error(io::ErrorKind::ConnectionReset.into());
        assert_eq!(reset.kind(), io::ErrorKind::ConnectionReset);
    }
}
