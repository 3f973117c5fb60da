//! Bodies as uploads read them: right ones, wrong ones, and when each is known to be so.

use std::collections::VecDeque;

use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;

use super::*;
use crate::{PayloadMode, StreamingPayload};

/// The CRC-32, the MD5 and the SHA-256 of `abc`.
const CRC32: &str = "NSRBwg==";
const MD5: &str = "kAFQmDzST7DWlj99KOF/cg==";
const SHA256: [u8; 32] = [
    0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40, 0xde, 0x5d, 0xae, 0x22, 0x23,
    0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17, 0x7a, 0x9c, 0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad,
];

/// Chunks at hand.
#[derive(Debug)]
struct ReadyChunks {
    chunks: VecDeque<Bytes>,
    /// Whether the source knows its last chunk, as it does for a body with a length.
    knows_end: bool,
    end: Option<RequestBodyError>,
    trailers: Option<HeaderMap>,
}

impl ReadyChunks {
    fn new(chunks: &[&str]) -> Self {
        let chunks = chunks.iter();
        Self {
            chunks: chunks
                .map(|chunk| Bytes::copy_from_slice(chunk.as_bytes()))
                .collect(),
            knows_end: true,
            end: None,
            trailers: None,
        }
    }
}

impl UploadSource for ReadyChunks {
    async fn next_chunk(&mut self) -> Result<Option<Bytes>, UploadError> {
        match (self.chunks.pop_front(), self.end.take()) {
            (Some(chunk), end) => {
                self.end = end;
                Ok(Some(chunk))
            }
            (None, Some(error)) => Err(UploadError::Broken(error.into())),
            (None, None) => Ok(None),
        }
    }

    fn is_finished(&self) -> bool {
        self.knows_end && self.chunks.is_empty() && self.end.is_none()
    }

    fn take_trailers(&mut self) -> Option<HeaderMap> {
        self.trailers.take()
    }
}

fn expectations(fields: &[(&'static str, &'static str)], payload: PayloadMode) -> BodyExpectations {
    let fields = fields.iter().map(|(name, value)| {
        (
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        )
    });
    BodyExpectations::parse(&fields.collect(), payload).unwrap()
}

fn streaming() -> PayloadMode {
    PayloadMode::Streaming(StreamingPayload {
        signatures: None,
        has_trailer: true,
    })
}

/// What was read before the end or the failure, and the digests.
struct ReadBody {
    bytes: Vec<u8>,
    failure: Option<S3ErrorCode>,
    digests: Option<BodyDigests>,
}

/// Reads a body as an upload does: it does not ask again once the source is finished.
async fn read(inner: ReadyChunks, expectations: BodyExpectations) -> ReadBody {
    let also = [DigestAlgorithm::Md5];
    let (mut source, outcome) = S3BodySource::new(inner, expectations, also);
    let (mut bytes, mut failure) = (Vec::new(), None);
    while !source.is_finished() {
        match source.next_chunk().await {
            Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
            Ok(None) => break,
            Err(error) => {
                failure = Some(body_failure(&error).code);
                break;
            }
        }
    }
    assert_eq!(failure.is_none(), outcome.digests().is_some());
    ReadBody {
        bytes,
        failure,
        digests: outcome.digests().cloned(),
    }
}

#[tokio::test]
async fn one_pass_computes_all_digests() {
    let fields = [("x-amz-checksum-crc32", CRC32), ("content-length", "3")];
    let expected = expectations(&fields, PayloadMode::Sha256(SHA256));
    let body = read(ReadyChunks::new(&["a", "bc"]), expected).await;
    assert_eq!((body.bytes, body.failure), (b"abc".to_vec(), None));
    let digests = body.digests.unwrap();
    assert_eq!(digests.length, 3);
    assert_eq!(digests.announced, Some(DigestAlgorithm::Crc32));
    assert_eq!(digests.get(DigestAlgorithm::Sha256), Some(&SHA256[..]));
    assert_eq!(
        digests.get(DigestAlgorithm::Md5).unwrap()[..2],
        [0x90, 0x01]
    );
    assert_eq!(
        digests.get(DigestAlgorithm::Crc32),
        Some(&[0x35, 0x24, 0x41, 0xc2][..])
    );
    assert_eq!(digests.get(DigestAlgorithm::Crc32c), None);
}

