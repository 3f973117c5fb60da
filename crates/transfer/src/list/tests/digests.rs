//! Row F38: every digest that haul knows is compared, whichever format names it, and one that it does not know is an error of its row.

use haul_plan::{Checksum, DigestAlgorithm};

use super::{assert_problems, problem, read};
use crate::list::*;

/// Names of one digest in lists: haul's own, and as other programs write it.
fn spellings(algorithm: DigestAlgorithm) -> Vec<String> {
    let name = algorithm.name();
    let dashed = name.replace("sha", "SHA-").replace("crc", "crc-");
    vec![
        name.into(),
        name.to_uppercase(),
        dashed,
        format!("{name}sum"),
    ]
}

/// The same row in each format: with a field of this name, and where formats have it, a field `checksum`.
fn lists(name: &str, hex: &str) -> Vec<String> {
    let hash = format!("<hash type=\"{name}\">{hex}</hash>");
    let url = "<url>http://h/f</url>";
    vec![
        format!("url,{name}\nhttp://h/f,{hex}\n"),
        format!("{name},url\n{hex},http://h/f\n"),
        format!("url\t{name}\nhttp://h/f\t{hex}\n"),
        format!("url,checksum\nhttp://h/f,{name}:{hex}\n"),
        format!("{{\"url\": \"http://h/f\", \"{name}\": \"{hex}\"}}\n"),
        format!("{{\"{name}\": \"{hex}\", \"url\": \"http://h/f\"}}\n"),
        format!("{{\"url\": \"http://h/f\", \"checksum\": \"{name}:{hex}\"}}\n"),
        format!("http://h/f\n  checksum={name}={hex}\n"),
        format!(
            "<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\"><file name=\"f\">{hash}{url}</file></metalink>"
        ),
        format!(
            "<metalink xmlns=\"http://www.metalinker.org/\"><files><file name=\"f\"><verification>{hash}</verification>\
             <resources>{url}</resources></file></files></metalink>"
        ),
    ]
}

/// The row as a program gives it.
fn program_row(name: &str, hex: &str) -> Result<ListEntry, BadLine> {
    let urls = ["http://h/f"].into_iter();
    ListEntry::from_fields(
        "rows",
        1,
        urls,
        [(name, hex)].into_iter(),
        std::iter::empty(),
    )
}

#[test]
fn f38_every_digest_is_read_from_every_format() {
    for algorithm in DigestAlgorithm::ALL {
        let digest = vec![0xab; algorithm.digest_len()];
        let hex = "aB".repeat(digest.len());
        let expected = vec![Checksum {
            algorithm,
            digest: Some(digest),
        }];
        for name in spellings(algorithm) {
            for list in lists(&name, &hex) {
                let (good, bad) = read(&list, None);
                assert!(bad.is_empty() && good.len() == 1, "{list}: {bad:?}");
                assert_eq!(good[0].checksums, expected, "{list}");
            }
            assert!(ListEntry::has_field(&name));
            assert_eq!(
                program_row(&name, &hex).unwrap().checksums,
                expected,
                "{name}"
            );
        }
    }
}

#[test]
fn f38_an_unknown_digest_is_an_error_of_its_row() {
    let known = "it knows sha256, sha512, sha1, md5, blake3, crc32c, crc32, crc64nvme";
    for name in [
        "sha384",
        "SHA-224",
        "sha3-256",
        "blake2b",
        "xxh64",
        "whirlpool",
        "md4",
    ] {
        for list in lists(name, "abcdef") {
            let (good, bad) = read(&list, None);
            assert!(good.is_empty() && bad.len() == 1, "{list}: {good:?}");
            let text = bad[0].problem.to_string();
            assert!(
                text.to_lowercase().contains(&name.to_lowercase()),
                "{list}: {text}"
            );
            assert!(text.contains("sha256, sha512, sha1"), "{list}: {text}");
            assert!(!bad[0].problem.ends_list());
        }
        assert!(ListEntry::has_field(name));
        let bad = program_row(name, "abcdef").unwrap_err();
        let text = bad.problem.to_string().to_lowercase();
        assert!(
            text.contains(&name.to_lowercase()) && text.ends_with(known),
            "{text}"
        );
    }
    // The other rows go on, and a row without a value names no digest.
    let list = "url,sha384,sha224\nhttp://h/1,ab,\nhttp://h/2,,\nhttp://h/3,,cd\n";
    let (good, bad) = read(list, None);
    assert_eq!(super::urls(&good), [(3, "http://h/2")]);
    let text = |name| format!("{name} is a digest that haul cannot compare; {known}");
    assert_problems(
        &bad,
        &[
            problem(2, "", &text("sha384")),
            problem(4, "", &text("sha224")),
        ],
    );
    let list = "{\"url\":\"http://h/1\",\"md4\":null}\n{\"url\":\"http://h/2\",\"md4\":[1]}\n";
    let (good, bad) = read(list, None);
    assert_eq!(super::urls(&good), [(1, "http://h/1")]);
    assert_problems(&bad, &[problem(2, "", &text("md4"))]);
    // Columns of other names have nothing to do with digests of the file.
    let list = "url,sha,hash,phash,md5_of_url\nhttp://h/1,a,b,c,d\n";
    assert_eq!(read(list, None).0.len(), 1);
}

#[test]
fn f38_a_json_line_has_each_key_once() {
    for twice in ["\"url\":\"http://h/1\"", "\"path\":\"b\"", "\"size\":4"] {
        let list = format!("{{\"url\":\"http://h/f\",\"path\":\"a\",\"size\":3,{twice}}}\n");
        let (good, bad) = read(&list, None);
        assert!(good.is_empty(), "{list}");
        assert!(matches!(
            bad[0].problem,
            BadLineProblem::InvalidJsonType { .. }
        ));
    }
    // Both digests are compared.
    let list = "{\"url\":\"http://h/f\",\"crc32\":\"00000000\",\"CRC32\":\"00000001\"}\n";
    assert_eq!(read(list, None).0[0].checksums.len(), 2);
}
