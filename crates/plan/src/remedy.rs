//! What a user can do about an error.
//!
//! An engine knows what helps. How a user does it depends on the front end: the command has flags, the Python package has arguments. So a
//! remedy is a value that names neither, and each front end has its words for it. Advice about things outside haul (the origin, the network,
//! the disk) is the same everywhere, and has its words here.

use std::borrow::Cow;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A step that may help.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Remedy {
    /// Something outside haul, in words for every front end.
    Advice(Cow<'static, str>),
    /// Run the same job again: it continues with the bytes that are kept.
    Resume,
    /// Abort the upload, which removes its parts from the store.
    AbortUpload,
    AllowRetries,
    /// Allow more time.
    ExtendTimeLimit(TransferTimeLimit),
    /// Give the origin credentials, or others.
    LogIn,
    /// Give the proxy credentials.
    LogInToProxy,
    /// Use another proxy, or none.
    ChangeProxy,
    /// Use no proxy.
    BypassProxy,
    UseProxy,
    /// Connect directly while the proxy is down.
    ConnectDirectly,
    /// Choose the host's address.
    SetAddress,
    /// Use the addresses of both families, where now only those of one are used.
    AllowBothFamilies {
        only_ipv4: bool,
    },
    /// Trust the peer's certificate by its authority.
    TrustAuthority(TlsEndpoint),
    /// Do not verify the peer's certificate.
    SkipVerification(TlsEndpoint),
    NameTrustedCertificates(TlsEndpoint),
    GiveClientCertificate(TlsEndpoint),
    UseHttp1,
    /// Follow a redirect from https to http.
    AllowDowngrade,
    FollowMoreRedirects,
    /// Use several connections, though a change of the file would not be noticed.
    UseSeveralConnections,
    /// Allow more open files, or use fewer.
    AllowOpenFiles,
    /// Decode the file's coding.
    Decode,
    /// Store the file in its coding.
    StoreEncoded,
    /// Use the file in spite of its X-Robots-Tag.
    IgnoreRobotsTag,
    /// Download the files of a folder, whose list has this URL.
    DownloadFolder(String),
    /// Replace the file that exists.
    Replace,
    /// Replace the file that exists if the origin's file is newer.
    ReplaceIfOlder,
    /// Give the file another name.
    Rename,
    /// Put the file into this directory.
    SaveInto(PathBuf),
    WriteToFile,
    /// Write to a place where this user may write.
    WriteElsewhere,
    GiveStoreCredentials,
    /// Use other credentials of the store.
    ChangeStoreCredentials,
    /// Send requests to the store without a signature.
    OmitSignature,
    /// Agree to pay for requests to the store.
    PayForRequests,
    /// Use another endpoint of the store.
    ChangeEndpoint,
    /// Say how long the stream will be.
    GiveExpectedSize,
    ListObjects,
    ListBuckets,
    /// Let the server, if it is haul's, accept files.
    AllowWriting,
}

impl Remedy {
    /// Advice in constant words.
    #[must_use]
    pub const fn advice(text: &'static str) -> Self {
        Self::Advice(Cow::Borrowed(text))
    }
}

/// Remedies in one line. `words` renders one of them; `None` where the front end has no such thing. A text that begins with "or" is an
/// alternative to the one before it.
pub fn remedies_text<'a>(
    remedies: &'a [Remedy],
    words: impl Fn(&'a Remedy) -> Option<Cow<'a, str>>,
) -> Option<String> {
    remedies.iter().filter_map(words).fold(None, |line, text| {
        let Some(line) = line else {
            return Some(text.trim_start_matches("or ").to_owned());
        };
        let separator = match text.starts_with("or ") {
            true => ", ",
            false if line.ends_with('?') => " ",
            false => "; ",
        };
        Some(line + separator + &text)
    })
}

/// The peer of a TLS connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TlsEndpoint {
    /// The origin, or a tunnel's target.
    Target,
    Proxy,
}

/// A time limit that a user can set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TransferTimeLimit {
    Connect,
    /// From the end of a request to the start of its response.
    Response,
    /// Without a byte in the middle of a body.
    Stall,
    /// The wait for which a host asks.
    RequestedWait,
    /// The time with too few bytes.
    MinRate,
    /// The time of a whole download.
    MaxTime,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_remedies_make_one_line() {
        fn words(remedy: &Remedy) -> Option<Cow<'_, str>> {
            match remedy {
                Remedy::Advice(text) => Some(text.clone()),
                Remedy::Rename => Some("or rename it".into()),
                Remedy::Resume => Some("resume".into()),
                _ => None,
            }
        }
        let text = |remedies: &[Remedy]| remedies_text(remedies, words);
        assert_eq!(text(&[]), None);
        assert_eq!(text(&[Remedy::Replace]), None);
        assert_eq!(text(&[Remedy::Rename]).as_deref(), Some("rename it"));
        let all = [
            Remedy::advice("is it up?"),
            Remedy::advice("move it"),
            Remedy::Rename,
            Remedy::Replace,
            Remedy::Resume,
        ];
        let line = "is it up? move it, or rename it; resume";
        assert_eq!(text(&all).as_deref(), Some(line));
    }
}
