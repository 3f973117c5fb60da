//! Lists of buckets and of objects, and operations on many objects of a bucket.

use std::fmt::Write as _;
use std::time::SystemTime;

use haul_net::RequestBody;
use haul_plan::{Checksum, DigestAlgorithm};
use http::Method;
use percent_encoding::percent_decode_str;
use time::{Date, Month};

use crate::address::S3Address;
use crate::checksums::checksum_field;
use crate::client::{S3Client, S3Request};
use crate::error::{S3Error, S3ErrorKind};
use crate::objects::unquoted;
use crate::xml::{XmlNode, escaped_text};

/// The most keys that one DeleteObjects takes.
pub const MAX_DELETED_KEYS: usize = 1000;

/// Why lists do not advance.
pub(crate) const NO_TOKEN: &str = "a page says that there is more, and not how to ask for it";
pub(crate) const SAME_TOKEN: &str = "a page is followed by itself";

/// The most pages of a list of buckets.
const MAX_BUCKET_PAGES: usize = 1000;

/// Keys of a page whose store does not say how many it puts into one.
const USUAL_PAGE: usize = 1000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedBucket {
    pub name: String,
    /// When it was created, in ISO 8601.
    pub created: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListedObject {
    pub key: String,
    /// Bytes.
    pub size: u64,
    /// The entity tag without its quotes.
    pub etag: String,
    /// When it was last modified, in ISO 8601.
    pub last_modified: String,
    pub storage_class: String,
}

impl ListedObject {
    /// When the object was stored; `None` if the list says it in no form that S3 has.
    #[must_use]
    pub fn modified(&self) -> Option<SystemTime> {
        let (date, time) = self.last_modified.split_once('T')?;
        let time = time.strip_suffix('Z')?;
        let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
        let [year, month, day] = numbers(date, '-')?;
        let [hour, minute, second] = numbers(time, ':')?;
        let month = Month::try_from(u8::try_from(month).ok()?).ok()?;
        let date = Date::from_calendar_date(year.try_into().ok()?, month, day.try_into().ok()?);
        // A leap second counts as the one before.
        let (hour, minute) = (hour.try_into().ok()?, minute.try_into().ok()?);
        let second = u8::try_from(second.min(59)).ok()?;
        let milli = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
        let time = date
            .ok()?
            .with_hms_milli(hour, minute, second, milli)
            .ok()?;
        Some(time.assume_utc().into())
    }
}

/// Three numbers of digits alone.
fn numbers(text: &str, separator: char) -> Option<[u32; 3]> {
    let mut parts = text.split(separator);
    let mut next = || {
        let part = parts.next()?;
        let is_number = part.bytes().all(|byte| byte.is_ascii_digit());
        part.parse().ok().filter(|_| is_number)
    };
    Some([next()?, next()?, next()?])
}

#[derive(Debug, Clone, Default)]
pub struct ObjectListRequest {
    /// Keys that begin with this.
    pub prefix: String,
    /// Keys with this after the prefix are grouped up to it. Empty: none are.
    pub delimiter: String,
    /// Keys behind this one, for the first page.
    pub start_after: String,
    /// Continues a list: the token of the page before.
    pub token: Option<String>,
    /// The most objects and prefixes of a page; 0 leaves it to the store.
    pub max_keys: u32,
}

/// A page of a list, in the byte order of keys.
#[derive(Debug, Clone, Default)]
pub struct ObjectPage {
    pub objects: Vec<ListedObject>,
    /// The groups, each with its delimiter.
    pub prefixes: Vec<String>,
    /// What continues the list; `None` on the last page.
    pub next_token: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeleteFailure {
    pub key: String,
    /// S3's code.
    pub code: String,
    /// S3's message.
    pub message: String,
}

impl S3Client {
    /// ListBuckets.
    ///
    /// # Errors
    /// Those of the request and of S3.
    pub async fn list_buckets(&self) -> Result<Vec<ListedBucket>, S3Error> {
        let service = S3Address::service();
        let (mut buckets, mut token) = (Vec::new(), String::new());
        for _ in 0..MAX_BUCKET_PAGES {
            let request = S3Request::new("ListBuckets", Method::GET, &service)
                .query_if("continuation-token", &token);
            let (_, root) = self.send_for_document(&request).await?;
            let listed = root.child("Buckets").into_iter();
            buckets.extend(
                listed
                    .flat_map(|list| list.all("Bucket"))
                    .map(|bucket| ListedBucket {
                        name: bucket.text_of("Name").to_owned(),
                        created: bucket.text_of("CreationDate").to_owned(),
                    }),
            );
            let next = root.text_of("ContinuationToken");
            if next.is_empty() {
                return Ok(buckets);
            }
            if next == token {
                return Err(request.failed(S3ErrorKind::StuckList(SAME_TOKEN)));
            }
            next.clone_into(&mut token);
        }
        let kind = S3ErrorKind::StuckList("there are too many pages of buckets");
        Err(S3Error::new("ListBuckets", &service, kind))
    }

    /// ListObjectsV2: one page. Keys are asked for in an encoding that every key survives (row F15).
    ///
    /// # Errors
    /// Those of the request and of S3; a page that is followed by itself.
    pub async fn list_objects(
        &self,
        bucket: &str,
        list: &ObjectListRequest,
    ) -> Result<ObjectPage, S3Error> {
        let address = S3Address::new(bucket, "");
        let token = list.token.as_deref().unwrap_or_default();
        let mut request = S3Request::new("ListObjectsV2", Method::GET, &address)
            .query("list-type", "2")
            .query("encoding-type", "url")
            .query_if("prefix", &list.prefix)
            .query_if("delimiter", &list.delimiter)
            .query_if("start-after", &list.start_after)
            .query_if("continuation-token", token);
        if list.max_keys > 0 {
            request = request.query("max-keys", list.max_keys.to_string());
        }
        let (_, root) = self.send_for_document(&request).await?;
        let response_error = |text: &str| request.failed(S3ErrorKind::Response(text.to_owned()));
        if root.name != "ListBucketResult" {
            return Err(response_error("it is not a list of objects"));
        }
        let is_encoded = root.text_of("EncodingType").eq_ignore_ascii_case("url");
        let key = |text: &str| {
            let key =
                decoded(text, is_encoded).ok_or_else(|| response_error("a key is not UTF-8"))?;
            if key.starts_with(&list.prefix) {
                Ok(key)
            } else {
                // Who deletes what is listed would delete everything.
                Err(response_error("a key does not begin with the prefix"))
            }
        };
        let objects = root
            .all("Contents")
            .map(|object| listed_object(object, key));
        let prefixes = root
            .all("CommonPrefixes")
            .map(|group| key(group.text_of("Prefix")));
        let next = root.text_of("NextContinuationToken");
        let next_token = match root.is_true("IsTruncated") {
            // Who deletes what a list lacks must not take a full page for the last one.
            false if root.child("IsTruncated").is_none() && is_full_page(&root) => {
                return Err(response_error("it does not say whether it is complete"));
            }
            false => None,
            true if next.is_empty() => {
                return Err(request.failed(S3ErrorKind::StuckList(NO_TOKEN)));
            }
            true if next == token => {
                return Err(request.failed(S3ErrorKind::StuckList(SAME_TOKEN)));
            }
            true => Some(next.to_owned()),
        };
        Ok(ObjectPage {
            objects: objects.collect::<Result<_, _>>()?,
            prefixes: prefixes.collect::<Result<_, _>>()?,
            next_token,
        })
    }

    /// DeleteObjects: up to [`MAX_DELETED_KEYS`] keys. Returns those that were not deleted (row F28).
    ///
    /// # Errors
    /// Those of the request as a whole.
    pub async fn delete_objects(
        &self,
        bucket: &str,
        keys: &[String],
    ) -> Result<Vec<DeleteFailure>, S3Error> {
        let address = S3Address::new(bucket, "");
        let mut document = String::from(
            "<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Quiet>true</Quiet>",
        );
        for key in keys {
            // Writing into a String cannot fail.
            let _ = write!(
                document,
                "<Object><Key>{}</Key></Object>",
                escaped_text(key)
            );
        }
        document.push_str("</Delete>");
        let mut digests = haul_digest::DigestSet::new([DigestAlgorithm::Md5]);
        digests.update(document.as_bytes());
        // S3 wants some checksum of this request; every store knows this one.
        let fields = digests.finish().into_iter().filter_map(|computed| {
            checksum_field(&Checksum {
                algorithm: computed.algorithm,
                digest: Some(computed.digest),
            })
        });
        let request = S3Request::new("DeleteObjects", Method::POST, &address)
            .query("delete", "")
            .headers(fields.collect())
            .header("content-type", "application/xml")
            .body(RequestBody::Bytes(document.into()));
        let (_, root) = self.send_for_document(&request).await?;
        // What it does not list as failed counts as deleted.
        if root.name != "DeleteResult" {
            let text = format!("its document is {:?}", root.name);
            return Err(request.failed(S3ErrorKind::Response(text)));
        }
        Ok(root.all("Error").map(delete_failure).collect())
    }
}

fn listed_object(
    object: &XmlNode,
    key: impl Fn(&str) -> Result<String, S3Error>,
) -> Result<ListedObject, S3Error> {
    Ok(ListedObject {
        key: key(object.text_of("Key"))?,
        size: object.text_of("Size").trim().parse().unwrap_or_default(),
        etag: unquoted(object.text_of("ETag")),
        last_modified: object.text_of("LastModified").to_owned(),
        storage_class: object.text_of("StorageClass").to_owned(),
    })
}

fn delete_failure(error: &XmlNode) -> DeleteFailure {
    DeleteFailure {
        key: error.text_of("Key").to_owned(),
        code: error.text_of("Code").to_owned(),
        message: error.text_of("Message").to_owned(),
    }
}

/// A key in S3's encoding of lists, where a plus is a space; `None` if it is not UTF-8.
fn decoded(text: &str, is_encoded: bool) -> Option<String> {
    if !is_encoded {
        return Some(text.to_owned());
    }
    let text = text.replace('+', " ");
    let decoded = percent_decode_str(&text).decode_utf8().ok()?;
    Some(decoded.into_owned())
}

/// Whether a page has as many keys as its store puts into one.
fn is_full_page(page: &XmlNode) -> bool {
    let count = page.all("Contents").count() + page.all("CommonPrefixes").count();
    let most = page.text_of("MaxKeys").trim().parse().unwrap_or(USUAL_PAGE);
    count >= most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_lists_are_read_and_others_are_none() {
        let seconds = |text: &str| {
            let object = ListedObject {
                last_modified: text.to_owned(),
                ..ListedObject::default()
            };
            let since = object.modified()?.duration_since(SystemTime::UNIX_EPOCH);
            Some(since.unwrap().as_secs_f64())
        };
        assert_eq!(seconds("2009-10-12T17:50:30.500Z"), Some(1_255_369_830.5));
        assert_eq!(seconds("1970-01-01T00:00:60Z"), Some(59.0));
        for wrong in [
            "",
            "2009-10-12",
            "2009-13-12T17:50:30Z",
            "2009-10-12T17:50:30",
            "2009-10-12T+7:50:30Z",
        ] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn f15_keys_of_lists_are_decoded_with_plus_and_control_characters() {
        assert_eq!(
            decoded("a+b%2Bc%0A%E2%82%AC", true).unwrap(),
            "a b+c\n\u{20ac}"
        );
        assert_eq!(decoded("a+b%2B", false).unwrap(), "a+b%2B");
        assert_eq!(decoded("%ff", true), None);
    }
}
