//! Errors of rustls, in words for users: what is wrong with the peer, or with the bytes it sent.
//!
//! [`TlsProblem`](crate::TlsProblem) is the kind of a failure and gives the first half of a message, this module the second half.
//! What to do about it depends on the flags, which the binary knows.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::time::Duration;

use rustls::{AlertDescription, CertificateError, Error, PeerIncompatible};

/// An error of rustls in our words. Its own text is not shown.
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
    /// The alert, if the error is one.
    pub(crate) fn alert(&self) -> Option<AlertDescription> {
        match self.error {
            Some(Error::AlertReceived(alert)) => Some(alert),
            _ => None,
        }
    }
}

/// The error of a handshake; `None` if its kind says it all.
pub(crate) fn handshake_error(error: io::Error) -> Option<io::Error> {
    match rustls_error(&error) {
        Some(Error::InvalidCertificate(problem)) => {
            let message = certificate_message(problem)?;
            Some(io::Error::new(error.kind(), message))
        }
        Some(_) => Some(stream_error(error)),
        None if error.kind() == io::ErrorKind::UnexpectedEof => Some(io::Error::new(
            error.kind(),
            "the peer closed the connection during the TLS handshake",
        )),
        None => Some(error),
    }
}

/// The error of a stream, with the same kind. Errors that are not those of TLS stay as they are.
pub(crate) fn stream_error(error: io::Error) -> io::Error {
    let kind = error.kind();
    let message = match rustls_error(&error) {
        Some(inner) => TlsErrorMessage {
            message: message(inner),
            error: Some(inner.clone()),
        },
        None if kind == io::ErrorKind::UnexpectedEof => TlsErrorMessage {
            message: "the connection was closed without TLS's close_notify: data may be missing"
                .into(),
            error: None,
        },
        None => return error,
    };
    io::Error::new(kind, message)
}

fn rustls_error(error: &io::Error) -> Option<&Error> {
    error.get_ref().and_then(|inner| inner.downcast_ref())
}

fn message(error: &Error) -> String {
    use PeerIncompatible as P;
    match error {
        Error::AlertReceived(alert) => alert_message(*alert),
        Error::InvalidCertificate(problem) => {
            certificate_message(problem).unwrap_or_else(|| "its certificate is not trusted".into())
        }
        Error::PeerIncompatible(
            P::ServerDoesNotSupportTls12Or13 | P::ServerTlsVersionIsDisabledByOurConfig,
        ) => "the peer supports only versions older than TLS 1.2".into(),
        Error::PeerIncompatible(_) => {
            "the peer lacks algorithms or an extension that haul requires".into()
        }
        Error::NoApplicationProtocol => {
            "the peer supports none of the offered protocols (ALPN)".into()
        }
        Error::NoCertificatesPresented => "the peer presented no certificate".into(),
        Error::DecryptError => {
            "received data cannot be decrypted: it was changed in transit".into()
        }
        Error::PeerSentOversizedRecord
        | Error::InvalidMessage(_)
        | Error::InappropriateMessage { .. }
        | Error::InappropriateHandshakeMessage { .. }
        | Error::PeerMisbehaved(_) => format!("the peer violates TLS ({})", violation_name(error)),
        other => other.to_string(),
    }
}

/// The name of a protocol violation, for the people who debug the peer.
fn violation_name(error: &Error) -> String {
    match error {
        Error::InvalidMessage(violation) => format!("{violation:?}"),
        Error::PeerMisbehaved(violation) => format!("{violation:?}"),
        Error::PeerSentOversizedRecord => "an oversized record".into(),
        _ => "an unexpected message".into(),
    }
}

/// What an alert says about us.
fn alert_message(alert: AlertDescription) -> String {
    use AlertDescription as A;
    let reason = match alert {
        A::HandshakeFailure | A::InsufficientSecurity => "it supports none of our algorithms",
        A::ProtocolVersion => "it supports neither TLS 1.2 nor 1.3",
        A::UnrecognisedName => "it has no host of this name (SNI)",
        A::NoApplicationProtocol => "it supports none of the offered protocols (ALPN)",
        A::InternalError => "internal error",
        A::CertificateRequired => "it requires a client certificate",
        A::UnknownCA => "it does not trust the issuer of our certificate",
        A::CertificateExpired => "our certificate has expired",
        A::CertificateRevoked => "our certificate was revoked",
        A::BadCertificate | A::UnsupportedCertificate | A::CertificateUnknown | A::AccessDenied => {
            "it does not accept our certificate"
        }
        other => return format!("the peer closed TLS with the alert {other:?}"),
    };
    format!("the peer closed TLS: {reason}")
}

