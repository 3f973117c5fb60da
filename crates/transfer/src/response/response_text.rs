//! What a response that brings no file says to people, in one line.

/// As much of a body is looked at, in bytes. The title of an error page comes early.
pub(crate) const MAX_RESPONSE_TEXT: usize = 4096;

/// Longer lines are cut, in characters.
const MAX_LINE: usize = 200;

/// The first line of a body that has words in it, without the tags of HTML and XML. `None` if it is not text. Control characters
/// become spaces.
#[must_use]
pub(crate) fn first_line_of_text(body: &[u8]) -> Option<String> {
    let body = &body[..body.len().min(MAX_RESPONSE_TEXT)];
    if body.contains(&0) {
        return None;
    }
    let text = String::from_utf8_lossy(body);
    let is_markup = text
        .trim_start_matches('\u{feff}')
        .trim_start()
        .starts_with('<');
    let text = if is_markup {
        without_tags(&text)
    } else {
        text.into_owned()
    };
    let line = text
        .lines()
        .map(str::trim)
        .find(|line| line.contains(char::is_alphanumeric))?;
    let words = line.split(|c: char| c.is_whitespace() || c.is_control());
    let mut line = words
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ");
    if let Some((end, _)) = line.char_indices().nth(MAX_LINE) {
        line.truncate(end);
        line.push_str("...");
    }
    Some(line)
}

/// The text with a space for each tag. A tag that does not end hides the rest.
fn without_tags(text: &str) -> String {
    let mut words = String::with_capacity(text.len());
    let mut is_tag = false;
    for c in text.chars() {
        match c {
            '<' => is_tag = true,
            '>' if is_tag => {
                is_tag = false;
                words.push(' ');
            }
            _ if is_tag => {}
            _ => words.push(c),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_words_of_servers_are_found() {
        for (body, expected) in [
            (
                "<html>\r\n<head><title>400 The plain HTTP request was sent to HTTPS port</title></head>\r\n<body>",
                "400 The plain HTTP request was sent to HTTPS port",
            ),
            (
                "<?xml version=\"1.0\"?>\n<Error><Code>NoSuchKey</Code><Message>No key.</Message></Error>",
                "NoSuchKey No key.",
            ),
            (
                "{\"error\": \"a <b> is missing\"}",
                "{\"error\": \"a <b> is missing\"}",
            ),
            (
                "\n\n  quota\texceeded\x1b[31m \nmore",
                "quota exceeded [31m",
            ),
        ] {
            assert_eq!(
                first_line_of_text(body.as_bytes()).as_deref(),
                Some(expected)
            );
        }
    }

    #[test]
    fn bodies_without_words_have_no_line() {
        for body in [
            &b""[..],
            b"\r\n",
            b"<html></html>",
            b"<html",
            b"PK\x03\x04\0\0",
            b"---\n",
        ] {
            assert_eq!(first_line_of_text(body), None, "{body:?}");
        }
    }

    #[test]
    fn long_lines_are_cut() {
        let line = first_line_of_text("ä".repeat(MAX_LINE + 1).as_bytes()).unwrap();
        assert_eq!(line, format!("{}...", "ä".repeat(MAX_LINE)));
    }

    proptest! {
        #[test]
        fn any_body_gives_one_short_line_without_control_characters(body: Vec<u8>) {
            if let Some(line) = first_line_of_text(&body) {
                prop_assert!(line.chars().count() <= MAX_LINE + 3);
                prop_assert!(!line.chars().any(char::is_control));
            }
        }
    }
}
