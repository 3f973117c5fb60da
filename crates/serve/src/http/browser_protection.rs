//! What keeps a browser from running what users store with the rights of this server's pages, and of the user who looks at it.

use http::HeaderMap;
use http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};

/// Types of which a browser shows nothing that runs, beside those of [`PASSIVE_FAMILIES`].
const PASSIVE_TYPES: [&str; 10] = [
    "application/gzip",
    "application/json",
    "application/octet-stream",
    "application/pdf",
    "application/zip",
    "text/css",
    "text/csv",
    "text/javascript",
    "text/markdown",
    "text/plain",
];

/// The beginnings of more such types. Only SVG is an image in which scripts run.
const PASSIVE_FAMILIES: [&str; 4] = ["audio/", "font/", "image/", "video/"];

/// Declares that the body is what Content-Type says.
pub fn forbid_sniffing(headers: &mut HeaderMap) {
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

/// Takes the rights of this server's pages from a body in which a browser may run scripts, by the Content-Type that the response has. One
/// without is no page where it may not be sniffed.
pub fn sandbox_active_content(headers: &mut HeaderMap) {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let is_active = match (types.next(), types.next()) {
        (Some(content_type), None) => !is_passive(content_type),
        (None, _) => false,
        _ => true,
    };
    if is_active {
        headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox"));
    }
}

/// Whether no browser runs anything in a body of this type. Any type that is not certain to be such a one may be active: browsers read
/// lists, odd cases and spaces, too.
fn is_passive(content_type: &HeaderValue) -> bool {
    let text = content_type.to_str().unwrap_or_default();
    let essence = text.split(';').next().unwrap_or_default().trim_end();
    let is_certain = !text.contains(',')
        && (essence.bytes())
            .all(|byte| byte.is_ascii_lowercase() || b"0123456789-.+/".contains(&byte));
    let is_family = |family: &&str| essence.starts_with(*family);
    is_certain
        && (PASSIVE_TYPES.contains(&essence) || PASSIVE_FAMILIES.iter().any(is_family))
        && !essence.ends_with("xml")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_sandboxed(types: &[&'static str]) -> bool {
        let mut headers = HeaderMap::new();
        for value in types {
            headers.append(CONTENT_TYPE, HeaderValue::from_static(value));
        }
        sandbox_active_content(&mut headers);
        headers.contains_key(CONTENT_SECURITY_POLICY)
    }

    #[test]
    fn only_types_that_are_certainly_passive_are_not_sandboxed() {
        for passive in [
            "image/png",
            "text/plain; charset=utf-8",
            "application/pdf",
            "video/mp4",
            "image/png ; a=b",
        ] {
            assert!(!is_sandboxed(&[passive]), "{passive}");
        }
        for active in [
            "text/html",
            "Text/HTML",
            " text/html",
            "text/html ; charset=utf-8",
            "image/svg+xml",
            "application/xml",
            "text/xsl",
            "multipart/x-mixed-replace; boundary=b",
            "image/png, text/html",
            "image/png;a=\", text/html\"",
            "IMAGE/SVG+XML",
            "image",
            "",
        ] {
            assert!(is_sandboxed(&[active]), "{active}");
        }
        assert!(is_sandboxed(&["image/png", "text/html"]) && !is_sandboxed(&[]));
    }
}
