//! The published bodies, bodies that AWS's library signs, and every way to cut the input.

use aws_credential_types::Credentials;
use aws_sigv4::sign::v4::{SigningParams, sign_chunk, sign_trailer};
use aws_smithy_runtime_api::http::Headers;
use haul_digest::DigestSet;
use haul_plan::DigestAlgorithm;
use proptest::prelude::*;

use super::*;
use crate::PayloadMode;
use crate::auth::published_chunked_upload;

const CHUNK: usize = 65536;

/// Decodes input that arrives in pieces.
fn decode(
    payload: StreamingPayload,
    expected_len: u64,
    pieces: &[Bytes],
) -> Result<(Vec<u8>, Vec<TrailerField>), S3ErrorCode> {
    let mut decoder = AwsChunkedDecoder::new(payload, expected_len);
    let mut decoded = Vec::new();
    for piece in pieces {
        let mut piece = piece.clone();
        while let Some(part) = decoder.decode(&mut piece).map_err(|failure| failure.code)? {
            assert!(!part.is_empty());
            decoded.extend_from_slice(&part);
        }
        assert!(piece.is_empty());
    }
    let trailer = decoder.finish().map_err(|failure| failure.code)?;
    Ok((decoded, trailer))
}

fn unsigned() -> StreamingPayload {
    StreamingPayload {
        signatures: None,
        has_trailer: true,
    }
}

fn decode_unsigned(body: &str, expected_len: u64) -> Result<Vec<u8>, S3ErrorCode> {
    let pieces = [Bytes::copy_from_slice(body.as_bytes())];
    decode(unsigned(), expected_len, &pieces).map(|(decoded, _)| decoded)
}

fn published(has_trailer: bool) -> StreamingPayload {
    match published_chunked_upload(has_trailer) {
        PayloadMode::Streaming(streaming) => streaming,
        other => panic!("{other:?}"),
    }
}

/// The bodies of the published examples: 65 KiB of the letter a.
fn published_body(has_trailer: bool) -> Vec<u8> {
    let [first, second, last] = if has_trailer {
        [
            "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2",
            "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7",
            "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992",
        ]
    } else {
        [
            "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
            "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
            "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9",
        ]
    };
    let end = if has_trailer {
        "x-amz-checksum-crc32c:sOO8/Q==\r\n\
            x-amz-trailer-signature:d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n\r\n"
    } else {
        "\r\n"
    };
    format!(
        "10000;chunk-signature={first}\r\n{}\r\n400;chunk-signature={second}\r\n{}\r\n\
        0;chunk-signature={last}\r\n{end}",
        "a".repeat(CHUNK),
        "a".repeat(1024)
    )
    .into_bytes()
}

#[test]
fn the_published_bodies_are_decoded() {
    for has_trailer in [false, true] {
        let body = Bytes::from(published_body(has_trailer));
        let (decoded, trailer) = decode(published(has_trailer), 66560, &[body]).unwrap();
        assert_eq!(decoded, vec![b'a'; 66560]);
        assert_eq!(trailer.len(), usize::from(has_trailer));
        if has_trailer {
            let mut crc = DigestSet::new([DigestAlgorithm::Crc32c]);
            crc.update(&decoded);
            let digest = &crc.finish()[0].digest;
            let value = DigestAlgorithm::Crc32c.decode_base64(&trailer[0].value);
            assert_eq!(value.as_ref(), Some(digest));
        }
    }
}

/// A byte at any of these places decides about the result; the rest is data like its neighbours.
#[test]
fn g2_no_byte_of_a_signed_body_can_be_changed() {
    for has_trailer in [false, true] {
        let body = published_body(has_trailer);
        let end = body.len() - 1500;
        for at in (0..200)
            .chain(CHUNK..CHUNK + 300)
            .chain(end..body.len() - 2)
        {
            let mut changed = body.clone();
            changed[at] ^= 1;
            let result = decode(published(has_trailer), 66560, &[changed.into()]);
            assert!(result.is_err(), "byte {at}");
        }
    }
}

#[test]
fn g1_a_body_that_is_cut_short_is_incomplete() {
    for has_trailer in [false, true] {
        let body = Bytes::from(published_body(has_trailer));
        for len in (0..120).chain(CHUNK..CHUNK + 300).chain([66800]) {
            let result = decode(published(has_trailer), 66560, &[body.slice(..len)]);
            assert!(result.is_err(), "{len} bytes");
        }
        if has_trailer {
            let trailer = memchr::memmem::find(&body, b"x-amz-").unwrap();
            for len in trailer..body.len() - 2 {
                let result = decode(published(true), 66560, &[body.slice(..len)]);
                assert_eq!(result, Err(S3ErrorCode::MalformedTrailerError), "{len}");
            }
        }
    }
}

