//! The table of an experiment: a row for each cell, and which columns there are. How much of it is shown is up to the form.

use super::chart_plan::ChartPlan;
use super::quantity::{TimeUnit, mebibytes, show_interval, show_rate, show_ratio, three_digits};
use super::sentences::{is_baseline, varying_factors};
use crate::Measurement;
use crate::measurement::ThreadCounts;
use crate::results::{CellResults, ExperimentResults, RatioInterval};
use crate::statistics::spread;

/// A table before it is laid out.
#[derive(Debug, Default)]
pub(super) struct ReportTable {
    pub(super) columns: Vec<ReportColumn>,
    /// A value for each column.
    pub(super) rows: Vec<Vec<TableValue>>,
}

#[derive(Debug)]
pub(super) struct ReportColumn {
    /// What it holds, such as `wall`.
    pub(super) name: String,
    /// The unit of all its values.
    pub(super) unit: &'static str,
    pub(super) kind: ColumnKind,
    /// Columns with high numbers are left out first; those up to [`NEEDED`] are always shown.
    pub(super) priority: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnKind {
    /// A level of a factor, which names the row.
    Level,
    Number,
    Text,
    /// Of a terminal: pages have charts.
    Bar,
}

/// The last priority without which a row says nothing.
pub(super) const NEEDED: u8 = 1;
/// The priority of columns that a terminal has no room for.
const PAGE_ONLY: u8 = 11;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TableValue {
    pub(super) text: String,
    pub(super) tone: ValueTone,
}

/// What a colour may underline. The text says the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum ValueTone {
    #[default]
    Plain,
    Heading,
    Faint,
    Faster,
    Slower,
    Warning,
}

impl From<String> for TableValue {
    fn from(text: String) -> Self {
        Self::new(text, ValueTone::Plain)
    }
}

impl From<&str> for TableValue {
    fn from(text: &str) -> Self {
        Self::new(text, ValueTone::Plain)
    }
}

/// How much values say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TableDetail {
    /// Short values, and bars.
    Terminal,
    /// Intervals of no difference, and CPU time in its parts; no bars.
    Page,
}

/// Eighths of a character, for the end of a bar.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
const BAR_CHARACTERS: usize = 10;

impl TableValue {
    pub(super) fn new(text: impl Into<String>, tone: ValueTone) -> Self {
        Self {
            text: text.into(),
            tone,
        }
    }
}

impl ReportColumn {
    pub(super) fn new(name: &str, unit: &'static str, kind: ColumnKind, priority: u8) -> Self {
        Self {
            name: name.to_owned(),
            unit,
            kind,
            priority,
        }
    }

    /// The name with the unit.
    pub(super) fn head(&self) -> String {
        format!("{} {}", self.name, self.unit).trim().to_owned()
    }
}

