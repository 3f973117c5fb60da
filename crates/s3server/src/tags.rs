//! Tags of objects: their limits, and how they are written in `x-amz-tagging`.

use super::{S3ErrorCode, S3Failure};

/// Maximum tags of an object, and characters of their keys and values.
const MAX_TAGS: usize = 10;
const MAX_TAG_KEY: usize = 128;
const MAX_TAG_VALUE: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ObjectTag {
    /// Up to 128 characters, not empty, and no other tag of the object has it.
    pub key: String,
    /// Up to 256 characters.
    pub value: String,
}

/// Parses the value of `x-amz-tagging`, which is encoded like a query.
///
/// # Errors
/// `InvalidArgument` for a wrong encoding, a key that is empty or there twice; those of [`check_tags`].
pub(crate) fn parse_tag_header(value: &[u8]) -> Result<Vec<ObjectTag>, S3Failure> {
    let tags: Vec<ObjectTag> = url::form_urlencoded::parse(value)
        .map(|(key, value)| ObjectTag {
            key: key.into_owned(),
            value: value.into_owned(),
        })
        .collect();
    let is_twice =
        |(at, tag): (usize, &ObjectTag)| tags[..at].iter().any(|other| other.key == tag.key);
    let has_wrong_key =
        tags.iter().any(|tag| tag.key.is_empty()) || tags.iter().enumerate().any(is_twice);
    if has_wrong_key || !has_whole_escapes(value) {
        let message = "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query parameters \
            without tag name duplicates.";
        let value = String::from_utf8_lossy(value);
        return Err(S3Failure::invalid_argument("x-amz-tagging", value, message));
    }
    check_tags(&tags)?;
    Ok(tags)
}

/// Whether two hexadecimal digits follow each percent sign.
fn has_whole_escapes(value: &[u8]) -> bool {
    let mut escapes = value.split(|byte| *byte == b'%').skip(1);
    escapes.all(|rest| {
        rest.get(..2)
            .is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    })
}

/// Checks the number, the lengths and the characters of tags.
///
/// # Errors
/// `InvalidTag`, or `BadRequest` for too many.
pub(crate) fn check_tags(tags: &[ObjectTag]) -> Result<(), S3Failure> {
    if tags.len() > MAX_TAGS {
        let message = "Object tags cannot be greater than 10";
        return Err(S3Failure::with_message(S3ErrorCode::BadRequest, message));
    }
    for (at, tag) in tags.iter().enumerate() {
        let key_length = tag.key.chars().count();
        let message = match () {
            () if !(1..=MAX_TAG_KEY).contains(&key_length) || !tag.key.chars().all(is_allowed) => {
                "The TagKey you have provided is invalid"
            }
            () if tag.value.chars().count() > MAX_TAG_VALUE
                || !tag.value.chars().all(is_allowed) =>
            {
                "The TagValue you have provided is invalid"
            }
            () if tags[..at].iter().any(|other| other.key == tag.key) => {
                "Cannot provide multiple Tags with the same key"
            }
            () => continue,
        };
        let failure = S3Failure::with_message(S3ErrorCode::InvalidTag, message);
        return Err(failure.element("TagKey", &tag.key));
    }
    Ok(())
}

/// Whether keys and values of tags may have a character (S3's user guide, "Categorizing your objects using tags").
fn is_allowed(character: char) -> bool {
    character.is_alphanumeric() || character.is_whitespace() || "+-=._:/@".contains(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_of_tags_is_a_query() {
        let parse = |text: &str| {
            let tags = parse_tag_header(text.as_bytes()).map_err(|failure| failure.code)?;
            Ok(tags
                .into_iter()
                .map(|tag| format!("{}:{}", tag.key, tag.value))
                .collect::<Vec<_>>())
        };
        assert_eq!(parse(""), Ok(vec![]));
        assert_eq!(
            parse("a=1&b&c%2B=d+e&"),
            Ok(vec!["a:1".to_owned(), "b:".to_owned(), "c+:d e".to_owned()])
        );
        for wrong in ["=", "=1", "a%", "a%2=1", "a=1&a=2"] {
            assert_eq!(parse(wrong), Err(S3ErrorCode::InvalidArgument), "{wrong}");
        }
        for wrong in ["a?=1", "a=1*", "a=%00"] {
            assert_eq!(parse(wrong), Err(S3ErrorCode::InvalidTag), "{wrong}");
        }
        let many: Vec<String> = (0..11).map(|number| format!("k{number}")).collect();
        assert_eq!(parse(&many.join("&")), Err(S3ErrorCode::BadRequest));
    }
}
