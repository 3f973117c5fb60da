//! Pages and error documents that come with a good status in place of a file (rows A35 and A36).
//!
//! A link or a login expires, an origin blocks a client or breaks, and its response is 200 with a page in HTML, or with an error in JSON
//! or XML. Two questions follow, and both are answered here. While bytes of a file are on disk: may a response that is not of their
//! version be a newer version of the file ([`is_error_page`])? And where nothing is on disk yet: is the response what its name promises
//! ([`is_page_for_name`])?
//!
//! The media type tells pages from most files, and a page that is itself the resource may change. Where the type says nothing, because
//! there is none or everything gets the same one, the first bytes do ([`begins_other_document`]).

use haul_plan::ResourceVersion;

use super::content_expectation::begins_html;

/// How many of a file's first bytes [`begins_other_document`] looks at.
pub(crate) const DOCUMENT_BEGINNING: usize = 512;

/// Whether a response cannot be a newer version of the file whose bytes are on disk, since it is a page, an error document, or nothing.
/// Only for responses whose validators do not show that they are of the same version.
pub(crate) fn is_error_page(on_disk: &ResourceVersion, found: &ResourceVersion) -> bool {
    let is_nothing = found.length == Some(0) && on_disk.length != Some(0) && !found.has_validator();
    let is_other_type = on_disk.media_type != found.media_type;
    let is_document = found.media_type.as_deref().is_some_and(is_document_type);
    is_nothing || (is_other_type && is_document)
}

/// Whether servers write pages and error messages in a media type.
fn is_document_type(media_type: &str) -> bool {
    media_type.starts_with("text/") || is_html(media_type) || is_data_document(media_type)
}

fn is_html(media_type: &str) -> bool {
    matches!(media_type, "text/html" | "application/xhtml+xml")
}

/// JSON or XML, but no image in XML.
fn is_data_document(media_type: &str) -> bool {
    let Some((kind, subtype)) = media_type.split_once('/') else {
        return false;
    };
    let is_named = |name: &str| {
        subtype == name
            || subtype
                .strip_suffix(name)
                .is_some_and(|rest| rest.ends_with('+'))
    };
    matches!(kind, "application" | "text") && (is_named("json") || is_named("xml"))
}

/// The languages of documents that can be told by their first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DocumentLanguage {
    Html,
    Xml,
    Json,
}

impl DocumentLanguage {
    fn of_beginning(bytes: &[u8]) -> Option<Self> {
        if begins_html(bytes) {
            return Some(Self::Html);
        }
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let text = bytes.trim_ascii_start();
        let begins = |with: &[u8]| text.starts_with(with);
        if begins(b"<?xml") || begins(b"<Error>") || begins(b"<error>") || begins(b"<!--") {
            return Some(Self::Xml);
        }
        let is_object =
            text.first() == Some(&b'{') && text[1..].trim_ascii_start().starts_with(b"\"");
        is_object.then_some(Self::Json)
    }
}

/// Whether a response begins as a page or an error document although the file on disk does not, whatever its media type says. `on_disk`:
/// the file's first bytes, as far as they are known. Both need [`DOCUMENT_BEGINNING`] bytes at most.
#[must_use]
pub(crate) fn begins_other_document(
    on_disk: Option<&[u8]>,
    media_type: Option<&str>,
    found: &[u8],
) -> bool {
    let language = DocumentLanguage::of_beginning(found);
    let Some(on_disk) = on_disk else {
        return language == Some(DocumentLanguage::Html);
    };
    let is_other = language.is_some() && DocumentLanguage::of_beginning(on_disk) != language;
    let is_message = media_type.is_some_and(is_document_type) && is_text(found);
    is_other || (is_message && !is_text(on_disk))
}

/// Whether bytes are those of a text, whose last character may be cut.
fn is_text(bytes: &[u8]) -> bool {
    let is_utf8 = match std::str::from_utf8(bytes) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none(),
    };
    is_utf8 && !bytes.contains(&0)
}

