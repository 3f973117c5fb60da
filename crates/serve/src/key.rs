//! Object keys: the paths of files beneath the root, as bytes, validated once.
//!
//! A key is made from a request's path and nothing else. It has no empty segment, no `.`, no `..`,
//! no NUL and no escaped slash, so joining it to a directory names something beneath that
//! directory. Symbolic links may still lead out: the kernel checks those in
//! [`StoreRoot`](crate::store::StoreRoot). A key contains no name that the store reserves for
//! itself; `StoreRoot` refuses other names that the file system has for its folder.

use std::ffi::OsStr;
use std::fmt;
use std::path::Path;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

/// The directory beneath the root where the store keeps unfinished uploads.
pub const RESERVED_NAME: &str = ".haul";

/// Prefix of the temporary files for uploads onto file systems that are mounted beneath the root.
/// The store reserves such names in every folder.
pub const RESERVED_PREFIX: &str = ".haul-put-";

/// Maximum bytes of a key: `PATH_MAX` less what the kernel needs.
const MAX_KEY_BYTES: usize = 4000;

/// Maximum bytes of a segment (`NAME_MAX`).
const MAX_SEGMENT_BYTES: usize = 255;

/// The characters of a file name that need no escape in a URL path (RFC 3986 3.3).
const UNESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b'=')
    .remove(b'@');

/// The path of a file or folder beneath the root. The root itself is the empty key.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ObjectKey {
    /// Segments joined by slashes, with no slash at either end.
    path: Box<[u8]>,
}

/// A request's path, parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestPath {
    /// The file or folder that the path names.
    pub key: ObjectKey,
    /// Whether the path ended in a slash, as the paths of folders do.
    pub is_folder: bool,
}

/// Why a path is not a valid key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ObjectKeyError {
    /// The path does not begin with a slash.
    #[error("the path does not begin with a slash")]
    Relative,
    /// A segment is `.` or `..`, escaped or not.
    #[error("a segment of the path is . or ..")]
    DotSegment,
    /// Two slashes in a row.
    #[error("a segment of the path is empty")]
    EmptySegment,
    /// An escape for a byte that no file name can hold: a slash or a NUL.
    #[error("the path contains an escaped slash or NUL")]
    EscapedSeparator,
    /// A percent sign without two hexadecimal digits after it.
    #[error("the path contains a percent sign that is not an escape")]
    BadEscape,
    /// The path or a segment has too many bytes.
    #[error("the path is too long")]
    TooLong,
    /// The store reserves this name for itself.
    #[error("the store reserves that name")]
    Reserved,
}

impl ObjectKey {
    #[must_use]
    pub fn root() -> Self {
        Self::default()
    }

    /// Parses the path of a request's target as it was sent: escaped, with its first slash, without
    /// a query.
    ///
    /// # Errors
    /// See [`ObjectKeyError`]. Each segment is decoded once and checked after that.
    pub fn parse(path: &str) -> Result<RequestPath, ObjectKeyError> {
        let rest = path.strip_prefix('/').ok_or(ObjectKeyError::Relative)?;
        let (rest, is_folder) = match rest.strip_suffix('/') {
            Some(rest) => (rest, true),
            None => (rest, rest.is_empty()),
        };
        if rest.is_empty() {
            // `//` is not another name of the root.
            let key = Self::root();
            return match path.len() {
                1 => Ok(RequestPath { key, is_folder }),
                _ => Err(ObjectKeyError::EmptySegment),
            };
        }
        let mut bytes = Vec::with_capacity(rest.len());
        for segment in rest.split('/') {
            push_escaped(&mut bytes, segment)?;
        }
        let key = Self {
            path: bytes.into_boxed_slice(),
        };
        Ok(RequestPath { key, is_folder })
    }

    /// The key of the entry called `name` in this folder.
    ///
    /// # Errors
    /// When `name` is not a valid file name.
    pub fn child(&self, name: &[u8]) -> Result<Self, ObjectKeyError> {
        let mut bytes = self.path.to_vec();
        push_name(&mut bytes, name)?;
        Ok(Self {
            path: bytes.into_boxed_slice(),
        })
    }

    #[must_use]
    pub fn is_root(&self) -> bool {
        self.path.is_empty()
    }

