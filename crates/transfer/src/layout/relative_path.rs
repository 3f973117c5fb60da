//! Paths that a list names for its files: used as they are written, or refused.

use std::path::{Component, Path, PathBuf};

use crate::filename::has_reserved_suffix;

/// The longest component that file systems take, in bytes.
const MAX_COMPONENT_BYTES: usize = 255;

/// The longest path that Linux takes has 4096 bytes; the directory in front needs some of them.
const MAX_PATH_BYTES: usize = 3072;

/// Why a path cannot be used for a batch's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RelativePathError {
    /// Nothing, or nothing but dots and separators.
    #[error("the path is empty")]
    Empty,
    /// The path starts at the root.
    #[error("the path is absolute")]
    Absolute,
    /// The path has `..`.
    #[error("the path has a component '..'")]
    ParentComponent,
    /// The first component begins with a dot. In a home folder that may be `.bashrc`, and the author of a list need not be its user.
    #[error("the path begins with a dot, as files that programs read unasked")]
    Hidden,
    /// The path has a NUL, which no file system takes.
    #[error("the path has a NUL character")]
    Nul,
    /// The path has a control character: a list of files would show two lines for it.
    #[error("the path has a control character")]
    ControlCharacter,
    /// The path ends in a separator.
    #[error("the path names a directory")]
    Directory,
    /// A component has a suffix of the files that haul keeps next to a download.
    #[error("the path has a suffix that is reserved for temporary files")]
    ReservedSuffix,
    /// A component, or the whole path, is longer than file systems take.
    #[error("the path is longer than file systems take")]
    TooLong,
}

/// Parses a path of a list. Components `.` are left out.
///
/// # Errors
/// The path leads out of the directory, or cannot be a file's.
pub fn relative_path(text: &str) -> Result<PathBuf, RelativePathError> {
    if text.contains('\0') {
        return Err(RelativePathError::Nul);
    }
    if text.contains(char::is_control) {
        return Err(RelativePathError::ControlCharacter);
    }
    if text.len() > MAX_PATH_BYTES {
        return Err(RelativePathError::TooLong);
    }
    let mut path = PathBuf::new();
    for component in Path::new(text).components() {
        match component {
            Component::Prefix(_) | Component::RootDir => return Err(RelativePathError::Absolute),
            Component::ParentDir => return Err(RelativePathError::ParentComponent),
            Component::CurDir => {}
            Component::Normal(name) if name.len() > MAX_COMPONENT_BYTES => {
                return Err(RelativePathError::TooLong);
            }
            Component::Normal(name) if has_reserved_suffix(&name.to_string_lossy()) => {
                return Err(RelativePathError::ReservedSuffix);
            }
            Component::Normal(name)
                if path.as_os_str().is_empty() && name.as_encoded_bytes().starts_with(b".") =>
            {
                return Err(RelativePathError::Hidden);
            }
            Component::Normal(name) => path.push(name),
        }
    }
    if path.as_os_str().is_empty() {
        return Err(RelativePathError::Empty);
    }
    // `a/.` is a directory, as `a/` is.
    if text.ends_with(std::path::is_separator) || text.ends_with("/.") {
        return Err(RelativePathError::Directory);
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn c2_paths_of_lists() {
        for (text, path) in [
            ("a", "a"),
            ("a/b c/d.jpg", "a/b c/d.jpg"),
            ("./a//b/./c", "a/b/c"),
            ("a/.hidden/-x", "a/.hidden/-x"),
            ("a..b/...", "a..b/..."),
        ] {
            assert_eq!(relative_path(text), Ok(path.into()), "{text}");
        }
        let long = "n".repeat(256);
        let longer = "n/".repeat(1600) + "x";
        for (text, problem) in [
            ("", RelativePathError::Empty),
            (".", RelativePathError::Empty),
            ("./", RelativePathError::Empty),
            ("/", RelativePathError::Absolute),
            ("/etc/passwd", RelativePathError::Absolute),
            ("..", RelativePathError::ParentComponent),
            ("a/../../b", RelativePathError::ParentComponent),
            ("a/..", RelativePathError::ParentComponent),
            (".bashrc", RelativePathError::Hidden),
            ("./.ssh/authorized_keys", RelativePathError::Hidden),
            ("...", RelativePathError::Hidden),
            ("a\0b", RelativePathError::Nul),
            ("a/", RelativePathError::Directory),
            ("a/.", RelativePathError::Directory),
            ("f.haul-part", RelativePathError::ReservedSuffix),
            ("f.HAUL-journal", RelativePathError::ReservedSuffix),
            ("d.haul-part/f", RelativePathError::ReservedSuffix),
            (&long, RelativePathError::TooLong),
            (&longer, RelativePathError::TooLong),
        ] {
            assert_eq!(relative_path(text), Err(problem), "{text}");
        }
    }

    proptest! {
        #[test]
        fn c2_no_path_leads_out(text in "[ab./\\\\\u{0}:-]{0,12}") {
            if let Ok(path) = relative_path(&text) {
                prop_assert!(path.components().all(|part| matches!(part, Component::Normal(_))));
                prop_assert!(path.file_name().is_some());
                prop_assert_eq!(relative_path(path.to_str().unwrap()), Ok(path));
            }
        }
    }
}