/// Whether a first response is a page or an error document, although the name of its file ends in the type of another kind of file.
/// `beginning`: the first bytes, where the media type says nothing.
#[must_use]
pub(crate) fn is_page_for_name(name: &str, media_type: Option<&str>, beginning: &[u8]) -> bool {
    let extension = || Some(name.rsplit_once('.')?.1.to_ascii_lowercase());
    may_be_page(media_type, beginning)
        && extension().is_some_and(|extension| is_file_extension(&extension))
}

/// Whether a first response is a page or a document of a kind that errors have, whatever the name of its file.
#[must_use]
pub(crate) fn may_be_page(media_type: Option<&str>, beginning: &[u8]) -> bool {
    match media_type {
        None | Some("application/octet-stream" | "binary/octet-stream") => begins_html(beginning),
        Some(media_type) => is_html(media_type) || is_data_document(media_type),
    }
}

/// Extensions of data that no table of media types has.
const DATA_EXTENSIONS: [&str; 56] = [
    "appimage",
    "arrow",
    "avro",
    "bag",
    "bam",
    "blend",
    "bsp",
    "ckpt",
    "crate",
    "cram",
    "db",
    "dcm",
    "docx",
    "duckdb",
    "egg",
    "fa",
    "fasta",
    "fastq",
    "feather",
    "fits",
    "gem",
    "gguf",
    "ggml",
    "grib",
    "grib2",
    "h5",
    "hdf",
    "hdf5",
    "las",
    "laz",
    "lz4",
    "mbtiles",
    "mlmodel",
    "nii",
    "npy",
    "npz",
    "nupkg",
    "onnx",
    "orc",
    "osm",
    "pak",
    "pbf",
    "pickle",
    "pkl",
    "pmtiles",
    "pptx",
    "pt",
    "pth",
    "qcow2",
    "safetensors",
    "snap",
    "sqlite",
    "tfrecord",
    "warc",
    "xlsx",
    "zst",
];

/// Extensions that end names of pages, or are ends of host names, though a table of media types has another type for them.
const PAGE_EXTENSIONS: [&str; 12] = [
    "ai", "asp", "aspx", "cfm", "cgi", "com", "do", "htm", "jsp", "php", "pl", "shtml",
];

