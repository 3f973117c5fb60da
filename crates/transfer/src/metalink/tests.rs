//! Documents as mirror networks write them, and as nobody should.

use haul_plan::DigestAlgorithm;
use proptest::prelude::*;

use super::*;

const SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const SHA1: &str = "da39a3ee5e6b4b0d3255bfef95601890afd80709";
const MD5: &str = "d41d8cd98f00b204e9800998ecf8427e";

/// A document of version 4 with these files.
fn meta4(files: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\">\n{files}\n</metalink>\n"
    )
}

fn read(files: &str) -> Result<Metalink, MetalinkError> {
    parse(meta4(files).as_bytes())
}

/// The mistake in a document, or in the only file in it.
fn wrong(files: &str) -> MetalinkProblem {
    match read(files) {
        Err(error) => error.problem,
        Ok(mut metalink) => {
            assert_eq!(metalink.files.len(), 1);
            metalink.files.remove(0).unwrap_err().problem
        }
    }
}

fn only(files: &str) -> MetalinkFile {
    let mut metalink = read(files).unwrap();
    assert_eq!(metalink.files.len(), 1);
    metalink.files.remove(0).unwrap()
}

fn urls(file: &MetalinkFile) -> Vec<&str> {
    file.urls().map(Url::as_str).collect()
}

