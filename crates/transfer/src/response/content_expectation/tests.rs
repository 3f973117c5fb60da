//! Media ranges as users write them, and responses compared with them.

use super::*;
use proptest::prelude::*;

fn expecting(types: &str) -> ContentExpectation {
    ContentExpectation {
        media_types: media_types(types).unwrap(),
        ..ContentExpectation::default()
    }
}

fn media_types(types: &str) -> Result<Vec<MediaRange>, MediaRangeError> {
    types.split(',').map(str::parse).collect()
}

/// Header fields with this media type, if it can be sent.
fn typed(content_type: &[u8]) -> HeaderMap {
    let value = HeaderValue::from_bytes(content_type).ok();
    value
        .map(|value| (CONTENT_TYPE, value))
        .into_iter()
        .collect()
}

fn check_head_of(
    expectation: &ContentExpectation,
    content_type: &str,
) -> Result<(), UnexpectedContent> {
    expectation.check_head(&typed(content_type.as_bytes()), None)
}

#[test]
fn ranges_are_compared_without_case_and_parameters() {
    let images = expecting("Image/*, application/PDF");
    for fits in [
        "image/png",
        "IMAGE/JPEG; q=1",
        "application/pdf;charset=x",
        " image/x-icon ",
    ] {
        assert_eq!(check_head_of(&images, fits), Ok(()), "{fits}");
    }
    for not in [
        "text/html; charset=utf-8",
        "application/json",
        "imagex/png",
        "image",
        "application/pdfx",
    ] {
        let error = check_head_of(&images, not).unwrap_err();
        assert!(
            matches!(error, UnexpectedContent::MediaType { .. }),
            "{not}"
        );
    }
    assert_eq!(
        check_head_of(&images, "text/html; charset=utf-8")
            .unwrap_err()
            .to_string(),
        "its media type is text/html, not image/* or application/pdf"
    );
}

#[test]
fn a_response_without_a_type_is_accepted_only_where_every_type_is() {
    let images = expecting("image/*");
    for missing in [
        images.check_head(&HeaderMap::new(), None),
        check_head_of(&images, ""),
        check_head_of(&images, ";x"),
    ] {
        let expected = "image/*".to_owned();
        assert_eq!(missing, Err(UnexpectedContent::NoMediaType { expected }));
    }
    for any in [
        expecting("*/*"),
        expecting("image/*,*/*"),
        ContentExpectation::default(),
    ] {
        assert_eq!(any.check_head(&HeaderMap::new(), None), Ok(()));
        assert_eq!(check_head_of(&any, "text/html"), Ok(()));
    }
}

#[test]
fn a_malformed_range_is_refused_with_the_reason() {
    let error = |text: &str| media_types(text).unwrap_err();
    assert_eq!(error(""), MediaRangeError::Empty);
    assert_eq!(error("image/png,"), MediaRangeError::Empty);
    for text in ["image", "image/png/x", "*"] {
        assert_eq!(error(text), MediaRangeError::NotTwoParts(text.into()));
    }
    for (text, part) in [
        ("image/", ""),
        ("/png", ""),
        ("im age/png", "im age"),
        ("image/pñg", "pñg"),
    ] {
        assert_eq!(
            error(text),
            MediaRangeError::InvalidToken(text.into(), part.into())
        );
    }
    for text in ["*/png", "image/*png", "im*/png"] {
        assert_eq!(error(text), MediaRangeError::PartialWildcard(text.into()));
    }
    assert_eq!(
        error("text/html;q=1"),
        MediaRangeError::Parameters("text/html;q=1".into())
    );
}

#[test]
fn lengths_are_checked_as_soon_as_they_are_known() {
    let expectation = ContentExpectation {
        min_length: Some(10),
        max_length: Some(20),
        ..ContentExpectation::default()
    };
    assert_eq!(expectation.check_head(&HeaderMap::new(), None), Ok(()));
    for fits in [10, 15, 20] {
        assert_eq!(
            expectation.check_head(&HeaderMap::new(), Some(fits)),
            Ok(())
        );
    }
    assert_eq!(
        expectation.check_head(&HeaderMap::new(), Some(9)),
        Err(UnexpectedContent::TooShort { actual: 9, min: 10 })
    );
    assert_eq!(
        expectation.check_length(21),
        Err(UnexpectedContent::TooLong {
            actual: 21,
            max: 20
        })
    );
    let exact = ContentExpectation {
        exact_length: Some(15),
        ..expectation
    };
    assert_eq!(exact.check_length(15), Ok(()));
    assert_eq!(
        exact.check_length(14),
        Err(UnexpectedContent::WrongLength {
            actual: 14,
            expected: 15
        })
    );
    assert_eq!(exact.longest_allowed(), Some(15));
    assert_eq!(ContentExpectation::default().longest_allowed(), None);
}

#[test]
fn a_peers_media_type_is_shown_escaped_and_short() {
    let Err(UnexpectedContent::MediaType { actual: got, .. }) = check_head_of(
        &expecting("image/*"),
        &format!("\u{9b}31m/{}", "x".repeat(5_000)),
    ) else {
        panic!("that is no image");
    };
    assert!(
        got.len() < 200 && got.chars().all(|c| !c.is_control()),
        "{got}"
    );
}

proptest! {
    #[test]
    fn every_range_is_parsed_as_it_is_written(kind in "[a-z][a-z0-9.+-]{0,8}", subtype in "[a-z][a-z0-9.+-]{0,8}", which in 0u8..3) {
        let text = match which {
            0 => "*/*".to_owned(),
            1 => format!("{kind}/*"),
            _ => format!("{kind}/{subtype}"),
        };
        let range: MediaRange = text.parse().unwrap();
        prop_assert_eq!(range.to_string(), text);
        let media_type = format!("{kind}/{subtype}");
        prop_assert!(range.contains(&media_type));
    }

    #[test]
    fn nothing_makes_it_panic(text: String, value: Vec<u8>, length: Option<u64>, min_length: Option<u64>) {
        let media_types = media_types(&text).unwrap_or_default();
        let expectation = ContentExpectation { media_types, min_length, ..ContentExpectation::default() };
        let _ = expectation.check_head(&typed(&value), length);
    }
}

#[test]
fn html_pages_are_recognised_by_their_beginning() {
    for page in [
        "<!DOCTYPE html>",
        "\u{feff}\r\n <html lang=en>",
        "<head><title>",
    ] {
        assert!(begins_html(page.as_bytes()), "{page}");
    }
    for other in [
        "",
        "<h",
        "<?xml version='1.0'?>",
        "a <html>",
        "\x7fELF",
        "<svg>",
    ] {
        assert!(!begins_html(other.as_bytes()), "{other}");
    }
    let images = ContentExpectation {
        media_types: vec!["image/*".parse().unwrap()],
        ..ContentExpectation::default()
    };
    assert!(!images.accepts_html());
    assert!(ContentExpectation::default().accepts_html());
}
