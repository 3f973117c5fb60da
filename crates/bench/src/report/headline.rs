//! What an experiment has found, in a sentence: "16 connections are 24 times as fast as one; haul's own choice reaches 85 % of the best".
//!
//! The sentence is about the factor of the baseline, and follows from the medians and ratios of the table: where an interval holds 1, it says that there
//! is no difference. Where the other factors have several levels, each combination of them is a group with a sentence of its own; of many groups
//! only those with the greatest and the least gain are told.

use super::sentences::{level_names, varying_factors};
use crate::results::{CellResults, ExperimentResults};

/// With more groups only the greatest and the least gain are told.
const MAX_SENTENCES: usize = 3;

/// The level that lets haul choose.
const OWN_CHOICE: &str = "auto";

/// The cells that differ only by the level of the baseline's factor.
struct ComparedCells<'a> {
    /// The levels of the other factors, as far as they vary.
    name: String,
    baseline: &'a CellResults,
    /// The level with the least time among those that a user may choose, unless that is the baseline's.
    best: Option<&'a CellResults>,
    /// The level with the longest time.
    slowest: &'a CellResults,
    /// haul's own choice.
    own: Option<&'a CellResults>,
}

/// The sentences of an experiment. None without a baseline of one factor, and without a ratio.
pub(super) fn headlines(experiment: &ExperimentResults) -> Vec<String> {
    let mut factors = experiment.baseline.levels.keys();
    let (Some(factor), None) = (factors.next(), factors.next()) else {
        return Vec::new();
    };
    let mut groups = groups(experiment, factor);
    if groups.len() > MAX_SENTENCES {
        groups.sort_by(|one, other| one.gain().total_cmp(&other.gain()));
        let least = groups.remove(0);
        groups = groups.pop().into_iter().chain([least]).collect();
    }
    groups.iter().map(|group| group.sentence(factor)).collect()
}

/// The groups whose cells could be compared.
fn groups<'a>(experiment: &'a ExperimentResults, factor: &str) -> Vec<ComparedCells<'a>> {
    let varying = varying_factors(experiment);
    let others = || varying.iter().copied().filter(|name| *name != factor);
    let baselines = experiment
        .cells
        .iter()
        .filter(|cell| cell.cell.matches(&experiment.baseline));
    let group = |baseline: &'a CellResults| {
        let is_of_group = |cell: &&CellResults| {
            cell.cell.with(&experiment.baseline) == baseline.cell && cell.wall.is_some()
        };
        let cells: Vec<&CellResults> = experiment.cells.iter().filter(is_of_group).collect();
        // Some interval is needed to speak of differences.
        cells.iter().find(|cell| cell.ratio.is_some())?;
        let time = |cell: &&&CellResults| cell.wall.map_or(f64::MAX, |wall| wall.median);
        let by_time =
            |one: &&&CellResults, other: &&&CellResults| time(one).total_cmp(&time(other));
        let is_own = |cell: &&&CellResults| cell.cell.level(factor) == Some(OWN_CHOICE);
        let best = cells.iter().filter(|cell| !is_own(cell)).min_by(by_time)?;
        Some(ComparedCells {
            name: level_names(others(), &baseline.cell),
            baseline,
            best: Some(*best).filter(|best| best.cell != baseline.cell),
            slowest: cells.iter().max_by(by_time)?,
            own: cells.iter().find(is_own).copied(),
        })
    };
    baselines.filter_map(group).collect()
}

impl ComparedCells<'_> {
    /// How many times as fast as the baseline the best level is; 1 where there is no difference.
    fn gain(&self) -> f64 {
        let ratio = self.best.and_then(|best| best.ratio);
        ratio.map_or(1.0, |ratio| {
            if ratio.holds_one() {
                1.0
            } else {
                1.0 / ratio.ratio
            }
        })
    }

    fn sentence(&self, factor: &str) -> String {
        let base = |cell: &CellResults| level(cell, factor).to_owned();
        let slower = self.slowest.ratio.filter(|ratio| ratio.low > 1.0);
        let gain = self.gain();
        let mut sentence = match (self.best, slower) {
            (Some(best), _) if gain > 1.0 => {
                let (name, is_many) = level_phrase(factor, level(best, factor));
                let verb = if is_many { "are" } else { "is" };
                let times = times_text(gain);
                format!(
                    "{name} {verb} {times} as fast as {}",
                    short_level(&base(self.baseline))
                )
            }
            (_, Some(slower)) => {
                let (name, is_many) = level_phrase(factor, level(self.slowest, factor));
                let verb = if is_many { "take" } else { "takes" };
                let times = times_text(slower.ratio);
                format!(
                    "{name} {verb} {times} as long as {}",
                    short_level(&base(self.baseline))
                )
            }
            _ => {
                let (name, _) = level_phrase(factor, &base(self.baseline));
                format!("no level of {factor} differs from {name}")
            }
        };
        if let Some(own) = self.own_text() {
            sentence = format!("{sentence}; {own}");
        }
        if !self.name.is_empty() {
            sentence = format!("{sentence} ({})", self.name);
        }
        let mut characters = sentence.chars();
        match characters.next() {
            Some(first) => format!("{}{}.", first.to_uppercase(), characters.as_str()),
            None => sentence,
        }
    }

    /// How near haul's own choice comes to the best of the others.
    fn own_text(&self) -> Option<String> {
        let time = |cell: &CellResults| cell.wall.map(|wall| wall.median);
        let best = time(self.best.unwrap_or(self.baseline))?;
        let part = best / time(self.own?)?;
        Some(match part {
            0.995.. => "haul's own choice is as fast as the best".to_owned(),
            part => format!(
                "haul's own choice reaches {:.0} % of the best",
                part * 100.0
            ),
        })
    }
}

