//! A bar for each cell, with its name above and its median beside it: readable on a phone, without an axis.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{
    Canvas, ChartError, FAINT, INK, WIDTH, pixels, series_color, shorten, text_style, text_width,
};
use crate::report::chart_plan::{ChartPanel, ChartPlan};
use crate::report::quantity::TimeUnit;
use crate::report::sentences::is_baseline;
use crate::results::{CellResults, ExperimentResults, Spread};

const BAR_ROW: i32 = 84;
const BAR_HEAD: i32 = 64;

/// A bar for each cell, below its name. Returns the height.
pub(super) fn draw_bars(
    svg: &mut String,
    experiment: &ExperimentResults,
    plan: &ChartPlan<'_>,
    panel: &ChartPanel<'_>,
) -> Result<i32, ChartError> {
    let cells: Vec<&CellResults> = panel
        .series
        .iter()
        .flat_map(|(_, cells)| cells)
        .copied()
        .collect();
    let walls = || cells.iter().filter_map(|cell| cell.wall);
    let unit = TimeUnit::for_times(walls().map(|wall| wall.median));
    let longest = walls()
        .map(|wall| wall.high)
        .fold(f64::MIN_POSITIVE, f64::max);
    let values = walls().map(|wall| text_width(&bar_value(wall, unit)));
    let room = f64::from(WIDTH - values.max().unwrap_or(0) - 32);
    let is_new_group = |index: usize| {
        let group = plan.bar_group(&cells[index].cell);
        !group.is_empty() && (index == 0 || plan.bar_group(&cells[index - 1].cell) != group)
    };
    let heads = (0..cells.len())
        .filter(|index| is_new_group(*index))
        .count();
    let rows = [(cells.len(), BAR_ROW), (heads, BAR_HEAD)];
    let height = rows.map(|(count, each)| i32::try_from(count).unwrap_or(0) * each);
    let height = height.iter().sum::<i32>() + 8;
    let root = SVGBackend::with_string(svg, (WIDTH.unsigned_abs(), height.unsigned_abs()))
        .into_drawing_area();
    let mut y = 4;
    for (index, cell) in cells.iter().enumerate() {
        if is_new_group(index) {
            let font = text_style(INK).font.style(FontStyle::Bold);
            let style = font.color(&INK).pos(Pos::new(HPos::Left, VPos::Bottom));
            let group = shorten(&plan.bar_group(&cell.cell), WIDTH);
            root.draw_text(&group, &style, (0, y + BAR_HEAD - 4))?;
            y += BAR_HEAD;
        }
        if let Some(wall) = cell.wall {
            let ends = [wall.low, wall.median, wall.high].map(|end| pixels(end / longest * room));
            let bar = BarRow {
                name: plan.bar_name(&cell.cell),
                value: bar_value(wall, unit),
                is_baseline: is_baseline(experiment, cell),
                ends,
            };
            bar.draw(&root, y)?;
        }
        y += BAR_ROW;
    }
    root.present()?;
    Ok(height)
}

/// A bar with its name and value.
#[derive(Debug)]
struct BarRow {
    name: String,
    value: String,
    is_baseline: bool,
    /// The quartile, the median and the other quartile, in pixels.
    ends: [i32; 3],
}

impl BarRow {
    fn draw(&self, root: &Canvas<'_>, y: i32) -> Result<(), ChartError> {
        let suffix = if self.is_baseline { " (baseline)" } else { "" };
        let name = shorten(&self.name, WIDTH - text_width(suffix)) + suffix;
        root.draw_text(&name, &text_style(FAINT), (0, y + 14))?;
        let [low, median, high] = self.ends;
        let (top, bottom) = (y + 46, y + 70);
        let color = if self.is_baseline {
            FAINT
        } else {
            series_color(0)
        };
        root.draw(&Rectangle::new(
            [(0, top), (median.max(2), bottom)],
            color.filled(),
        ))?;
        let middle = (top + bottom) / 2;
        let whisker = INK.stroke_width(2);
        root.draw(&PathElement::new([(low, middle), (high, middle)], whisker))?;
        for end in [low, high] {
            root.draw(&PathElement::new(
                [(end, middle - 7), (end, middle + 7)],
                whisker,
            ))?;
        }
        let style = text_style(INK).pos(Pos::new(HPos::Left, VPos::Center));
        root.draw_text(&self.value, &style, (high.max(median) + 16, middle))
    }
}

fn bar_value(wall: Spread, unit: TimeUnit) -> String {
    format!("{} {}", unit.show(wall.median), unit.symbol())
}
