//! One combination of the levels of an experiment's factors.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The level that each factor has, as the experiment's file writes it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cell {
    /// Levels by the names of their factors.
    pub levels: BTreeMap<String, String>,
}

/// A level that its factor does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{factor} has no level {level:?}: {expected}")]
pub struct LevelError {
    pub factor: &'static str,
    pub level: String,
    /// What a level of it looks like.
    pub expected: String,
}

impl LevelError {
    /// A level that a factor does not have, and what one looks like.
    #[must_use]
    pub fn new(factor: &'static str, level: &str, expected: &str) -> Self {
        Self {
            factor,
            level: level.to_owned(),
            expected: expected.to_owned(),
        }
    }
}

impl Cell {
    #[must_use]
    pub fn new<'a>(levels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let levels = levels
            .into_iter()
            .map(|(factor, level)| (factor.to_owned(), level.to_owned()));
        Self {
            levels: levels.collect(),
        }
    }

    #[must_use]
    pub fn level(&self, factor: &str) -> Option<&str> {
        self.levels.get(factor).map(String::as_str)
    }

    /// The cell with some other levels.
    #[must_use]
    pub fn with(&self, others: &Self) -> Self {
        let mut cell = self.clone();
        cell.levels.extend(others.levels.clone());
        cell
    }

    /// Whether it has all these levels.
    #[must_use]
    pub fn matches(&self, levels: &Self) -> bool {
        let mut wanted = levels.levels.iter();
        wanted.all(|(factor, level)| self.level(factor) == Some(level))
    }

    /// A factor's level, parsed; `default` where the experiment does not have the factor.
    ///
    /// # Errors
    /// The level is not one of the factor's.
    pub fn parse<T>(
        &self,
        factor: &'static str,
        expected: &str,
        default: T,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, LevelError> {
        let Some(level) = self.level(factor) else {
            return Ok(default);
        };
        parse(level).ok_or_else(|| LevelError::new(factor, level, expected))
    }

    /// A factor's level, which is one of these; the first of them where the experiment does not have the factor.
    ///
    /// # Errors
    /// The level is none of them.
    pub fn choose<T: Copy>(
        &self,
        factor: &'static str,
        levels: &[(&str, T)],
    ) -> Result<T, LevelError> {
        let names: Vec<&str> = levels.iter().map(|(name, _)| *name).collect();
        let find = |text: &str| Some(levels.iter().find(|(name, _)| *name == text)?.1);
        self.parse(factor, &names.join(", "), levels[0].1, find)
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (factor, level) in &self.levels {
            write!(f, "{separator}{factor} {level}")?;
            separator = ", ";
        }
        Ok(())
    }
}

/// A number of files of one size, such as `100 x 1k`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSet {
    /// How many.
    pub count: u32,
    /// Bytes of each.
    pub bytes: u64,
}

impl FileSet {
    /// The level of the factor `files`.
    ///
    /// # Errors
    /// It is none.
    pub fn from_cell(cell: &Cell, default: Self) -> Result<Self, LevelError> {
        cell.parse(
            "files",
            "COUNT x SIZE, such as 100 x 1k",
            default,
            Self::parse,
        )
    }

    /// Parses `COUNT x SIZE`; `COUNT x given` for files of the user's server, whose size is not ours.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (count, bytes) = text.split_once(" x ")?;
        let bytes = match bytes {
            "given" => 0,
            size => parse_size(size)?,
        };
        let count = count.parse().ok().filter(|count| *count > 0)?;
        Some(Self { count, bytes })
    }
}

/// Parses a size: bytes, or a number with k, M or G, powers of 1024.
#[must_use]
pub fn parse_size(text: &str) -> Option<u64> {
    let mut units = [('k', 10), ('M', 20), ('G', 30)].into_iter();
    let found = units.find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, shift)));
    let (number, shift) = found.unwrap_or((text, 0));
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Parses a rate above zero, to bytes a second: a size a second, or bits a second with kbit, Mbit or Gbit, powers of 1000.
#[must_use]
pub fn parse_rate(text: &str) -> Option<u64> {
    let mut units = [("kbit", 125), ("Mbit", 125_000), ("Gbit", 125_000_000)].into_iter();
    let found = units.find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, bytes)));
    let rate = match found {
        Some((number, bytes)) => number.parse::<u64>().ok()?.checked_mul(bytes),
        None => parse_size(text),
    };
    rate.filter(|rate| *rate > 0)
}

/// Parses a time: a whole number with `ms` or `s`.
#[must_use]
pub fn parse_time(text: &str) -> Option<Duration> {
    let (number, from): (_, fn(u64) -> Duration) = match text.strip_suffix("ms") {
        Some(number) => (number, Duration::from_millis),
        None => (text.strip_suffix('s')?, Duration::from_secs),
    };
    number.parse().ok().map(from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_parsed() {
        let files = |text| FileSet::parse(text).map(|files| (files.count, files.bytes));
        assert_eq!(files("100 x 1k"), Some((100, 1024)));
        assert_eq!(files("20 x 10M"), Some((20, 10 << 20)));
        assert_eq!(files("1 x 7"), Some((1, 7)));
        for text in [
            "",
            "0 x 1k",
            "1x1",
            "1 x 1T",
            "1 x k",
            "-1 x 1",
            "1 x 99999999999G",
        ] {
            assert_eq!(files(text), None, "{text}");
        }
        assert_eq!(parse_rate("25M"), Some(25 << 20));
        assert_eq!(parse_rate("200Mbit"), Some(25_000_000));
        assert_eq!(parse_rate("1Gbit"), parse_rate("1000Mbit"));
        for text in [
            "0",
            "0kbit",
            "Mbit",
            "200mbit",
            "200bit",
            "99999999999999999Mbit",
        ] {
            assert_eq!(parse_rate(text), None, "{text}");
        }
        assert_eq!(parse_time("20ms"), Some(Duration::from_millis(20)));
        assert_eq!(parse_time("3s"), Some(Duration::from_secs(3)));
        assert_eq!(parse_time("3"), None);
    }

    #[test]
    fn a_cell_matches_a_part_of_its_levels() {
        let cell = Cell::new([("a", "1"), ("b", "2")]);
        assert!(cell.matches(&Cell::new([("a", "1")])));
        assert!(!cell.matches(&Cell::new([("a", "2")])));
        assert!(!cell.matches(&Cell::new([("c", "1")])));
        assert_eq!(
            cell.with(&Cell::new([("b", "3")])),
            Cell::new([("a", "1"), ("b", "3")])
        );
        let parsed = cell.parse("a", "a number", 0, |text| text.parse::<u8>().ok());
        assert_eq!(parsed, Ok(1));
        assert_eq!(cell.parse("x", "", 7, |_| None), Ok(7));
        assert!(cell.parse("a", "a letter", 0, |_| None).is_err());
        assert_eq!(cell.choose("a", &[("0", 0), ("1", 1)]), Ok(1));
        assert_eq!(cell.choose("x", &[("0", 0), ("1", 1)]), Ok(0));
        let error = cell.choose("b", &[("0", 0), ("1", 1)]).unwrap_err();
        assert_eq!(error.to_string(), "b has no level \"2\": 0, 1");
    }
}
