//! Splits the query of a signed URL into the signature and the signed rest.

use std::borrow::Cow;

use super::{EXPIRES_PARAMETER, SIGNATURE_PARAMETER};

/// A query with its signature replaced, for the log: a reader of the log could use the link.
#[must_use]
pub fn redact_signature(query: &str) -> Cow<'_, str> {
    if !query.contains(SIGNATURE_PARAMETER) {
        return Cow::Borrowed(query);
    }
    let parameters =
        query.split('&').map(
            |parameter| match parameter_value(parameter, SIGNATURE_PARAMETER) {
                Some(_) => format!("{SIGNATURE_PARAMETER}=***"),
                None => parameter.to_owned(),
            },
        );
    Cow::Owned(parameters.collect::<Vec<_>>().join("&"))
}

/// The parameters of a query. Only the unescaped parameter names are recognised as ours.
pub(super) struct SignedQuery<'a> {
    /// Values of the expiry; exactly one is valid.
    pub(super) expires: Vec<&'a str>,
    /// Values of the signature; exactly one is valid.
    pub(super) signatures: Vec<&'a str>,
    /// The other parameters in order, each followed by an ampersand.
    pub(super) other_parameters: String,
}

impl<'a> SignedQuery<'a> {
    pub(super) fn parse(query: &'a str) -> Self {
        let mut parsed = Self {
            expires: Vec::new(),
            signatures: Vec::new(),
            other_parameters: String::new(),
        };
        if query.is_empty() {
            return parsed;
        }
        for parameter in query.split('&') {
            if let Some(value) = parameter_value(parameter, EXPIRES_PARAMETER) {
                parsed.expires.push(value);
            } else if let Some(value) = parameter_value(parameter, SIGNATURE_PARAMETER) {
                parsed.signatures.push(value);
            } else {
                parsed.other_parameters.push_str(parameter);
                parsed.other_parameters.push('&');
            }
        }
        parsed
    }
}

/// The value of the parameter `name`, if this is it.
fn parameter_value<'a>(parameter: &'a str, name: &str) -> Option<&'a str> {
    let rest = parameter.strip_prefix(name)?;
    if rest.is_empty() {
        Some(rest)
    } else {
        rest.strip_prefix('=')
    }
}
