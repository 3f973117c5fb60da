//! Row A25: names as hostile origins write them, made of the tokens of proper ones and of those that lead out
//! of a directory.

use http::HeaderValue;
use proptest::prelude::*;
use url::Url;

use crate::filename;

/// Up to `most` of these tokens, in any order.
fn tokens(of: &'static [&'static str], most: usize) -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(of), 0..most).prop_map(|tokens| tokens.concat())
}

/// A text as a header's value; other texts never reach a parser.
fn value(text: &str) -> Option<HeaderValue> {
    HeaderValue::from_bytes(text.as_bytes()).ok()
}

const NAMES: &[&str] = &[
    "attachment",
    "inline",
    ";",
    "; ",
    "filename",
    "filename*",
    "FileName*",
    "=",
    "=\"",
    "\"",
    "\\",
    "UTF-8''",
    "utf-8'en'",
    "iso-8859-1''",
    "utf-16''",
    "'",
    "%2f",
    "%5C",
    "%00",
    "%0a",
    "%",
    "%e2%82%ac",
    "%ff",
    "%E2%80%AE",
    "..",
    ".",
    "/",
    "\\\\",
    "C:",
    "nul",
    "CON",
    "com1.",
    ".txt",
    ".tar.gz",
    "a",
    "é",
    "日本",
    " ",
    "-",
    "~",
    "*",
    "?",
    "\t",
    "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
    ".haul-part",
    ".haul-journal",
];

/// Asserts that a name stays in its directory and looks like no other, by its letters alone.
fn assert_harmless(name: &str) -> Result<(), TestCaseError> {
    use std::path::{Component, Path};
    let components: Vec<Component<'_>> = Path::new(name).components().collect();
    prop_assert!(
        matches!(components[..], [Component::Normal(only)] if only == name),
        "{name:?}"
    );
    prop_assert!(name.len() <= 200, "{} bytes", name.len());
    let bad = |c: char| c.is_control() || "/\\:*?\"<>|\u{202e}".contains(c);
    prop_assert!(!name.contains(bad), "{name:?}");
    prop_assert!(
        !name.starts_with(['.', '-', ' ']) && !name.ends_with(['.', ' ']),
        "{name:?}"
    );
    let stem = name.split('.').next().unwrap_or_default().trim_end();
    let device = ["con", "nul", "com1"]
        .iter()
        .any(|device| stem.eq_ignore_ascii_case(device));
    prop_assert!(!device, "{name:?}");
    Ok(())
}

proptest! {
    #[test]
    fn a25_no_content_disposition_leads_out_of_the_directory(text in tokens(NAMES, 16)) {
        for text in [text.clone(), format!("attachment; filename={text}"), format!("attachment; filename*=UTF-8''{text}")] {
            if let Some(name) = value(&text).and_then(|value| filename::from_content_disposition(&value)) {
                assert_harmless(&name)?;
            }
        }
    }

    #[test]
    fn a25_no_url_leads_out_of_the_directory(text in tokens(NAMES, 16)) {
        if let Ok(url) = Url::parse(&format!("http://h.test/{text}")) {
            assert_harmless(&filename::from_url(&url))?;
        }
    }
}