/// A column of medians of what measurements hold.
struct MeasuredColumn {
    name: &'static str,
    priority: u8,
    value: fn(&Measurement) -> Option<f64>,
    scale: MeasuredScale,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum MeasuredScale {
    Seconds,
    Count,
    Mebibytes,
    MebibytesPerSecond,
}

impl MeasuredColumn {
    const fn new(
        name: &'static str,
        priority: u8,
        scale: MeasuredScale,
        value: fn(&Measurement) -> Option<f64>,
    ) -> Self {
        Self {
            name,
            priority,
            value,
            scale,
        }
    }
}

const MEASURED: [MeasuredColumn; 18] = {
    use MeasuredColumn as Column;
    use MeasuredScale::{Count, Mebibytes, MebibytesPerSecond, Seconds};
    [
        Column::new("per connection", 3, MebibytesPerSecond, connection_rate),
        Column::new("p50", 6, Seconds, |m| Some(m.latency?.p50_s)),
        Column::new("p99", 6, Seconds, |m| Some(m.latency?.p99_s)),
        Column::new("client CPU", 8, Seconds, |m| Some(m.client_cpu?.total_s())),
        Column::new("in kernel", PAGE_ONLY, Seconds, |m| {
            Some(m.client_cpu?.system_s)
        }),
        Column::new("server CPU", 8, Seconds, |m| Some(m.server_cpu?.total_s())),
        Column::new("in kernel", PAGE_ONLY, Seconds, |m| {
            Some(m.server_cpu?.system_s)
        }),
        Column::new("connections made", 7, Count, |m| {
            Some(m.connections? as f64)
        }),
        Column::new("resumed", 7, Count, |m| Some(m.resumed? as f64)),
        Column::new("busy threads", 7, Count, |m| {
            busy_server(m).map(|threads| threads.busy.into())
        }),
        Column::new("idle threads", 7, Count, |m| {
            busy_server(m).map(|threads| threads.idle.into())
        }),
        Column::new("DNS", 9, Seconds, |m| phase(m.phases?.dns_s)),
        Column::new("connect", 9, Seconds, |m| phase(m.phases?.connect_s)),
        Column::new("TLS", 9, Seconds, |m| phase(m.phases?.tls_s)),
        Column::new("first byte", 9, Seconds, |m| phase(m.phases?.first_byte_s)),
        Column::new("body", 9, Seconds, |m| phase(m.phases?.body_s)),
        Column::new("client memory", 10, Mebibytes, |m| {
            Some(mebibytes(m.client_memory?))
        }),
        Column::new("server memory", 10, Mebibytes, |m| {
            Some(mebibytes(m.server_memory?))
        }),
    ]
};

/// The mean rate of the connections of a single file.
fn connection_rate(measurement: &Measurement) -> Option<f64> {
    let connections = measurement
        .connections
        .filter(|_| measurement.successes == 1)?;
    let rate = mebibytes(measurement.bytes) / measurement.wall_s / connections as f64;
    Some(rate).filter(|rate| rate.is_finite())
}

/// The threads of a server that had something to do: with none of them busy, nobody asks which.
fn busy_server(measurement: &Measurement) -> Option<ThreadCounts> {
    measurement
        .server_threads
        .filter(|threads| threads.busy > 0)
}

/// A phase that no request had is no column.
fn phase(seconds: f64) -> Option<f64> {
    (seconds > 0.0).then_some(seconds)
}

impl ReportTable {
    /// The table of an experiment.
    pub(super) fn of_experiment(experiment: &ExperimentResults, detail: TableDetail) -> Self {
        let mut table = Self {
            columns: Vec::new(),
            rows: vec![Vec::new(); experiment.cells.len()],
        };
        for factor in varying_factors(experiment) {
            let level = |cell: &CellResults| cell.cell.level(factor).unwrap_or("-").into();
            let column = ReportColumn::new(factor, "", ColumnKind::Level, 0);
            table.add(column, experiment.cells.iter().map(level));
        }
        table.add_walls(experiment, detail);
        table.add_outcomes(experiment, detail);
        for measured in &MEASURED {
            if detail == TableDetail::Page || measured.priority < PAGE_ONLY {
                table.add_measured(experiment, measured);
            }
        }
        table
    }

    /// Adds a column, unless it is empty.
    pub(super) fn add(
        &mut self,
        column: ReportColumn,
        values: impl IntoIterator<Item = TableValue>,
    ) {
        let values: Vec<TableValue> = values.into_iter().collect();
        if values.iter().any(|value| !value.text.is_empty()) {
            self.columns.push(column);
            for (row, value) in self.rows.iter_mut().zip(values) {
                row.push(value);
            }
        }
    }

    fn add_walls(&mut self, experiment: &ExperimentResults, detail: TableDetail) {
        let walls = || experiment.cells.iter().map(|cell| cell.wall);
        let unit = TimeUnit::for_times(walls().flatten().map(|wall| wall.median));
        let column = |name, kind, priority| ReportColumn::new(name, unit.symbol(), kind, priority);
        let medians = experiment.cells.iter().map(|cell| match cell.wall {
            Some(wall) => unit.show(wall.median).into(),
            None if cell.failure.is_some() => TableValue::new("failed", ValueTone::Warning),
            None => TableValue::new("not measured", ValueTone::Faint),
        });
        self.add(column("wall", ColumnKind::Number, 0), medians);
        if detail == TableDetail::Terminal && experiment.cells.len() > 2 {
            let bars = ReportColumn::new("", "", ColumnKind::Bar, 4);
            self.add(bars, wall_bars(experiment));
        }
        let quartiles = walls().map(|wall| {
            let wall =
                wall.map(|wall| format!("{} to {}", unit.show(wall.low), unit.show(wall.high)));
            wall.unwrap_or_default().into()
        });
        self.add(column("quartiles", ColumnKind::Number, 5), quartiles);
    }

