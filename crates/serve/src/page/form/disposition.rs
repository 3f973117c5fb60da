//! The heads of a form: the boundary, and the names of files (RFC 7578 4.2, and what browsers do).

use super::FormError;

/// Maximum fields of a part's head.
const MOST_FIELDS: usize = 16;

/// Maximum bytes of a boundary (RFC 2046 5.1.1).
const LONGEST_BOUNDARY: usize = 70;

/// The boundary, if the content is a form.
pub(super) fn boundary(content_type: &str) -> Option<Vec<u8>> {
    let (media, parameters) = content_type.split_once(';')?;
    if !media.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let boundary = parameter(parameters.as_bytes(), b"boundary")?;
    let is_plain = boundary.iter().all(|byte| matches!(byte, b' '..=b'~'));
    let has_length = (1..=LONGEST_BOUNDARY).contains(&boundary.len());
    (is_plain && has_length).then_some(boundary)
}

/// The file name in a part's head. `None` if the part is not a file.
pub(super) fn file_name(head: &[u8]) -> Result<Option<Vec<u8>>, FormError> {
    let malformed = FormError::Malformed("a part's head cannot be read");
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let Ok(httparse::Status::Complete((_, fields))) = httparse::parse_headers(head, &mut fields)
    else {
        return Err(malformed);
    };
    let mut dispositions = fields
        .iter()
        .filter(|field| field.name.eq_ignore_ascii_case("content-disposition"));
    let Some(disposition) = dispositions.next() else {
        return Ok(None);
    };
    if dispositions.next().is_some() {
        return Err(FormError::Malformed("a part has two dispositions"));
    }
    let Some(at) = disposition.value.iter().position(|byte| *byte == b';') else {
        return Ok(None);
    };
    let name = parameter(&disposition.value[at + 1..], b"filename");
    Ok(name
        .map(|name| last_segment(&unescaped(&name)).to_vec())
        .filter(|name| !name.is_empty()))
}

/// A parameter's value, quoted or not.
fn parameter(text: &[u8], name: &[u8]) -> Option<Vec<u8>> {
    let mut rest = text;
    loop {
        let equals = rest.iter().position(|byte| *byte == b'=')?;
        let found = rest[..equals].trim_ascii().trim_ascii_start();
        let found = found.strip_prefix(b";").unwrap_or(found).trim_ascii();
        let (value, after) = value(rest[equals + 1..].trim_ascii_start())?;
        if found.eq_ignore_ascii_case(name) {
            return Some(value);
        }
        rest = after;
    }
}

/// The value at the beginning of a text, and the rest.
fn value(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let Some(quoted) = text.strip_prefix(b"\"") else {
        let end = text
            .iter()
            .position(|byte| *byte == b';')
            .unwrap_or(text.len());
        return Some((text[..end].trim_ascii().to_vec(), &text[end..]));
    };
    let mut value = Vec::new();
    let mut at = 0;
    loop {
        let byte = *quoted.get(at)?;
        let rest = quoted.get(at + 1..).unwrap_or_default();
        match byte {
            b'"' => return Some((value, rest)),
            // Browsers leave a backslash as it is, other clients escape a quote with one. Before
            // the last quote it belongs to the name.
            b'\\' if rest.first() == Some(&b'"') && !ends(&rest[1..]) => {
                value.push(b'"');
                at += 1;
            }
            other => value.push(other),
        }
        at += 1;
    }
}

/// Whether a value ends before this text.
fn ends(text: &[u8]) -> bool {
    matches!(text.trim_ascii_start().first(), None | Some(b';'))
}

/// Undoes the escapes of the three bytes that browsers cannot put into quotes (HTML 4.10.21.8), and
/// no others.
fn unescaped(name: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((byte, after)) = rest.split_first() {
        let (byte, after) = match rest {
            [b'%', b'2', b'2', after @ ..] => (b'"', after),
            [b'%', b'0', b'A' | b'a', after @ ..] => (b'\n', after),
            [b'%', b'0', b'D' | b'd', after @ ..] => (b'\r', after),
            _ => (*byte, after),
        };
        plain.push(byte);
        rest = after;
    }
    plain
}

