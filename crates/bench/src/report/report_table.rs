//! The table of an experiment: a row for each cell, and which columns there are. How much of it is shown is up to the form.

use super::quantity::{
    TimeUnit, ends, mebibytes, show_interval, show_rate, show_ratio, three_digits,
};
use super::sentences::{has_ratios, varying_factors};
use crate::Measurement;
use crate::measurement::{CpuTime, PhaseTimes};
use crate::results::{CellResults, ExperimentResults, RatioInterval};
use crate::statistics::median;

/// Eighths of a character, for the end of a bar.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
const BAR_CHARACTERS: f64 = 10.0;
/// There are no bars where one would be this many times longer than another: the short ones would all be the same.
const MAX_BAR_RANGE: f64 = 100.0;

#[derive(Debug)]
pub(super) struct ReportColumn {
    /// What it holds, such as `wall`.
    pub(super) name: String,
    /// The unit of all its values.
    pub(super) unit: &'static str,
    pub(super) kind: ColumnKind,
    /// Columns with high numbers are left out first.
    pub(super) priority: u8,
    /// A value for each row.
    pub(super) values: Vec<TonedText>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnKind {
    /// A level of a factor, which names the row. These columns are the first ones.
    Level,
    Number,
    Text,
    /// Of a terminal: pages have charts.
    Bar,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TonedText {
    pub(super) text: String,
    pub(super) tone: TextTone,
}

/// What colours and forms may underline. The text says the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum TextTone {
    #[default]
    Plain,
    Heading,
    Faint,
    Good,
    Bad,
    Warning,
    /// What an experiment has found, in a sentence.
    Headline,
    /// What to learn from an experiment.
    Lesson,
}

/// How much a ratio says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TableDetail {
    Terminal,
    /// Also the interval of no difference.
    Page,
}

impl TextTone {
    pub(super) fn text(self, text: impl Into<String>) -> TonedText {
        TonedText {
            text: text.into(),
            tone: self,
        }
    }
}

impl ReportColumn {
    pub(super) fn new(
        name: &str,
        unit: &'static str,
        kind: ColumnKind,
        priority: u8,
        values: impl IntoIterator<Item = TonedText>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            unit,
            kind,
            priority,
            values: values.into_iter().collect(),
        }
    }

    /// The name with the unit.
    pub(super) fn head(&self) -> String {
        format!("{} {}", self.name, self.unit).trim().to_owned()
    }
}

/// The columns of an experiment that are not empty.
pub(super) fn experiment_table(
    experiment: &ExperimentResults,
    detail: TableDetail,
) -> Vec<ReportColumn> {
    use ColumnKind::{Bar, Number, Text};
    use TextTone::{Faint, Plain, Warning};
    let cells = &experiment.cells;
    let medians = || cells.iter().filter_map(|cell| Some(cell.wall?.median));
    let unit = TimeUnit::for_times(medians());
    let (fastest, slowest) = ends(medians());
    let has_bars = cells.len() > 2 && slowest <= MAX_BAR_RANGE * fastest;
    let column = |name, unit, kind, priority, value: &dyn Fn(&CellResults) -> TonedText| {
        ReportColumn::new(name, unit, kind, priority, cells.iter().map(value))
    };
    let mut columns = level_columns(experiment, cells);
    columns.extend([
        column("wall", unit.symbol, Number, 0, &|cell| match cell.wall {
            Some(wall) => Plain.text(unit.show(wall.median)),
            None if cell.failure.is_some() => Warning.text("failed"),
            None => Faint.text("not measured"),
        }),
        column("", "", Bar, 4, &|cell| {
            let wall = cell.wall.filter(|_| has_bars);
            Plain.text(wall.map_or_else(String::new, |wall| bar_text(wall.median / slowest)))
        }),
        column("quartiles", unit.symbol, Number, 2, &|cell| {
            let wall = cell
                .wall
                .map(|wall| [wall.low, wall.high].map(|end| unit.show(end)));
            Plain.text(wall.map_or_else(String::new, |ends| ends.join(" to ")))
        }),
        column("ratio", "", Number, 1, &|cell| match cell.ratio {
            Some(ratio) => ratio_text(ratio, detail),
            None if has_ratios(experiment) && cell.cell.matches(&experiment.baseline) => {
                Faint.text("baseline")
            }
            None => TonedText::default(),
        }),
        column("rate", "", Number, 3, &|cell| {
            Plain.text(cell_rate(cell).unwrap_or_default())
        }),
        column("failures", "", Number, 2, &|cell| {
            let failures = cell.measurements.iter().map(Measurement::failures);
            match failures.fold(0, u64::saturating_add) {
                0 => TonedText::default(),
                failures => Warning.text(failures.to_string()),
            }
        }),
        column("write-up", "", Text, 5, &|cell| {
            Plain.text(cell.write_up.clone().unwrap_or_default())
        }),
    ]);
    columns.extend(measured_columns(cells));
    columns.retain(|column| column.values.iter().any(|value| !value.text.is_empty()));
    columns
}

/// The columns that name the rows.
pub(super) fn level_columns<'a>(
    experiment: &ExperimentResults,
    cells: impl IntoIterator<Item = &'a CellResults> + Clone,
) -> Vec<ReportColumn> {
    let columns = varying_factors(experiment).into_iter().map(|factor| {
        let level =
            |cell: &CellResults| TextTone::Plain.text(cell.cell.level(factor).unwrap_or("-"));
        let levels = cells.clone().into_iter().map(level);
        ReportColumn::new(factor, "", ColumnKind::Level, 0, levels)
    });
    columns.collect()
}

