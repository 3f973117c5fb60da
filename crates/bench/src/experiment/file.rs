//! Reads the file of an experiment. Whatever is wrong is told with its line.
//!
//! serde reads it. Whether the factors and levels exist is checked afterwards; until then each keeps its place in the text.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::time::Duration;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::{Experiment, Factor, Guess, MAX_CELLS, RoundRules, WorkloadKind, WriteUpFigure};
use crate::Cell;

/// Why a text is no experiment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {text}")]
pub struct ExperimentError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub text: String,
}

/// The keys of a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExperimentFile {
    title: String,
    workload: WorkloadKind,
    #[serde(default)]
    lesson: String,
    #[serde(default)]
    factors: FileFactors,
    #[serde(default)]
    full: FileFactors,
    #[serde(default)]
    baseline: FileCell,
    #[serde(default)]
    skip: Vec<Spanned<FileCell>>,
    #[serde(default)]
    rounds: RoundRules,
    #[serde(default)]
    full_rounds: RoundRules,
    #[serde(default)]
    write_up: Vec<Spanned<FileCell>>,
    #[serde(default)]
    guess: Vec<Guess<FileCell>>,
    #[serde(default)]
    finding: Vec<Guess<FileCell>>,
}

type FileCell = BTreeMap<Spanned<String>, Spanned<String>>;
type FileFactors = BTreeMap<Spanned<String>, Spanned<FileLevels>>;

/// A level, or an array of them. The place of the only level is that of the value.
struct FileLevels(Vec<Spanned<String>>);

/// A text, for the lines of its mistakes.
#[derive(Clone, Copy)]
struct ExperimentText<'a>(&'a str);

impl Experiment {
    /// Parses a file; `name` is that of the experiment. With `is_full` its `[full]` levels and `[full_rounds]` replace the others.
    ///
    /// # Errors
    /// With the line of what is wrong.
    pub fn parse(name: &str, text: &str, is_full: bool) -> Result<Self, ExperimentError> {
        let source = ExperimentText(text);
        let file: ExperimentFile = toml::from_str(text)
            .map_err(|error| source.error(error.span().unwrap_or_default(), error.message()))?;
        let names = file.factors.keys().chain(file.full.keys());
        let factors_at = names.map(Spanned::span).min_by_key(|at| at.start);
        let factors = source.factors(file.factors, file.workload)?;
        let full = source.factors(file.full, file.workload)?;
        // A table may be about levels that only one of both has.
        let known = &[&*factors, &*full].concat();
        let skipped = file.skip.into_iter();
        let figures = file.write_up.into_iter();
        let comparisons = |guesses: Vec<Guess<FileCell>>| {
            let guesses = guesses.into_iter();
            guesses
                .map(|guess| source.guess(guess, known))
                .collect::<Result<_, _>>()
        };
        let files = known.iter().filter(|factor| factor.name == "files");
        let mut experiment = Self {
            name: name.to_owned(),
            title: file.title,
            workload: file.workload,
            baseline: source.cell(file.baseline, known)?,
            skipped: skipped
                .map(|levels| source.skipped(levels, known))
                .collect::<Result<_, _>>()?,
            rounds: if is_full {
                file.full_rounds
            } else {
                file.rounds
            },
            figures: figures
                .map(|levels| source.figure(levels, known))
                .collect::<Result<_, _>>()?,
            figure_files: files.flat_map(|files| files.levels.clone()).collect(),
            guesses: comparisons(file.guess)?,
            findings: comparisons(file.finding)?,
            lesson: file.lesson.trim().to_owned(),
            factors,
        };
        for factor in full.into_iter().filter(|_| is_full) {
            experiment.set_factor(factor);
        }
        let sizes = experiment.factors.iter().map(|factor| factor.levels.len());
        let cells = sizes.fold(1, usize::saturating_mul);
        if cells > MAX_CELLS {
            let text = format!("{cells} combinations of levels; the most are {MAX_CELLS}");
            return Err(source.error(factors_at.unwrap_or_default(), text));
        }
        experiment.forget_what_is_not_measured();
        Ok(experiment)
    }
}

