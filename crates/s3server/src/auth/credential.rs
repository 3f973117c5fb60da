//! Where a signature is: the Authorization field, or the parameters of a presigned URL.
//!
//! Both become a [`ClaimedSignature`]. Each way has an error code of its own, so every check is
//! told which way the request went.

use std::time::Duration;

use super::S3Query;
use super::amz_date::AmzDate;
use crate::{S3ErrorCode, S3Failure};

/// The only algorithm.
pub(super) const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// The end of every credential scope.
const TERMINATOR: &str = "aws4_request";

/// Maximum lifetime of a presigned URL.
const MAX_EXPIRES: u64 = 7 * 24 * 3600;

/// Parameters of a presigned URL, each there exactly once.
const PRESIGNED_PARAMETERS: [&str; 6] = [
    "X-Amz-Algorithm",
    "X-Amz-Credential",
    "X-Amz-Date",
    "X-Amz-Expires",
    "X-Amz-SignedHeaders",
    "X-Amz-Signature",
];

/// A signature that a request claims to be right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClaimedSignature {
    /// The access key ID.
    pub(super) access_key: String,
    /// The scope's day, `YYYYMMDD`.
    pub(super) day: String,
    pub(super) region: String,
    /// Names of the signed fields, as sent.
    pub(super) signed_headers: Vec<String>,
    /// In hexadecimal.
    pub(super) signature: String,
}

/// A credential: `AKID/YYYYMMDD/REGION/SERVICE/aws4_request`.
struct Credential<'a> {
    access_key: &'a str,
    day: &'a str,
    region: &'a str,
}

/// Where the signature was found; decides how mistakes in it are reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SignaturePlace {
    /// The Authorization field.
    Header,
    /// The parameters of a presigned URL.
    Query,
}

impl SignaturePlace {
    fn malformed(self, message: &str) -> S3Failure {
        match self {
            Self::Header => S3Failure::with_message(
                S3ErrorCode::AuthorizationHeaderMalformed,
                format!("The authorization header is malformed; {message}"),
            ),
            Self::Query => S3Failure::with_message(
                S3ErrorCode::AuthorizationQueryParametersError,
                message.to_owned(),
            ),
        }
    }

    /// The failure about a malformed credential.
    fn bad_credential(self, message: &str) -> S3Failure {
        match self {
            Self::Header => self.malformed(message),
            Self::Query => self.malformed(&format!(
                "Error parsing the X-Amz-Credential parameter; {message}"
            )),
        }
    }

    /// The failure about another region than the server's, which it names: clients ask again.
    pub(super) fn wrong_region(self, region: &str, expected: &str) -> S3Failure {
        let message = format!("the region '{region}' is wrong; expecting '{expected}'");
        self.bad_credential(&message).element("Region", expected)
    }

    /// Checks that the scope is of the day of the request.
    pub(super) fn check_day(self, day: &str, date: &AmzDate) -> Result<(), S3Failure> {
        if day == date.day() {
            return Ok(());
        }
        let text = &date.text;
        Err(self.bad_credential(&format!(
            "Invalid credential date \"{day}\". This date is not the same as X-Amz-Date: \"{text}\"."
        )))
    }

    fn credential(self, text: &str) -> Result<Credential<'_>, S3Failure> {
        let parts: Vec<&str> = text.rsplitn(5, '/').collect();
        let [terminator, service, region, day, access_key] = parts[..] else {
            return Err(self.bad_credential(
                "the Credential is mal-formed; expecting \"<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request\".",
            ));
        };
        if terminator != TERMINATOR {
            return Err(self.bad_credential(&format!(
                "incorrect terminal \"{terminator}\". This endpoint uses \"{TERMINATOR}\"."
            )));
        }
        if service != "s3" {
            return Err(self.bad_credential(&format!(
                "incorrect service \"{service}\". This endpoint belongs to \"s3\"."
            )));
        }
        if day.len() != 8 || !day.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(self.bad_credential(&format!(
                "incorrect date format \"{day}\". This date in the credential must be in the format \"yyyyMMdd\"."
            )));
        }
        Ok(Credential {
            access_key,
            day,
            region,
        })
    }

    fn claim(
        self,
        credential: &str,
        signed_headers: &str,
        signature: &str,
    ) -> Result<ClaimedSignature, S3Failure> {
        let credential = self.credential(credential)?;
        let names: Vec<String> = signed_headers.split(';').map(str::to_owned).collect();
        if names.iter().any(String::is_empty) {
            return Err(self.malformed("the SignedHeaders are mal-formed."));
        }
        Ok(ClaimedSignature {
            access_key: credential.access_key.to_owned(),
            day: credential.day.to_owned(),
            region: credential.region.to_owned(),
            signed_headers: names,
            signature: signature.to_owned(),
        })
    }
}

