//! What may be wrong with a glob, and where.

/// A text that is no glob.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{problem}, at character {position}")]
pub struct GlobError {
    /// Which character, counted from one: where what is wrong begins.
    pub position: usize,
    /// What is wrong.
    pub problem: GlobProblem,
}

/// What is wrong with a glob.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GlobProblem {
    /// A set that does not end.
    #[error("'{{' without '}}'")]
    UnclosedSet,
    /// A range that does not end.
    #[error("'[' without ']'")]
    UnclosedRange,
    /// An end where nothing began.
    #[error("{0:?} ends nothing")]
    UnmatchedBracket(char),
    /// Something that varies within a set.
    #[error("{0:?} within a set")]
    Nested(char),
    /// `{}`.
    #[error("an empty set")]
    EmptySet,
    /// Neither numbers nor letters with a dash between.
    #[error("no range as [1-100], [001-100:10] or [a-z]")]
    MalformedRange,
    /// The end comes before the beginning, or is of another kind of letter.
    #[error("a range that does not go up")]
    DescendingRange,
    /// A step that leads nowhere.
    #[error("a step that is zero or longer than the range")]
    InvalidStep,
    /// More than fits a number.
    #[error("a number that is too large")]
    NumberTooLarge,
    /// More URLs than can be counted.
    #[error("more URLs than can be counted")]
    TooManyUrls,
}
