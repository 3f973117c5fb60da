//! Digest fields, right or wrong (A26).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use md5::Md5;
use sha2::{Digest as _, Sha256};

use crate::origin::{OriginResponse, OriginResponseBody, RecordedRequest};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DigestHeader {
    /// `Repr-Digest`, SHA-256 of the whole representation (RFC 9530 3).
    Repr,
    /// `Content-Digest`, SHA-256 of the bytes in this response (RFC 9530 2).
    Content,
    /// `Digest`, SHA-256 of the whole representation (RFC 3230).
    Obsolete,
    /// `Content-MD5`, of the bytes in this response (RFC 1864).
    Md5,
    /// `x-amz-checksum-sha256`, of the whole object.
    Amazon,
}

impl DigestHeader {
    /// Its name, and its value for a response.
    fn header(self, response: &OriginResponse) -> (&'static str, String) {
        let sha256 = |bytes: &[u8]| BASE64_STANDARD.encode(Sha256::digest(bytes));
        let (whole, sent) = (whole_content(response), || response.body.to_vec());
        match self {
            Self::Repr => ("Repr-Digest", format!("sha-256=:{}:", sha256(&whole))),
            Self::Content => ("Content-Digest", format!("sha-256=:{}:", sha256(&sent()))),
            Self::Obsolete => ("Digest", format!("SHA-256={}", sha256(&whole))),
            Self::Md5 => ("Content-MD5", BASE64_STANDARD.encode(Md5::digest(sent()))),
            Self::Amazon => ("x-amz-checksum-sha256", sha256(&whole)),
        }
    }
}

fn whole_content(response: &OriginResponse) -> Vec<u8> {
    match &response.body {
        OriginResponseBody::Slice(content, _) => content.to_vec(),
        raw @ OriginResponseBody::Bytes(_) => raw.to_vec(),
    }
}

pub fn right_digest(
    field: DigestHeader,
) -> impl Fn(&RecordedRequest, &mut OriginResponse) + Send + Sync {
    move |_, response| {
        let (name, value) = field.header(response);
        response.set_header(name, &value);
    }
}

/// Adds a digest of the right length, of other bytes.
pub fn wrong_digest(
    field: DigestHeader,
) -> impl Fn(&RecordedRequest, &mut OriginResponse) + Send + Sync {
    move |_, response| {
        let mut other = response.clone();
        other.body = OriginResponseBody::Bytes(b"something else".to_vec());
        let (name, value) = field.header(&other);
        response.set_header(name, &value);
    }
}