/// Parses the Authorization field.
pub(super) fn parse_header(field: &str) -> Result<ClaimedSignature, S3Failure> {
    let place = SignaturePlace::Header;
    let Some(rest) = field.strip_prefix(ALGORITHM) else {
        return Err(unsupported_scheme(field));
    };
    if !rest.starts_with([' ', '\t']) {
        return Err(unsupported_scheme(field));
    }
    let (mut credential, mut signed_headers, mut signature) = (None, None, None);
    for part in rest.split(',').map(str::trim) {
        let (name, value) = part.split_once('=').ok_or_else(|| {
            place.malformed("a component is not of the form name=value, or a comma is missing.")
        })?;
        let known = match name {
            "Credential" => &mut credential,
            "SignedHeaders" => &mut signed_headers,
            "Signature" => &mut signature,
            _ => return Err(place.malformed("it has an unknown component.")),
        };
        if known.replace(value).is_some() {
            return Err(place.malformed("a component is there twice."));
        }
    }
    let missing = |name| place.malformed(&format!("missing {name}."));
    place.claim(
        credential.ok_or_else(|| missing("Credential"))?,
        signed_headers.ok_or_else(|| missing("SignedHeaders"))?,
        signature.ok_or_else(|| missing("Signature"))?,
    )
}

/// The failure about an Authorization field of another kind.
fn unsupported_scheme(field: &str) -> S3Failure {
    let scheme = field.split_whitespace().next().unwrap_or_default();
    match scheme {
        // Version 2 signs neither the body nor most of the head. AWS refuses it, too.
        "AWS" if field.contains(':') => version_2(),
        "AWS" => {
            let message = "AWS authorization header is invalid. Expected AwsAccessKeyId:signature";
            S3Failure::with_message(S3ErrorCode::InvalidArgument, message)
                .element("ArgumentName", "Authorization")
        }
        // An asymmetric signature, for several regions.
        scheme if scheme.starts_with("AWS4-") => {
            let message = "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256.";
            S3Failure::with_message(S3ErrorCode::InvalidRequest, message)
        }
        // The rest of the field may be a password.
        scheme => {
            S3Failure::invalid_argument("Authorization", scheme, "Unsupported Authorization Type")
        }
    }
}

/// The failure about Signature Version 2.
pub(super) fn version_2() -> S3Failure {
    let message = "Signature Version 2 is not supported. Please use AWS4-HMAC-SHA256.";
    S3Failure::with_message(S3ErrorCode::AccessDenied, message)
}

/// A presigned URL's signature, time and lifetime.
#[derive(Debug)]
pub(super) struct PresignedClaim {
    pub(super) claimed: ClaimedSignature,
    pub(super) date: AmzDate,
    pub(super) expires: Duration,
}

/// Parses the parameters of a presigned URL.
pub(super) fn parse_query(query: &S3Query) -> Result<PresignedClaim, S3Failure> {
    let place = SignaturePlace::Query;
    if PRESIGNED_PARAMETERS
        .iter()
        .any(|name| query.count(name) != 1)
    {
        return Err(place.malformed(
            "Query-string authentication version 4 requires the X-Amz-Algorithm, X-Amz-Credential, X-Amz-Signature, \
            X-Amz-Date, X-Amz-SignedHeaders, and X-Amz-Expires parameters, each once.",
        ));
    }
    let [algorithm, credential, date, expires, headers, signature] =
        PRESIGNED_PARAMETERS.map(|name| query.get(name).unwrap_or_default());
    if algorithm != ALGORITHM {
        return Err(place.malformed("X-Amz-Algorithm only supports \"AWS4-HMAC-SHA256\""));
    }
    let claimed = place.claim(credential, headers, signature)?;
    let date = AmzDate::parse(date).ok_or_else(|| {
        place.malformed("X-Amz-Date must be in the ISO8601 Long Format \"yyyyMMdd'T'HHmmss'Z'\"")
    })?;
    place.check_day(&claimed.day, &date)?;
    Ok(PresignedClaim {
        claimed,
        date,
        expires: Duration::from_secs(parse_expires(expires)?),
    })
}

