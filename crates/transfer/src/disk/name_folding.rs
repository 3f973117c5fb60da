//! Whether a folder takes names for one that differ in the case of letters, or in the way to compose them (row B10).

use std::path::Path;

/// Whether the folder that a path is in, or will be in, folds names. True where it cannot be found out: two files for one name would
/// cost one of them.
pub(crate) fn folds_names(path: &Path) -> bool {
    let mut folders = path.ancestors().skip(1).map(super::or_current_directory);
    let folder = folders.find(|folder| folder.is_dir());
    folder.is_none_or(|folder| {
        let probe = format!("{:016x}", rand::random::<u64>());
        takes_for_one(&probe, |name, others| {
            let created = folder.join(name);
            let exists = |other: &String| folder.join(other).symlink_metadata().is_ok();
            std::fs::File::create_new(&created)?;
            let found = others.iter().any(exists);
            std::fs::remove_file(&created)?;
            Ok(found)
        })
    })
}

/// Creates a file whose name has `unique` in it, and looks for it under names that differ from its own only in case or in Unicode form.
fn takes_for_one(
    unique: &str,
    mut finds_under: impl FnMut(&str, &[String]) -> std::io::Result<bool>,
) -> bool {
    let name = format!(".haul-names-\u{e9}-{unique}");
    let others = [
        format!(".HAUL-names-\u{e9}-{unique}"),
        format!(".haul-names-e\u{301}-{unique}"),
    ];
    finds_under(&name, &others).unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn b10_this_folder_has_a_file_for_each_name() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!folds_names(&dir.path().join("file")));
        // The folder will be made in one that is there.
        assert!(!folds_names(&dir.path().join("a/b/file")));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        let is_a_file = dir.path().join("is-a-file");
        std::fs::write(&is_a_file, "").unwrap();
        assert!(!folds_names(&is_a_file.join("b")));
    }

    #[test]
    fn b10_both_kinds_of_folding_are_found() {
        let folds = |fold: fn(&str) -> String| {
            takes_for_one("x", |name, others| {
                assert!(others.iter().all(|other| other != name));
                Ok(others.iter().any(|other| fold(other) == fold(name)))
            })
        };
        assert!(folds(str::to_lowercase));
        assert!(folds(|name| name.replace("e\u{301}", "\u{e9}")));
        assert!(!folds(str::to_owned));
        assert!(takes_for_one("x", |_, _| Err(io::Error::other("no file"))));
    }
}
