//! Hints for errors of servers: certificates that cannot be used, and addresses that cannot be listened on.

use std::io;
use std::path::Path;

use haul_serve::tls::CertificateError;
use haul_service::listen::{ListenAddress, ListenError, ListenHost};

/// What the user can do about a certificate or a key.
pub(crate) fn certificate_hint(error: &CertificateError) -> Option<String> {
    let text = match error {
        CertificateError::NoneGiven => "name one with --cert and --key, or use --self-signed".into(),
        CertificateError::Read { source, .. } => match source.kind() {
            io::ErrorKind::NotFound => {
                "--self-signed makes the server use a certificate of its own".into()
            }
            io::ErrorKind::PermissionDenied => {
                "it must be readable by the user that the server runs as".into()
            }
            _ => return None,
        },
        CertificateError::NotAFile { .. } => {
            "certificates are read again when they change, so they must be files".into()
        }
        CertificateError::NoCertificate { has_key: true, .. } => {
            "it contains a private key: are --cert and --key the wrong way round?".into()
        }
        CertificateError::NoKey {
            has_certificate: true,
            ..
        } => "it contains a certificate: are --cert and --key the wrong way round?".into(),
        CertificateError::NoCertificate { path, .. } => format!(
            "it must be PEM; to convert DER: openssl x509 -inform der -in {} -out certificate.pem",
            path.display()
        ),
        CertificateError::NoKey { path, .. } => format!(
            "it must be PEM; to convert DER: openssl pkey -inform der -in {} -out key.pem",
            path.display()
        ),
        CertificateError::Encrypted { path } => format!(
            "nobody can type its password when the server starts; decrypt it with openssl pkey -in {} -out \
             plain.pem, and protect that with chmod 600",
            path.display()
        ),
        CertificateError::Version1 { .. } => {
            "issue it again with its names, which makes it version 3: openssl req -x509 -newkey rsa:2048 \
             -nodes -keyout key.pem -out certificate.pem -subj /CN=NAME -addext subjectAltName=DNS:NAME"
                .into()
        }
        CertificateError::ChainOrder { .. } => {
            "put the server's certificate first, then the intermediate certificates".into()
        }
        CertificateError::KeyMismatch { .. } => {
            "name the two files that belong together, or copy both again".into()
        }
        CertificateError::TooLarge { .. }
        | CertificateError::Unusable { .. }
        | CertificateError::SelfSigned(_)
        | CertificateError::Config(_) => return None,
    };
    Some(text)
}

/// What the user can do about an address.
pub(crate) fn listen_hint(error: &ListenError) -> Option<String> {
    match error {
        ListenError::InUse { address } => Some(in_use_hint(address)),
        ListenError::Privileged { .. } => Some(
            "ports below 1024 need a privilege: take a higher one, let systemd open the socket, or \
             `setcap cap_net_bind_service=+ep` the binary"
                .into(),
        ),
        ListenError::NotLocal { .. } => Some(
            "`ip address` lists its addresses; a port with nothing before the colon is every interface".into(),
        ),
        ListenError::Unresolved { .. } => {
            Some("write an IP address, or a port with nothing before the colon for every interface".into())
        }
        ListenError::SocketInUse { .. } => Some("is another haul running? stop it, or name another path".into()),
        ListenError::NotASocket { .. } => Some("remove it yourself, or name another path".into()),
        ListenError::NotInherited { others, .. } if others.is_empty() => Some(
            "it needs a service with a .socket unit; to try it: systemd-socket-activate -l 8080 haul serve ... -l systemd"
                .into(),
        ),
        ListenError::NotInherited { others, .. } => Some(format!("systemd handed over: {}", others.join(", "))),
        ListenError::Io { address, source } => io_hint(address, source),
        ListenError::Inherited(_) => None,
    }
}

fn in_use_hint(address: &ListenAddress) -> String {
    let mut text = String::from("stop it or take another port, 0 for any free one");
    if let ListenAddress::Tcp { host, port } = address {
        text = format!("{text}; `ss -ltnp sport = :{port}` shows the server");
        if is_any(host) {
            text.push_str("; [::] includes IPv4, so haul cannot listen on 0.0.0.0 as well");
        }
    }
    text
}