#[test]
fn malformed_chunks_are_refused() {
    let incomplete = Err(S3ErrorCode::IncompleteBody);
    for body in [
        "",
        "3\r\nabc\r\n",
        "3\r\nabc\r\n0",
        "3\nabc\r\n0\r\n\r\n",
        "3\r\nabcd\r\n0\r\n\r\n",
        "3\r\nabc\n0\r\n\r\n",
        "\r\nabc\r\n0\r\n\r\n",
        "+3\r\nabc\r\n0\r\n\r\n",
        "0x3\r\nabc\r\n0\r\n\r\n",
        "g\r\nabc\r\n0\r\n\r\n",
        "00000000000000003\r\nabc\r\n0\r\n\r\n",
        "ffffffffffffffff\r\nabc\r\n0\r\n\r\n",
        "4\r\nabcd\r\n0\r\n\r\n",
        "2\r\nab\r\n0\r\n\r\n",
        "0\r\n\r\n",
    ] {
        assert_eq!(decode_unsigned(body, 3), incomplete, "{body:?}");
    }
    let long = format!("3;{}\r\nabc\r\n0\r\n\r\n", "x".repeat(MAX_LINE));
    assert_eq!(decode_unsigned(&long, 3), incomplete);
    assert_eq!(
        decode_unsigned("3;x=y\r\nabc\r\n0\r\n\r\n", 3),
        Ok(b"abc".to_vec())
    );
    assert_eq!(decode_unsigned("0\r\n\r\n", 0), Ok(Vec::new()));
    assert_eq!(decode_unsigned("0\r\n", 0), Ok(Vec::new()));
}

#[test]
fn only_the_last_chunk_may_be_small() {
    let chunk = |len: usize| format!("{len:x}\r\n{}\r\n", "a".repeat(len));
    let body =
        |lengths: &[usize]| lengths.iter().map(|len| chunk(*len)).collect::<String>() + "0\r\n\r\n";
    assert!(decode_unsigned(&body(&[8192, 8192, 1]), 16385).is_ok());
    assert!(decode_unsigned(&body(&[1]), 1).is_ok());
    let small = Err(S3ErrorCode::InvalidChunkSizeError);
    assert_eq!(decode_unsigned(&body(&[8191, 1]), 8192), small);
    assert_eq!(decode_unsigned(&body(&[8192, 5, 8192]), 16389), small);
    let mut decoder = AwsChunkedDecoder::new(unsigned(), 8);
    let mut input = Bytes::from(body(&[3, 5]));
    assert_eq!(decoder.decode(&mut input).unwrap().unwrap(), "aaa");
    let failure = decoder.decode(&mut input).unwrap_err();
    let elements = [("Chunk", "2".to_owned()), ("BadChunkSize", "3".to_owned())];
    assert_eq!(failure.elements, elements);
}

#[test]
fn trailers_are_parsed_however_their_lines_end() {
    let field = |name: &str, value: &str| TrailerField {
        name: name.to_owned(),
        value: value.to_owned(),
    };
    let trailer = |text: &str| {
        let body = Bytes::from(format!("0\r\n{text}"));
        decode(unsigned(), 0, &[body]).map(|(_, trailer)| trailer)
    };
    let crc = vec![field("x-amz-checksum-crc32", "AAAAAA==")];
    for text in [
        "x-amz-checksum-crc32:AAAAAA==\r\n\r\n",
        "X-Amz-Checksum-CRC32: AAAAAA== \r\n",
        "x-amz-checksum-crc32:AAAAAA==\n\r\n\r\n",
        "x-amz-checksum-crc32:AAAAAA==\n",
    ] {
        assert_eq!(trailer(text), Ok(crc.clone()), "{text:?}");
    }
    let malformed = Err(S3ErrorCode::MalformedTrailerError);
    for text in [
        "x-amz-checksum-crc32:AAAAAA==",
        "x-amz-checksum-crc32\r\n\r\n",
        ":AAAAAA==\r\n\r\n",
        "a:1\r\na:2\r\n\r\n",
        "3\r\nabc\r\n0\r\n\r\n",
        "x-amz-trailer-signature:00\r\n\r\n",
        "a:\u{0}1\r\n\r",
    ] {
        assert_eq!(trailer(text), malformed, "{text:?}");
    }
    assert_eq!(
        trailer(&format!("a:{}\r\n", "x".repeat(MAX_TRAILER))),
        malformed
    );
    let body = Bytes::from(published_body(true));
    let without = published_body(false).len() - 2;
    let signed_without_trailer = decode(
        published(false),
        66560,
        &[
            Bytes::from(published_body(false)).slice(..without),
            Bytes::from_static(b"a:1\r\n\r\n"),
        ],
    );
    assert_eq!(
        signed_without_trailer,
        Err(S3ErrorCode::MalformedTrailerError)
    );
    let unsigned_trailer = body.slice(..body.len() - 92);
    let result = decode(published(true), 66560, &[unsigned_trailer]);
    assert_eq!(result, Err(S3ErrorCode::MalformedTrailerError));
}