/// A ratio, or that there is none to speak of.
pub(super) fn ratio_text(ratio: RatioInterval, detail: TableDetail) -> TonedText {
    match (ratio.holds_one(), detail) {
        (true, TableDetail::Terminal) => TextTone::Plain.text("no difference"),
        (true, TableDetail::Page) => {
            TextTone::Plain.text(format!("no difference {}", show_interval(ratio)))
        }
        (false, _) if ratio.ratio < 1.0 => TextTone::Good.text(show_ratio(ratio)),
        (false, _) => TextTone::Bad.text(show_ratio(ratio)),
    }
}

const SECONDS: &str = "s";
const COUNT: &str = "";

/// What a measurement holds of further columns: their names, units and priorities, and the values.
fn further_values(found: &Measurement) -> [(&'static str, &'static str, u8, Option<f64>); 18] {
    let count = |count: Option<u64>| count.map(|count| count as f64);
    let memory = |bytes: Option<u64>| bytes.map(mebibytes);
    let kernel = |cpu: CpuTime| cpu.system_s;
    let (latency, client, server) = (found.latency, found.client_cpu, found.server_cpu);
    // The mean rate of the connections of a single file.
    let connections = count(found.connections).filter(|_| found.successes == 1);
    let rate = connections.map(|count| mebibytes(found.bytes) / found.wall_s / count);
    let rate = rate.filter(|rate| rate.is_finite());
    // With no busy thread, nobody asks which are idle.
    let threads = found.server_threads.filter(|threads| threads.busy > 0);
    let busy = threads.map(|threads| threads.busy.into());
    let idle = threads.map(|threads| threads.idle.into());
    // A phase that no request had is no column.
    let phase = |seconds: fn(PhaseTimes) -> f64| found.phases.map(seconds).filter(|s| *s > 0.0);
    [
        ("per connection", "MiB/s", 3, rate),
        ("p50", SECONDS, 6, latency.map(|latency| latency.p50_s)),
        ("p99", SECONDS, 6, latency.map(|latency| latency.p99_s)),
        ("connections made", COUNT, 7, count(found.connections)),
        ("resumed", COUNT, 7, count(found.resumed)),
        ("busy threads", COUNT, 7, busy),
        ("idle threads", COUNT, 7, idle),
        ("client CPU", SECONDS, 8, client.map(CpuTime::total_s)),
        ("client kernel CPU", SECONDS, 11, client.map(kernel)),
        ("server CPU", SECONDS, 8, server.map(CpuTime::total_s)),
        ("server kernel CPU", SECONDS, 11, server.map(kernel)),
        ("DNS", SECONDS, 9, phase(|phases| phases.dns_s)),
        ("connect", SECONDS, 9, phase(|phases| phases.connect_s)),
        ("TLS", SECONDS, 9, phase(|phases| phases.tls_s)),
        ("first byte", SECONDS, 9, phase(|all| all.first_byte_s)),
        ("body", SECONDS, 9, phase(|phases| phases.body_s)),
        ("client memory", "MiB", 10, memory(found.client_memory)),
        ("server memory", "MiB", 10, memory(found.server_memory)),
    ]
}

/// The medians of the further values of each cell.
fn measured_columns(cells: &[CellResults]) -> impl Iterator<Item = ReportColumn> {
    let heads = further_values(&Measurement::default())
        .into_iter()
        .enumerate();
    heads.map(move |(index, (name, unit, priority, _))| {
        let medians: Vec<Option<f64>> = cells
            .iter()
            .map(|cell| median_of(cell, |found| further_values(found)[index].3))
            .collect();
        let times = TimeUnit::for_times(medians.iter().flatten().copied());
        let show = |median: f64| match unit {
            SECONDS => times.show(median),
            COUNT => format!("{median:.0}"),
            _ => three_digits(median),
        };
        let values = medians
            .iter()
            .map(|median| median.map(show).unwrap_or_default())
            .map(|value| TextTone::Plain.text(value));
        let unit = if unit == SECONDS { times.symbol } else { unit };
        ReportColumn::new(name, unit, ColumnKind::Number, priority, values)
    })
}

/// The median rate of the successful measurements.
fn cell_rate(cell: &CellResults) -> Option<String> {
    let successes = median_of(cell, |found| Some(found.successes as f64))?;
    let bytes = median_of(cell, |found| Some(found.bytes as f64))?;
    let wall = median_of(cell, |found| Some(found.wall_s))?;
    Some(show_rate(successes, bytes, wall))
}

fn median_of(cell: &CellResults, value: impl Fn(&Measurement) -> Option<f64>) -> Option<f64> {
    let successful = cell.measurements.iter().filter(|found| found.successes > 0);
    median(&successful.filter_map(value).collect::<Vec<_>>())
}

/// A bar of this share of the longest one. What was measured is never nothing.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the share is clamped"
)]
fn bar_text(share: f64) -> String {
    let eighths = (share.clamp(0.0, 1.0) * BAR_CHARACTERS * 8.0)
        .round()
        .max(1.0) as usize;
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    fn bars(experiment: &ExperimentResults) -> Vec<String> {
        let columns = experiment_table(experiment, TableDetail::Terminal);
        let bars = columns
            .into_iter()
            .find(|column| column.kind == ColumnKind::Bar);
        let values = bars.into_iter().flat_map(|bars| bars.values);
        values.map(|value| value.text).collect()
    }

    #[test]
    fn the_bars_of_a_table_have_one_scale() {
        let mut accelerate = fixture::bench_results().experiments.remove(0);
        let shown = bars(&accelerate);
        // The slowest cells of the two links.
        assert_eq!(
            (shown[0].as_str(), shown[6].as_str()),
            ("██▉", "██████████")
        );
        // A bar that would be more than a hundred times shorter than another says nothing.
        if let Some(wall) = &mut accelerate.cells[1].wall {
            wall.median = 0.01;
        }
        assert!(bars(&accelerate).is_empty());
    }
}
