//! The table of an experiment: a row for each cell, and which columns there are. How much of it is shown is up to the form.

use super::chart_plan::ChartPlan;
use super::quantity::{TimeUnit, mebibytes, show_interval, show_rate, show_ratio, three_digits};
use super::sentences::{is_baseline, varying_factors};
use crate::measurement::{CpuTime, Measurement, PhaseTimes};
use crate::results::{CellResults, ExperimentResults};
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

/// How much values say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TableDetail {
    /// Short values, and bars.
    Terminal,
    /// Intervals of no difference, and CPU time in its parts.
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
    /// The name with the unit.
    pub(super) fn head(&self) -> String {
        format!("{} {}", self.name, self.unit).trim().to_owned()
    }
}

impl ReportTable {
    /// The table of an experiment.
    pub(super) fn of_experiment(experiment: &ExperimentResults, detail: TableDetail) -> Self {
        let mut table = Self {
            columns: Vec::new(),
            rows: vec![Vec::new(); experiment.cells.len()],
        };
        for factor in varying_factors(experiment) {
            table.add_texts(factor, ColumnKind::Level, 0, experiment, |cell| {
                TableValue::new(cell.cell.level(factor).unwrap_or("-"), ValueTone::Plain)
            });
        }
        table.add_walls(experiment, detail);
        table.add_ratios(experiment, detail);
        table.add_outcomes(experiment);
        table.add_times("p50", 6, experiment, |m| Some(m.latency?.p50_s));
        table.add_times("p99", 6, experiment, |m| Some(m.latency?.p99_s));
        table.add_cpu("client CPU", 8, experiment, detail, |m| m.client_cpu);
        table.add_cpu("server CPU", 8, experiment, detail, |m| m.server_cpu);
        table.add_counts(experiment);
        table.add_phases(experiment);
        table.add_memory("client memory", experiment, |m| m.client_memory);
        table.add_memory("server memory", experiment, |m| m.server_memory);
        table
    }

    /// Adds a column, unless it is empty.
    pub(super) fn add(&mut self, column: ReportColumn, values: Vec<TableValue>) {
        if values.iter().any(|value| !value.text.is_empty()) {
            self.columns.push(column);
            for (row, value) in self.rows.iter_mut().zip(values) {
                row.push(value);
            }
        }
    }

    fn add_texts(
        &mut self,
        name: &str,
        kind: ColumnKind,
        priority: u8,
        experiment: &ExperimentResults,
        value: impl FnMut(&CellResults) -> TableValue,
    ) {
        let column = ReportColumn {
            name: name.to_owned(),
            unit: "",
            kind,
            priority,
        };
        self.add(column, experiment.cells.iter().map(value).collect());
    }

    fn add_walls(&mut self, experiment: &ExperimentResults, detail: TableDetail) {
        let walls = experiment.cells.iter().filter_map(|cell| cell.wall);
        let unit = TimeUnit::for_times(walls.map(|wall| wall.median));
        let column = |name: &str, unit, kind, priority| ReportColumn {
            name: name.to_owned(),
            unit,
            kind,
            priority,
        };
        let values = experiment.cells.iter().map(|cell| match cell.wall {
            Some(wall) => TableValue::new(unit.show(wall.median), ValueTone::Plain),
            None => TableValue::new("failed", ValueTone::Warning),
        });
        let wall = column("wall", unit.symbol(), ColumnKind::Number, 0);
        self.add(wall, values.collect());
        if detail == TableDetail::Terminal && experiment.cells.len() > 2 {
            let bars = column("", "", ColumnKind::Bar, 4);
            self.add(bars, wall_bars(experiment));
        }
        let values = experiment.cells.iter().map(|cell| match cell.wall {
            Some(wall) => TableValue::new(
                format!("{} to {}", unit.show(wall.low), unit.show(wall.high)),
                ValueTone::Plain,
            ),
            None => TableValue::default(),
        });
        let quartiles = column("quartiles", unit.symbol(), ColumnKind::Number, 5);
        self.add(quartiles, values.collect());
    }

    fn add_ratios(&mut self, experiment: &ExperimentResults, detail: TableDetail) {
        if experiment.cells.iter().all(|cell| cell.ratio.is_none()) {
            return;
        }
        self.add_texts(
            "ratio",
            ColumnKind::Text,
            1,
            experiment,
            |cell| match cell.ratio {
                Some(ratio) => ratio_value(ratio, detail),
                None if is_baseline(experiment, cell) => {
                    TableValue::new("baseline", ValueTone::Faint)
                }
                None => TableValue::default(),
            },
        );
    }

