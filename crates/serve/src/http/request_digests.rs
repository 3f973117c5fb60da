//! Digests that a client announces with a PUT, and the one that a response announces: Content-Digest and
//! Repr-Digest (RFC 9530), Content-MD5 (RFC 1864), row D5.
//!
//! Fields of responses are parsed leniently (`response_digests`): an origin's odd header must not fail a
//! download. Here it is the reverse: a client that sends a digest wants its bytes checked, and to store them
//! unchecked because the field is malformed would be a lie. So a malformed field is an error, and 400. Only
//! unknown algorithms are skipped, as RFC 9530 2 demands; the caller sees if none is left to check.
//!
//! The body of a PUT is the whole representation in its coding (a PUT with Content-Range is refused), so both
//! fields are about the same bytes. They may also come as trailers, which the same function parses.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use haul_plan::{Checksum, DigestAlgorithm, ExpectedDigest};
use http::header::{HeaderMap, HeaderValue};

/// Base64 as structured fields have it: padding and spare bits do not matter (RFC 9651 4.2.7).
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Why a field is refused. Its message is for the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum DigestFieldError {
    /// The value has not the form of the field.
    #[error("{field} cannot be read")]
    Malformed {
        /// The field.
        field: &'static str,
    },
    /// The digest of a known algorithm has a wrong length.
    #[error("{field} has a {algorithm} digest that is not {} bytes long", .algorithm.digest_len())]
    Length {
        /// The field.
        field: &'static str,
        /// The algorithm.
        algorithm: DigestAlgorithm,
    },
}

/// Every digest that the body of a PUT must have, from its head or its trailers. At most one of each
/// algorithm and field.
///
/// # Errors
/// One of the three fields is malformed.
pub(super) fn request_digests(
    headers: &HeaderMap,
) -> Result<Vec<ExpectedDigest>, DigestFieldError> {
    let mut found = Vec::new();
    read_dictionary(headers, "Content-Digest", &mut found)?;
    read_dictionary(headers, "Repr-Digest", &mut found)?;
    read_content_md5(headers, &mut found)?;
    Ok(found)
}

/// The value of a Repr-Digest or Content-Digest field. `None` without a digest, and for an algorithm
/// without a registered name.
#[must_use]
pub(super) fn digest_field_value(checksum: &Checksum) -> Option<HeaderValue> {
    let digest = STANDARD.encode(checksum.digest.as_ref()?);
    let name = checksum.algorithm.registered_name()?;
    HeaderValue::from_str(&format!("{name}=:{digest}:")).ok()
}

/// Reads one base64 value in one line.
fn read_content_md5(
    headers: &HeaderMap,
    found: &mut Vec<ExpectedDigest>,
) -> Result<(), DigestFieldError> {
    let field = "Content-MD5";
    let mut lines = headers.get_all(field).iter();
    let Some(line) = lines.next() else {
        return Ok(());
    };
    let digest = STANDARD.decode(line.as_bytes().trim_ascii());
    let (Ok(digest), None) = (digest, lines.next()) else {
        return Err(DigestFieldError::Malformed { field });
    };
    push(field, DigestAlgorithm::Md5, digest, found)
}

/// Reads a dictionary of byte sequences (RFC 9651 3.2). Each line must be one by itself; together they are
/// one.
fn read_dictionary(
    headers: &HeaderMap,
    field: &'static str,
    found: &mut Vec<ExpectedDigest>,
) -> Result<(), DigestFieldError> {
    for line in headers.get_all(field) {
        let members = members(line.as_bytes().trim_ascii());
        for (name, digest) in members.ok_or(DigestFieldError::Malformed { field })? {
            if let Some(algorithm) = DigestAlgorithm::from_registered_name(name) {
                // The last of two members with one name counts (RFC 9651 4.2.2).
                found.retain(|other| other.field != field || other.algorithm != algorithm);
                push(field, algorithm, digest, found)?;
            }
        }
    }
    Ok(())
}

fn push(
    field: &'static str,
    algorithm: DigestAlgorithm,
    digest: Vec<u8>,
    found: &mut Vec<ExpectedDigest>,
) -> Result<(), DigestFieldError> {
    if digest.len() != algorithm.digest_len() {
        return Err(DigestFieldError::Length { field, algorithm });
    }
    found.push(ExpectedDigest {
        algorithm,
        digest,
        field,
    });
    Ok(())
}

/// The members of a dictionary; `None` if it is malformed or has values other than byte sequences.
fn members(line: &[u8]) -> Option<Vec<(&str, Vec<u8>)>> {
    let mut cursor = StructuredFieldCursor(line);
    let mut members = Vec::new();
    while !cursor.0.is_empty() {
        let name = cursor.key()?;
        cursor.take(b'=')?;
        members.push((name, cursor.bytes()?));
        cursor.parameters()?;
        cursor.skip(b" \t");
        if !cursor.0.is_empty() {
            cursor.take(b',')?;
            cursor.skip(b" \t");
            // Nothing may follow the last comma.
            cursor.0.first()?;
        }
    }
    Some(members)
}

/// The rest of a structured field.
struct StructuredFieldCursor<'a>(&'a [u8]);

impl<'a> StructuredFieldCursor<'a> {
    fn take(&mut self, byte: u8) -> Option<()> {
        self.0 = self.0.strip_prefix(&[byte])?;
        Some(())
    }

    fn skip(&mut self, bytes: &[u8]) {
        self.take_while(|byte| bytes.contains(&byte));
    }

    fn take_while(&mut self, fits: impl Fn(u8) -> bool) -> &'a [u8] {
        let end = self.0.iter().position(|byte| !fits(*byte));
        let (taken, cursor) = self.0.split_at(end.unwrap_or(self.0.len()));
        self.0 = cursor;
        taken
    }

    /// A key, in lower case.
    fn key(&mut self) -> Option<&'a str> {
        let first = *self.0.first()?;
        let key = self.take_while(|byte| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(&byte)
        });
        let begins = first.is_ascii_lowercase() || first == b'*';
        std::str::from_utf8(key).ok().filter(|_| begins)
    }

    /// Base64 between colons.
    fn bytes(&mut self) -> Option<Vec<u8>> {
        self.take(b':')?;
        let text = self.take_while(|byte| byte != b':');
        self.take(b':')?;
        LENIENT.decode(text).ok()
    }

    /// Skips parameters: they say nothing about a digest, but must be well-formed.
    fn parameters(&mut self) -> Option<()> {
        while self.take(b';').is_some() {
            self.skip(b" ");
            self.key()?;
            if self.take(b'=').is_some() {
                self.bare_item()?;
            }
        }
        Some(())
    }

    /// Skips a byte sequence, a string, or a token, number, date or boolean, which need not be distinguished.
    fn bare_item(&mut self) -> Option<()> {
        match self.0.first()? {
            b':' => self.bytes().map(drop),
            b'"' => self.string(),
            _ => {
                let item = self.take_while(|byte| {
                    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/?@".contains(&byte)
                });
                (!item.is_empty()).then_some(())
            }
        }
    }

    /// Skips a quoted string, in which a backslash precedes a quote or another backslash.
    fn string(&mut self) -> Option<()> {
        self.take(b'"')?;
        loop {
            self.take_while(|byte| (b' '..=b'~').contains(&byte) && byte != b'"' && byte != b'\\');
            if self.take(b'\\').is_none() {
                return self.take(b'"');
            }
            self.take(b'"').or_else(|| self.take(b'\\'))?;
        }
    }
}

#[cfg(test)]
mod tests;
