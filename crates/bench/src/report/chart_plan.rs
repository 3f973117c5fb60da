//! Which charts an experiment has: what lies on the axis, what is a line, and what is a chart of its own.

use std::collections::BTreeMap;

use super::sentences::{in_order, varying_factors};
use crate::Cell;
use crate::results::{CellResults, ExperimentResults};

/// The most lines in a chart: more cannot be told apart.
const MAX_LINES: usize = 8;
/// The most bars in a chart.
const MAX_BARS: usize = 24;
/// Numeric levels that a factor needs at least to become an axis.
const MIN_AXIS_LEVELS: usize = 4;
/// Levels whose times differ by more than this are drawn apart, since the shorter times would all lie on the axis.
const MAX_SPREAD: f64 = 4.0;

/// The parts that the varying factors have in the charts of an experiment.
#[derive(Debug)]
pub(super) struct ChartPlan<'a> {
    experiment: &'a ExperimentResults,
    /// The factor along the axis of a line chart; `None` for bars.
    pub(super) axis: Option<&'a str>,
    /// The factors whose levels name a line or a bar.
    series: Vec<&'a str>,
    /// The factors whose levels name a chart.
    panels: Vec<&'a str>,
}

/// The cells of one chart.
#[derive(Debug)]
pub(super) struct ChartPanel<'a> {
    /// The levels that all of them have; empty if there is but one chart.
    pub(super) name: String,
    /// The lines, or one for each bar.
    pub(super) series: Vec<(String, Vec<&'a CellResults>)>,
}

impl<'a> ChartPlan<'a> {
    pub(super) fn of_experiment(experiment: &'a ExperimentResults) -> Self {
        let mut series = varying_factors(experiment);
        let axis = axis_factor(experiment, &series);
        series.retain(|factor| Some(*factor) != axis);
        let mut plan = Self {
            experiment,
            axis,
            series,
            panels: Vec::new(),
        };
        while let Some(factor) = plan.factor_to_separate() {
            plan.series.retain(|other| *other != factor);
            plan.panels.push(factor);
        }
        plan
    }

    /// The levels that name the chart of a cell.
    pub(super) fn panel_name(&self, cell: &Cell) -> String {
        in_order(self.experiment, cell, |factor| {
            self.panels.contains(&factor)
        })
    }

    /// The levels that name the line or bar of a cell.
    pub(super) fn series_name(&self, cell: &Cell) -> String {
        in_order(self.experiment, cell, |factor| {
            self.series.contains(&factor)
        })
    }

    /// The first of several levels of a bar's name, as a heading for its bars; else empty.
    pub(super) fn bar_group(&self, cell: &Cell) -> String {
        let group = self.series.first().filter(|_| self.series.len() > 1);
        in_order(self.experiment, cell, |factor| group == Some(&factor))
    }

    /// The levels of a bar that its heading does not have.
    pub(super) fn bar_name(&self, cell: &Cell) -> String {
        let skipped = usize::from(self.series.len() > 1);
        let named = &self.series[skipped..];
        in_order(self.experiment, cell, |factor| named.contains(&factor))
    }

    /// The charts, with the cells that have a time.
    pub(super) fn chart_panels(&self) -> Vec<ChartPanel<'a>> {
        let mut panels: Vec<ChartPanel<'a>> = Vec::new();
        let cells = self.experiment.cells.iter();
        for cell in cells.filter(|cell| cell.wall.is_some()) {
            let panel = position_or_push(
                &mut panels,
                self.panel_name(&cell.cell),
                |panel| &panel.name,
                |name| ChartPanel {
                    name,
                    series: Vec::new(),
                },
            );
            let series = position_or_push(
                &mut panel.series,
                self.series_name(&cell.cell),
                |(name, _)| name,
                |name| (name, Vec::new()),
            );
            series.1.push(cell);
        }
        panels
    }

    /// A factor whose levels should be charts of their own. Levels that are compared with the baseline stay together as long as they can.
    fn factor_to_separate(&self) -> Option<&'a str> {
        let baseline = &self.experiment.baseline;
        let is_compared = |factor: &&&str| baseline.level(factor).is_some();
        let bystander = self.series.iter().find(|factor| !is_compared(factor));
        let has_rest = self.axis.is_some() || self.series.len() > 1;
        let uneven = self
            .series
            .iter()
            .find(|factor| !is_compared(factor) && self.wall_spread(factor) > MAX_SPREAD);
        let limit = if self.axis.is_some() {
            MAX_LINES
        } else {
            MAX_BARS
        };
        let panels = self.chart_panels();
        let is_crowded = panels.iter().any(|panel| panel.series.len() > limit);
        let crowding = is_crowded.then(|| bystander.or_else(|| self.series.first()));
        let separated = uneven.or_else(|| crowding.flatten());
        separated.filter(|_| has_rest).copied()
    }

    /// How many times the slowest cell of a level the slowest cell of another takes.
    fn wall_spread(&self, factor: &str) -> f64 {
        let mut slowest = BTreeMap::<Option<&str>, f64>::new();
        for cell in &self.experiment.cells {
            if let Some(wall) = cell.wall {
                let level = slowest.entry(cell.cell.level(factor)).or_default();
                *level = level.max(wall.median);
            }
        }
        let low = slowest.values().copied().fold(f64::MAX, f64::min);
        slowest.values().copied().fold(0.0, f64::max) / low
    }
}

