//! The name of a download: from Content-Disposition (RFC 6266, RFC 8187) or the URL, always a safe base name.
//!
//! Whatever a peer writes, the result names a file inside the directory that the user chose: one component,
//! no separator, nothing that a shell, a terminal or another system takes for something else (row A25), and
//! no suffix of the files that haul keeps next to a download.

use std::borrow::Cow;

use http::HeaderValue;
use icu_normalizer::ComposingNormalizerBorrowed;
use percent_encoding::percent_decode_str;
use url::Url;

/// The longest name, in bytes: a file system allows 255, and the files next to a download add a suffix.
pub(crate) const MAX_LENGTH: usize = 200;

/// The name where neither header nor URL has one, as with wget.
pub(crate) const DEFAULT_NAME: &str = "index.html";

/// The suffixes of the files that haul keeps next to a download: the partial file, the journal, the file with a wrong
/// checksum.
pub(crate) const RESERVED_SUFFIXES: [&str; 4] = [
    ".haul-part",
    ".haul-journal",
    ".haul-bad-checksum",
    ".haul-fresh",
];

/// Names that Windows takes for devices, whatever their extension.
const WINDOWS_DEVICES: [&str; 22] = [
    "con", "prn", "aux", "nul", "com1", "com2", "com3", "com4", "com5", "com6", "com7", "com8",
    "com9", "lpt1", "lpt2", "lpt3", "lpt4", "lpt5", "lpt6", "lpt7", "lpt8", "lpt9",
];

/// The name in a Content-Disposition. `filename*` is preferred over `filename`, as RFC 6266 4.3 says.
#[must_use]
pub(crate) fn from_content_disposition(value: &HeaderValue) -> Option<String> {
    let text = String::from_utf8_lossy(value.as_bytes());
    let parameters = parameters(&text);
    let find = |name: &str| {
        parameters
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    };
    let extended = find("filename*").and_then(decode_extended_value);
    extended
        .or_else(|| find("filename").map(str::to_owned))
        .and_then(|name| sanitize(last_component(&name)))
}

/// The last component of a URL's path, decoded.
#[must_use]
pub(crate) fn from_url(url: &Url) -> String {
    let last = url.path().rsplit('/').next().unwrap_or_default();
    let decoded = percent_decode_str(last).decode_utf8_lossy();
    sanitize(last_component(&decoded)).unwrap_or_else(|| DEFAULT_NAME.to_owned())
}

/// Makes a name safe; `None` when nothing of it is left.
#[must_use]
pub(crate) fn sanitize(name: &str) -> Option<String> {
    let clean: String = name
        .chars()
        .map(|c| if is_safe_char(c) { c } else { '_' })
        .collect();
    // Dots and blanks at the end vanish on Windows; at the start they hide the file, and `..` is the parent
    // directory.
    let trimmed = clean
        .trim_start()
        .trim_end_matches(|c: char| c == '.' || c.is_whitespace());
    let trimmed = trimmed
        .strip_prefix('.')
        .map_or_else(|| trimmed.to_owned(), |rest| format!("_{rest}"));
    // Before the checks below: what is left of a long name may be nothing, or the name of a device.
    let trimmed = shorten(&trimmed);
    if trimmed.is_empty() || trimmed.bytes().all(|byte| byte == b'_' || byte == b'.') {
        return None;
    }
    let stem = trimmed
        .split('.')
        .next()
        .unwrap_or_default()
        .to_ascii_lowercase();
    let named = if WINDOWS_DEVICES.contains(&stem.trim_end()) || trimmed.starts_with('-') {
        format!("_{trimmed}")
    } else {
        trimmed
    };
    Some(without_reserved_suffix(shorten(&named)))
}

/// Whether a name has a reserved suffix, on a file system that folds case.
#[must_use]
pub(crate) fn has_reserved_suffix(name: &str) -> bool {
    reserved_suffix_at(name).is_some()
}

/// Where a reserved suffix begins in a name. Dots and blanks after it do not count, as on Windows.
fn reserved_suffix_at(name: &str) -> Option<usize> {
    let name = name.trim_end_matches(|c: char| c == '.' || c.is_whitespace());
    let at = name.rfind('.')?;
    RESERVED_SUFFIXES
        .contains(&&*folded(&name[at..]))
        .then_some(at)
}

