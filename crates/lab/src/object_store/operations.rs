//! What the store does with each request.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crc_fast::{CrcAlgorithm, checksum};
use md5::{Digest as _, Md5};
use sha2::Sha256;

use super::{PendingParts, StoreRequest, StoreState, StoredBytes};
use crate::content::hexadecimal;

const CRC64NVME: &str = "x-amz-checksum-crc64nvme";

pub(super) struct StoreResponse {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    /// The length in the head, if it is not that of the body: for HEAD.
    pub(super) length: Option<usize>,
}

impl StoreResponse {
    pub(super) fn empty(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Vec::new(),
            length: None,
        }
    }

    pub(super) fn document(text: String) -> Self {
        Self {
            body: text.into(),
            ..Self::empty(200)
        }
    }

    fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    pub(super) fn body_text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

pub(super) fn error(status: u16, code: &str) -> StoreResponse {
    let text = format!(
        "<?xml version=\"1.0\"?>\n<Error><Code>{code}</Code><Message>{code} happened</Message></Error>"
    );
    StoreResponse {
        status,
        ..StoreResponse::document(text)
    }
}

/// Does what a request asks for.
pub(super) fn respond(
    state: &mut StoreState,
    request: &StoreRequest,
    body: &[u8],
) -> StoreResponse {
    let has_checksum = request
        .headers
        .keys()
        .any(|name| name.starts_with("x-amz-checksum-") && name != "x-amz-checksum-mode");
    if state.refuses_checksums && has_checksum {
        return error(501, "NotImplemented");
    }
    match request.method.as_str() {
        "PUT" if request.has("partNumber") => put_part(state, request, body),
        "PUT" if request.headers.contains_key("x-amz-copy-source") => copy_object(state, request),
        "PUT" => put_object(state, request, body),
        "POST" if request.has("uploads") => create_upload(state, request),
        "POST" if request.has("uploadId") => complete_upload(state, request, body),
        "POST" if request.has("delete") => delete_objects(state, body),
        "DELETE" if request.has("uploadId") => {
            match state.uploads.remove(&request.query["uploadId"]) {
                Some(_) => StoreResponse::empty(204),
                None => error(404, "NoSuchUpload"),
            }
        }
        "DELETE" => {
            state.objects.remove(&request.key);
            StoreResponse::empty(204)
        }
        "GET" if request.has("uploadId") => list_parts(state, request),
        "GET" if request.has("uploads") => list_uploads(state, request),
        "GET" if request.has("list-type") => list_objects(state, request),
        "GET" | "HEAD" => get_object(state, request),
        _ => error(501, "NotImplemented"),
    }
}

fn put_object(state: &mut StoreState, request: &StoreRequest, body: &[u8]) -> StoreResponse {
    if request
        .headers
        .get("if-none-match")
        .is_some_and(|tag| tag == "*")
        && state.objects.contains_key(&request.key)
    {
        return error(412, "PreconditionFailed");
    }
    match receive(state, request, body) {
        Ok(object) => {
            let response = stored(&object);
            state.objects.insert(request.key.clone(), object);
            response
        }
        Err(refusal) => refusal,
    }
}

/// Copies an object of the same bucket, whose key needs no escapes.
fn copy_object(state: &mut StoreState, request: &StoreRequest) -> StoreResponse {
    let header = |name: &str| request.headers.get(name).map(String::as_str);
    let source = header("x-amz-copy-source").and_then(|source| source.splitn(3, '/').nth(2));
    let Some(object) = source.and_then(|key| state.objects.get(key)).cloned() else {
        return error(404, "NoSuchKey");
    };
    let condition = header("x-amz-copy-source-if-match").map(|tag| tag.trim_matches('"'));
    if condition.is_some_and(|tag| tag != object.etag) {
        return error(412, "PreconditionFailed");
    }
    let text = format!(
        "<CopyObjectResult><ETag>\"{}\"</ETag></CopyObjectResult>",
        object.etag
    );
    state.objects.insert(request.key.clone(), object);
    StoreResponse::document(text)
}

