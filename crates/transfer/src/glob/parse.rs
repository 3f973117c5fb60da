//! Parses a glob's text into tokens. Works on characters, because error messages count them.

use std::net::Ipv6Addr;

use super::{GlobError, GlobMemberFormat, GlobProblem, GlobRange, GlobToken};

/// The most digits of a number: as many as 64 bits have. It bounds the padding as well.
const MAX_DIGITS: usize = 20;

/// A position in the text.
struct GlobCursor<'a> {
    /// The text from here on.
    rest: &'a str,
    /// The next character's number, from one.
    position: usize,
}

/// All tokens of a text, neighbouring literal ones joined.
pub(super) fn parse_tokens(text: &str) -> Result<Vec<GlobToken>, GlobError> {
    let mut cursor = GlobCursor {
        rest: text,
        position: 1,
    };
    let (mut pieces, mut fixed) = (Vec::new(), String::new());
    while let Some(c) = cursor.peek() {
        let piece = match c {
            '[' if cursor.literal_len() > 0 => {
                let (literal, _) = cursor.rest.split_at(cursor.literal_len());
                fixed.push_str(literal);
                literal.chars().for_each(|_| cursor.skip());
                continue;
            }
            '[' => cursor.parse_range()?,
            '{' => cursor.parse_set()?,
            ']' | '}' => return Err(cursor.error(GlobProblem::UnmatchedBracket(c))),
            _ => {
                fixed.push(cursor.unescape("[]{}"));
                continue;
            }
        };
        if !fixed.is_empty() {
            pieces.push(GlobToken::Fixed(std::mem::take(&mut fixed)));
        }
        pieces.push(piece);
    }
    if !fixed.is_empty() {
        pieces.push(GlobToken::Fixed(fixed));
    }
    Ok(pieces)
}

impl GlobCursor<'_> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    /// Advances by one character.
    fn skip(&mut self) {
        self.rest = &self.rest[self.peek().map_or(0, char::len_utf8)..];
        self.position += 1;
    }

    /// Advances if the next character is this one.
    fn take(&mut self, c: char) -> bool {
        let is_next = self.peek() == Some(c);
        if is_next {
            self.skip();
        }
        is_next
    }

    /// An error at the cursor.
    fn error(&self, problem: GlobProblem) -> GlobError {
        GlobError {
            position: self.position,
            problem,
        }
    }

    /// The next character, or the one after a backslash if that one may be escaped.
    fn unescape(&mut self, escapable: &str) -> char {
        let mut chars = self.rest.chars();
        let (first, second) = (chars.next().unwrap_or_default(), chars.next());
        self.skip();
        match second {
            Some(escaped) if first == '\\' && escapable.contains(escaped) => {
                self.skip();
                escaped
            }
            _ => first,
        }
    }

    /// How many bytes from a bracket on are literal text: `[]`, as in `?a[]=1`, and an IPv6 address, perhaps
    /// with a zone.
    fn literal_len(&self) -> usize {
        let Some(end) = self.rest.find(']') else {
            return 0;
        };
        let inner = &self.rest[1..end];
        let address = inner
            .split_once('%')
            .map_or(inner, |(address, _zone)| address);
        if inner.is_empty() || address.parse::<Ipv6Addr>().is_ok() {
            end + 1
        } else {
            0
        }
    }

    /// `{one,two}`; here commas and backslashes can be escaped, too.
    fn parse_set(&mut self) -> Result<GlobToken, GlobError> {
        let open = self.error(GlobProblem::UnclosedSet);
        self.skip();
        if self.peek() == Some('}') {
            return Err(GlobError {
                problem: GlobProblem::EmptySet,
                ..open
            });
        }
        let (mut members, mut member) = (Vec::new(), String::new());
        loop {
            match self.peek() {
                None => return Err(open),
                Some(c @ ('{' | '[')) => return Err(self.error(GlobProblem::Nested(c))),
                Some(']') => return Err(self.error(GlobProblem::UnmatchedBracket(']'))),
                Some(c @ ('}' | ',')) => {
                    self.skip();
                    members.push(std::mem::take(&mut member));
                    if c == '}' {
                        return Ok(GlobToken::Set(members));
                    }
                }
                Some(_) => member.push(self.unescape("[]{},\\")),
            }
        }
    }

    /// `[first-last]` or `[first-last:step]`.
    fn parse_range(&mut self) -> Result<GlobToken, GlobError> {
        let open = self.error(GlobProblem::UnclosedRange);
        self.skip();
        if !self.rest.contains(']') {
            return Err(open);
        }
        let start = self.position;
        let (first, form) = self.parse_range_end()?;
        if !self.take('-') {
            return Err(self.error(GlobProblem::MalformedRange));
        }
        let (last, other) = self.parse_range_end()?;
        let goes_up = match (form, other) {
            (GlobMemberFormat::Letter, GlobMemberFormat::Letter) => {
                first <= last && (last < 97 || first >= 97)
            }
            (GlobMemberFormat::Number(_), GlobMemberFormat::Number(_)) => first <= last,
            _ => false,
        };
        if !goes_up {
            return Err(GlobError {
                position: start,
                problem: GlobProblem::DescendingRange,
            });
        }
        let step = self.parse_step(last - first)?;
        if !self.take(']') {
            return Err(self.error(GlobProblem::MalformedRange));
        }
        // A range over all 64 bits has one member too many to be counted.
        let count = ((last - first) / step).checked_add(1);
        Ok(GlobToken::Range(GlobRange {
            first,
            step,
            count: count.ok_or(GlobError {
                problem: GlobProblem::TooManyUrls,
                ..open
            })?,
            format: form,
        }))
    }

    /// A letter or a number. A leading zero means that all numbers of the range are padded to the length of
    /// this one.
    fn parse_range_end(&mut self) -> Result<(u64, GlobMemberFormat), GlobError> {
        if let Some(letter) = self.peek().filter(char::is_ascii_alphabetic) {
            self.skip();
            return Ok((u64::from(u32::from(letter)), GlobMemberFormat::Letter));
        }
        let padded = self.peek() == Some('0');
        let (value, digits) = self.parse_number()?;
        Ok((
            value,
            GlobMemberFormat::Number(if padded { digits } else { 0 }),
        ))
    }

    /// The number after a colon; 1 without a colon.
    fn parse_step(&mut self, span: u64) -> Result<u64, GlobError> {
        if !self.take(':') {
            return Ok(1);
        }
        let error = self.error(GlobProblem::InvalidStep);
        let (step, _) = self.parse_number()?;
        // curl lets a range of one member have a step of one.
        if step == 0 || step > span.max(1) {
            return Err(error);
        }
        Ok(step)
    }

    /// A decimal number, and how many digits it has.
    fn parse_number(&mut self) -> Result<(u64, usize), GlobError> {
        let start = self.position;
        let digits: String = self.rest.chars().take_while(char::is_ascii_digit).collect();
        if digits.is_empty() {
            return Err(self.error(GlobProblem::MalformedRange));
        }
        let value = digits.parse().ok().filter(|_| digits.len() <= MAX_DIGITS);
        digits.chars().for_each(|_| self.skip());
        let too_large = GlobError {
            position: start,
            problem: GlobProblem::NumberTooLarge,
        };
        Ok((value.ok_or(too_large)?, digits.len()))
    }
}
