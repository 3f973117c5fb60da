//! Lines over a numeric factor: a line for each series, whiskers for the quartiles, and a legend below.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axes::{AxisLevels, axis_ticks, tick_label};
use super::{
    Canvas, ChartError, FAINT, GRID, INK, PAPER, WIDTH, pixels, series_color, shorten, text_style,
    text_width,
};
use crate::report::chart_plan::{ChartPanel, level_number};
use crate::report::quantity::TimeUnit;

const LEGEND_LINE: i32 = 40;
/// How far apart series lie at the same level, and the first from the last.
const SERIES_SHIFT: f64 = 12.0;
const MAX_SHIFT: f64 = 36.0;

/// Where the axes lie, in pixels.
#[derive(Debug)]
struct Plot {
    left: i32,
    bottom: i32,
    /// The time at the top, in `unit`.
    highest: f64,
    unit: TimeUnit,
}

impl Plot {
    const TOP: i32 = 56;
    const RIGHT: i32 = WIDTH - 24;

    fn x(&self, place: f64, shift: f64) -> i32 {
        self.left + pixels(place * f64::from(Self::RIGHT - self.left) + shift)
    }

    fn y(&self, time: f64) -> i32 {
        self.bottom - pixels(time / self.highest * f64::from(self.bottom - Self::TOP))
    }
}

/// Lines over the levels of a factor. Returns the height.
pub(super) fn draw_lines(
    svg: &mut String,
    panel: &ChartPanel<'_>,
    axis: &str,
) -> Result<i32, ChartError> {
    let levels = AxisLevels::of_panel(panel, axis);
    let walls = panel
        .series
        .iter()
        .flat_map(|(_, cells)| cells)
        .filter_map(|cell| cell.wall);
    let highest = walls.map(|wall| wall.high).fold(0.0, f64::max);
    let unit = TimeUnit::for_times([highest]);
    let ticks = axis_ticks(unit.scale(highest));
    let labels = ticks.iter().map(|tick| text_width(&tick_label(*tick)));
    let plot = Plot {
        left: labels.max().unwrap_or(0) + 20,
        bottom: 460,
        highest: ticks.last().copied().unwrap_or(1.0),
        unit,
    };
    let legend = legend_lines(panel);
    let legend_top = plot.bottom + 96;
    let height = legend_top + i32::try_from(legend.len()).unwrap_or(0) * LEGEND_LINE;
    let root = SVGBackend::with_string(svg, (WIDTH.unsigned_abs(), height.unsigned_abs()))
        .into_drawing_area();
    draw_axes(&root, &plot, &ticks, &levels, axis)?;
    for series in 0..panel.series.len() {
        draw_series(&root, &plot, panel, series, &levels, axis)?;
    }
    draw_legend(&root, &legend, legend_top)?;
    root.present()?;
    Ok(height)
}

fn draw_axes(
    root: &Canvas<'_>,
    plot: &Plot,
    ticks: &[f64],
    levels: &AxisLevels,
    axis: &str,
) -> Result<(), ChartError> {
    let unit = format!("wall time, {}", plot.unit.symbol());
    root.draw_text(&unit, &text_style(INK), (0, 4))?;
    let label = text_style(FAINT).pos(Pos::new(HPos::Right, VPos::Center));
    for tick in ticks {
        let y = plot.y(*tick);
        let color = if *tick > 0.0 { GRID } else { FAINT };
        root.draw(&PathElement::new(
            [(plot.left, y), (Plot::RIGHT, y)],
            color.stroke_width(2),
        ))?;
        root.draw_text(&tick_label(*tick), &label, (plot.left - 12, y))?;
    }
    let label = text_style(FAINT).pos(Pos::new(HPos::Center, VPos::Top));
    for (name, place) in levels.labelled(Plot::RIGHT - plot.left) {
        let (x, y) = (plot.x(place, 0.0), plot.bottom);
        root.draw(&PathElement::new(
            [(x, y), (x, y + 8)],
            FAINT.stroke_width(2),
        ))?;
        root.draw_text(&name, &label, (x, y + 14))?;
    }
    let name = text_style(INK).pos(Pos::new(HPos::Right, VPos::Top));
    root.draw_text(
        &shorten(axis, WIDTH / 2),
        &name,
        (Plot::RIGHT, plot.bottom + 50),
    )
}