fn put_part(state: &mut StoreState, request: &StoreRequest, body: &[u8]) -> StoreResponse {
    let number = request.query["partNumber"].parse().unwrap_or(0);
    let received = receive(state, request, body);
    let Some(upload) = state.uploads.get_mut(&request.query["uploadId"]) else {
        return error(404, "NoSuchUpload");
    };
    match received {
        Ok(part) => {
            let response = stored(&part);
            upload.parts.insert(number, part);
            response
        }
        Err(refusal) => refusal,
    }
}

/// Compares a body with its checksums.
fn receive(
    state: &StoreState,
    request: &StoreRequest,
    body: &[u8],
) -> Result<StoredBytes, StoreResponse> {
    let is_other =
        |name: &str, own: String| request.headers.get(name).is_some_and(|sent| *sent != own);
    if is_other(CRC64NVME, crc64nvme(body))
        || is_other("content-md5", STANDARD.encode(Md5::digest(body)))
    {
        return Err(error(400, "BadDigest"));
    }
    let signed = request.headers.get("x-amz-content-sha256");
    if signed
        .is_some_and(|digest| digest.len() == 64 && *digest != hexadecimal(&Sha256::digest(body)))
    {
        return Err(error(400, "XAmzContentSHA256Mismatch"));
    }
    Ok(StoredBytes {
        bytes: body.to_vec(),
        etag: etag(state, body),
        headers: request.headers.clone(),
    })
}

/// The entity tag of these bytes.
fn etag(state: &StoreState, bytes: &[u8]) -> String {
    let md5 = md5_hex(bytes);
    if state.has_opaque_etags {
        md5_hex(md5.as_bytes())
    } else {
        md5
    }
}

fn stored(object: &StoredBytes) -> StoreResponse {
    let response = StoreResponse::empty(200).with("ETag", format!("\"{}\"", object.etag));
    if object.headers.contains_key(CRC64NVME) {
        response.with(CRC64NVME, crc64nvme(&object.bytes))
    } else {
        response
    }
}

fn create_upload(state: &mut StoreState, request: &StoreRequest) -> StoreResponse {
    state.next_upload += 1;
    let id = format!("upload-{}", state.next_upload);
    state.uploads.insert(
        id.clone(),
        PendingParts {
            key: request.key.clone(),
            parts: BTreeMap::new(),
            headers: request.headers.clone(),
        },
    );
    StoreResponse::document(format!(
        "<InitiateMultipartUploadResult><UploadId>{id}</UploadId></InitiateMultipartUploadResult>"
    ))
}

fn complete_upload(state: &mut StoreState, request: &StoreRequest, body: &[u8]) -> StoreResponse {
    let id = &request.query["uploadId"];
    let Some(upload) = state.uploads.get(id) else {
        return error(404, "NoSuchUpload");
    };
    if request
        .headers
        .get("if-none-match")
        .is_some_and(|tag| tag == "*")
        && state.objects.contains_key(&request.key)
    {
        return error(412, "PreconditionFailed");
    }
    let text = String::from_utf8_lossy(body);
    let (mut bytes, mut md5s, mut count) = (Vec::new(), Vec::new(), 0);
    for part in text.split("<Part>").skip(1) {
        let number = between(part, "<PartNumber>", "</PartNumber>")
            .parse()
            .unwrap_or(0);
        let etag = between(part, "<ETag>", "</ETag>").replace("&quot;", "");
        match upload.parts.get(&number).filter(|found| found.etag == etag) {
            Some(found) => {
                bytes.extend_from_slice(&found.bytes);
                md5s.extend_from_slice(&Md5::digest(&found.bytes));
                count += 1;
            }
            None => return error(400, "InvalidPart"),
        }
    }
    if request
        .headers
        .get(CRC64NVME)
        .is_some_and(|sent| *sent != crc64nvme(&bytes))
    {
        return error(400, "BadDigest");
    }
    let etag = format!("{}-{count}", etag(state, &md5s));
    let crc = crc64nvme(&bytes);
    let mut headers = upload.headers.clone();
    headers.insert(CRC64NVME.to_owned(), crc.clone());
    let object = StoredBytes {
        bytes,
        etag: etag.clone(),
        headers,
    };
    state.objects.insert(upload.key.clone(), object);
    state.uploads.remove(id);
    StoreResponse::document(format!(
        "<CompleteMultipartUploadResult><ETag>&quot;{etag}&quot;</ETag><ChecksumCRC64NVME>{crc}</ChecksumCRC64NVME></CompleteMultipartUploadResult>"
    ))
}

