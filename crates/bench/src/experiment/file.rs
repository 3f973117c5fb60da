//! Reads the file of an experiment. Whatever is wrong is told with its line.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{
    Experiment, Factor, Guess, GuessExpectation, GuessMetric, MAX_CELLS, RoundRules, WorkloadKind,
    WriteUpFigure,
};
use crate::Cell;
use crate::workload::check_level;

/// The longest file that is read.
const MAX_FILE: u64 = 1 << 20;

/// What a file is about.
const KEYS: [&str; 11] = [
    "title",
    "workload",
    "lesson",
    "factors",
    "full",
    "baseline",
    "skip",
    "rounds",
    "full_rounds",
    "write_up",
    "guess",
];

/// Why a file is no experiment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {text}")]
pub struct ExperimentError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub text: String,
}

/// Why there is no experiment.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentFileError {
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// It is too long to be an experiment, or not UTF-8.
    #[error("{} is no experiment: it is longer than {MAX_FILE} bytes, or not UTF-8", path.display())]
    NoText {
        /// The file.
        path: PathBuf,
    },
    /// Something in it is wrong.
    #[error("{}, {source}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Where and what.
        source: ExperimentError,
    },
}

type Value<'a> = Spanned<DeValue<'a>>;

/// The text of a file, for the lines.
#[derive(Clone, Copy)]
struct ExperimentText<'a>(&'a str);

impl Experiment {
    /// Reads a file. Its name without `.toml` is that of the experiment.
    ///
    /// # Errors
    /// See [`ExperimentFileError`].
    pub fn read(path: &Path, is_full: bool) -> Result<Self, ExperimentFileError> {
        let mut bytes = Vec::new();
        let read =
            File::open(path).and_then(|file| file.take(MAX_FILE + 1).read_to_end(&mut bytes));
        read.map_err(|source| ExperimentFileError::Read {
            path: path.to_owned(),
            source,
        })?;
        let text = String::from_utf8(bytes).ok();
        let text = text.filter(|text| text.len() as u64 <= MAX_FILE);
        let text = text.ok_or_else(|| ExperimentFileError::NoText {
            path: path.to_owned(),
        })?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        Self::parse(&name, &text, is_full).map_err(|source| ExperimentFileError::Invalid {
            path: path.to_owned(),
            source,
        })
    }

    /// Parses a file. With `is_full` its `[full]` levels and `[full_rounds]` replace the others.
    ///
    /// # Errors
    /// With the line of what is wrong.
    pub fn parse(name: &str, text: &str, is_full: bool) -> Result<Self, ExperimentError> {
        let source = ExperimentText(text);
        let table = DeTable::parse(text).map_err(|error| {
            let at = error.span().unwrap_or_default();
            source.error(at, error.message().trim().to_owned())
        })?;
        let table = table.get_ref();
        source.check_keys(table, &KEYS)?;
        let text = |key| source.text(table, key);
        let workload = match source.required(table, "workload")? {
            (_, "requests") => WorkloadKind::Requests,
            (_, "transfer") => WorkloadKind::Transfer,
            (span, other) => {
                let text = format!("unknown workload {other:?}: requests or transfer");
                return Err(source.error(span, text));
            }
        };
        let mut factors = source.factors(table, "factors", workload)?;
        let full = source.factors(table, "full", workload)?;
        // A table may be about levels that only one of both has.
        let known: Vec<Factor> = factors.iter().chain(&full).cloned().collect();
        for factor in full.into_iter().filter(|_| is_full) {
            match factors.iter_mut().find(|known| known.name == factor.name) {
                Some(known) => *known = factor,
                None => factors.push(factor),
            }
        }
        let rounds = if is_full { "full_rounds" } else { "rounds" };
        let mut experiment = Self {
            name: name.to_owned(),
            title: source.required(table, "title")?.1.to_owned(),
            workload,
            baseline: source.cell(table, "baseline", &known)?,
            skipped: source.cells(table, "skip", &known)?,
            rounds: source.rounds(table, rounds)?,
            figures: source.figures(table, &known)?,
            guesses: source.guesses(table, &known)?,
            lesson: text("lesson")?.unwrap_or_default().trim().to_owned(),
            factors,
        };
        let cells: usize = experiment
            .factors
            .iter()
            .map(|factor| factor.levels.len())
            .fold(1, usize::saturating_mul);
        if cells > MAX_CELLS {
            let text = format!("{cells} combinations of levels; the most are {MAX_CELLS}");
            return Err(source.error(source.span_of(table, "factors"), text));
        }
        experiment.forget_what_is_not_measured();
        Ok(experiment)
    }
}

