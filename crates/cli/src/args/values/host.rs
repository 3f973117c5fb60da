//! Host names as a browser's address bar shows them: without a scheme and a port.

use super::{ValueError, quoted};

/// A host name, or `*` for any.
pub(crate) fn host_name(text: &str) -> Result<String, ValueError> {
    let name = text.trim();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if name == "*" || !name.is_empty() && name.chars().all(is_plain) {
        return Ok(name.to_owned());
    }
    Err(
        ValueError::new(format!("{} is not a host name", quoted(text))).with_hint(
            "write the name alone, without a scheme and a port, as files.example; `*` is any name",
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_names_alone() {
        for name in [
            "files.example",
            "A-b.c",
            "x_y",
            "*",
            "xn--bcher-kva.example",
        ] {
            assert_eq!(host_name(name).unwrap(), name);
        }
        for wrong in [
            "",
            "http://a.example",
            "a.example:80",
            "*.example",
            "a/b",
            "a b",
            "b\u{fc}.de",
        ] {
            assert!(host_name(wrong).is_err(), "{wrong}");
        }
    }
}
