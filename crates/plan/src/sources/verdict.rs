//! What [`SourceSet`](super::SourceSet) say.

use std::time::Duration;

use crate::checksum::DigestAlgorithm;

/// What there is beside validators to tell that bytes are those of the file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IntegrityEvidence {
    /// What comes is compared with digests of the whole file or of its pieces.
    pub verified: bool,
    /// With digests of pieces, so that it is known whose bytes are bad, and only they are fetched again.
    pub pieces: bool,
    /// The user asked for several connections, and so for answers that nothing tells apart to be joined.
    pub told: bool,
}

/// What follows a source's failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceRecovery {
    /// It is the only one that lives: the course of the job says.
    Course,
    /// It is asked no more, and no byte of it is taken any more.
    Dropped,
    /// It is asked again after this time, others meanwhile.
    Rests(Duration),
    /// It does not want more connections than it has.
    Fewer,
    /// Its first URL is asked again.
    ResolveAgain,
    /// It is asked again at once, without If-Range from now on.
    WithoutIfRange,
}

/// Who brings a bad piece the next time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PieceRetry {
    /// Whoever comes to it.
    FromAny,
    /// This source alone, all of it.
    FromOne(usize),
    /// Nobody: it has been bad too often.
    GiveUp,
}

/// Why a source's bytes may not go into the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SourceMismatch {
    /// A file of another length.
    #[error("it has {} bytes where the others have {}", DisplayLength(*.found), DisplayLength(*.expected))]
    Size {
        /// What the first source said.
        expected: Option<u64>,
        /// What this one says.
        found: Option<u64>,
    },
    /// A file with another digest.
    #[error("it announces another {0} than the others")]
    Digest(DigestAlgorithm),
    /// A file of another date, and nothing says that it is the same all the same.
    #[error("it has a file of another date than the others")]
    Date,
    /// Its date and its strong tag both say that it is another file, and what is wrong would be known when all has come.
    #[error("both its date and its tag are those of another version")]
    Version,
    /// Nothing but the length agrees, and nobody vouches for it.
    #[error("nothing tells that it has the same version")]
    Unproven,
    /// A change of its file would not be noticed.
    #[error("it gives neither ETag nor Last-Modified, so that a change would not be noticed")]
    Unpinned,
}

/// Prints a length that may not be known.
struct DisplayLength(Option<u64>);

impl std::fmt::Display for DisplayLength {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(length) => write!(f, "{length}"),
            None => f.write_str("an unknown number of"),
        }
    }
}