impl ExperimentText<'_> {
    fn error(self, at: Range<usize>, text: impl Into<String>) -> ExperimentError {
        let before = self.0.get(..at.start).unwrap_or(self.0);
        ExperimentError {
            line: before.matches('\n').count() + 1,
            text: text.into(),
        }
    }

    /// The factors in the order of the file, which is that of the columns.
    fn factors(
        self,
        table: FileFactors,
        workload: WorkloadKind,
    ) -> Result<Vec<Factor>, ExperimentError> {
        let mut entries: Vec<_> = table.into_iter().collect();
        entries.sort_by_key(|(name, _)| name.span().start);
        let factors = entries.into_iter().map(|(name, levels)| {
            let mut factor = Factor::new(name.get_ref());
            if levels.get_ref().0.is_empty() {
                return Err(self.error(levels.span(), "a factor needs a level"));
            }
            for level in &levels.get_ref().0 {
                let added = factor.add_level(workload, level.get_ref());
                let at = match level.span() {
                    span if span.is_empty() => levels.span(),
                    span => span,
                };
                added.map_err(|text| self.error(at, text))?;
            }
            Ok(factor)
        });
        factors.collect()
    }

    /// A table of levels, which these factors must have.
    fn cell(self, table: FileCell, factors: &[Factor]) -> Result<Cell, ExperimentError> {
        let levels = table
            .into_iter()
            .map(|(name, level)| {
                let (name_at, level_at) = (name.span(), level.span());
                let (name, level) = (name.into_inner(), level.into_inner());
                let mut known = factors.iter().filter(|known| known.name == name).peekable();
                if known.peek().is_none() {
                    return Err(self.error(name_at, format!("there is no factor {name:?}")));
                }
                if !known.any(|known| known.levels.contains(&level)) {
                    let text = format!("the factor {name} has no level {level:?} here");
                    return Err(self.error(level_at, text));
                }
                Ok((name, level))
            })
            .collect::<Result<_, _>>()?;
        Ok(Cell { levels })
    }

    fn skipped(
        self,
        table: Spanned<FileCell>,
        factors: &[Factor],
    ) -> Result<Cell, ExperimentError> {
        if table.get_ref().is_empty() {
            Err(self.error(table.span(), "[[skip]] names no level"))
        } else {
            self.cell(table.into_inner(), factors)
        }
    }

    fn figure(
        self,
        table: Spanned<FileCell>,
        factors: &[Factor],
    ) -> Result<WriteUpFigure, ExperimentError> {
        let at = table.span();
        let mut levels = table.into_inner();
        let figure = levels
            .remove("figure")
            .ok_or_else(|| self.error(at, "missing field `figure`"))?;
        Ok(WriteUpFigure {
            figure: figure.into_inner(),
            cell: self.cell(levels, factors)?,
        })
    }

    fn guess(self, guess: Guess<FileCell>, factors: &[Factor]) -> Result<Guess, ExperimentError> {
        Ok(Guess {
            text: guess.text,
            metric: guess.metric,
            cell: self.cell(guess.cell, factors)?,
            other: self.cell(guess.other, factors)?,
            expected: guess.expected,
        })
    }
}

impl<'de> Deserialize<'de> for FileLevels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct LevelsVisitor;
        impl<'de> Visitor<'de> for LevelsVisitor {
            type Value = FileLevels;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text in quotes, or an array of them")
            }

            fn visit_str<E>(self, level: &str) -> Result<FileLevels, E> {
                Ok(FileLevels(vec![Spanned::new(0..0, level.to_owned())]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, levels: A) -> Result<FileLevels, A::Error> {
                Deserialize::deserialize(SeqAccessDeserializer::new(levels)).map(FileLevels)
            }
        }
        deserializer.deserialize_any(LevelsVisitor)
    }
}

