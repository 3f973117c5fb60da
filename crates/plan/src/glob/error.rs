//! What may be wrong with a glob, and where.

/// Why a text is not a glob.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{problem}, at character {position}")]
pub struct GlobError {
    /// The first character of the mistake, counted from one.
    pub position: usize,
    /// The mistake.
    pub problem: GlobProblem,
}

/// A mistake in a glob.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GlobProblem {
    /// A set without its closing brace.
    #[error("'{{' without '}}'")]
    UnclosedSet,
    /// A range without its closing bracket.
    #[error("'[' without ']'")]
    UnclosedRange,
    /// A closing bracket or brace without an opening one.
    #[error("{0:?} without an opening bracket")]
    UnmatchedBracket(char),
    /// A range or a set within a set.
    #[error("{0:?} within a set")]
    Nested(char),
    /// `{}`.
    #[error("an empty set")]
    EmptySet,
    /// Neither numbers nor letters with a dash between.
    #[error("a range that is not like [1-100], [001-100:10] or [a-z]")]
    MalformedRange,
    /// The end is before the beginning, or is a letter of another case.
    #[error("a range that does not ascend")]
    DescendingRange,
    /// A step of zero, or longer than the range.
    #[error("a step that is zero or longer than the range")]
    InvalidStep,
    /// A number of more than 64 bits.
    #[error("a number that is too large")]
    NumberTooLarge,
    /// More than 64 bits can count.
    #[error("more URLs than can be counted")]
    TooManyUrls,
}
