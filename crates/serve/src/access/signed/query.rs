//! The query of a signed URL: what of it is the signature's, and what is signed.

use std::borrow::Cow;

use super::{EXPIRES, SIGNATURE};

/// A query with its signature taken out, for a log: who reads the log could use the link.
#[must_use]
pub fn without_signature(query: &str) -> Cow<'_, str> {
    if !query.contains(SIGNATURE) {
        return Cow::Borrowed(query);
    }
    let shown = query
        .split('&')
        .map(|parameter| match value(parameter, SIGNATURE) {
            Some(_) => format!("{SIGNATURE}=***"),
            None => parameter.to_owned(),
        });
    Cow::Owned(shown.collect::<Vec<_>>().join("&"))
}

/// A query, taken apart into what is ours and what is not. Names are ours as they are written here; escaped they are others'.
pub(super) struct SignedQuery<'a> {
    /// Each that says until when; one is right.
    pub(super) expires: Vec<&'a str>,
    /// Each that is a signature; one is right.
    pub(super) signatures: Vec<&'a str>,
    /// The other parameters in their order, each with an ampersand behind it.
    pub(super) others: String,
}

impl<'a> SignedQuery<'a> {
    /// Takes a query apart.
    pub(super) fn read(query: &'a str) -> Self {
        let mut read = Self {
            expires: Vec::new(),
            signatures: Vec::new(),
            others: String::new(),
        };
        if query.is_empty() {
            return read;
        }
        for parameter in query.split('&') {
            if let Some(value) = value(parameter, EXPIRES) {
                read.expires.push(value);
            } else if let Some(value) = value(parameter, SIGNATURE) {
                read.signatures.push(value);
            } else {
                read.others.push_str(parameter);
                read.others.push('&');
            }
        }
        read
    }
}

/// The value of a parameter of that name.
fn value<'a>(parameter: &'a str, name: &str) -> Option<&'a str> {
    let rest = parameter.strip_prefix(name)?;
    if rest.is_empty() {
        Some(rest)
    } else {
        rest.strip_prefix('=')
    }
}