fn level<'a>(cell: &'a CellResults, factor: &str) -> &'a str {
    cell.cell.level(factor).unwrap_or_default()
}

/// A level as the subject of a sentence, and whether that is a plural.
fn level_phrase(factor: &str, level: &str) -> (String, bool) {
    let number: Option<u32> = level.parse().ok();
    let name = match (factor, level) {
        ("connections", "1") => "one connection".to_owned(),
        ("connections", "keep-alive") => "kept connections".to_owned(),
        ("connections", "each") => "a connection for each request".to_owned(),
        ("connections", OWN_CHOICE) => "haul's own choice".to_owned(),
        ("connections", level) if number.is_some() => format!("{level} connections"),
        ("concurrency", "1") => "one at a time".to_owned(),
        ("concurrency", "all") => "all at once".to_owned(),
        ("concurrency", level) => format!("{level} at a time"),
        (factor, level) => format!("{factor} {level}"),
    };
    let is_many = number.is_some_and(|number| number > 1) || matches!(level, "all" | "keep-alive");
    (name, is_many)
}

/// A level at the end of a sentence about the same factor.
fn short_level(level: &str) -> &str {
    match level {
        "1" => "one",
        level => level,
    }
}

/// `24 times`, `1.8 times`.
fn times_text(ratio: f64) -> String {
    // A number that was written and read again must not fall to the other side of a half.
    match ratio + 1e-9 {
        ratio @ 9.95.. => format!("{ratio:.0} times"),
        ratio @ 1.95.. => format!("{ratio:.1} times"),
        ratio => format!("{ratio:.2} times"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;
    use crate::Cell;
    use crate::results::{RatioInterval, Spread};

    /// An experiment of connections over links, with these medians, and a ratio to the first of each link that is as sure as it can be.
    fn experiment(rows: &[(&str, &str, f64)]) -> ExperimentResults {
        let mut experiment = fixture::bench_results().experiments.remove(0);
        let template = experiment.cells[0].clone();
        experiment.factors = vec!["connections".to_owned(), "link".to_owned()];
        experiment.baseline = Cell::new([("connections", "1")]);
        let first = |link: &str| {
            rows.iter()
                .find(|row| row.1 == link)
                .map_or(1.0, |row| row.2)
        };
        let cell = |(connections, link, median): &(&str, &str, f64)| CellResults {
            cell: Cell::new([("connections", *connections), ("link", *link)]),
            wall: Some(Spread {
                low: *median,
                median: *median,
                high: *median,
            }),
            ratio: (*connections != "1").then(|| {
                let ratio = median / first(link);
                RatioInterval {
                    ratio,
                    low: ratio * 0.98,
                    high: ratio * 1.02,
                }
            }),
            ..template.clone()
        };
        experiment.cells = rows.iter().map(cell).collect();
        experiment
    }

    #[test]
    fn the_best_level_and_hauls_own_choice_are_told() {
        let near = [
            ("1", "a", 24.0),
            ("8", "a", 2.0),
            ("16", "a", 1.0),
            ("auto", "a", 1.176),
        ];
        assert_eq!(
            headlines(&experiment(&near)),
            [
                "16 connections are 24 times as fast as one; haul's own choice reaches 85 % of the best."
            ]
        );
        let auto_is_best = [("1", "a", 3.0), ("8", "a", 1.0), ("auto", "a", 0.9)];
        assert_eq!(
            headlines(&experiment(&auto_is_best)),
            [
                "8 connections are 3.0 times as fast as one; haul's own choice is as fast as the best."
            ]
        );
    }

    #[test]
    fn no_difference_is_no_gain_and_slower_is_told_as_such() {
        let same = [("1", "a", 1.0), ("8", "a", 0.99), ("auto", "a", 1.0)];
        assert_eq!(
            headlines(&experiment(&same)),
            [
                "No level of connections differs from one connection; haul's own choice reaches 99 % of the best."
            ]
        );
        let slower = [("1", "a", 1.0), ("8", "a", 1.5)];
        assert_eq!(
            headlines(&experiment(&slower)),
            ["8 connections take 1.50 times as long as one."]
        );
    }

    #[test]
    fn of_many_groups_the_greatest_and_the_least_gain_are_told() {
        let rows = [
            ("1", "a", 4.0),
            ("8", "a", 2.0),
            ("1", "b", 8.0),
            ("8", "b", 1.0),
            ("1", "c", 1.0),
            ("8", "c", 1.0),
            ("1", "d", 3.0),
            ("8", "d", 1.0),
        ];
        assert_eq!(
            headlines(&experiment(&rows)),
            [
                "8 connections are 8.0 times as fast as one (link b).",
                "No level of connections differs from one connection (link c)."
            ]
        );
        assert_eq!(headlines(&experiment(&rows[..4])).len(), 2);
    }

    #[test]
    fn without_a_ratio_nothing_is_said() {
        let mut few = experiment(&[("1", "a", 4.0), ("8", "a", 2.0)]);
        few.cells[1].ratio = None;
        assert!(headlines(&few).is_empty());
        few.cells.clear();
        assert!(headlines(&few).is_empty());
    }
}