/// What is wrong with a certificate, beyond what the kind says.
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
        E::BadSignature => "its signature does not match the key of its issuer".into(),
        E::BadEncoding => "it is malformed".into(),
        E::UnhandledCriticalExtension => "it has an unknown critical extension".into(),
        E::UnsupportedSignatureAlgorithmContext { .. }
        | E::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "its signature algorithm is not supported, as SHA-1".into()
        }
        E::InvalidPurpose | E::InvalidPurposeContext { .. } => "it is not for servers".into(),
        other if is_ca_used_as_server(other) => return None,
        E::Other(other) => format!("it violates a rule for certificates ({other})"),
        _ => return None,
    })
}

/// Which hosts a certificate is for. The list may be long.
fn wrong_host_message(expected: &str, presented: &[String]) -> String {
    const MAX_NAMES: usize = 3;
    // The verifier writes them as `DnsName("a.test")`.
    let plain = |name: &String| match name.split_once('"') {
        Some((_, name)) => name.split('"').next().unwrap_or_default().to_owned(),
        None => name.clone(),
    };
    let mut shown: Vec<String> = presented.iter().take(MAX_NAMES).map(plain).collect();
    if presented.len() > MAX_NAMES {
        shown.push(format!("{} more", presented.len() - MAX_NAMES));
    }
    if shown.is_empty() {
        format!("it is not for {expected}: it names no host")
    } else {
        format!("it is for {}, not for {expected}", shown.join(", "))
    }
}

/// A duration in its largest unit.
fn rough_duration(seconds: u64) -> String {
    let units = [(86_400, "day"), (3600, "hour"), (60, "minute")];
    let unit = units.into_iter().find(|(length, _)| seconds >= *length);
    let (count, unit) = match unit {
        Some((length, unit)) => (seconds / length, unit),
        None => (Duration::from_secs(seconds).as_secs(), "second"),
    };
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {unit}{plural}")
}

/// Whether a connection ended because of the client certificate. With TLS 1.3 the peer says so when the handshake is over on our
/// side, in place of a response.
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

/// Whether an alert is about the receiver's certificate (RFC 8446 section 6.2).
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

/// Whether a certificate is refused only because it is an authority's and used as a server's.
pub(crate) fn is_ca_used_as_server(error: &CertificateError) -> bool {
    // The error is of the webpki crate, which is not a direct dependency.
    matches!(error, CertificateError::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity"))
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::{ServerName, UnixTime};
    use rustls::{InvalidMessage, PeerMisbehaved};

    use super::*;

    fn handshake_message(error: Error) -> Option<String> {
        let error = io::Error::new(io::ErrorKind::InvalidData, error);
        handshake_error(error).map(|error| error.to_string())
    }

    fn unix_time(seconds: u64) -> UnixTime {
        UnixTime::since_unix_epoch(Duration::from_secs(seconds))
    }

    #[test]
    fn problems_of_certificates_have_messages() {
        use CertificateError as E;
        let wrong_name = |presented: &[&str]| E::NotValidForNameContext {
            expected: ServerName::try_from("a.test").unwrap(),
            presented: presented
                .iter()
                .map(|name| format!("DnsName(\"{name}\")"))
                .collect(),
        };
        for (error, expected) in [
            (
                E::ExpiredContext {
                    time: unix_time(200_000),
                    not_after: unix_time(1000),
                },
                Some("it expired 2 days ago"),
            ),
            (
                E::NotValidYetContext {
                    time: unix_time(1000),
                    not_before: unix_time(1060),
                },
                Some("it will be valid in 1 minute; is the clock right?"),
            ),
            (
                wrong_name(&["b.test"]),
                Some("it is for b.test, not for a.test"),
            ),
            (
                wrong_name(&[]),
                Some("it is not for a.test: it names no host"),
            ),
            (
                wrong_name(&["b", "c", "d", "e", "f"]),
                Some("it is for b, c, d, 2 more, not for a.test"),
            ),
            // The kind says it all.
            (E::UnknownIssuer, None),
            (E::Revoked, None),
        ] {
            assert_eq!(
                handshake_message(Error::InvalidCertificate(error)).as_deref(),
                expected
            );
        }
    }

    #[test]
    fn no_message_is_the_librarys_own() {
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
            let message = handshake_message(error.clone()).unwrap();
            assert!(
                message.contains("the peer ") || message.contains("cannot be"),
                "{message}"
            );
            assert!(!message.starts_with(&error.to_string()), "{message}");
        }
    }

    #[test]
    fn a_truncated_stream_keeps_its_kind_and_names_no_manual() {
        let kind = io::ErrorKind::UnexpectedEof;
        let cut = stream_error(io::Error::new(kind, "peer closed: https://docs.rs/"));
        assert_eq!(cut.kind(), kind);
        assert!(!cut.to_string().contains("docs.rs"), "{cut}");
        let reset = stream_error(io::ErrorKind::ConnectionReset.into());
        assert_eq!(reset.kind(), io::ErrorKind::ConnectionReset);
    }
}
