//! A pattern of many URLs in curl's syntax: `http://h/img[001-100].jpg`, `http://{a,b}.h/[a-z].txt`.
//!
//! A glob is parsed once, and each of its URLs is computed from its number alone. Nothing is ever listed in
//! memory: a hundred billion URLs cost as much as two. The last set or range varies fastest, as the last
//! digit of a counter does.

mod parse;

/// A pattern that expands to one URL or to many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob {
    /// Literal text, sets and ranges, from left to right.
    tokens: Vec<GlobToken>,
    /// How many URLs; never zero.
    len: u64,
}

/// A token of a glob.
#[derive(Debug, Clone, PartialEq, Eq)]
enum GlobToken {
    /// Literal text, unescaped.
    Fixed(String),
    /// One of these texts; never empty.
    Set(Vec<String>),
    /// One member of a progression.
    Range(GlobRange),
}

/// `[001-100:10]` or `[a-z:2]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct GlobRange {
    /// The first member: a number, or a letter's code.
    first: u64,
    /// The distance from one member to the next.
    step: u64,
    /// How many members there are; never zero.
    count: u64,
    format: GlobMemberFormat,
}

/// How the members of a range are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GlobMemberFormat {
    /// As an ASCII letter.
    Letter,
    /// As a number with leading zeros up to this many digits.
    Number(usize),
}

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

impl Glob {
    /// Parses a text. `\[`, `\]`, `\{` and `\}` stand for the characters themselves; so do `[]` and an IPv6
    /// address in brackets.
    ///
    /// # Errors
    /// The first mistake. The error repeats no part of the text, which may hold a password.
    pub fn parse(text: &str) -> Result<Self, GlobError> {
        let pieces = parse::parse_tokens(text)?;
        let mut counts = pieces.iter().map(GlobToken::count);
        let len = counts.try_fold(1_u64, u64::checked_mul).ok_or(GlobError {
            position: 1,
            problem: GlobProblem::TooManyUrls,
        })?;
        Ok(Self {
            tokens: pieces,
            len,
        })
    }

    /// How many URLs the glob expands to: at least one.
    #[must_use]
    #[expect(
        clippy::len_without_is_empty,
        reason = "no glob is empty: a text without tokens expands to itself"
    )]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// The URL of a number below [`len`](Self::len), counted from zero. It is text, not yet parsed.
    #[must_use]
    pub fn nth(&self, number: u64) -> Option<String> {
        (number < self.len).then(|| self.url_at(number))
    }

    /// All URLs, one at a time.
    pub fn urls(&self) -> impl Iterator<Item = String> + '_ {
        (0..self.len).map(|number| self.url_at(number))
    }

    /// Reads the number as a counter with a wheel for each token. The last wheel turns fastest, so the wheels
    /// are read from there.
    fn url_at(&self, mut number: u64) -> String {
        let mut wheels: Vec<u64> = Vec::with_capacity(self.tokens.len());
        for piece in self.tokens.iter().rev() {
            wheels.push(number % piece.count());
            number /= piece.count();
        }
        let mut url = String::new();
        for (piece, wheel) in self.tokens.iter().zip(wheels.into_iter().rev()) {
            match piece {
                GlobToken::Fixed(text) => url.push_str(text),
                GlobToken::Set(members) => {
                    let member = usize::try_from(wheel).ok().and_then(|at| members.get(at));
                    url.push_str(member.map_or("", String::as_str));
                }
                GlobToken::Range(range) => url.push_str(&range.member(wheel)),
            }
        }
        url
    }
}

impl GlobToken {
    /// How many texts the token expands to.
    fn count(&self) -> u64 {
        match self {
            Self::Fixed(_) => 1,
            Self::Set(members) => members.len() as u64,
            Self::Range(range) => range.count,
        }
    }
}

impl GlobRange {
    /// A member by its number, which is below the count, so that nothing here overflows.
    fn member(&self, number: u64) -> String {
        let value = self.first + number * self.step;
        match self.format {
            GlobMemberFormat::Letter => u8::try_from(value)
                .map(char::from)
                .unwrap_or_default()
                .into(),
            GlobMemberFormat::Number(width) => format!("{value:0width$}"),
        }
    }
}

#[cfg(test)]
mod tests;