fn is_any(host: &ListenHost) -> bool {
    match host {
        ListenHost::Any => true,
        ListenHost::Ip(ip) => ip.is_ipv6() && ip.is_unspecified(),
        ListenHost::Name(_) => false,
    }
}

fn io_hint(address: &ListenAddress, source: &io::Error) -> Option<String> {
    if source.raw_os_error() == Some(libc::EMFILE) {
        return Some("ulimit -n N allows more open files, --threads N needs fewer".into());
    }
    let ListenAddress::Unix { path, .. } = address else {
        return None;
    };
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or_else(|| Path::new("."));
    match source.kind() {
        io::ErrorKind::NotFound => Some(format!("make the folder {} first", folder.display())),
        io::ErrorKind::PermissionDenied => Some(format!(
            "the user of this process must be able to write to {}",
            folder.display()
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mistake_with_a_certificate_has_its_hint() {
        use CertificateError as E;
        let path = || "a.pem".into();
        let read = |kind: io::ErrorKind| E::Read {
            path: path(),
            source: kind.into(),
        };
        let no_certificate = |has_key| E::NoCertificate {
            path: path(),
            has_key,
        };
        let no_key = |has_certificate| E::NoKey {
            path: path(),
            has_certificate,
        };
        for (error, words) in [
            (E::NoneGiven, "--self-signed"),
            (read(io::ErrorKind::NotFound), "--self-signed"),
            (
                read(io::ErrorKind::PermissionDenied),
                "readable by the user",
            ),
            (no_certificate(true), "--cert and --key the wrong way round"),
            (no_key(true), "--cert and --key the wrong way round"),
            (no_certificate(false), "openssl x509 -inform der -in a.pem"),
            (no_key(false), "openssl pkey -inform der -in a.pem"),
            (E::Encrypted { path: path() }, "openssl pkey -in a.pem"),
            (E::Version1 { path: path() }, "subjectAltName"),
        ] {
            let hint = certificate_hint(&error).unwrap();
            assert!(hint.contains(words), "{error:?}: {hint}");
        }
        assert_eq!(certificate_hint(&read(io::ErrorKind::Other)), None);
        assert_eq!(certificate_hint(&E::TooLarge { path: path() }), None);
    }

    #[test]
    fn every_address_that_cannot_be_listened_on_has_its_hint() {
        use ListenError as E;
        let address = |text: &str| text.parse::<ListenAddress>().unwrap();
        let in_use = |text| E::InUse {
            address: address(text),
        };
        let io_error = |text, number| E::Io {
            address: address(text),
            source: io::Error::from_raw_os_error(number),
        };
        let not_inherited = |others: &[&str]| E::NotInherited {
            address: address("systemd"),
            others: others.iter().map(|&name| name.to_owned()).collect(),
        };
        assert_eq!(
            listen_hint(&in_use("127.0.0.1:8080")).unwrap(),
            "stop it or take another port, 0 for any free one; `ss -ltnp sport = :8080` shows the server"
        );
        let privileged = E::Privileged {
            address: address(":80"),
        };
        let running = E::SocketInUse {
            path: "a.sock".into(),
        };
        for (error, words) in [
            (in_use("[::]:8080"), "includes IPv4"),
            (privileged, "cap_net_bind_service"),
            (running, "running?"),
            (not_inherited(&[]), ".socket unit"),
            (
                not_inherited(&["web", "api"]),
                "systemd handed over: web, api",
            ),
            (io_error(":8080", libc::EMFILE), "ulimit -n"),
            (
                io_error("unix:no/a.sock", libc::ENOENT),
                "make the folder no first",
            ),
            (io_error("unix:a.sock", libc::EACCES), "write to ."),
        ] {
            let hint = listen_hint(&error).unwrap();
            assert!(hint.contains(words), "{error:?}: {hint}");
        }
        assert_eq!(listen_hint(&io_error(":8080", libc::EIO)), None);
    }
}
