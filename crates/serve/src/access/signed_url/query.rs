//! The query of a signed URL: what of it is the signature's, and what is signed.

use std::borrow::Cow;

use super::{EXPIRES_PARAMETER, SIGNATURE_PARAMETER};

/// A query with its signature taken out, for a log: who reads the log could use the link.
#[must_use]
pub fn redact_signature(query: &str) -> Cow<'_, str> {
    if !query.contains(SIGNATURE_PARAMETER) {
        return Cow::Borrowed(query);
    }
    let shown =
        query.split('&').map(
            |parameter| match parameter_value(parameter, SIGNATURE_PARAMETER) {
                Some(_) => format!("{SIGNATURE_PARAMETER}=***"),
                None => parameter.to_owned(),
            },
        );
    Cow::Owned(shown.collect::<Vec<_>>().join("&"))
}

/// A query, taken apart into what is ours and what is not. Names are ours as they are written here; escaped they are others'.
pub(super) struct SignedQuery<'a> {
    /// Each that says until when; one is right.
    pub(super) expires: Vec<&'a str>,
    /// Each that is a signature; one is right.
    pub(super) signatures: Vec<&'a str>,
    /// The other parameters in their order, each with an ampersand behind it.
    pub(super) other_parameters: String,
}

impl<'a> SignedQuery<'a> {
    /// Takes a query apart.
    pub(super) fn parse(query: &'a str) -> Self {
        let mut read = Self {
            expires: Vec::new(),
            signatures: Vec::new(),
            other_parameters: String::new(),
        };
        if query.is_empty() {
            return read;
        }
        for parameter in query.split('&') {
            if let Some(value) = parameter_value(parameter, EXPIRES_PARAMETER) {
                read.expires.push(value);
            } else if let Some(value) = parameter_value(parameter, SIGNATURE_PARAMETER) {
                read.signatures.push(value);
            } else {
                read.other_parameters.push_str(parameter);
                read.other_parameters.push('&');
            }
        }
        read
    }
}

/// The value of a parameter of that name.
fn parameter_value<'a>(parameter: &'a str, name: &str) -> Option<&'a str> {
    let rest = parameter.strip_prefix(name)?;
    if rest.is_empty() {
        Some(rest)
    } else {
        rest.strip_prefix('=')
    }
}