    fn add_outcomes(&mut self, experiment: &ExperimentResults, detail: TableDetail) {
        let cells = || experiment.cells.iter();
        let column = |name, kind, priority| ReportColumn::new(name, "", kind, priority);
        if cells().any(|cell| cell.ratio.is_some()) {
            let ratios = cells().map(|cell| match cell.ratio {
                Some(ratio) => ratio_value(ratio, detail),
                None if is_baseline(experiment, cell) => {
                    TableValue::new("baseline", ValueTone::Faint)
                }
                None => TableValue::default(),
            });
            self.add(column("ratio", ColumnKind::Text, 1), ratios);
        }
        let rates = cells().map(|cell| cell_rate(cell).unwrap_or_default().into());
        self.add(column("rate", ColumnKind::Number, 2), rates);
        let failures = cells().map(|cell| {
            let failures = cell.measurements.iter().map(Measurement::failures);
            match failures.fold(0, u64::saturating_add) {
                0 => TableValue::default(),
                failures => TableValue::new(failures.to_string(), ValueTone::Warning),
            }
        });
        self.add(column("failures", ColumnKind::Number, 2), failures);
        let figures = cells().map(|cell| cell.write_up.clone().unwrap_or_default().into());
        self.add(column("write-up", ColumnKind::Text, 4), figures);
    }

    fn add_measured(&mut self, experiment: &ExperimentResults, measured: &MeasuredColumn) {
        let medians = experiment
            .cells
            .iter()
            .map(|cell| median_of(cell, measured.value));
        let medians: Vec<_> = medians.collect();
        let unit = TimeUnit::for_times(medians.iter().flatten().copied());
        let symbol = match measured.scale {
            MeasuredScale::Seconds => unit.symbol(),
            MeasuredScale::Count => "",
            MeasuredScale::Mebibytes => "MiB",
            MeasuredScale::MebibytesPerSecond => "MiB/s",
        };
        let show = |median| match measured.scale {
            MeasuredScale::Seconds => unit.show(median),
            MeasuredScale::Count => format!("{median:.0}"),
            MeasuredScale::Mebibytes | MeasuredScale::MebibytesPerSecond => three_digits(median),
        };
        let values = medians
            .iter()
            .map(|median| median.map(show).unwrap_or_default().into());
        let column =
            ReportColumn::new(measured.name, symbol, ColumnKind::Number, measured.priority);
        self.add(column, values);
    }
}

/// The median rate of the successful measurements.
fn cell_rate(cell: &CellResults) -> Option<String> {
    let successes = median_of(cell, |m| Some(m.successes as f64))?;
    let bytes = median_of(cell, |m| Some(m.bytes as f64))?;
    Some(show_rate(
        successes,
        bytes,
        median_of(cell, |m| Some(m.wall_s))?,
    ))
}

/// A ratio, or that there is none to speak of.
pub(super) fn ratio_value(ratio: RatioInterval, detail: TableDetail) -> TableValue {
    match detail {
        TableDetail::Terminal if ratio.holds_one() => "no difference".into(),
        TableDetail::Page if ratio.holds_one() => {
            format!("no difference {}", show_interval(ratio)).into()
        }
        _ if ratio.ratio < 1.0 => TableValue::new(show_ratio(ratio), ValueTone::Faster),
        _ => TableValue::new(show_ratio(ratio), ValueTone::Slower),
    }
}

fn median_of(cell: &CellResults, value: fn(&Measurement) -> Option<f64>) -> Option<f64> {
    let successful = cell.measurements.iter().filter(|m| m.successes > 0);
    let values: Vec<f64> = successful.filter_map(value).collect();
    spread(&values).map(|spread| spread.median)
}

/// A bar for each cell: the longest is the slowest cell of its chart, since cells of different charts are not to be compared.
fn wall_bars(experiment: &ExperimentResults) -> Vec<TableValue> {
    let plan = ChartPlan::of_experiment(experiment);
    let longest = |panel: &str| {
        let of_panel = |cell: &&CellResults| plan.panel_name(&cell.cell) == panel;
        let walls = experiment.cells.iter().filter(of_panel);
        let walls = walls.filter_map(|cell| Some(cell.wall?.median));
        walls.fold(0.0, f64::max)
    };
    let bar = |cell: &CellResults| {
        let share = cell.wall?.median / longest(&plan.panel_name(&cell.cell));
        Some(TableValue::new(bar_text(share), ValueTone::Plain))
    };
    let cells = experiment.cells.iter();
    cells.map(|cell| bar(cell).unwrap_or_default()).collect()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the share is clamped"
)]
fn bar_text(share: f64) -> String {
    let eighths = (share.clamp(0.0, 1.0) * (BAR_CHARACTERS * 8) as f64).round() as usize;
    let whole = "█".repeat(eighths / 8);
    // What was measured is never nothing.
    format!(
        "{whole}{}",
        EIGHTHS[if eighths == 0 { 1 } else { eighths % 8 }]
    )
}