    /// The segments, joined by slashes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.path
    }

    /// The path relative to the root. The root itself is `.`, as system calls want it.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        use std::os::unix::ffi::OsStrExt;
        let bytes: &[u8] = if self.is_root() { b"." } else { &self.path };
        Path::new(OsStr::from_bytes(bytes))
    }

    /// The parent folder and the name in it; `None` for the root.
    #[must_use]
    pub fn split_parent(&self) -> Option<(Self, &[u8])> {
        let (folder, name) = self.split_parent_ref()?;
        Some((
            Self {
                path: folder.into(),
            },
            name,
        ))
    }

    /// The same without a copy: the parent's bytes and the name.
    pub(crate) fn split_parent_ref(&self) -> Option<(&[u8], &[u8])> {
        if self.is_root() {
            return None;
        }
        match self.path.iter().rposition(|byte| *byte == b'/') {
            Some(at) => Some((&self.path[..at], &self.path[at + 1..])),
            None => Some((&[], &self.path)),
        }
    }

    /// Iterates over the segments.
    pub fn segments(&self) -> impl Iterator<Item = &[u8]> {
        let all = self.path.split(|byte| *byte == b'/');
        all.filter(|segment| !segment.is_empty())
    }

    /// The first segment, if a file system may take it for [`RESERVED_NAME`]: one that folds case, or FAT, which ignores dots at the end
    /// and gives short names such as `HAUL~1`.
    pub(crate) fn name_like_reserved(&self) -> Option<&[u8]> {
        let first = self.segments().next()?;
        let is_like = || {
            let dots = first.iter().rev().take_while(|byte| **byte == b'.').count();
            let name = &first[..first.len() - dots];
            may_fold_to_dot(first) && folded(name).eq(RESERVED_NAME.bytes())
        };
        let is_short_name = |pair: &[u8]| pair[0] == b'~' && pair[1].is_ascii_digit();
        (is_like() || first.windows(2).any(is_short_name)).then_some(first)
    }

    /// Whether this key is `folder` or beneath it.
    #[must_use]
    pub fn is_within(&self, folder: &Self) -> bool {
        folder.is_root()
            || self
                .path
                .strip_prefix(&*folder.path)
                .is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
    }

    /// The key as a URL path: escaped, with its first slash.
    #[must_use]
    pub fn escaped(&self) -> String {
        let mut text = String::with_capacity(self.path.len() + 1);
        self.segments().for_each(|segment| {
            text.push('/');
            text.extend(percent_encode(segment, UNESCAPED));
        });
        if text.is_empty() {
            "/".to_owned()
        } else {
            text
        }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}", self.path.escape_ascii())
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

/// A file name, escaped for a URL path.
#[must_use]
pub fn escaped_name(name: &[u8]) -> String {
    percent_encode(name, UNESCAPED).to_string()
}

/// Whether the store reserves this name for itself. `at_top` says that the name is directly beneath
/// the root. Names that a file system which folds case may take for those of temporary files are reserved, too.
#[must_use]
pub fn is_reserved(at_top: bool, name: &[u8]) -> bool {
    // Most names are none, by their first byte.
    if !may_fold_to_dot(name) {
        return false;
    }
    (at_top && name == RESERVED_NAME.as_bytes())
        || folded(name)
            .take(RESERVED_PREFIX.len())
            .eq(RESERVED_PREFIX.bytes())
}

fn may_fold_to_dot(name: &[u8]) -> bool {
    matches!(name.first(), Some(b'.' | 0x80..))
}

/// A name as a file system that folds case may compare it: without case, and without characters that nobody sees, none of which are
/// ASCII.
fn folded(name: &[u8]) -> impl Iterator<Item = u8> {
    let seen = name.iter().filter(|byte| byte.is_ascii());
    seen.map(u8::to_ascii_lowercase)
}

/// Decodes a segment and appends it.
fn push_escaped(bytes: &mut Vec<u8>, segment: &str) -> Result<(), ObjectKeyError> {
    if !segment.contains('%') {
        return push_name(bytes, segment.as_bytes());
    }
    let mut escapes = segment.split('%').skip(1);
    let is_escape = |rest: &str| {
        let rest = rest.as_bytes();
        rest.len() >= 2 && rest[..2].iter().all(u8::is_ascii_hexdigit)
    };
    if !escapes.all(is_escape) {
        return Err(ObjectKeyError::BadEscape);
    }
    let name: Vec<u8> = percent_decode_str(segment).collect();
    push_name(bytes, &name)
}