    fn add_outcomes(&mut self, experiment: &ExperimentResults) {
        self.add_texts("rate", ColumnKind::Number, 3, experiment, |cell| {
            let median = median_of(cell, |m| Some(m.wall_s));
            let total = |count: fn(&Measurement) -> u64| -> u64 {
                let counted = successful(cell).map(count);
                counted.fold(0, u64::saturating_add)
            };
            let rounds = successful(cell).count().max(1) as u64;
            let rate = median.and_then(|wall_s| {
                show_rate(
                    total(|m| m.successes) / rounds,
                    total(|m| m.bytes) / rounds,
                    wall_s,
                )
            });
            TableValue::new(rate.unwrap_or_default(), ValueTone::Plain)
        });
        self.add_texts("failures", ColumnKind::Number, 2, experiment, |cell| {
            let failures = cell.measurements.iter().map(Measurement::failures);
            match failures.fold(0, u64::saturating_add) {
                0 => TableValue::default(),
                failures => TableValue::new(failures.to_string(), ValueTone::Warning),
            }
        });
        self.add_texts("write-up", ColumnKind::Text, 2, experiment, |cell| {
            TableValue::new(cell.write_up.clone().unwrap_or_default(), ValueTone::Plain)
        });
    }

    fn add_times(
        &mut self,
        name: &str,
        priority: u8,
        experiment: &ExperimentResults,
        seconds: impl Fn(&Measurement) -> Option<f64>,
    ) {
        let cells = experiment.cells.iter();
        let times: Vec<_> = cells.map(|cell| median_of(cell, &seconds)).collect();
        let unit = TimeUnit::for_times(times.iter().flatten().copied());
        let column = ReportColumn {
            name: name.to_owned(),
            unit: unit.symbol(),
            kind: ColumnKind::Number,
            priority,
        };
        let values = times.into_iter().map(|time| {
            let text = time.map(|time| unit.show(time));
            TableValue::new(text.unwrap_or_default(), ValueTone::Plain)
        });
        self.add(column, values.collect());
    }

    fn add_cpu(
        &mut self,
        name: &str,
        priority: u8,
        experiment: &ExperimentResults,
        detail: TableDetail,
        cpu: impl Fn(&Measurement) -> Option<CpuTime>,
    ) {
        self.add_times(name, priority, experiment, |m| Some(cpu(m)?.total_s()));
        if detail == TableDetail::Page {
            let system = format!("{name}, kernel");
            self.add_times(&system, priority, experiment, |m| Some(cpu(m)?.system_s));
        }
    }

    fn add_counts(&mut self, experiment: &ExperimentResults) {
        self.add_texts(
            "connections made",
            ColumnKind::Number,
            7,
            experiment,
            |cell| {
                let median = median_of(cell, |m| Some(m.connections? as f64));
                let shown = median.map(|connections| format!("{connections:.0}"));
                TableValue::new(shown.unwrap_or_default(), ValueTone::Plain)
            },
        );
        self.add_texts("busy threads", ColumnKind::Number, 7, experiment, |cell| {
            let busy = median_of(cell, |m| Some(f64::from(m.server_threads?.busy)));
            let idle = median_of(cell, |m| Some(f64::from(m.server_threads?.idle)));
            let shown = busy
                .zip(idle)
                .map(|(busy, idle)| format!("{busy:.0} of {:.0}", busy + idle));
            TableValue::new(shown.unwrap_or_default(), ValueTone::Plain)
        });
    }

    fn add_phases(&mut self, experiment: &ExperimentResults) {
        let phases: [(&str, fn(PhaseTimes) -> f64); 5] = [
            ("DNS", |phases| phases.dns_s),
            ("connect", |phases| phases.connect_s),
            ("TLS", |phases| phases.tls_s),
            ("first byte", |phases| phases.first_byte_s),
            ("body", |phases| phases.body_s),
        ];
        for (name, phase) in phases {
            self.add_times(name, 9, experiment, |m| {
                // A phase that no request had is no column.
                m.phases.map(phase).filter(|seconds| *seconds > 0.0)
            });
        }
    }

    fn add_memory(
        &mut self,
        name: &str,
        experiment: &ExperimentResults,
        memory: impl Fn(&Measurement) -> Option<u64>,
    ) {
        let values = experiment.cells.iter().map(|cell| {
            let median = median_of(cell, |m| Some(mebibytes(memory(m)?)));
            let shown = median.map(three_digits);
            TableValue::new(shown.unwrap_or_default(), ValueTone::Plain)
        });
        let column = ReportColumn {
            name: name.to_owned(),
            unit: "MiB",
            kind: ColumnKind::Number,
            priority: 10,
        };
        self.add(column, values.collect());
    }
}

/// A ratio, or that there is none to speak of.
pub(super) fn ratio_value(ratio: crate::results::RatioInterval, detail: TableDetail) -> TableValue {
    match detail {
        TableDetail::Terminal if ratio.holds_one() => {
            TableValue::new("no difference", ValueTone::Plain)
        }
        TableDetail::Page if ratio.holds_one() => TableValue::new(
            format!("no difference {}", show_interval(ratio)),
            ValueTone::Plain,
        ),
        _ if ratio.ratio < 1.0 => TableValue::new(show_ratio(ratio), ValueTone::Faster),
        _ => TableValue::new(show_ratio(ratio), ValueTone::Slower),
    }
}

fn successful(cell: &CellResults) -> impl Iterator<Item = &Measurement> {
    cell.measurements.iter().filter(|m| m.successes > 0)
}

fn median_of(cell: &CellResults, value: impl Fn(&Measurement) -> Option<f64>) -> Option<f64> {
    let values: Vec<f64> = successful(cell).filter_map(value).collect();
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
