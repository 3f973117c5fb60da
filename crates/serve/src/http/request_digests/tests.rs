//! Digests of uploads, and those of responses.

use super::*;
use http::HeaderName;
use proptest::prelude::*;

/// The example of RFC 9530.
const SHA256: &str = "RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=";
const MD5: &str = "HUXZLQLMuI/KZ5KDcJPcOA==";

fn digests(
    pairs: &[(&'static str, &str)],
) -> Result<Vec<(DigestAlgorithm, &'static str)>, DigestFieldError> {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
        headers.append(HeaderName::from_static(name), value);
    }
    let found = request_digests(&headers)?;
    Ok(found.iter().map(|e| (e.algorithm, e.field)).collect())
}

#[test]
fn d5_the_three_fields() {
    let value = format!("sha-256=:{SHA256}:, md5=:{MD5}:");
    assert_eq!(
        digests(&[
            ("repr-digest", &value),
            ("content-digest", &value),
            ("content-md5", MD5)
        ]),
        Ok(vec![
            (DigestAlgorithm::Sha256, "Content-Digest"),
            (DigestAlgorithm::Md5, "Content-Digest"),
            (DigestAlgorithm::Sha256, "Repr-Digest"),
            (DigestAlgorithm::Md5, "Repr-Digest"),
            (DigestAlgorithm::Md5, "Content-MD5"),
        ])
    );
    assert_eq!(digests(&[("digest", "sha-256=junk")]), Ok(vec![]));
    assert_eq!(digests(&[("content-digest", "")]), Ok(vec![]));
}

#[test]
fn d5_unknown_algorithms_and_parameters_are_skipped() {
    let value = format!(
        "new=:YQ==:;a;b=1.5; c=\"x\\\", sha-512=:YQ==:\\\\\";d=:YQ==:;e=?0;f=to/ken ,\tsha-256=:{SHA256}:;q=1"
    );
    assert_eq!(
        digests(&[("content-digest", &value)]),
        Ok(vec![(DigestAlgorithm::Sha256, "Content-Digest")])
    );
}

#[test]
fn d5_lines_make_one_dictionary_and_the_last_member_of_a_name_counts() {
    let first = format!("sha-256=:{SHA256}:");
    let zeros = format!("sha-256=:{}=:", "A".repeat(43));
    let headers: HeaderMap = {
        let mut headers = HeaderMap::new();
        for value in [&first, &zeros] {
            headers.append("repr-digest", HeaderValue::from_str(value).unwrap());
        }
        headers
    };
    let found = request_digests(&headers).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].digest, [0; 32]);
}

#[test]
fn d5_malformed_fields_are_errors() {
    let malformed = Err(DigestFieldError::Malformed {
        field: "Content-Digest",
    });
    let padded = format!("sha-256=:{SHA256}:");
    for value in [
        "sha-256",
        "sha-256=",
        "sha-256=::x",
        "sha-256=:YQ==",
        "sha-256=:Y Q==:",
        "SHA-256=:YQ==:",
        "=:YQ==:",
        "1a=:YQ==:",
        "new=token",
        "new=:YQ==:;",
        "new=:YQ==:;a=",
        "new=:YQ==:;a=\"",
        "new=:YQ==:;a=\"\\x\"",
        "new=:YQ==: sha=:YQ==:",
        &format!("{padded},"),
        &format!(",{padded}"),
        &format!("{padded},,{padded}"),
        &format!("{padded} x"),
        "sha-256=:\u{e9}:",
    ] {
        assert_eq!(digests(&[("content-digest", value)]), malformed, "{value}");
    }
    for value in ["junk!", "HUXZLQLMuI/KZ5KDcJPcOA"] {
        let malformed = DigestFieldError::Malformed {
            field: "Content-MD5",
        };
        assert_eq!(
            digests(&[("content-md5", value)]),
            Err(malformed),
            "{value}"
        );
    }
    assert!(digests(&[("content-md5", MD5), ("content-md5", MD5)]).is_err());
}

#[test]
fn d5_a_digest_of_a_wrong_length_is_an_error_of_its_own() {
    let error = digests(&[("repr-digest", "sha-256=:YQ==:")]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Repr-Digest has a sha256 digest that is not 32 bytes long"
    );
    let error = digests(&[("content-md5", "YQ==")]).unwrap_err();
    assert_eq!(
        error,
        DigestFieldError::Length {
            field: "Content-MD5",
            algorithm: DigestAlgorithm::Md5
        }
    );
}

#[test]
fn padding_does_not_matter_in_structured_fields() {
    let value = format!("sha-256=:{}:", SHA256.trim_end_matches('='));
    assert!(digests(&[("repr-digest", &value)]).is_ok_and(|found| found.len() == 1));
}

#[test]
fn an_algorithm_without_a_registered_name_is_not_written() {
    let checksum = |algorithm, digest| Checksum { algorithm, digest };
    assert_eq!(
        digest_field_value(&checksum(DigestAlgorithm::Sha256, None)),
        None
    );
    assert_eq!(
        digest_field_value(&checksum(DigestAlgorithm::Blake3, Some(vec![0; 32]))),
        None
    );
    let md5 = checksum(DigestAlgorithm::Md5, Some(STANDARD.decode(MD5).unwrap()));
    let written = digest_field_value(&md5).unwrap();
    assert_eq!(written, format!("md5=:{MD5}:"));
}

proptest! {
    #[test]
    fn a_written_field_is_parsed_by_server_and_client(which in 0usize..6, seed: [u8; 64]) {
        let algorithm = DigestAlgorithm::ALL[which];
        let digest = seed[..algorithm.digest_len()].to_vec();
        let checksum = Checksum { algorithm, digest: Some(digest.clone()) };
        if let Some(value) = digest_field_value(&checksum) {
            let headers: HeaderMap = std::iter::once((HeaderName::from_static("repr-digest"), value)).collect();
            let expected = ExpectedDigest { algorithm, digest, field: "Repr-Digest" };
            prop_assert_eq!(request_digests(&headers), Ok(vec![expected.clone()]));
            // The client parses what the server writes.
            prop_assert_eq!(haul_plan::expected_digests(&headers, false), vec![expected]);
        } else {
            prop_assert_eq!(algorithm, DigestAlgorithm::Blake3);
        }
    }

    #[test]
    fn no_value_panics(value in "[a-z0-9=:;, \"\\\\?]{0,40}|.{0,20}") {
        if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
            let mut headers = HeaderMap::new();
            headers.insert("content-digest", value.clone());
            headers.insert("content-md5", value);
            let _ = request_digests(&headers);
        }
    }
}