/// The part after the last slash; for a Windows path, after the last backslash.
fn last_segment(name: &[u8]) -> &[u8] {
    let is_windows = matches!(name, [drive, b':', b'\\', ..] if drive.is_ascii_alphabetic());
    let is_end = |byte: &u8| *byte == b'/' || (is_windows && *byte == b'\\');
    match name.iter().rposition(is_end) {
        Some(at) => &name[at + 1..],
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn boundaries_are_read() {
        let cases: [(&str, Option<&str>); 10] = [
            (
                "multipart/form-data; boundary=----WebKitFormBoundaryx",
                Some("----WebKitFormBoundaryx"),
            ),
            (
                "Multipart/Form-Data;charset=utf-8; BOUNDARY=\"a b\"",
                Some("a b"),
            ),
            ("multipart/form-data; boundary=a; x=y", Some("a")),
            ("multipart/form-data; xboundary=a", None),
            ("multipart/form-data", None),
            ("multipart/form-data; boundary=", None),
            ("multipart/form-data; boundary=\"", None),
            ("multipart/form-data; boundary=\u{e9}", None),
            ("multipart/mixed; boundary=a", None),
            ("text/plain", None),
        ];
        for (content_type, expected) in cases {
            assert_eq!(
                boundary(content_type).as_deref(),
                expected.map(str::as_bytes),
                "{content_type}"
            );
        }
        assert!(boundary(&format!("multipart/form-data; boundary={}", "b".repeat(71))).is_none());
    }

    #[test]
    fn d1_form_files_are_named_by_the_last_segment_only() {
        let cases: [(&str, Option<&str>); 18] = [
            (
                "form-data; name=\"file\"; filename=\"a b.txt\"",
                Some("a b.txt"),
            ),
            ("form-data; filename=plain; name=file", Some("plain")),
            (
                "form-data; name=\"x; filename=no\"; filename=\"yes\"",
                Some("yes"),
            ),
            ("form-data; name=\"file\"; filename=\"\"", None),
            ("form-data; name=\"file\"", None),
            ("form-data", None),
            ("form-data; name=\"filename\"", None),
            ("form-data; filename=\"../../etc/passwd\"", Some("passwd")),
            ("form-data; filename=\"C:\\dir\\a.txt\"", Some("a.txt")),
            ("form-data; filename=\"a\\b\"", Some("a\\b")),
            ("form-data; filename=\"a\\\"", Some("a\\")),
            ("form-data; filename=\"a\\\"; name=x", Some("a\\")),
            ("form-data; filename=\"a\\\"b\"", Some("a\"b")),
            ("form-data; filename=\"%22%0d%0A%41\"", Some("\"\r\n%41")),
            ("form-data; filename=\"..\"", Some("..")),
            ("form-data; filename=\"dir/\"", None),
            ("form-data; filename=\"unfinished", None),
            ("form-data; filename*=utf-8''x", None),
        ];
        for (disposition, expected) in cases {
            let head = format!("Content-Disposition: {disposition}\r\nContent-Type: x/y\r\n\r\n");
            let name = file_name(head.as_bytes()).expect("a head");
            assert_eq!(
                name.as_deref(),
                expected.map(str::as_bytes),
                "{disposition}"
            );
        }
        assert!(file_name(b"\r\n").expect("a head").is_none());
        assert!(file_name(b"no head\r\n\r\n").is_err());
        let twice = "Content-Disposition: form-data; filename=a\r\n".repeat(2) + "\r\n";
        assert!(file_name(twice.as_bytes()).is_err());
        let many = "A: b\r\n".repeat(MOST_FIELDS + 1) + "\r\n";
        assert!(file_name(many.as_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn form_file_names_survive_a_round_trip(name in "[^/\0\u{1}-\u{1f}\u{7f}]{1,20}") {
            // A percent sign may begin an escape, and a drive is cut off.
            prop_assume!(!name.contains('%') && !name.contains(':'));
            // Before a quote, a backslash is ambiguous.
            prop_assume!(!name.contains("\\\""));
            let written = name.replace('"', "%22");
            let head = format!("Content-Disposition: form-data; name=\"file\"; filename=\"{written}\"\r\n\r\n");
            prop_assert_eq!(file_name(head.as_bytes()).expect("a head"), Some(name.into_bytes()));
        }

        #[test]
        fn no_head_panics(head in prop::collection::vec(prop::sample::select(b"content-disposition:;= \"\\filename\r\n%2".to_vec()), 0..80)) {
            let _ = file_name(&head);
            let text = String::from_utf8_lossy(&head);
            let _ = boundary(&format!("multipart/form-data;{text}"));
            let _ = parameter(&head, b"filename");
        }
    }
}