/// Decoded bytes are slices of the input, whatever the length of the chunk.
#[test]
fn g2_a_chunk_of_a_gibibyte_is_given_on_as_it_arrives() {
    const LEN: u64 = 1 << 30;
    let mut decoder = AwsChunkedDecoder::new(unsigned(), LEN);
    let mut head = Bytes::from_static(b"40000000\r\n");
    assert_eq!(decoder.decode(&mut head).unwrap(), None);
    let piece = Bytes::from(vec![7; 1 << 20]);
    for _ in 0..1 << 10 {
        let mut input = piece.clone();
        let decoded = decoder.decode(&mut input).unwrap().unwrap();
        assert_eq!(
            (decoded.as_ptr(), decoded.len()),
            (piece.as_ptr(), piece.len())
        );
        assert_eq!(decoder.decode(&mut input).unwrap(), None);
    }
    assert!(piece.is_unique(), "the decoder keeps nothing");
    let mut end = Bytes::from_static(b"\r\n0\r\n\r\n");
    assert_eq!(decoder.decode(&mut end).unwrap(), None);
    assert_eq!(decoder.finish().unwrap(), []);
}

/// A body of these chunks, signed by AWS's library on top of the published request.
fn signed_body(chunks: &[Vec<u8>], checksum: &str) -> Vec<u8> {
    let identity = Credentials::new(
        "AKIAIOSFODNN7EXAMPLE",
        "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        None,
        None,
        "test",
    )
    .into();
    let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_369_353_600);
    let params = SigningParams::builder()
        .identity(&identity)
        .region("us-east-1")
        .name("s3")
        .time(time)
        .settings(())
        .build()
        .unwrap();
    let mut signature =
        "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e".to_owned();
    let mut body = Vec::new();
    for chunk in chunks.iter().chain([&Vec::new()]) {
        let bytes = Bytes::copy_from_slice(chunk);
        signature = sign_chunk(&bytes, &signature, &params)
            .unwrap()
            .into_parts()
            .1;
        let line = format!("{:x};chunk-signature={signature}\r\n", chunk.len());
        body.extend_from_slice(line.as_bytes());
        body.extend_from_slice(chunk);
        if !chunk.is_empty() {
            body.extend_from_slice(b"\r\n");
        }
    }
    let mut headers = Headers::new();
    headers.insert("x-amz-checksum-crc32c", checksum.to_owned());
    let signature = sign_trailer(&headers, &signature, &params)
        .unwrap()
        .into_parts()
        .1;
    let trailer =
        format!("x-amz-checksum-crc32c:{checksum}\r\nx-amz-trailer-signature:{signature}\r\n\r\n");
    body.extend_from_slice(trailer.as_bytes());
    body
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Wherever the input is cut, the result is the same; also for a body with a wrong byte.
    #[test]
    fn g2_every_way_to_cut_the_input_gives_the_same(
        lengths in prop::collection::vec(8192_usize..9000, 0..3),
        last in 0_usize..40,
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        wrong in prop::option::of(any::<prop::sample::Index>()),
        tail_bytewise in any::<bool>(),
    ) {
        let mut chunks: Vec<Vec<u8>> = lengths.iter().map(|len| vec![b'x'; *len]).collect();
        if last > 0 {
            chunks.push(vec![b'y'; last]);
        }
        let content = chunks.concat();
        let mut body = signed_body(&chunks, "AAAAAA==");
        if let Some(wrong) = wrong {
            let at = wrong.index(body.len());
            body[at] ^= 1;
        }
        let body = Bytes::from(body);
        let len = content.len() as u64;
        let whole = decode(published(true), len, std::slice::from_ref(&body));
        if wrong.is_none() {
            prop_assert_eq!(&whole.as_ref().unwrap().0, &content);
        }
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(body.len() + 1)).collect();
        if tail_bytewise {
            places.extend(body.len().saturating_sub(400)..body.len());
        }
        places.extend([0, body.len()]);
        places.sort_unstable();
        let pieces: Vec<Bytes> = places.windows(2).map(|two| body.slice(two[0]..two[1])).collect();
        prop_assert_eq!(decode(published(true), len, &pieces), whole);
    }

    #[test]
    fn no_input_panics(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "0", "3", "2000", "\r\n", "\n", "\r", "abc", ";", "chunk-signature=", ":", "ffffffffffffffff",
                "x-amz-checksum-crc32:AAAAAA==", "x-amz-trailer-signature:",
            ]),
            0..20,
        ),
        signed in any::<bool>(),
    ) {
        let payload = if signed { published(true) } else { unsigned() };
        let pieces: Vec<Bytes> = parts.iter().map(|part| Bytes::from_static(part.as_bytes())).collect();
        let _ = decode(payload, 3, &pieces);
    }
}