#[tokio::test]
async fn g1_a_wrong_body_fails_before_its_last_bytes_are_given_out() {
    let wrong_sha256 = || PayloadMode::Sha256([0; 32]);
    let unsigned = || PayloadMode::Unsigned;
    for (field, payload, code) in [
        (
            ("x-amz-date", ""),
            wrong_sha256(),
            S3ErrorCode::XAmzContentSHA256Mismatch,
        ),
        (
            ("content-md5", "AAAAAAAAAAAAAAAAAAAAAA=="),
            unsigned(),
            S3ErrorCode::BadDigest,
        ),
        (
            ("x-amz-checksum-crc32", "AAAAAA=="),
            unsigned(),
            S3ErrorCode::BadDigest,
        ),
        (
            ("content-length", "4"),
            unsigned(),
            S3ErrorCode::IncompleteBody,
        ),
    ] {
        let body = read(
            ReadyChunks::new(&["a", "bc"]),
            expectations(&[field], payload),
        )
        .await;
        assert_eq!(body.failure, Some(code), "{field:?}");
        assert_eq!(body.bytes, b"a", "{field:?}");
    }
    // The same where the end is not known beforehand.
    let mut inner = ReadyChunks::new(&["a", "bc"]);
    inner.knows_end = false;
    let wrong = read(inner, expectations(&[], wrong_sha256())).await;
    assert_eq!(wrong.failure, Some(S3ErrorCode::XAmzContentSHA256Mismatch));
}

#[tokio::test]
async fn g1_a_short_or_slow_body_has_its_code() {
    for (error, code) in [
        (RequestBodyError::Short, S3ErrorCode::IncompleteBody),
        (RequestBodyError::Slow, S3ErrorCode::RequestTimeout),
    ] {
        let mut inner = ReadyChunks::new(&["a"]);
        inner.end = Some(error);
        let body = read(inner, expectations(&[], PayloadMode::Unsigned)).await;
        assert_eq!(body.failure, Some(code));
    }
}

#[tokio::test]
async fn a_body_without_bytes_is_verified_too() {
    for knows_end in [false, true] {
        let mut inner = ReadyChunks::new(&[]);
        inner.knows_end = knows_end;
        let md5 = ("content-md5", "1B2M2Y8AsgTpgAmY7PhCfg==");
        let right = read(inner, expectations(&[md5], PayloadMode::Unsigned)).await;
        assert_eq!(right.digests.map(|digests| digests.length), Some(0));
        let mut inner = ReadyChunks::new(&[]);
        inner.knows_end = knows_end;
        let wrong = read(
            inner,
            expectations(&[("content-md5", MD5)], PayloadMode::Unsigned),
        )
        .await;
        assert_eq!(wrong.failure, Some(S3ErrorCode::BadDigest));
    }
}

#[tokio::test]
async fn g1_the_checksum_of_a_trailer_is_compared() {
    let length = ("x-amz-decoded-content-length", "3");
    let announced = ("x-amz-trailer", "x-amz-checksum-crc32");
    let md5 = ("content-md5", MD5);
    for (fields, trailer, failure) in [
        (
            &[length, announced, md5][..],
            "x-amz-checksum-crc32:NSRBwg==\r\n",
            None,
        ),
        (&[length], "", None),
        (
            &[length, announced],
            "x-amz-checksum-crc32:AAAAAA==\r\n",
            Some(S3ErrorCode::BadDigest),
        ),
        (
            &[length, announced],
            "x-amz-checksum-crc32:AAAA\r\n",
            Some(S3ErrorCode::InvalidRequest),
        ),
        (
            &[length, announced],
            "",
            Some(S3ErrorCode::MalformedTrailerError),
        ),
        (
            &[length, announced],
            "x-amz-checksum-sha1:AAAA\r\n",
            Some(S3ErrorCode::MalformedTrailerError),
        ),
        (
            &[length, announced],
            "x-amz-checksum-crc32:NSRBwg==\r\nx-amz-meta-a:1\r\n",
            Some(S3ErrorCode::MalformedTrailerError),
        ),
        (
            &[length],
            "x-amz-checksum-crc32:NSRBwg==\r\n",
            Some(S3ErrorCode::MalformedTrailerError),
        ),
        (
            &[("x-amz-decoded-content-length", "4"), announced],
            "x-amz-checksum-crc32:NSRBwg==\r\n",
            Some(S3ErrorCode::IncompleteBody),
        ),
    ] {
        let text = format!("3\r\nabc\r\n0\r\n{trailer}\r\n");
        let body = read(
            ReadyChunks::new(&[&text]),
            expectations(fields, streaming()),
        )
        .await;
        assert_eq!(body.failure, failure, "{trailer:?}");
        let is_given_out = failure.is_none();
        assert_eq!(body.bytes == b"abc", is_given_out, "{trailer:?}");
    }
}