/// Appends a decoded segment.
fn push_name(bytes: &mut Vec<u8>, name: &[u8]) -> Result<(), ObjectKeyError> {
    match name {
        b"" => return Err(ObjectKeyError::EmptySegment),
        b"." | b".." => return Err(ObjectKeyError::DotSegment),
        _ if name.iter().any(|byte| matches!(byte, b'/' | 0)) => {
            return Err(ObjectKeyError::EscapedSeparator);
        }
        _ if is_reserved(bytes.is_empty(), name) => return Err(ObjectKeyError::Reserved),
        _ => {}
    }
    if !bytes.is_empty() {
        bytes.push(b'/');
    }
    bytes.extend_from_slice(name);
    let is_long = name.len() > MAX_SEGMENT_BYTES || bytes.len() > MAX_KEY_BYTES;
    if is_long {
        Err(ObjectKeyError::TooLong)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(path: &str) -> ObjectKey {
        ObjectKey::parse(path).expect("a key").key
    }

    #[test]
    fn d1_paths_that_climb_or_hide_are_refused() {
        use ObjectKeyError::{
            BadEscape, DotSegment, EmptySegment, EscapedSeparator, Relative, Reserved, TooLong,
        };
        let long = format!("/{}", "x/".repeat(2500));
        let name = format!("/{}", "x".repeat(256));
        let cases = [
            ("", Relative),
            ("*", Relative),
            ("/..", DotSegment),
            ("/a/../b", DotSegment),
            ("/%2e%2E/etc/passwd", DotSegment),
            ("/.%2e/x", DotSegment),
            ("/a/./b", DotSegment),
            ("//", EmptySegment),
            ("//etc", EmptySegment),
            ("/a//b", EmptySegment),
            ("/a%2fb", EscapedSeparator),
            ("/..%2f..%2fetc", EscapedSeparator),
            ("/a%00", EscapedSeparator),
            ("/100%", BadEscape),
            ("/%zz", BadEscape),
            ("/%2", BadEscape),
            (long.as_str(), TooLong),
            (name.as_str(), TooLong),
            ("/.haul", Reserved),
            ("/.haul/x", Reserved),
            ("/%2ehaul/x", Reserved),
            ("/a/.haul-put-1", Reserved),
            ("/a/.Haul-Put-1", Reserved),
            ("/a/%e2%80%8c.haul-put-1", Reserved),
        ];
        for (path, why) in cases {
            assert_eq!(ObjectKey::parse(path), Err(why), "{path:.40}");
        }
    }

    #[test]
    fn a_name_like_the_stores_own_folder_is_found_by_its_letters() {
        for (path, is_like) in [
            ("/.HAUL/x", true),
            ("/.h%e2%80%8caul", true),
            ("/%e2%80%8c.haul", true),
            ("/.haul./x", true),
            ("/HAUL~1/x", true),
            ("/.haulage", false),
            ("/~alice/x~", false),
            ("/x/.HAUL", false),
        ] {
            assert_eq!(key(path).name_like_reserved().is_some(), is_like, "{path}");
        }
    }

    #[test]
    fn d1_odd_but_valid_paths_are_keys() {
        let cases: [(&str, &[u8]); 7] = [
            ("/a%20b", b"a b"),
            ("/%252e%252e/x", b"%2e%2e/x"),
            ("/..%5c..%5cetc", b"..\\..\\etc"),
            ("/%ff", b"\xff"),
            ("/...", b"..."),
            ("/.haulage", b".haulage"),
            ("/a/.haul", b"a/.haul"),
        ];
        for (path, bytes) in cases {
            assert_eq!(key(path).as_bytes(), bytes, "{path}");
        }
    }

    #[test]
    fn a_path_with_a_final_slash_is_a_folders() {
        let is_folder = |path| ObjectKey::parse(path).map(|named| named.is_folder);
        assert_eq!(is_folder("/"), Ok(true));
        assert_eq!(is_folder("/a/"), Ok(true));
        assert_eq!(is_folder("/a"), Ok(false));
        assert_eq!(key("/a/"), key("/a"));
    }

    #[test]
    fn keys_know_their_parents() {
        let deep = key("/a/b/c");
        assert_eq!(deep.split_parent(), Some((key("/a/b"), &b"c"[..])));
        assert_eq!(
            key("/a").split_parent(),
            Some((ObjectKey::root(), &b"a"[..]))
        );
        assert_eq!(ObjectKey::root().split_parent(), None);
        assert!(deep.is_within(&ObjectKey::root()) && deep.is_within(&key("/a/b")));
        assert!(deep.is_within(&deep) && !key("/ab").is_within(&key("/a")));
        assert!(!key("/a").is_within(&deep));
        assert_eq!(key("/a").child(b"x"), Ok(key("/a/x")));
        assert_eq!(key("/a").child(b".."), Err(ObjectKeyError::DotSegment));
        assert_eq!(ObjectKey::root().as_path(), Path::new("."));
    }

    proptest! {
        #[test]
        fn names_survive_a_url_round_trip(names in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..20), 1..5)) {
            let made = names.iter().try_fold(ObjectKey::root(), |key, name| key.child(name));
            if let Ok(made) = made {
                let escaped = made.escaped();
                prop_assert!(escaped.is_ascii());
                prop_assert_eq!(ObjectKey::parse(&escaped), Ok(RequestPath { key: made, is_folder: false }));
            }
        }

        #[test]
        fn no_path_leads_out(path in "(/|\\.|%2e|%2f|%5c|%|[a-c%]|\\.haul){0,24}") {
            if let Ok(named) = ObjectKey::parse(&path) {
                for segment in named.key.segments() {
                    prop_assert!(segment != b"." && segment != b".." && !segment.contains(&b'/'));
                }
                prop_assert!(!named.key.as_path().is_absolute());
            }
        }
    }
}