fn draw_series(
    root: &Canvas<'_>,
    plot: &Plot,
    panel: &ChartPanel<'_>,
    series: usize,
    levels: &AxisLevels,
    axis: &str,
) -> Result<(), ChartError> {
    let color = series_color(series);
    // Series lie a little beside each other, so that equal ones are all seen.
    let gaps = panel.series.len().saturating_sub(1).max(1) as f64;
    let shift = (series as f64 / gaps - 0.5) * (gaps * SERIES_SHIFT).min(MAX_SHIFT);
    let points = panel.series[series].1.iter().filter_map(|cell| {
        let level = cell.cell.level(axis)?;
        let x = plot.x(levels.place(level)?, shift);
        let wall = cell.wall?;
        let [low, median, high] = [wall.low, wall.median, wall.high];
        let y = [low, median, high].map(|time| plot.y(plot.unit.scale(time)));
        Some((x, y, level_number(level).is_some()))
    });
    let mut points: Vec<(i32, [i32; 3], bool)> = points.collect();
    points.sort_unstable();
    let numeric = points.iter().filter(|(_, _, is_numeric)| *is_numeric);
    let line: Vec<_> = numeric.map(|(x, [_, y, _], _)| (*x, *y)).collect();
    root.draw(&PathElement::new(line, color.stroke_width(4)))?;
    for (x, [low, median, high], _) in points {
        root.draw(&ErrorBar::new_vertical(
            x,
            low,
            median,
            high,
            color.stroke_width(3),
            12,
        ))?;
        draw_marker(root, (x, median), series)?;
    }
    Ok(())
}

/// Entries of a legend, in lines that have room for them.
fn legend_lines(panel: &ChartPanel<'_>) -> Vec<Vec<(usize, String)>> {
    let entries = panel.series.iter().enumerate();
    let entries = entries.filter(|(_, (name, _))| !name.is_empty());
    let entries: Vec<_> = entries
        .map(|(number, (name, _))| (number, shorten(name, WIDTH - 60)))
        .collect();
    let widest = entries.iter().map(|(_, name)| legend_width(name)).max();
    let columns = widest.map_or(1, |widest| (WIDTH / widest).clamp(1, 3));
    entries
        .chunks(usize::try_from(columns).unwrap_or(1))
        .map(<[_]>::to_vec)
        .collect()
}

fn legend_width(name: &str) -> i32 {
    text_width(name) + 80
}

fn draw_legend(
    root: &Canvas<'_>,
    lines: &[Vec<(usize, String)>],
    top: i32,
) -> Result<(), ChartError> {
    let widest = lines
        .iter()
        .flatten()
        .map(|(_, name)| legend_width(name))
        .max();
    for (line, y) in lines
        .iter()
        .zip((0..).map(|line| top + LEGEND_LINE / 2 + line * LEGEND_LINE))
    {
        for ((number, name), column) in line.iter().zip(0..) {
            let x = 4 + column * widest.unwrap_or(0);
            let stroke = series_color(*number).stroke_width(4);
            root.draw(&PathElement::new([(x, y), (x + 40, y)], stroke))?;
            draw_marker(root, (x + 20, y), *number)?;
            let style = text_style(INK).pos(Pos::new(HPos::Left, VPos::Center));
            root.draw_text(name, &style, (x + 52, y))?;
        }
    }
    Ok(())
}

/// A sign of a series: four forms, filled and hollow, since colours alone tell nothing to some readers and printers.
fn draw_marker(root: &Canvas<'_>, (x, y): (i32, i32), series: usize) -> Result<(), ChartError> {
    let inside = if series >= 4 {
        PAPER
    } else {
        series_color(series)
    }
    .filled();
    let stroke = series_color(series).stroke_width(4);
    // A polygon's corners, and where the first of them lies, in eighths of a turn from the top.
    let (corners, eighths) = match series % 4 {
        0 => {
            root.draw(&Circle::new((x, y), 10, inside))?;
            return root.draw(&Circle::new((x, y), 10, stroke));
        }
        1 => (4, 1),
        2 => (3, 0),
        _ => (4, 0),
    };
    let corner = |number: u8| {
        let turn = f64::from(number) / f64::from(corners) + f64::from(eighths) / 8.0;
        let (sine, cosine) = (turn * std::f64::consts::TAU).sin_cos();
        let distance = |share: f64| pixels(12.0 * (1.0 + share)) - 12;
        (x + distance(sine), y - distance(cosine))
    };
    let outline: Vec<_> = (0..=corners).map(corner).collect();
    root.draw(&Polygon::new(outline.clone(), inside))?;
    root.draw(&PathElement::new(outline, stroke))
}