#[tokio::test]
async fn g1_a_trailer_of_http_itself_is_compared() {
    let trailers = |value: &'static str| {
        let name = HeaderName::from_static("x-amz-checksum-crc32");
        let checksum = (name, HeaderValue::from_static(value));
        let other = (HeaderName::from_static("x-other"), checksum.1.clone());
        Some([checksum, other].into_iter().collect())
    };
    let announced = [("x-amz-trailer", "x-amz-checksum-crc32")];
    for (trailers, failure) in [
        (trailers(CRC32), None),
        (trailers("AAAAAA=="), Some(S3ErrorCode::BadDigest)),
        (None, Some(S3ErrorCode::MalformedTrailerError)),
    ] {
        let mut inner = ReadyChunks::new(&["abc"]);
        inner.knows_end = false;
        inner.trailers = trailers;
        let body = read(inner, expectations(&announced, PayloadMode::Unsigned)).await;
        assert_eq!(body.failure, failure);
    }
}

/// Nothing that follows a failure looks like the end of a body that is right.
#[tokio::test]
async fn g1_a_body_stays_wrong_after_its_failure() {
    let signed = crate::published_chunked_upload(false);
    let length = [("x-amz-decoded-content-length", "66560")];
    let wrong_signature = format!("0;chunk-signature={}\r\n\r\n", "0".repeat(64));
    let wrong_md5 = [("content-md5", "AAAAAAAAAAAAAAAAAAAAAA==")];
    for (body, expected) in [
        (wrong_signature.as_str(), expectations(&length, signed)),
        ("abc", expectations(&wrong_md5, PayloadMode::Unsigned)),
    ] {
        let inner = ReadyChunks::new(&[body, "0\r\n\r\n"]);
        let (mut source, outcome) = S3BodySource::new(inner, expected, []);
        while source.next_chunk().await.is_ok_and(|chunk| chunk.is_some()) {}
        for _ in 0..3 {
            assert!(source.next_chunk().await.is_err());
            assert!(!source.is_finished() && outcome.digests().is_none());
        }
    }
}

/// A client that always has bytes leaves the thread to others now and then.
#[tokio::test]
async fn hashing_pauses_for_other_tasks() {
    let chunk = "x".repeat(YIELD_AFTER);
    let inner = ReadyChunks::new(&[chunk.as_str(); 4]);
    let (mut source, _) = S3BodySource::new(inner, expectations(&[], PayloadMode::Unsigned), []);
    let mut others = 0;
    let read = async { while source.next_chunk().await.unwrap().is_some() {} };
    let mut read = std::pin::pin!(read);
    while futures_util::poll!(read.as_mut()).is_pending() {
        others += 1;
        tokio::task::yield_now().await;
    }
    assert_eq!(others, 4);
}

#[tokio::test]
async fn documents_are_bounded() {
    for (max, expected) in [
        (3, Ok("abc")),
        (2, Err(S3ErrorCode::MaxMessageLengthExceeded)),
    ] {
        let inner = ReadyChunks::new(&["a", "bc"]);
        let expected_body = expectations(&[], PayloadMode::Sha256(SHA256));
        let (source, _) = S3BodySource::new(inner, expected_body, []);
        let document = source
            .read_document(max)
            .await
            .map_err(|failure| failure.code);
        assert_eq!(document, expected.map(Bytes::from));
    }
}

proptest! {
    /// Cut anywhere, a chunked body is read and verified as a whole.
    #[test]
    fn every_way_to_cut_a_body_gives_the_same(
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        knows_end in any::<bool>(),
        is_right in any::<bool>(),
    ) {
        let checksum = if is_right { CRC32 } else { "AAAAAA==" };
        let text = format!("3\r\nabc\r\n0\r\nx-amz-checksum-crc32:{checksum}\r\n\r\n");
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        places.extend([0, text.len()]);
        places.sort_unstable();
        places.dedup();
        let pieces: Vec<&str> = places.windows(2).map(|two| &text[two[0]..two[1]]).collect();
        let mut inner = ReadyChunks::new(&pieces);
        inner.knows_end = knows_end;
        let fields = [
            ("x-amz-decoded-content-length", "3"),
            ("x-amz-trailer", "x-amz-checksum-crc32"),
        ];
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let body = runtime.block_on(read(inner, expectations(&fields, streaming())));
        prop_assert_eq!(body.failure, (!is_right).then_some(S3ErrorCode::BadDigest));
        if is_right {
            prop_assert_eq!(body.bytes, b"abc");
        }
    }
}
