//! Files that another user may have put under a name that haul is about to use.
//!
//! In a folder like `/tmp` anybody can create `FILE.part` before haul does, with any content, and would own what becomes the user's file. A
//! kernel with `fs.protected_regular` refuses to open such a file for writing; haul does so on every kernel, and also for reading.

/// The bit with which only its owner may remove a file from a folder (sticky).
const ONLY_OWNERS_REMOVE: u32 = 0o1000;

/// The bits with which others than its owner may create files in a folder.
const OTHERS_MAY_WRITE: u32 = 0o022;

/// Whether what belongs to `owner`, in a folder of `folder_owner` with these permission bits, may have been planted for the user with the
/// number `user`: it belongs neither to him nor to the folder's owner, and others may create files there and not remove his. Where they may
/// remove his, they could replace the final file, too: such a folder is trusted, as one of a group.
#[must_use]
pub fn may_be_planted(owner: u32, user: u32, folder_owner: u32, folder_mode: u32) -> bool {
    owner != user
        && owner != folder_owner
        && folder_mode & ONLY_OWNERS_REMOVE != 0
        && folder_mode & OTHERS_MAY_WRITE != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_user_has_is_planted_where_only_owners_remove() {
        for mode in [0o1777, 0o1775, 0o3772] {
            assert!(may_be_planted(1, 2, 3, mode), "{mode:o}");
            assert!(may_be_planted(1, 0, 3, mode), "{mode:o}");
            assert!(!may_be_planted(2, 2, 3, mode), "{mode:o}: his own");
            assert!(
                !may_be_planted(3, 2, 3, mode),
                "{mode:o}: the folder's owner's"
            );
        }
        for mode in [0o755, 0o1755, 0o2775, 0o777] {
            assert!(!may_be_planted(1, 2, 3, mode), "{mode:o}");
        }
    }
}
