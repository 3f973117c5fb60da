//! The host and path of a URL as directories and a name.
//!
//! Each component is decoded and then made safe by itself, so that an encoded slash never makes a directory.
//! A component without a safe character (`..`) becomes `_`. If the directories are deeper or longer than
//! a file system may take, one directory named by their digest replaces them.

use std::path::PathBuf;

use haul_plan::{hex, zone_of_url};
use percent_encoding::percent_decode_str;
use url::Url;

use super::path_digest;
use crate::filename::{self, MAX_LENGTH};

/// The most directories that are kept as they are.
const MAX_DIRECTORIES: usize = 48;

/// The most bytes of those directories: with a host and a name, a path stays well below what Linux takes.
const MAX_DIRECTORY_BYTES: usize = 1024;

/// A longer query is shown as a digest in the name.
const MAX_SHOWN_QUERY_BYTES: usize = 64;

/// Parts of parameter names in queries that grant access or sign something. More than need be (a `monkey` has
/// a `key`): a query that is wrongly taken for a secret costs a readable name, and one that is wrongly not
/// gets into file names.
const SECRET_PARTS: [&str; 16] = [
    "auth", "code", "cred", "hdn", "hmac", "jwt", "key", "pass", "policy", "pwd", "secret",
    "session", "sid", "sig", "ticket", "token",
];

/// Host, directories and name.
pub(super) fn path(url: &Url) -> PathBuf {
    let mut path = PathBuf::from(host(url));
    path.extend(directories(url));
    path.push(name(url));
    path
}

/// The host, with its port if that is not the default of the scheme.
pub(super) fn host(url: &Url) -> String {
    // The number of an interface may be another one after a restart.
    let bare = zone_of_url(url).map(|(address, _)| format!("[{address}]"));
    let host = bare
        .as_deref()
        .or_else(|| url.host_str())
        .unwrap_or_default();
    let text = url
        .port()
        .map_or_else(|| host.to_owned(), |port| format!("{host}+{port}"));
    safe_component(&text)
}

/// The components of the path before its name. Empty ones are left out, as a file system would.
pub(super) fn directories(url: &Url) -> Vec<String> {
    let whole = url.path().rsplit_once('/').map_or("", |(front, _)| front);
    let parts = || whole.split('/').filter(|part| !part.is_empty());
    let safe: Vec<String> = parts().take(MAX_DIRECTORIES + 1).map(component).collect();
    if safe.len() <= MAX_DIRECTORIES
        && safe.iter().map(String::len).sum::<usize>() <= MAX_DIRECTORY_BYTES
    {
        return safe;
    }
    vec![hex(&path_digest::digest_text(b'd', whole))]
}

/// The last component, with the query if there is one.
fn name(url: &Url) -> String {
    let last = url.path().rsplit('/').next().unwrap_or_default();
    let name =
        filename::sanitize(&decoded(last)).unwrap_or_else(|| filename::DEFAULT_NAME.to_owned());
    match url.query() {
        None | Some("") => name,
        Some(query) => with_query(name, query),
    }
}

/// A name with a query behind it: readable if the query is short and has no secret, else its digest.
fn with_query(mut name: String, query: &str) -> String {
    let text = decoded(query);
    let lower = text.to_lowercase();
    let is_secret = SECRET_PARTS.iter().any(|part| lower.contains(part));
    let shown =
        if query.len() > MAX_SHOWN_QUERY_BYTES || text.len() > MAX_SHOWN_QUERY_BYTES || is_secret {
            hex(&path_digest::digest_text(b'q', query))[..16].to_owned()
        } else {
            text
        };
    // Cut here, since `sanitize` would cut the end off, which makes the difference.
    let mut keep = name.len().min(MAX_LENGTH - shown.len() - 1);
    while !name.is_char_boundary(keep) {
        keep -= 1;
    }
    name.truncate(keep);
    safe_component(&format!("{name}_{shown}"))
}

/// One component of a URL's path, safe.
fn component(text: &str) -> String {
    safe_component(&decoded(text))
}

fn safe_component(text: &str) -> String {
    filename::sanitize(text).unwrap_or_else(|| "_".to_owned())
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}