#[test]
fn a_file_of_version_4_with_everything() {
    let file = only(&format!(
        r#"<generator>mirrorer/1</generator><published>2024-05-01T12:00:00Z</published>
        <file name="dist/thing-1.2.iso">
          <identity>Thing</identity><os>Linux</os>
          <size>2500000</size>
          <hash type="md5">{MD5}</hash>
          <hash type="sha-256">
             {SHA256}
          </hash>
          <signature mediatype="application/pgp-signature">-----BEGIN</signature>
          <pieces length="1000000" type="sha-1">
            <hash>{SHA1}</hash><hash>{SHA1}</hash><hash>{SHA1}</hash>
          </pieces>
          <metaurl mediatype="torrent">https://t.test/thing.torrent</metaurl>
          <url location="de" priority="20">https://b.test/thing-1.2.iso</url>
          <url priority="1"><![CDATA[http://a.test/get?f=thing&v=1]]></url>
          <url priority="7">http://c.test/get?f=thing&amp;v=1&#38;x=2</url>
          <url priority="2">ftp://d.test/thing-1.2.iso</url>
          <url priority="2">/thing.iso</url>
          <url>http://last.test/</url>
        </file>"#
    ));
    assert_eq!(file.path, PathBuf::from("dist/thing-1.2.iso"));
    assert_eq!(file.size, Some(2_500_000));
    let known: Vec<DigestAlgorithm> = file.checksums.iter().map(|c| c.algorithm).collect();
    assert_eq!(known, [DigestAlgorithm::Md5, DigestAlgorithm::Sha256]);
    let pieces = file.pieces.as_ref().unwrap();
    assert_eq!((pieces.length(), pieces.count()), (1_000_000, 3));
    assert_eq!(pieces.algorithm(), DigestAlgorithm::Sha1);
    assert_eq!(
        urls(&file),
        [
            "http://a.test/get?f=thing&v=1",
            "http://c.test/get?f=thing&v=1&x=2",
            "https://b.test/thing-1.2.iso",
            "http://last.test/"
        ]
    );
    assert_eq!(file.mirrors[2].location.as_deref(), Some("de"));
    assert_eq!(file.mirrors[3].priority, 999_999);
}

#[test]
fn version_3_has_its_namespace_also_with_https() {
    for scheme in ["http", "https"] {
        let text = format!(
            r#"<metalink version="3.0" xmlns="{scheme}://www.metalinker.org/"><files><file name="f">
            <resources><url type="http">http://a.test/f</url></resources></file></files></metalink>"#
        );
        assert_eq!(parse(text.as_bytes()).unwrap().files.len(), 1);
    }
}

#[test]
fn a_file_of_version_3_with_everything() {
    let text = format!(
        r#"<metalink version="3.0" xmlns="http://www.metalinker.org/" type="dynamic">
      <publisher><name>P</name></publisher>
      <files>
       <file name="repomd.xml">
        <size>30</size>
        <verification>
          <hash type="sha1">{SHA1}</hash>
          <hash type="sha256">{SHA256}</hash>
          <pieces length="16" type="sha1"><hash piece="0">{SHA1}</hash><hash piece="1">{SHA1}</hash></pieces>
        </verification>
        <resources maxconnections="1">
          <url protocol="rsync" type="rsync" location="US" preference="100">rsync://r.test/repomd.xml</url>
          <url protocol="http" type="http" location="US" preference="90">http://us.test/repomd.xml</url>
          <url type="https" preference="100">https://best.test/repomd.xml</url>
        </resources>
       </file>
      </files>
    </metalink>"#
    );
    let file = parse(text.as_bytes()).unwrap().files.remove(0).unwrap();
    assert_eq!(file.size, Some(30));
    assert_eq!(file.checksums.len(), 2);
    assert_eq!(file.pieces.as_ref().unwrap().count(), 2);
    assert_eq!(
        urls(&file),
        ["https://best.test/repomd.xml", "http://us.test/repomd.xml"]
    );
    assert_eq!(file.mirrors[1].priority, 11);
    assert_eq!(file.mirrors[1].location.as_deref(), Some("US"));
}

#[test]
fn a_prefix_and_other_namespaces_are_told_apart() {
    let text = r#"<m:metalink xmlns:m="urn:ietf:params:xml:ns:metalink" xmlns:x="urn:other">
        <x:file name="not.this"/><file name="nor.this"/>
        <m:file name="this"><x:size>7</x:size><m:size>8</m:size></m:file></m:metalink>"#;
    let files = parse(text.as_bytes()).unwrap().files;
    assert_eq!(files.len(), 1);
    assert_eq!(files[0].as_ref().unwrap().size, Some(8));
    let file = only(r#"<file name="f"><size xmlns="urn:other">x</size><size>9</size></file>"#);
    assert_eq!(file.size, Some(9));
}

#[test]
fn the_strongest_pieces_count_and_unknown_algorithms_do_not() {
    let set = |kind: &str, digest: &str| {
        format!("<pieces length=\"9\" type=\"{kind}\"><hash>{digest}</hash></pieces>")
    };
    let sets = [
        set("sha-1", SHA1),
        set("sha-256", SHA256),
        set("md5", MD5),
        set("tiger", "00"),
        set("crc32c", "00000000"),
    ]
    .concat();
    let file = only(&format!("<file name=\"f\"><size>9</size>{sets}</file>"));
    assert_eq!(file.pieces.unwrap().algorithm(), DigestAlgorithm::Sha256);
}

#[test]
fn names_stay_beneath_their_directory() {
    let path = |name: &str| only(&format!("<file name=\"{name}\"/>")).path;
    assert_eq!(path("../../etc/passwd"), PathBuf::from("etc/passwd"));
    assert_eq!(path("/etc/passwd"), PathBuf::from("etc/passwd"));
    assert_eq!(path("a\\..\\b"), PathBuf::from("a/b"));
    assert_eq!(path("a/.hidden"), PathBuf::from("a/_hidden"));
    let deep = path(&"d/".repeat(500));
    assert_eq!(deep.components().count(), 16);
    for name in ["", "..", "/", "././"] {
        assert_eq!(
            wrong(&format!("<file name=\"{name}\"/>")),
            MetalinkProblem::UnusableName
        );
    }
    assert_eq!(wrong("<file/>"), MetalinkProblem::UnusableName);
}

#[test]
fn errors_have_the_line_of_the_mistake() {
    let file = |inner: &str| wrong(&format!("<file name=\"f\">{inner}</file>"));
    assert_eq!(file("<size>12 MB</size>"), MetalinkProblem::InvalidSize);
    assert_eq!(file("<size>-1</size>"), MetalinkProblem::InvalidSize);
    assert_eq!(file("<size>+1</size>"), MetalinkProblem::InvalidSize);
    assert_eq!(
        file("<size>99999999999999999999999</size>"),
        MetalinkProblem::InvalidSize
    );
    assert_eq!(
        file("<hash type=\"sha-1\">abc</hash>"),
        MetalinkProblem::InvalidDigest(DigestAlgorithm::Sha1)
    );
    assert_eq!(
        file(&format!(
            "<hash type=\"md5\">{MD5}</hash><hash type=\"sha-384\">ab</hash>"
        )),
        MetalinkProblem::UnknownDigest("sha-384".into())
    );
    assert_eq!(
        file("<hash>ab</hash>"),
        MetalinkProblem::UnknownDigest(String::new())
    );
    assert_eq!(file("<url>&lol;</url>"), MetalinkProblem::UnknownEntity);
    let pieces = |size: u64, count: usize| {
        let hashes = format!("<hash>{MD5}</hash>").repeat(count);
        file(&format!(
            "<size>{size}</size><pieces length=\"10\" type=\"md5\">{hashes}</pieces>"
        ))
    };
    assert_eq!(pieces(31, 3), MetalinkProblem::PieceCountMismatch);
    assert_eq!(pieces(20, 3), MetalinkProblem::PieceCountMismatch);
    assert!(matches!(pieces(20, 0), MetalinkProblem::InvalidPieces(_)));
    assert_eq!(
        file(&format!(
            "<pieces length=\"9\" type=\"md5\"><hash piece=\"1\">{MD5}</hash></pieces>"
        )),
        MetalinkProblem::PiecesOutOfOrder
    );
    let mut files = read("<file name=\"f\">\n<size>\nx</size></file>")
        .unwrap()
        .files;
    let error = files.remove(0).unwrap_err();
    assert_eq!(
        error.to_string(),
        "line 5: a size that is not a number of bytes"
    );
    assert_eq!(
        parse(b"a\n\xff").unwrap_err().to_string(),
        "line 2: the document is not UTF-8"
    );
}

#[test]
fn a_file_that_cannot_be_used_costs_none_of_the_others() {
    let good = |name: &str| format!("<file name=\"{name}\"><url>http://h.test/</url></file>\n");
    let bad = [
        "<file><size>1</size></file>",
        "<file name=\"..\"/>",
        "<file name=\"x\"><x><y/></x><size>1 k<b>B</b></size><url>http://h.test/</url></file>",
        "<file name=\"x\"><pieces length=\"9\" type=\"md5\"><hash>1</hash><x/></pieces><x/></file>",
        "<file name=\"x\"><pieces length=\"0\" type=\"md5\"/></file>",
        "<file name=\"x\"><url>http://h.test/&what;</url></file>",
    ];
    for bad in bad {
        let text = [good("a"), bad.to_owned(), "\n".to_owned(), good("b")].concat();
        let files = read(&text).unwrap().files;
        let lines: Vec<Option<u64>> = files
            .iter()
            .map(|file| file.as_ref().ok().map(|file| file.line))
            .collect();
        assert_eq!(lines, [Some(3), None, Some(5)], "{bad}");
        assert_eq!(files[1].as_ref().unwrap_err().line, 4, "{bad}");
    }
    // Where the document itself is damaged, the rest cannot be relied on.
    let cut = [good("a"), "<file name=\"b\"><size>x".to_owned()].concat();
    assert_eq!(
        wrong(&cut),
        MetalinkProblem::InvalidXml(
            "ill-formed document: expected `</size>`, but `</metalink>` was found".into()
        )
    );
}

#[test]
fn a_hundred_thousand_bad_files_get_their_lines_in_no_time() {
    let many = "<file name=\"..\">\n</file>".repeat(MAX_FILES);
    let files = read(&many).unwrap().files;
    let last = files[MAX_FILES - 1].as_ref().unwrap_err();
    assert_eq!((files.len(), last.line), (MAX_FILES, 2 + MAX_FILES as u64));
}

#[test]
fn other_documents_are_refused() {
    for text in [
        "",
        "http://a.test/\n",
        "<html></html>",
        "<metalink/>",
        "<metalink xmlns=\"urn:x\"/>",
    ] {
        assert_eq!(
            parse(text.as_bytes()).unwrap_err().problem,
            MetalinkProblem::NotMetalink,
            "{text}"
        );
        assert!(!is_metalink(text.as_bytes()) || text.starts_with("<metalink"));
    }
    let cut = meta4("");
    assert_eq!(
        parse(&cut.as_bytes()[..cut.len() - 14])
            .unwrap_err()
            .problem,
        MetalinkProblem::Truncated
    );
}

#[test]
fn a_document_is_detected_by_its_front() {
    assert!(is_metalink(meta4("").as_bytes()));
    assert!(is_metalink(
        b"\xef\xbb\xbf <!-- x --><metalink version='3.0'"
    ));
    assert!(is_metalink(
        b"<m:metalink xmlns:m='urn:ietf:params:xml:ns:metalink'>"
    ));
    assert!(!is_metalink(b"http://a.test/<metalink>"));
    assert!(!is_metalink(b"<metalinks>"));
}

#[test]
fn everything_is_bounded() {
    let laughs = "<!DOCTYPE m [<!ENTITY a \"ha\"><!ENTITY b \"&a;&a;&a;\">]><metalink xmlns=\"urn:ietf:params:xml:ns:metalink\"/>";
    assert_eq!(
        parse(laughs.as_bytes()).unwrap_err().problem,
        MetalinkProblem::DocumentType
    );
    assert_eq!(
        parse(&vec![b' '; MAX_DOCUMENT_BYTES + 1])
            .unwrap_err()
            .problem,
        MetalinkProblem::DocumentTooLarge
    );
    let deep = "<x>".repeat(100_000);
    assert_eq!(wrong(&deep), MetalinkProblem::NestedTooDeeply);
    assert_eq!(
        wrong(&format!("<file name=\"f\"><url>{deep}")),
        MetalinkProblem::NestedTooDeeply
    );
    let urls = "<url>ftp://a.test/</url>".repeat(MAX_URLS + 1);
    assert_eq!(
        wrong(&format!("<file name=\"f\">{urls}</file>")),
        MetalinkProblem::TooManyUrls
    );
    let long = "a".repeat(20_000);
    assert_eq!(
        wrong(&format!(
            "<file name=\"f\"><url>http://h.test/{long}</url></file>"
        )),
        MetalinkProblem::TextTooLong
    );
    let many = "<file name=\"f\"/>".repeat(MAX_FILES + 1);
    assert_eq!(wrong(&many), MetalinkProblem::TooManyFiles);
    assert_eq!(
        read(&many[..many.len() - 16]).unwrap().files.len(),
        MAX_FILES
    );
}

#[test]
fn a_hundred_thousand_attributes_take_no_time() {
    let attributes: String = (0..100_000).map(|n| format!(" xmlns:a{n}=\"x\"")).collect();
    let text = format!(
        "<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\"{attributes}>{}</metalink>",
        "<file name=\"f\"/>".repeat(20_000)
    );
    assert_eq!(parse(text.as_bytes()).unwrap().files.len(), 20_000);
}

/// Fragments of documents, in any order.
fn fragments() -> impl Strategy<Value = String> {
    let fragment = prop::sample::select(vec![
        "<file name=\"a\">",
        "</file>",
        "<size>",
        "3",
        "</size>",
        "<url priority=\"1\">",
        "http://h.test/",
        "</url>",
        "<pieces length=\"2\" type=\"md5\">",
        "<hash type=\"md5\">",
        MD5,
        "</hash>",
        "</pieces>",
        "<verification>",
        "</verification>",
        "<x/>",
        "&amp;",
        "&#1;",
        "<![CDATA[",
        "]]>",
        "<!--",
        "-->",
        "<?x",
        "?>",
        "<",
        ">",
        "\"",
    ]);
    prop::collection::vec(fragment, 0..40).prop_map(|fragments| fragments.concat())
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes: Vec<u8>) {
        let _ = parse(&bytes);
        let _ = is_metalink(&bytes);
    }

    #[test]
    fn no_mixture_of_fragments_panics_and_parsed_files_make_sense(files in fragments()) {
        if let Ok(metalink) = read(&files) {
            for file in metalink.files.into_iter().flatten() {
                prop_assert!(file.path.is_relative());
                if let (Some(size), Some(pieces)) = (file.size, file.pieces) {
                    prop_assert!(pieces.matches_length(size));
                }
            }
        }
    }

    #[test]
    fn a_document_cut_anywhere_is_an_error(at in 0usize..300) {
        let text = meta4("<file name=\"f\"><size>1</size><url>http://h.test/</url></file>");
        let end = text.trim_end().len();
        prop_assert_eq!(parse(&text.as_bytes()[..at.min(text.len())]).is_ok(), at >= end);
    }
}