/// A name as a file system compares it that folds case and composes letters (Unicode's form C): names that it may take for the same
/// are equal.
pub(crate) fn folded(name: &str) -> Cow<'_, str> {
    if name.is_ascii() {
        return if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            Cow::Owned(name.to_ascii_lowercase())
        } else {
            Cow::Borrowed(name)
        };
    }
    // Through upper case, which joins letters that only look different (a long s and an s).
    let upper = name.chars().flat_map(char::to_uppercase);
    let lower: String = upper.flat_map(char::to_lowercase).collect();
    let composed = ComposingNormalizerBorrowed::new_nfc().normalize(&lower);
    Cow::Owned(composed.into_owned())
}

/// Replaces the dot of a reserved suffix: a finished file must not look like a partial file or a journal of another download,
/// or that download would take it for its own. The length stays the same, so that this can be the last step.
fn without_reserved_suffix(mut name: String) -> String {
    if let Some(at) = reserved_suffix_at(&name) {
        name.replace_range(at..=at, "_");
    }
    name
}

/// Letters, digits and punctuation of any script; no separators, wildcards, control characters or direction
/// marks.
fn is_safe_char(c: char) -> bool {
    let direction = matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    !c.is_control()
        && !direction
        && !matches!(
            c,
            '/' | '\\' | ':' | '*' | '?' | '"' | '<' | '>' | '|' | '\u{fffd}'
        )
}

/// The text after the last separator of any system.
fn last_component(name: &str) -> &str {
    name.rsplit(['/', '\\']).next().unwrap_or_default()
}

/// Splits a name before its extension, which keeps its dot. A long suffix is not an extension, nor is the
/// whole name.
pub(crate) fn split_extension(name: &str) -> (&str, &str) {
    /// Longer suffixes are part of the name.
    const MAX_EXTENSION_LENGTH: usize = 16;
    match name.rfind('.') {
        Some(dot) if dot > 0 && name.len() - dot <= MAX_EXTENSION_LENGTH => name.split_at(dot),
        _ => (name, ""),
    }
}

/// A name with a tag before its extension; cut before the tag, at a character's boundary, if the whole would
/// be too long.
pub(crate) fn with_tag(name: &str, tag: &str) -> String {
    let (stem, ending) = split_extension(name);
    let mut cut = stem.len().min(MAX_LENGTH - ending.len() - tag.len());
    while !stem.is_char_boundary(cut) {
        cut -= 1;
    }
    let stem = stem[..cut].trim_end_matches(|c: char| c == '.' || c.is_whitespace());
    format!("{stem}{tag}{ending}")
}

/// Cuts a long name before its extension.
fn shorten(name: &str) -> String {
    if name.len() <= MAX_LENGTH {
        name.to_owned()
    } else {
        with_tag(name, "")
    }
}

/// `name=value` pairs, names in lower case, quoted strings unescaped.
fn parameters(text: &str) -> Vec<(String, String)> {
    /// The most parameters that are read.
    const MAX_PARAMETERS: usize = 16;
    let mut found = Vec::new();
    // The type comes first (`attachment; filename=x`). Some servers leave it out, and clients have always accepted that.
    let (first, after_first) = text.split_once(';').unwrap_or((text, ""));
    let mut rest = if first.contains('=') {
        text
    } else {
        after_first
    };
    while found.len() < MAX_PARAMETERS {
        let Some((name, after)) = rest.split_once('=') else {
            break;
        };
        let (value, after) = parameter_value(after.trim_start());
        found.push((
            name.trim_matches([' ', '\t', ';']).to_ascii_lowercase(),
            value,
        ));
        rest = after;
    }
    found
}

/// A token or quoted string, and the text after its semicolon.
fn parameter_value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let (token, rest) = text.split_once(';').unwrap_or((text, ""));
        return (token.trim().to_owned(), rest);
    };
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (value, &quoted[at + 1..]),
            '\\' => value.extend(chars.next().map(|(_, escaped)| escaped)),
            _ => value.push(c),
        }
    }
    (value, "")
}

/// RFC 8187 3.2: `charset'language'percent-encoded`, in UTF-8 or ISO-8859-1.
fn decode_extended_value(text: &str) -> Option<String> {
    let mut parts = text.splitn(3, '\'');
    let (charset, _language, encoded) = (parts.next()?, parts.next()?, parts.next()?);
    let bytes: Vec<u8> = percent_decode_str(encoded).collect();
    match charset.to_ascii_lowercase().as_str() {
        "utf-8" => String::from_utf8(bytes).ok(),
        "iso-8859-1" => Some(bytes.into_iter().map(char::from).collect()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