/// The factor with the most numeric levels, if it has enough of them.
fn axis_factor<'a>(experiment: &ExperimentResults, factors: &[&'a str]) -> Option<&'a str> {
    let numeric_levels = |factor: &str| {
        let cells = experiment.cells.iter();
        let levels = cells.filter_map(|cell| cell.cell.level(factor));
        let mut levels: Vec<&str> = levels
            .filter(|level| level_number(level).is_some())
            .collect();
        levels.sort_unstable();
        levels.dedup();
        levels.len()
    };
    let counted = factors
        .iter()
        .map(|factor| (numeric_levels(factor), *factor));
    let most = counted.max_by_key(|(levels, _)| *levels)?;
    (most.0 >= MIN_AXIS_LEVELS).then_some(most.1)
}

/// A level as a number on an axis.
pub(super) fn level_number(level: &str) -> Option<f64> {
    level
        .parse()
        .ok()
        .filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

fn position_or_push<T>(
    values: &mut Vec<T>,
    name: String,
    name_of: impl Fn(&T) -> &String,
    make: impl FnOnce(String) -> T,
) -> &mut T {
    let found = values.iter().position(|value| *name_of(value) == name);
    let index = found.unwrap_or(values.len());
    if found.is_none() {
        values.push(make(name));
    }
    &mut values[index]
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    fn panel_names(experiment: &ExperimentResults) -> Vec<(String, usize)> {
        let panels = ChartPlan::of_experiment(experiment).chart_panels();
        panels
            .into_iter()
            .map(|panel| (panel.name, panel.series.len()))
            .collect()
    }

    #[test]
    fn numbers_are_an_axis_and_uneven_levels_are_apart() {
        let results = fixture::bench_results();
        let [accelerate, quirks, sweep] = &results.experiments[..] else {
            panic!("three experiments");
        };
        assert_eq!(
            ChartPlan::of_experiment(accelerate).axis,
            Some("connections")
        );
        assert_eq!(panel_names(accelerate), [(String::new(), 2)]);
        assert_eq!(ChartPlan::of_experiment(quirks).axis, None);
        let files = ["files 100 x 1k", "files 20 x 10M"].map(|name| (name.to_owned(), 16));
        assert_eq!(panel_names(quirks), files);
        assert_eq!(ChartPlan::of_experiment(sweep).axis, Some("concurrency"));
    }

    #[test]
    fn crowded_charts_are_divided() {
        let mut results = fixture::bench_results();
        let sweep = &mut results.experiments[2];
        let template = sweep.cells[0].clone();
        sweep.factors.push("host".to_owned());
        for (number, cell) in sweep.cells.iter_mut().enumerate() {
            cell.cell
                .levels
                .insert("host".to_owned(), (number % 2).to_string());
        }
        for host in 2..8 {
            let mut cell = template.clone();
            cell.cell.levels.insert("host".to_owned(), host.to_string());
            sweep.cells.push(cell);
        }
        for panel in ChartPlan::of_experiment(sweep).chart_panels() {
            assert!(panel.series.len() <= MAX_LINES, "{}", panel.name);
        }
    }
}
