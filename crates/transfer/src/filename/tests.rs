//! Row A25: names as well-meaning and other origins write them.

mod hostile_names;

use super::*;
use proptest::prelude::*;

fn disposition(text: &str) -> Option<String> {
    from_content_disposition(&HeaderValue::from_bytes(text.as_bytes()).unwrap())
}

fn url(text: &str) -> String {
    from_url(&Url::parse(text).unwrap())
}

#[test]
fn a25_plain_quoted_and_extended_names() {
    for (text, name) in [
        ("attachment; filename=a.iso", "a.iso"),
        ("attachment; filename=\"a b.iso\"", "a b.iso"),
        ("attachment; filename=\"a\\\"b.iso\"", "a_b.iso"),
        ("inline;FileName = \"x;y.bin\" ; foo=bar", "x;y.bin"),
        (
            "attachment; filename=\"e.txt\"; filename*=UTF-8''%e2%82%ac%20rates.txt",
            "€ rates.txt",
        ),
        (
            "attachment; filename*=iso-8859-1'en'%A3%20rates; filename=x",
            "£ rates",
        ),
        ("attachment; filename*=utf-16''%00a; filename=good", "good"),
        ("attachment; filename=\"naïve.txt\"", "naïve.txt"),
        ("filename=a.iso", "a.iso"),
        ("filename=\"x;y.bin\"; foo=bar", "x;y.bin"),
        ("filename=a; filename*=UTF-8''b", "b"),
    ] {
        assert_eq!(disposition(text).as_deref(), Some(name), "{text}");
    }
    for none in [
        "attachment",
        "attachment; filename=",
        "attachment; filename=\"\"",
        "",
        "attachment; filename=\"..\"",
    ] {
        assert_eq!(disposition(none), None, "{none}");
    }
}

#[test]
fn a25_a_name_that_was_cut_is_safe() {
    let device = format!("con{}x.txt", " ".repeat(250));
    assert_eq!(sanitize(&device).as_deref(), Some("_con.txt"));
    let nothing = format!("{}x", "_".repeat(250));
    assert_eq!(sanitize(&nothing), None);
}

#[test]
fn a25_a_name_never_leaves_the_directory() {
    for (text, name) in [
        ("attachment; filename=\"../../etc/passwd\"", "passwd"),
        ("attachment; filename=\"/etc/passwd\"", "passwd"),
        ("attachment; filename=\"..\\\\..\\\\boot.ini\"", "boot.ini"),
        ("attachment; filename*=UTF-8''..%2f..%2fx", "x"),
        ("attachment; filename*=UTF-8''a%00b", "a_b"),
        ("attachment; filename=\"C:evil\"", "C_evil"),
        ("attachment; filename=.bashrc", "_bashrc"),
        ("attachment; filename=\"-rf\"", "_-rf"),
        ("attachment; filename=CON", "_CON"),
        ("attachment; filename=\"nul.txt\"", "_nul.txt"),
        (
            "attachment; filename*=UTF-8''exe%E2%80%AEtxt.bin",
            "exe_txt.bin",
        ),
    ] {
        assert_eq!(disposition(text).as_deref(), Some(name), "{text}");
    }
}

#[test]
fn a25_a_name_never_has_a_reserved_suffix() {
    for (text, name) in [
        ("attachment; filename=f.haul-part", "f_haul-part"),
        ("attachment; filename=f.HAUL-Journal", "f_HAUL-Journal"),
        (
            "attachment; filename=\"f.haul-bad-checksum\"",
            "f_haul-bad-checksum",
        ),
        ("attachment; filename=\"f.haul-part. .\"", "f_haul-part"),
        ("attachment; filename=\".haul-part\"", "_haul-part"),
        (
            "attachment; filename=f.haul-part.haul-part",
            "f.haul-part_haul-part",
        ),
        // The long s and the Kelvin sign, which some file systems take for s and k.
        (
            "attachment; filename*=UTF-8''f.haul-bad-chec%E2%84%AA%C5%BFum",
            "f_haul-bad-chec\u{212a}\u{17f}um",
        ),
        ("attachment; filename=f.haul-parts", "f.haul-parts"),
        ("attachment; filename=haul-part", "haul-part"),
    ] {
        assert_eq!(disposition(text).as_deref(), Some(name), "{text}");
    }
    assert_eq!(url("http://h.test/a/f.iso.haul-part"), "f.iso_haul-part");
    assert_eq!(url("http://h.test/f%2Ehaul-journal"), "f_haul-journal");
    // Cutting a long name must not expose a reserved suffix.
    let long = format!(
        "{}.haul-part{}",
        "n".repeat(MAX_LENGTH - 10),
        "x".repeat(30)
    );
    assert!(!has_reserved_suffix(&sanitize(&long).unwrap()));
}

#[test]
fn a25_a_long_name_is_cut_before_its_extension() {
    let name = disposition(&format!("attachment; filename={}.tar.gz", "n".repeat(300))).unwrap();
    assert!(name.len() <= MAX_LENGTH && name.ends_with(".gz"));
}

#[test]
fn names_from_urls_are_decoded_and_safe() {
    assert_eq!(url("http://h.test/a/b.iso?x=/y#z"), "b.iso");
    assert_eq!(url("http://h.test/a%20b.iso"), "a b.iso");
    assert_eq!(url("http://h.test/..%2f..%2fpasswd"), "passwd");
    assert_eq!(url("http://h.test/"), "index.html");
    assert_eq!(url("http://h.test/%2e%2e"), "index.html");
    assert_eq!(url("http://h.test/%ff%00"), "index.html");
}

/// Names that come close to a reserved suffix.
fn near_reserved_suffix() -> impl Strategy<Value = String> {
    let ending = prop_oneof![
        Just(".haul-part"),
        Just(".Haul-Journal"),
        Just(".haul-bad-checKsum"),
        Just(".haul-par")
    ];
    let tail = prop_oneof![Just(""), Just("."), Just(" "), Just("\u{200b}"), Just("x")];
    (".{0,4}|n{180,210}", ending, tail)
        .prop_map(|(stem, ending, tail)| format!("{stem}{ending}{tail}"))
}

proptest! {
    #[test]
    fn a25_no_name_has_a_reserved_suffix_and_sanitizing_again_changes_nothing(name in near_reserved_suffix()) {
        if let Some(safe_name) = sanitize(&name) {
            prop_assert!(!has_reserved_suffix(&safe_name), "{safe_name}");
            prop_assert!(!has_reserved_suffix(&safe_name.to_ascii_uppercase()), "{safe_name}");
            prop_assert_eq!(sanitize(&safe_name), Some(safe_name.clone()));
        }
    }

    #[test]
    fn a25_a_sanitized_name_is_one_plain_component(name: String) {
        if let Some(safe_name) = sanitize(&name) {
            prop_assert!(!safe_name.is_empty() && safe_name.len() <= MAX_LENGTH);
            prop_assert!(!safe_name.starts_with(['.', '-', ' ']) && !safe_name.ends_with(['.', ' ']));
            prop_assert!(!safe_name.contains(['/', '\\', '\0', ':']));
            let path = std::path::Path::new(&safe_name);
            prop_assert!(path.components().count() == 1 && path.file_name() == Some(path.as_os_str()));
            prop_assert_eq!(sanitize(&safe_name), Some(safe_name.clone()));
        }
    }

    #[test]
    fn a25_no_header_value_panics(bytes: Vec<u8>) {
        if let Ok(value) = HeaderValue::from_bytes(&bytes) {
            let _ = from_content_disposition(&value);
        }
    }
}