fn list_parts(state: &StoreState, request: &StoreRequest) -> StoreResponse {
    let Some(upload) = state.uploads.get(&request.query["uploadId"]) else {
        return error(404, "NoSuchUpload");
    };
    let marker = request
        .query
        .get("part-number-marker")
        .and_then(|marker| marker.parse().ok())
        .unwrap_or(0);
    let mut parts = upload.parts.range(marker + 1..).peekable();
    let (mut text, mut last) = (String::new(), marker);
    for (number, part) in parts.by_ref().take(state.page_size) {
        last = *number;
        let (size, crc, etag) = (part.bytes.len(), crc64nvme(&part.bytes), &part.etag);
        let _ = write!(
            text,
            "<Part><PartNumber>{number}</PartNumber><Size>{size}</Size><ETag>\"{etag}\"</ETag><ChecksumCRC64NVME>{crc}</ChecksumCRC64NVME></Part>"
        );
    }
    let is_truncated = parts.peek().is_some();
    StoreResponse::document(format!(
        "<ListPartsResult>{text}<NextPartNumberMarker>{last}</NextPartNumberMarker><IsTruncated>{is_truncated}</IsTruncated></ListPartsResult>"
    ))
}

fn list_uploads(state: &StoreState, request: &StoreRequest) -> StoreResponse {
    let prefix = request.query.get("prefix").map_or("", String::as_str);
    let uploads = state
        .uploads
        .iter()
        .filter(|(_, upload)| upload.key.starts_with(prefix));
    let rows: String = uploads
        .map(|(id, upload)| {
            let key = &upload.key;
            format!("<Upload><Key>{key}</Key><UploadId>{id}</UploadId></Upload>")
        })
        .collect();
    StoreResponse::document(format!(
        "<ListMultipartUploadsResult>{rows}<IsTruncated>false</IsTruncated></ListMultipartUploadsResult>"
    ))
}

/// A page of a list in the order of keys. The token is the last key, or the last prefix.
fn list_objects(state: &StoreState, request: &StoreRequest) -> StoreResponse {
    let parameter = |name: &str| request.query.get(name).cloned().unwrap_or_default();
    let (prefix, delimiter) = (parameter("prefix"), parameter("delimiter"));
    let after = parameter("continuation-token").max(parameter("start-after"));
    let (mut text, mut groups, mut count, mut last) =
        (String::new(), BTreeSet::new(), 0, String::new());
    let mut is_truncated = false;
    for (key, object) in &state.objects {
        let Some(rest) = key.strip_prefix(&prefix) else {
            continue;
        };
        let group = rest
            .find(&delimiter)
            .filter(|_| !delimiter.is_empty())
            .map(|at| format!("{prefix}{}", &rest[..at + delimiter.len()]));
        let position = group.as_ref().unwrap_or(key);
        let is_before = *position <= after
            || group.as_ref().is_some_and(|group| {
                after.starts_with(group.as_str()) && !request.has("start-after")
            });
        if is_before || group.as_ref().is_some_and(|group| groups.contains(group)) {
            continue;
        }
        if count >= state.page_size {
            is_truncated = true;
            break;
        }
        count += 1;
        position.clone_into(&mut last);
        match group {
            Some(group) => {
                groups.insert(group);
            }
            None => text.push_str(&listed_object(state, &encode(key), object)),
        }
    }
    for group in groups {
        let _ = write!(
            text,
            "<CommonPrefixes><Prefix>{}</Prefix></CommonPrefixes>",
            encode(&group)
        );
    }
    if is_truncated {
        let _ = write!(
            text,
            "<NextContinuationToken>{}</NextContinuationToken>",
            last.replace('&', "&amp;").replace('<', "&lt;")
        );
    }
    StoreResponse::document(format!(
        "<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>{is_truncated}</IsTruncated>{text}</ListBucketResult>"
    ))
}