/// A number above 0.
pub(super) fn above_zero<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default + PartialOrd,
{
    let number = T::deserialize(deserializer)?;
    if number > T::default() {
        Ok(number)
    } else {
        Err(D::Error::custom("the number must be above 0"))
    }
}

/// A time in seconds.
pub(super) fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let seconds: f64 = above_zero(deserializer)?;
    Ok(Duration::from_secs_f64(seconds.min(1e6)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::GuessExpectation;

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
            ("x = 1\n", 3, "unknown field `x`"),
            (
                "[factors]\nfiles = '1 x 1k'\ncolour = ['red']\n",
                5,
                "\"colour\"",
            ),
            ("[factors]\nfiles = [\n'1 x 1k',\n'many']\n", 6, "\"many\""),
            ("[factors]\nfiles = 'many'\n", 4, "\"many\""),
            ("[factors]\nfiles = []\n", 4, "needs a level"),
            ("[factors]\nfiles = 7\n", 4, "text in quotes"),
            (
                "[factors]\nfiles = [\n'1 x 1k', 7]\n",
                5,
                "expected a string",
            ),
            ("[factors]\nprotocol = ['h2', 'h2']\n", 4, "twice"),
            ("[baseline]\nprotocol = 'h2'\n", 4, "no factor \"protocol\""),
            (
                "[factors]\nprotocol = 'h2'\n[baseline]\nprotocol = 'http'\n",
                6,
                "\"http\" here",
            ),
            (
                "[factors]\nprotocol = 'h2'\n[[skip]]\nprotocol = 'h2'\n[[skip]]\n",
                7,
                "no level",
            ),
            ("[[write_up]]\n", 3, "missing field `figure`"),
            (
                "[[write_up]]\nfigure = 'f'\nprotocol = 'h2'\n",
                5,
                "no factor \"protocol\"",
            ),
            ("[[guess]]\ntext = 'g'\n", 3, "missing field `cell`"),
            ("[[guess]]\nother = 'g'\n", 4, "expected a map"),
            (
                "[[guess]]\ntext = 'g'\ncell = {}\nother = { a = 'b' }\nexpected = 'less'\n",
                6,
                "no factor \"a\"",
            ),
            ("[rounds]\nmin = 0\n", 4, "above 0"),
            ("[full_rounds]\nwidth = -0.5\n", 4, "above 0"),
            ("[rounds]\nseconds = nan\n", 4, "above 0"),
            ("[rounds]\nmost = 1\n", 4, "unknown field `most`"),
            ("skip = 'x'\n", 3, "expected a sequence"),
            (
                "[[guess]]\ntext = 'g'\nexpected = 'odd'\n",
                5,
                "unknown variant `odd`",
            ),
            ("[[guess]]\nmetric = 'x'\n", 4, "unknown variant `x`"),
            ("= 1\n", 3, ""),
        ] {
            let (found, text) = error(rest);
            assert!(
                found == line && text.contains(words),
                "{rest}: line {found}: {text}"
            );
        }
    }

    #[test]
    fn a_file_needs_a_workload() {
        let missing = Experiment::parse("x", "title = 't'\n", false).unwrap_err();
        assert_eq!(missing.to_string(), "line 1: missing field `workload`");
        let workload = Experiment::parse("x", "title = 't'\nworkload = 'y'\n", false).unwrap_err();
        assert_eq!(workload.line, 2);
    }

    #[test]
    fn a_file_has_at_most_2000_cells() {
        let levels = |count| {
            (1..=count)
                .map(|level| level.to_string())
                .collect::<Vec<_>>()
        };
        let text = |count| {
            format!(
                "[factors]\nconcurrency = {:?}\nurl = {:?}\n",
                levels(count),
                levels(40)
            )
        };
        assert!(Experiment::parse("x", &format!("{START}{}", text(50)), false).is_ok());
        let (line, text) = error(&text(51));
        assert_eq!(
            (line, &*text),
            (4, "2040 combinations of levels; the most are 2000")
        );
    }
}