/// Whether a file with this extension is neither a page nor a text that could be a page.
fn is_file_extension(extension: &str) -> bool {
    if PAGE_EXTENSIONS.contains(&extension) {
        return false;
    }
    let Some(media_type) = mime_guess::from_ext(extension).first_raw() else {
        return DATA_EXTENSIONS.contains(&extension);
    };
    let is_table = matches!(extension, "csv" | "tsv");
    let is_script = media_type.ends_with("javascript");
    is_table || !(is_document_type(media_type) || is_script)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn version(
        media_type: Option<&str>,
        length: Option<u64>,
        etag: Option<&str>,
    ) -> ResourceVersion {
        ResourceVersion {
            length,
            etag: etag.map(|tag| tag.parse().unwrap()),
            media_type: media_type.map(Into::into),
            ..ResourceVersion::default()
        }
    }

    fn replaces(on_disk: Option<&str>, found: Option<&str>) -> bool {
        let on_disk = version(on_disk, Some(1000), Some("\"1\""));
        !is_error_page(&on_disk, &version(found, Some(1001), Some("\"2\"")))
    }

    #[test]
    fn a35_a_document_replaces_only_a_document_of_its_own_type() {
        let documents = [
            "text/html",
            "text/plain",
            "application/xhtml+xml",
            "application/json",
            "application/problem+json",
            "application/xml",
            "text/xml",
            "application/soap+xml",
        ];
        for document in documents {
            for file in [
                Some("application/zip"),
                Some("application/octet-stream"),
                Some("text/csv"),
                None,
            ] {
                assert!(!replaces(file, Some(document)), "{file:?} {document}");
            }
            assert!(replaces(Some(document), Some(document)), "{document}");
        }
        assert!(!replaces(Some("application/json"), Some("text/html")));
        assert!(!replaces(
            Some("application/json"),
            Some("application/problem+json")
        ));
    }

    #[test]
    fn a35_a_file_may_get_another_type_that_is_no_document() {
        let iso = Some("application/x-iso9660-image");
        assert!(replaces(Some("application/octet-stream"), iso));
        assert!(replaces(None, iso) && replaces(iso, None) && replaces(iso, Some("image/svg+xml")));
    }

    #[test]
    fn a35_nothing_is_no_version_of_something() {
        let (some, none) = (version(None, Some(10), None), version(None, Some(0), None));
        assert!(is_error_page(&some, &none) && !is_error_page(&none, &none));
        assert!(!is_error_page(
            &some,
            &version(None, Some(0), Some("\"2\""))
        ));
        assert!(!is_error_page(&some, &version(None, None, None)));
    }

    #[test]
    fn a35_first_bytes_tell_documents_from_files_and_from_each_other() {
        let (html, xml, json) = (
            &b"\xef\xbb\xbf \n<!DOCTYPE HTML><html>"[..],
            &b"<?xml version"[..],
            &b"{ \"error\": 1}"[..],
        );
        let zip = &b"PK\x03\x04{\"<html"[..];
        let begins_other_document = |on_disk, found| begins_other_document(on_disk, None, found);
        for document in [html, xml, json] {
            assert!(begins_other_document(Some(zip), document));
            assert!(!begins_other_document(Some(document), document));
            assert!(!begins_other_document(Some(document), zip));
        }
        assert!(begins_other_document(Some(json), html) && begins_other_document(Some(html), xml));
        assert!(begins_other_document(None, html));
        assert!(!begins_other_document(None, json) && !begins_other_document(None, b""));
        assert!(!begins_other_document(Some(zip), b"{binary"));
    }

    #[test]
    fn a35_a_line_of_text_is_told_from_a_file_that_is_none() {
        let (zip, line) = (&b"PK\x03\x04\0\0"[..], &b"Rate limit exceeded\n"[..]);
        let text = Some("text/plain");
        assert!(begins_other_document(Some(zip), text, line));
        assert!(
            !begins_other_document(Some(zip), text, zip)
                && !begins_other_document(Some(line), text, line)
        );
        assert!(
            !begins_other_document(Some(zip), None, line)
                && !begins_other_document(None, text, line)
        );
        // The last character is cut.
        assert!(!begins_other_document(
            Some("aä".as_bytes().split_last().unwrap().1),
            text,
            line
        ));
    }

    #[test]
    fn a36_a_page_is_told_by_the_name_of_a_file_that_is_none() {
        let html = Some("text/html");
        for name in [
            "a.zip",
            "a.tar.gz",
            "A.ISO",
            "f.bin",
            "model.safetensors",
            "x.gguf",
            "x.parquet",
            "p.jpg",
            "v.mp4",
            "t.csv",
            "d.deb",
            "r.pdf",
            "install.sh",
            "a.tar.zst",
        ] {
            assert!(is_page_for_name(name, html, b""), "{name}");
            assert!(
                is_page_for_name(name, Some("application/json"), b""),
                "{name}"
            );
            assert!(
                !is_page_for_name(name, Some("text/plain"), b"<html>"),
                "{name}"
            );
            assert!(is_page_for_name(name, None, b"<html>"), "{name}");
        }
        for name in [
            "index.html",
            "a.htm",
            "page",
            "x.php",
            "feed.xml",
            "api.json",
            "Node.js",
            "example.com",
            "notes.txt",
            "README.md",
            "v1.2",
            "",
            ".",
            "image.svg/",
            "a.b.",
        ] {
            assert!(!is_page_for_name(name, html, b"<html>"), "{name}");
        }
        assert!(!is_page_for_name(
            "a.zip",
            Some("application/zip"),
            b"<html>"
        ));
    }

    proptest! {
        #[test]
        fn any_bytes_and_names_have_an_answer(name in ".{0,20}", media_type in prop::option::of(".{0,20}"), bytes: Vec<u8>) {
            let _ = is_page_for_name(&name, media_type.as_deref(), &bytes);
            prop_assert!(!begins_other_document(Some(&bytes), media_type.as_deref(), &bytes));
        }
    }
}
