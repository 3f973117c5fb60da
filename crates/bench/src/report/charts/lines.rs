//! Lines over a numeric factor: a line for each series, whiskers for the quartiles, and a legend below.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axes::{AxisLevels, ChartAxis, axis_ticks, tick_label};
use super::{
    Canvas, ChartError, FAINT, GRID, INK, PAPER, WIDTH, series_color, shorten, text_style,
    text_width,
};
use crate::report::chart_plan::{ChartPanel, level_number};
use crate::report::quantity::TimeUnit;
use crate::results::Spread;

const LEGEND_LINE: i32 = 40;

/// Lines over the levels of a factor. Returns the height.
pub(super) fn draw_lines(
    svg: &mut String,
    panel: &ChartPanel<'_>,
    axis: &str,
) -> Result<i32, ChartError> {
    let axis_levels = AxisLevels::of_panel(panel, axis);
    let walls = panel
        .series
        .iter()
        .flat_map(|(_, cells)| cells)
        .filter_map(|cell| cell.wall);
    let highs: Vec<f64> = walls.map(|wall| wall.high).collect();
    let unit = TimeUnit::for_times([highs.iter().copied().fold(0.0, f64::max)]);
    let ticks = axis_ticks(
        highs
            .iter()
            .map(|high| unit.scale(*high))
            .fold(0.0, f64::max),
    );
    let legend = legend_lines(panel);
    let legend_height = i32::try_from(legend.len()).unwrap_or(0) * LEGEND_LINE;
    let height = 560 + legend_height;
    let root = SVGBackend::with_string(svg, (WIDTH.unsigned_abs(), height.unsigned_abs()))
        .into_drawing_area();
    let top = ticks.last().copied().unwrap_or(1.0);
    let labels = ticks.iter().map(|tick| text_width(&tick_label(*tick)));
    let label_width = labels.max().unwrap_or(0) + 24;
    let mut chart = ChartBuilder::on(&root)
        .margin_top(56)
        .margin_right(24)
        .margin_bottom(legend_height + 44)
        .x_label_area_size(48)
        .y_label_area_size(label_width)
        .build_cartesian_2d(
            ChartAxis::new(1.0, axis_levels.labelled(WIDTH - label_width - 24)),
            ChartAxis::new(top, ticks),
        )?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .bold_line_style(GRID.stroke_width(2))
        .light_line_style(TRANSPARENT)
        .axis_style(FAINT.stroke_width(2))
        .label_style(text_style(FAINT))
        .x_label_formatter(&|position| axis_levels.name_at(*position))
        .y_label_formatter(&|tick| tick_label(*tick))
        .draw()?;
    let title = format!("wall time, {}", unit.symbol());
    root.draw_text(&title, &text_style(INK), (0, 4))?;
    let below = text_style(INK).pos(Pos::new(HPos::Right, VPos::Top));
    let axis_name = shorten(axis, WIDTH / 2);
    root.draw_text(
        &axis_name,
        &below,
        (WIDTH - 24, height - legend_height - 40),
    )?;
    for (number, (_, cells)) in panel.series.iter().enumerate() {
        let color = series_color(number);
        let mut points: Vec<(f64, Spread, bool)> = cells
            .iter()
            .filter_map(|cell| {
                let level = cell.cell.level(axis).unwrap_or("");
                let is_numeric = level_number(level).is_some();
                Some((axis_levels.position(level)?, cell.wall?, is_numeric))
            })
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let numeric = points.iter().filter(|(_, _, is_numeric)| *is_numeric);
        let line = numeric.map(|(x, wall, _)| (*x, unit.scale(wall.median)));
        chart.draw_series(LineSeries::new(line, color.stroke_width(4)))?;
        for (x, wall, _) in points {
            let [low, median, high] = [wall.low, wall.median, wall.high].map(|y| unit.scale(y));
            let bar = ErrorBar::new_vertical(x, low, median, high, color.stroke_width(3), 14);
            chart.draw_series([bar])?;
            draw_marker(&root, chart.backend_coord(&(x, median)), number)?;
        }
    }
    draw_legend(&root, &legend, height - legend_height + 4)?;
    root.present()?;
    Ok(height)
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
    let radius = 9;
    let mut outline = match series % 4 {
        0 => return draw_circle(root, (x, y), series),
        1 => vec![
            (x - radius, y - radius),
            (x + radius, y - radius),
            (x + radius, y + radius),
            (x - radius, y + radius),
        ],
        2 => vec![
            (x, y - radius - 3),
            (x + radius + 3, y + radius),
            (x - radius - 3, y + radius),
        ],
        _ => vec![
            (x, y - radius - 4),
            (x + radius + 4, y),
            (x, y + radius + 4),
            (x - radius - 4, y),
        ],
    };
    let inside = if series >= 4 {
        PAPER
    } else {
        series_color(series)
    };
    root.draw(&Polygon::new(outline.clone(), inside.filled()))?;
    outline.push(outline[0]);
    root.draw(&PathElement::new(
        outline,
        series_color(series).stroke_width(4),
    ))
}

fn draw_circle(root: &Canvas<'_>, center: (i32, i32), series: usize) -> Result<(), ChartError> {
    let inside = if series >= 4 {
        PAPER
    } else {
        series_color(series)
    };
    root.draw(&Circle::new(center, 10, inside.filled()))?;
    root.draw(&Circle::new(
        center,
        10,
        series_color(series).stroke_width(4),
    ))
}
