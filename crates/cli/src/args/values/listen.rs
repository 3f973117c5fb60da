//! Addresses to listen on.

use haul_service::listen::{ListenAddress, ListenAddressError};

use super::ValueError;

/// An address. The error is that of the library, unless it would repeat what may be a login.
pub(crate) fn listen_address(text: &str) -> Result<ListenAddress, ValueError> {
    text.parse().map_err(|error: ListenAddressError| {
        let message = match &error {
            _ if text.contains('@') => ValueError::new("this is not an address to listen on"),
            ListenAddressError::UnbracketedIpv6(_) => {
                ValueError::new("several colons: write an IPv6 address in brackets")
            }
            _ => ValueError::new(error.to_string()),
        };
        message.with_hint("an address is HOST:PORT, PORT alone for this machine, :PORT for every interface, unix:PATH or systemd")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_possible_login_is_not_repeated() {
        for text in ["me:s3cret:rw", "http://me:s3cret@h/", "me:s3cret@h"] {
            let error = listen_address(text).unwrap_err();
            assert!(!error.to_string().contains("s3cret"), "{error}");
        }
        let error = listen_address("localhost").unwrap_err();
        assert!(error.to_string().contains("write localhost:8080"));
        assert!(error.hint().is_some_and(|hint| hint.contains("unix:PATH")));
        assert!(listen_address("127.0.0.1:80").is_ok());
    }
}