impl<'a> ExperimentText<'a> {
    fn error(self, at: Range<usize>, text: impl Into<String>) -> ExperimentError {
        let before = self.0.get(..at.start).unwrap_or(self.0);
        ExperimentError {
            line: before.matches('\n').count() + 1,
            text: text.into(),
        }
    }

    fn span_of(self, table: &DeTable<'_>, key: &str) -> Range<usize> {
        table.get(key).map(Spanned::span).unwrap_or_default()
    }

    fn check_keys(self, table: &DeTable<'_>, known: &[&str]) -> Result<(), ExperimentError> {
        let unknown = table
            .keys()
            .find(|key| !known.contains(&key.get_ref().as_ref()));
        match unknown {
            None => Ok(()),
            Some(key) => {
                let text = format!("unknown key {:?}: {}", key.get_ref(), known.join(", "));
                Err(self.error(key.span(), text))
            }
        }
    }

    fn text<'t>(
        self,
        table: &'t DeTable<'_>,
        key: &str,
    ) -> Result<Option<&'t str>, ExperimentError> {
        let Some(value) = table.get(key) else {
            return Ok(None);
        };
        self.text_of(key, value).map(Some)
    }

    fn text_of<'t>(self, key: &str, value: &'t Value<'_>) -> Result<&'t str, ExperimentError> {
        let text = value.get_ref().as_str();
        text.ok_or_else(|| self.error(value.span(), format!("{key} must be a text in quotes")))
    }

    fn required<'t>(
        self,
        table: &'t DeTable<'_>,
        key: &str,
    ) -> Result<(Range<usize>, &'t str), ExperimentError> {
        match self.text(table, key)? {
            Some(text) => Ok((self.span_of(table, key), text)),
            None => {
                let first = table.keys().map(|key| key.span().start).min();
                let first = first.unwrap_or_default();
                Err(self.error(first..first, format!("{key} is missing")))
            }
        }
    }

    fn number(self, table: &DeTable<'_>, key: &str) -> Result<Option<f64>, ExperimentError> {
        let Some(value) = table.get(key) else {
            return Ok(None);
        };
        let text = match value.get_ref() {
            DeValue::Integer(number) => number.as_str(),
            DeValue::Float(number) => number.as_str(),
            _ => "",
        };
        let number = text.parse::<f64>().ok().filter(|number| *number > 0.0);
        number
            .map(Some)
            .ok_or_else(|| self.error(value.span(), format!("{key} must be a number above 0")))
    }

    fn table<'t>(
        self,
        key: &str,
        value: &'t Value<'a>,
    ) -> Result<&'t DeTable<'a>, ExperimentError> {
        let table = value.get_ref().as_table();
        table.ok_or_else(|| self.error(value.span(), format!("{key} must be a table")))
    }

    /// The tables of `[[key]]`.
    fn tables<'t>(
        self,
        table: &'t DeTable<'a>,
        key: &str,
    ) -> Result<Vec<&'t DeTable<'a>>, ExperimentError> {
        let Some(value) = table.get(key) else {
            return Ok(Vec::new());
        };
        let Some(values) = value.get_ref().as_array() else {
            return Err(self.error(value.span(), format!("write [[{key}]]")));
        };
        values.iter().map(|value| self.table(key, value)).collect()
    }

    fn factors(
        self,
        table: &DeTable<'a>,
        key: &str,
        workload: WorkloadKind,
    ) -> Result<Vec<Factor>, ExperimentError> {
        let Some(value) = table.get(key) else {
            return Ok(Vec::new());
        };
        // In the order of the file, which is that of the columns.
        let mut entries: Vec<_> = self.table(key, value)?.iter().collect();
        entries.sort_by_key(|(name, _)| name.span().start);
        let mut factors = Vec::new();
        for (name, value) in entries {
            let levels = match value.get_ref() {
                DeValue::Array(values) => values.iter().collect(),
                _ => vec![value],
            };
            if levels.is_empty() {
                return Err(self.error(value.span(), "a factor needs a level"));
            }
            let name: &str = name.get_ref();
            let mut factor = Factor {
                name: name.to_owned(),
                levels: Vec::new(),
            };
            for value in levels {
                let level = self.text_of("a level", value)?;
                check_level(workload, name, level)
                    .map_err(|text| self.error(value.span(), text))?;
                if factor.levels.iter().any(|known| known == level) {
                    return Err(self.error(value.span(), format!("{level:?} is there twice")));
                }
                factor.levels.push(level.to_owned());
            }
            factors.push(factor);
        }
        Ok(factors)
    }

    fn cell(
        self,
        table: &DeTable<'a>,
        key: &str,
        factors: &[Factor],
    ) -> Result<Cell, ExperimentError> {
        match table.get(key) {
            None => Ok(Cell::default()),
            Some(value) => self.levels(self.table(key, value)?, factors, &[]),
        }
    }

    fn cells(
        self,
        table: &DeTable<'a>,
        key: &str,
        factors: &[Factor],
    ) -> Result<Vec<Cell>, ExperimentError> {
        let tables = self.tables(table, key)?.into_iter();
        tables
            .map(|levels| match levels.is_empty() {
                true => {
                    let text = format!("[[{key}]] names no level");
                    Err(self.error(self.span_of(table, key), text))
                }
                false => self.levels(levels, factors, &[]),
            })
            .collect()
    }

    /// A table of levels. `factors` has those of `[full]`, too.
    fn levels(
        self,
        table: &DeTable<'_>,
        factors: &[Factor],
        others: &[&str],
    ) -> Result<Cell, ExperimentError> {
        let mut levels = BTreeMap::new();
        for (name, value) in table {
            let factor: &str = name.get_ref();
            if others.contains(&factor) {
                continue;
            }
            let mut known = factors
                .iter()
                .filter(|known| known.name == factor)
                .peekable();
            if known.peek().is_none() {
                return Err(self.error(name.span(), format!("there is no factor {factor:?}")));
            }
            let level = self.text_of("a level", value)?;
            if !known.any(|known| known.levels.iter().any(|known| known == level)) {
                let text = format!("the factor {factor} has no level {level:?} here");
                return Err(self.error(value.span(), text));
            }
            levels.insert(factor.to_owned(), level.to_owned());
        }
        Ok(Cell { levels })
    }

    fn rounds(self, table: &DeTable<'a>, key: &str) -> Result<RoundRules, ExperimentError> {
        let defaults = RoundRules {
            min: 4,
            max: 30,
            width: 0.1,
            time: Duration::from_secs(30),
        };
        let Some(value) = table.get(key) else {
            return Ok(defaults);
        };
        let table = self.table(key, value)?;
        self.check_keys(table, &["min", "max", "width", "seconds"])?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is above 0, and a larger one becomes the largest"
        )]
        let whole = |key| Ok(self.number(table, key)?.map(|number| number as u32));
        let (min, max) = (whole("min")?, whole("max")?);
        let seconds = self
            .number(table, "seconds")?
            .map(|seconds| seconds.min(1e6));
        let max = max.unwrap_or(defaults.max);
        Ok(RoundRules {
            min: min.unwrap_or(defaults.min).min(max),
            max,
            width: self.number(table, "width")?.unwrap_or(defaults.width),
            time: seconds.map_or(defaults.time, Duration::from_secs_f64),
        })
    }

    fn figures(
        self,
        table: &DeTable<'a>,
        factors: &[Factor],
    ) -> Result<Vec<WriteUpFigure>, ExperimentError> {
        let tables = self.tables(table, "write_up")?.into_iter();
        let figures = tables.map(|table| {
            Ok(WriteUpFigure {
                figure: self.required(table, "figure")?.1.to_owned(),
                cell: self.levels(table, factors, &["figure"])?,
            })
        });
        figures.collect()
    }

    fn guesses(
        self,
        table: &DeTable<'a>,
        factors: &[Factor],
    ) -> Result<Vec<Guess>, ExperimentError> {
        let guesses = self.tables(table, "guess")?.into_iter().map(|table| {
            self.check_keys(table, &["text", "metric", "cell", "other", "expected"])?;
            let metric = match self.text(table, "metric")? {
                None | Some("wall") => GuessMetric::Wall,
                Some("client-cpu") => GuessMetric::ClientCpu,
                Some("server-cpu") => GuessMetric::ServerCpu,
                Some(other) => {
                    let text = format!("unknown metric {other:?}: wall, client-cpu or server-cpu");
                    return Err(self.error(self.span_of(table, "metric"), text));
                }
            };
            let expected = match self.required(table, "expected")? {
                (_, "less") => GuessExpectation::Less,
                (_, "more") => GuessExpectation::More,
                (_, "same") => GuessExpectation::Same,
                (span, other) => {
                    let text = format!("unknown expectation {other:?}: less, more or same");
                    return Err(self.error(span, text));
                }
            };
            Ok(Guess {
                text: self.required(table, "text")?.1.to_owned(),
                metric,
                cell: self.cell(table, "cell", factors)?,
                other: self.cell(table, "other", factors)?,
                expected,
            })
        });
        guesses.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: &str = "title = 't'\nworkload = 'requests'\n";

    fn error(rest: &str) -> (usize, String) {
        let text = format!("{START}{rest}");
        let error = Experiment::parse("x", &text, false).unwrap_err();
        (error.line, error.text)
    }

    #[test]
    fn a_file_is_an_experiment() {
        let text = format!(
            "{START}lesson = 'l'\n[factors]\nprotocol = ['http', 'h2']\nconcurrency = '5'\n[full]\nconcurrency = ['5', 'all']\n\
             [rounds]\nmin = 4\nseconds = 2.5\n[full_rounds]\nwidth = 0.2\n[[write_up]]\nprotocol = 'http'\nfigure = '1 s'\n\
             [[guess]]\ntext = 'g'\nmetric = 'server-cpu'\ncell = {{ protocol = 'http' }}\nother = {{ protocol = 'h2' }}\nexpected = 'same'\n"
        );
        let quick = Experiment::parse("x", &text, false).unwrap();
        let names: Vec<&str> = quick.factors.iter().map(|factor| &*factor.name).collect();
        assert_eq!(names, ["protocol", "concurrency"]);
        assert_eq!((quick.rounds.min, quick.rounds.max), (4, 30));
        assert_eq!(quick.rounds.time, Duration::from_millis(2500));
        assert_eq!(quick.cells().len(), 2);
        assert_eq!(quick.figure(&quick.cells()[0]), Some("1 s"));
        assert_eq!(quick.figure(&quick.cells()[1]), None);
        assert_eq!(quick.guesses[0].expected, GuessExpectation::Same);
        let full = Experiment::parse("x", &text, true).unwrap();
        assert_eq!((full.cells().len(), full.rounds.width), (4, 0.2));
        assert_eq!(full.rounds.min, 4);
    }

    #[test]
    fn mistakes_have_their_line() {
        for (rest, line, words) in [
            ("x = 1\n", 3, "unknown key \"x\""),
            (
                "[factors]\nfiles = '1 x 1k'\ncolour = ['red']\n",
                5,
                "\"colour\"",
            ),
            ("[factors]\nfiles = [\n'1 x 1k',\n'many']\n", 6, "\"many\""),
            ("[factors]\nfiles = []\n", 4, "needs a level"),
            ("[factors]\nfiles = 7\n", 4, "text in quotes"),
            ("[factors]\nprotocol = ['h2', 'h2']\n", 4, "twice"),
            ("[baseline]\nprotocol = 'h2'\n", 4, "no factor \"protocol\""),
            (
                "[factors]\nprotocol = 'h2'\n[baseline]\nprotocol = 'http'\n",
                6,
                "\"http\" here",
            ),
            ("[[skip]]\n", 3, "no level"),
            ("[[guess]]\ntext = 'g'\n", 4, "expected is missing"),
            ("[rounds]\nmin = 0\n", 4, "above 0"),
            ("[rounds]\nmost = 1\n", 4, "unknown key \"most\""),
            ("skip = 'x'\n", 3, "[[skip]]"),
            ("[[guess]]\ntext = 'g'\nexpected = 'odd'\n", 5, "\"odd\""),
            (
                "[[guess]]\ntext = 'g'\nexpected = 'less'\nmetric = 'x'\n",
                6,
                "\"x\"",
            ),
            ("= 1\n", 3, ""),
        ] {
            let (found, text) = error(rest);
            assert!(
                found == line && text.contains(words),
                "{rest}: line {found}: {text}"
            );
        }
        let missing = Experiment::parse("x", "title = 't'\n", false).unwrap_err();
        assert_eq!(missing.text, "workload is missing");
        let workload = Experiment::parse("x", "title = 't'\nworkload = 'y'\n", false).unwrap_err();
        assert_eq!(workload.line, 2);
    }
}