fn parse_expires(text: &str) -> Result<u64, S3Failure> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let message = match text.parse::<u64>() {
        _ if !is_number => "X-Amz-Expires should be a number",
        _ if text.starts_with('-') => "X-Amz-Expires must be non-negative",
        Ok(seconds) if seconds <= MAX_EXPIRES => return Ok(seconds),
        _ => {
            "X-Amz-Expires must be less than a week (in seconds); that is, the given X-Amz-Expires must be less than 604800 seconds"
        }
    };
    Err(SignaturePlace::Query.malformed(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code<T>(result: Result<T, S3Failure>) -> Option<S3ErrorCode> {
        result.err().map(|failure| failure.code)
    }

    #[test]
    fn fields_are_parsed_with_and_without_blanks() {
        let expected = ClaimedSignature {
            access_key: "AK".to_owned(),
            day: "20130524".to_owned(),
            region: "us-east-1".to_owned(),
            signed_headers: vec!["host".to_owned(), "x-amz-date".to_owned()],
            signature: "ab".to_owned(),
        };
        for separator in [",", ", ", " ,  "] {
            let field = [
                "AWS4-HMAC-SHA256 Credential=AK/20130524/us-east-1/s3/aws4_request",
                "SignedHeaders=host;x-amz-date",
                "Signature=ab",
            ]
            .join(separator);
            assert_eq!(parse_header(&field), Ok(expected.clone()));
        }
    }

    #[test]
    fn malformed_fields_are_named() {
        let field = |credential: &str| {
            format!("AWS4-HMAC-SHA256 Credential={credential},SignedHeaders=host,Signature=ab")
        };
        for wrong in [
            "AWS4-HMAC-SHA256 ".to_owned(),
            "AWS4-HMAC-SHA256 Credential".to_owned(),
            field("AK"),
            field("AK/20130524/us-east-1/s3"),
            field("AK/20130524/us-east-1/ec2/aws4_request"),
            field("AK/20130524/us-east-1/s3/aws_request"),
            field("AK/2013-5-24/us-east-1/s3/aws4_request"),
            field("AK/20130524/us-east-1/s3/aws4_request").replace("host", "host;"),
            field("AK/20130524/us-east-1/s3/aws4_request").replace("Signature", "Sig"),
            field("AK/20130524/us-east-1/s3/aws4_request") + ",Signature=cd",
            field("AK/20130524/us-east-1/s3/aws4_request").replace(",Signature=ab", ""),
        ] {
            let expected = Some(S3ErrorCode::AuthorizationHeaderMalformed);
            assert_eq!(code(parse_header(&wrong)), expected, "{wrong}");
        }
    }

    #[test]
    fn g16_other_schemes_are_refused_without_what_follows_them() {
        let version_2 = parse_header("AWS AK:c2VjcmV0").unwrap_err();
        assert_eq!(version_2.code, S3ErrorCode::AccessDenied);
        let asymmetric = parse_header("AWS4-ECDSA-P256-SHA256 Credential=x").unwrap_err();
        assert_eq!(asymmetric.code, S3ErrorCode::InvalidRequest);
        let basic = parse_header("Basic c2VjcmV0").unwrap_err();
        assert_eq!(basic.code, S3ErrorCode::InvalidArgument);
        assert!(!format!("{basic:?}{version_2:?}").contains("c2VjcmV0"));
    }

    #[test]
    fn g13_lifetimes_are_limited() {
        for (text, is_right) in [
            ("0", true),
            ("604800", true),
            ("604801", false),
            ("99999999999999999999", false),
            ("-1", false),
            ("", false),
            ("-", false),
            ("+1", false),
            ("1s", false),
        ] {
            assert_eq!(parse_expires(text).is_ok(), is_right, "{text}");
        }
    }
}
