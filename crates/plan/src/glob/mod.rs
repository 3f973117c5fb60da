//! One text that stands for many URLs, as curl reads it: `http://h/img[001-100].jpg`, `http://{a,b}.h/[a-z].txt`.
//!
//! A glob is read once (`parse`), and each of its URLs is computed from its number alone. Nothing is ever listed in memory:
//! a hundred billion URLs cost as much as two. The last part varies fastest, as the last digit of a counter does.
//!
//! What a part stood for in a URL can be put into an output name: `#1` for the first, as in `-o 'image_#1.jpg'`.

mod error;
mod parse;

pub use error::{GlobError, GlobProblem};

/// A text that stands for one URL or for many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob {
    /// Fixed text and what varies, from left to right.
    tokens: Vec<GlobToken>,
    /// How many URLs; never zero.
    len: u64,
}

/// A piece of a glob.
#[derive(Debug, Clone, PartialEq, Eq)]
enum GlobToken {
    /// The same in each URL; escapes are undone.
    Fixed(String),
    /// One of these; never empty.
    Set(Vec<String>),
    /// One of a progression.
    Range(GlobRange),
}

/// `[001-100:10]` or `[a-z:2]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct GlobRange {
    /// Where it begins: a number, or a letter's code.
    first: u64,
    /// From one to the next.
    step: u64,
    /// How many there are; never zero.
    count: u64,
    /// How they are written.
    format: GlobMemberFormat,
}

/// How the members of a range are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GlobMemberFormat {
    /// As an ASCII letter.
    Letter,
    /// As a number with zeros in front, up to this many digits.
    Number(usize),
}

/// One URL of a glob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GlobUrl {
    /// The URL, as text: whether it is one, nobody has looked yet.
    pub url: String,
    /// What each part that varies stands for in it, from left to right.
    pub captures: Vec<String>,
}

impl Glob {
    /// Reads a text. `\[`, `\]`, `\{` and `\}` stand for the characters themselves; so do `[]` and what is an IPv6 address
    /// in brackets.
    ///
    /// # Errors
    /// What is wrong, and at which character. No part of the text is repeated: it may hold a password.
    pub fn parse(text: &str) -> Result<Self, GlobError> {
        let pieces = parse::parse_tokens(text)?;
        let mut counts = pieces.iter().map(GlobToken::count);
        let len = counts.try_fold(1_u64, u64::checked_mul);
        let len = len.ok_or(GlobError {
            position: 1,
            problem: GlobProblem::TooManyUrls,
        })?;
        Ok(Self {
            tokens: pieces,
            len,
        })
    }

    /// How many URLs it stands for: at least one.
    #[must_use]
    #[expect(
        clippy::len_without_is_empty,
        reason = "no glob is empty: the least that a text stands for is itself"
    )]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether nothing in it varies and nothing was written to vary: a plain URL.
    #[must_use]
    pub fn is_literal(&self) -> bool {
        self.tokens
            .iter()
            .all(|piece| matches!(piece, GlobToken::Fixed(_)))
    }

    /// The URL of a number below [`len`](Self::len), counted from zero.
    #[must_use]
    pub fn nth(&self, number: u64) -> Option<GlobUrl> {
        (number < self.len).then(|| self.url_at(number))
    }

    /// All URLs with what varied in them, one at a time.
    pub fn items(&self) -> impl Iterator<Item = GlobUrl> + '_ {
        (0..self.len).map(|number| self.url_at(number))
    }

    /// All URLs, one at a time.
    pub fn urls(&self) -> impl Iterator<Item = String> + '_ {
        self.items().map(|item| item.url)
    }

    /// Reads a number as a counter whose wheels are the pieces. The last turns fastest, so the wheels are read from there.
    fn url_at(&self, mut number: u64) -> GlobUrl {
        let mut wheels: Vec<u64> = Vec::with_capacity(self.tokens.len());
        for piece in self.tokens.iter().rev() {
            wheels.push(number % piece.count());
            number /= piece.count();
        }
        let mut item = GlobUrl {
            url: String::new(),
            captures: Vec::new(),
        };
        for (piece, wheel) in self.tokens.iter().zip(wheels.into_iter().rev()) {
            match piece {
                GlobToken::Fixed(text) => item.url.push_str(text),
                GlobToken::Set(members) => {
                    let member = usize::try_from(wheel).ok().and_then(|at| members.get(at));
                    item.push_capture(member.cloned().unwrap_or_default());
                }
                GlobToken::Range(range) => item.push_capture(range.member(wheel)),
            }
        }
        item
    }
}

impl GlobToken {
    /// How many texts it stands for.
    fn count(&self) -> u64 {
        match self {
            Self::Fixed(_) => 1,
            Self::Set(members) => members.len() as u64,
            Self::Range(range) => range.count,
        }
    }
}

impl GlobRange {
    /// A member by its number, which is below the count: so nothing here overflows.
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

impl GlobUrl {
    /// Appends what a part stands for.
    fn push_capture(&mut self, text: String) {
        self.url.push_str(&text);
        self.captures.push(text);
    }

    /// An output name with `#1`, `#2` and so on replaced by what those parts stand for. A `#` before anything but the number
    /// of a part stays, as with curl.
    #[must_use]
    pub fn fill_captures(&self, name: &str) -> String {
        let mut filled = String::with_capacity(name.len());
        let mut rest = name;
        while let Some(at) = rest.find('#') {
            filled.push_str(&rest[..at]);
            let after = &rest[at + 1..];
            let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let number = after[..digits].parse::<usize>().ok();
            match number.and_then(|n| self.captures.get(n.checked_sub(1)?)) {
                Some(capture) => filled.push_str(capture),
                None => filled.push_str(&rest[at..=at + digits]),
            }
            rest = &after[digits..];
        }
        filled.push_str(rest);
        filled
    }
}

#[cfg(test)]
mod tests;