fn listed_object(state: &StoreState, key: &str, object: &StoredBytes) -> String {
    let (size, etag) = (object.bytes.len(), &object.etag);
    let etag = if state.lists_no_etags {
        String::new()
    } else {
        format!("<ETag>\"{etag}\"</ETag>")
    };
    format!("<Contents><Key>{key}</Key><Size>{size}</Size>{etag}</Contents>")
}

fn delete_objects(state: &mut StoreState, body: &[u8]) -> StoreResponse {
    let text = String::from_utf8_lossy(body);
    for object in text.split("<Key>").skip(1) {
        let key = object
            .split("</Key>")
            .next()
            .unwrap_or_default()
            .replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&quot;", "\"")
            .replace("&#13;", "\r")
            .replace("&amp;", "&");
        state.objects.remove(&key);
    }
    StoreResponse::document("<DeleteResult></DeleteResult>".to_owned())
}

fn get_object(state: &StoreState, request: &StoreRequest) -> StoreResponse {
    let Some(object) = state.objects.get(&request.key) else {
        return error(404, "NoSuchKey");
    };
    let total = object.bytes.len();
    let is_other = |name: &str| {
        let tag = request.headers.get(name).map(|tag| tag.trim_matches('"'));
        tag.is_some_and(|tag| tag != object.etag)
    };
    if is_other("if-match") {
        return error(412, "PreconditionFailed");
    }
    let range = request
        .headers
        .get("range")
        .filter(|_| !is_other("if-range"));
    let range = range.and_then(|range| {
        let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
        let first: usize = first.parse().ok()?;
        let last = last
            .parse()
            .unwrap_or(usize::MAX)
            .min(total.saturating_sub(1));
        (first <= last && total > 0).then_some(first..last + 1)
    });
    // As AWS does: an empty object has no range.
    if total == 0 && request.headers.contains_key("range") {
        return error(416, "InvalidRange");
    }
    let mut response = match &range {
        Some(range) => StoreResponse {
            status: 206,
            body: object.bytes[range.clone()].to_vec(),
            ..StoreResponse::empty(206)
        }
        .with(
            "Content-Range",
            format!("bytes {}-{}/{total}", range.start, range.end - 1),
        ),
        None => StoreResponse {
            body: object.bytes.clone(),
            ..StoreResponse::empty(200)
        }
        .with(CRC64NVME, crc64nvme(&object.bytes)),
    };
    response.length = (request.method == "HEAD").then_some(total);
    if let Some(coding) = object.headers.get("content-encoding") {
        response = response.with("Content-Encoding", coding);
    }
    let metadata = object.headers.iter();
    for (name, value) in metadata.filter(|(name, _)| name.starts_with("x-amz-meta-")) {
        response = response.with(name, value);
    }
    response
        .with("ETag", format!("\"{}\"", object.etag))
        .with("Accept-Ranges", "bytes")
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let text = text.split_once(start).map_or("", |(_, rest)| rest);
    text.split_once(end).map_or("", |(found, _)| found)
}

/// A key as lists with `encoding-type=url` write it.
fn encode(key: &str) -> String {
    key.bytes().fold(String::new(), |mut text, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'/' => {
                text.push(char::from(byte))
            }
            b' ' => text.push('+'),
            other => {
                let _ = write!(text, "%{other:02X}");
            }
        }
        text
    })
}

fn crc64nvme(bytes: &[u8]) -> String {
    STANDARD.encode(checksum(CrcAlgorithm::Crc64Nvme, bytes).to_be_bytes())
}

pub(super) fn md5_hex(bytes: &[u8]) -> String {
    hexadecimal(&Md5::digest(bytes))
}
