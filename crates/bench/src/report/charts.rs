//! Charts as SVG: lines over a numeric factor, or bars; medians of wall times with their quartiles, and the axis from 0.
//!
//! `plotters` draws them: it makes SVG without a font library, a browser or JavaScript, brings a small tree of dependencies, and is kept.
//! Its colours are numbers, so it draws with placeholders, which become `currentColor` and variables of the page's style: a chart is dark or
//! light as the page is. Coordinates are whole numbers; a chart is drawn at twice its size, so that they are fine enough.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::drawing::DrawingAreaErrorKind;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::chart_plan::{ChartPanel, ChartPlan, level_number};
use super::html::escape_html;
use super::quantity::{TimeUnit, show_time};
use super::sentences::{is_baseline, printable};
use crate::results::{CellResults, ExperimentResults, Spread};

/// What the library says when it cannot draw.
pub(super) type ChartError = DrawingAreaErrorKind<std::io::Error>;
type Canvas<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

const WIDTH: i32 = 960;
const FONT: i32 = 26;
/// A mean character, in hundredths of the font's size: there is no font to measure.
const CHARACTER_PERCENT: i32 = 55;
/// The widest label of a level on an axis.
const MAX_LABEL: i32 = 200;
const LEGEND_LINE: i32 = 40;
const BAR_ROW: i32 = 84;
const BAR_HEAD: i32 = 64;

const INK: RGBColor = RGBColor(1, 1, 0);
const GRID: RGBColor = RGBColor(1, 1, 1);
const FAINT: RGBColor = RGBColor(1, 1, 2);
const PAPER: RGBColor = RGBColor(1, 1, 3);

/// The placeholder of a series; there are eight.
fn series_color(series: usize) -> RGBColor {
    RGBColor(1, 2, u8::try_from(series % 8).unwrap_or(0))
}

/// A chart, with what it shows in words for those who do not see it.
#[derive(Debug)]
pub(super) struct Chart {
    /// The levels that all of it has; may be empty.
    pub(super) caption: String,
    pub(super) svg: String,
}

/// The charts of an experiment; none for a single cell.
pub(super) fn draw_charts(experiment: &ExperimentResults) -> Result<Vec<Chart>, ChartError> {
    let plan = ChartPlan::of_experiment(experiment);
    let panels = plan.chart_panels();
    let is_worth_it = |panel: &&ChartPanel<'_>| {
        panel
            .series
            .iter()
            .map(|(_, cells)| cells.len())
            .sum::<usize>()
            > 1
    };
    let panels = panels.iter().filter(is_worth_it).enumerate();
    let charts = panels.map(|(number, panel)| {
        let mut svg = String::new();
        let height = match plan.axis {
            Some(axis) => draw_lines(&mut svg, panel, axis)?,
            None => draw_bars(&mut svg, experiment, &plan, panel)?,
        };
        let id = format!("{}-{number}", experiment.name);
        Ok(Chart {
            caption: panel.name.clone(),
            svg: adapt_svg(&svg, height, &id, experiment, &plan, panel),
        })
    });
    charts.collect()
}

/// Replaces the frame and the placeholders of colours.
fn adapt_svg(
    svg: &str,
    height: i32,
    id: &str,
    experiment: &ExperimentResults,
    plan: &ChartPlan<'_>,
    panel: &ChartPanel<'_>,
) -> String {
    let id: String = id
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || *c == '-')
        .collect();
    let title = match plan.axis {
        Some(axis) => format!("{}: wall time over {axis}", experiment.title),
        None => format!("{}: wall time", experiment.title),
    };
    let described = panel.series.iter().map(|(name, cells)| {
        let values = cells.iter().filter_map(|cell| {
            let level = plan
                .axis
                .and_then(|axis| cell.cell.level(axis))
                .unwrap_or("");
            let time = show_time(cell.wall?.median);
            Some(format!("{level} {time}").trim().to_owned())
        });
        format!("{name}: {}", values.collect::<Vec<_>>().join(", "))
    });
    let described = described.collect::<Vec<_>>().join("; ");
    let body = svg.split_once('>').map_or("", |(_, body)| body);
    let mut body = body.to_owned();
    let fixed = [
        (INK, "currentColor"),
        (GRID, "var(--grid)"),
        (FAINT, "var(--faint)"),
        (PAPER, "var(--paper)"),
    ];
    let series = (0..8).map(|series| (series_color(series), format!("var(--s{series})")));
    let colors = fixed
        .map(|(color, name)| (color, name.to_owned()))
        .into_iter()
        .chain(series);
    for (RGBColor(red, green, blue), name) in colors {
        let placeholder = format!("\"#{red:02X}{green:02X}{blue:02X}\"");
        body = body.replace(&placeholder, &format!("\"{name}\""));
    }
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\">\n\
         <title id=\"{id}-t\">{}</title>\n<desc id=\"{id}-d\">{}</desc>{body}",
        escape_html(&title),
        escape_html(&described),
    )
}

/// Lines over the levels of a factor. Returns the height.
fn draw_lines(svg: &mut String, panel: &ChartPanel<'_>, axis: &str) -> Result<i32, ChartError> {
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

/// The levels of the factor along the axis, with their places between 0 and 1.
#[derive(Debug)]
struct AxisLevels {
    places: Vec<(String, f64)>,
}

impl AxisLevels {
    /// Numbers lie as they are, or as their logarithms where each is a multiple of the one before; other levels follow them.
    fn of_panel(panel: &ChartPanel<'_>, axis: &str) -> Self {
        let cells = panel.series.iter().flat_map(|(_, cells)| cells);
        let mut numbers: Vec<(f64, &str)> = Vec::new();
        let mut words: Vec<&str> = Vec::new();
        for level in cells.filter_map(|cell| cell.cell.level(axis)) {
            match level_number(level) {
                Some(number) if numbers.iter().all(|(_, name)| *name != level) => {
                    numbers.push((number, level));
                }
                None if !words.contains(&level) => words.push(level),
                _ => {}
            }
        }
        numbers.sort_by(|a, b| a.0.total_cmp(&b.0));
        let is_geometric = numbers
            .windows(2)
            .all(|pair| pair[0].0 > 0.0 && pair[1].0 >= 1.5 * pair[0].0);
        let scale = |number: f64| if is_geometric { number.log2() } else { number };
        let ends = numbers.first().zip(numbers.last());
        let (first, last) =
            ends.map_or((0.0, 1.0), |(first, last)| (scale(first.0), scale(last.0)));
        // Words have a place each as wide as the mean distance of the numbers.
        let gaps = (numbers.len() + words.len()).saturating_sub(1).max(1) as f64;
        let number_share = numbers.len().saturating_sub(1) as f64 / gaps;
        let inset = |share: f64| 0.04 + 0.92 * share;
        let number_places = numbers.iter().map(|(number, name)| {
            let range = (last - first).max(f64::MIN_POSITIVE);
            (
                name.to_string(),
                inset((scale(*number) - first) / range * number_share),
            )
        });
        let word_places = words.iter().enumerate().map(|(index, name)| {
            (
                name.to_string(),
                inset(number_share + (index + 1) as f64 / gaps),
            )
        });
        Self {
            places: number_places.chain(word_places).collect(),
        }
    }

    fn position(&self, level: &str) -> Option<f64> {
        let place = self.places.iter().find(|(name, _)| name == level);
        place.map(|(_, position)| *position)
    }

    fn name_at(&self, position: f64) -> String {
        let place = self
            .places
            .iter()
            .find(|(_, place)| (place - position).abs() < 1e-9);
        place
            .map(|(name, _)| shorten(name, MAX_LABEL))
            .unwrap_or_default()
    }

    /// The places whose labels have room in a plot of this width, from the last one on.
    fn labelled(&self, width: i32) -> Vec<f64> {
        let mut labelled = Vec::new();
        let mut limit = f64::MAX;
        for (name, place) in self.places.iter().rev() {
            let half = f64::from(text_width(name).min(MAX_LABEL)) / 2.0 + 6.0;
            let center = place * f64::from(width);
            if center + half <= limit {
                labelled.push(*place);
                limit = center - half;
            }
        }
        labelled.reverse();
        labelled
    }
}

/// An axis from 0, with labels at given places.
#[derive(Debug, Clone)]
struct ChartAxis {
    end: f64,
    labelled: Vec<f64>,
}

impl ChartAxis {
    const fn new(end: f64, labelled: Vec<f64>) -> Self {
        Self { end, labelled }
    }
}

impl Ranged for ChartAxis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        // Downwards on one of the axes.
        let length = pixels(value / self.end * f64::from((to - from).abs()));
        from + length * (to - from).signum()
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.labelled.clone()
    }

    fn range(&self) -> Range<f64> {
        0.0..self.end
    }
}

/// Round numbers from 0 to above the highest.
fn axis_ticks(highest: f64) -> Vec<f64> {
    let highest = if highest.is_finite() && highest > 0.0 {
        highest
    } else {
        1.0
    };
    let magnitude = 10_f64.powf((highest / 5.0).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * magnitude);
    let step = steps.into_iter().find(|step| highest / step <= 5.0);
    let step = step.unwrap_or(10.0 * magnitude);
    (0..=6)
        .map(|tick| f64::from(tick) * step)
        .take_while(|tick| *tick < highest + step)
        .collect()
}

/// A tick's number, without zeros that say nothing.
fn tick_label(tick: f64) -> String {
    let label = format!("{tick:.6}");
    label.trim_end_matches('0').trim_end_matches('.').to_owned()
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

/// A bar for each cell, below its name. Returns the height.
fn draw_bars(
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

#[expect(clippy::cast_possible_truncation, reason = "lies within the chart")]
fn pixels(length: f64) -> i32 {
    length.clamp(0.0, f64::from(WIDTH)).round() as i32
}

/// The library divides the size of fonts by 1.24.
fn text_style(color: RGBColor) -> TextStyle<'static> {
    ("sans-serif", f64::from(FONT) * 1.24)
        .into_font()
        .color(&color)
}

fn text_width(text: &str) -> i32 {
    i32::try_from(text.chars().count()).map_or(WIDTH, |characters| {
        characters.saturating_mul(FONT * CHARACTER_PERCENT) / 100
    })
}

/// The text, cut so that it is not wider.
fn shorten(text: &str, width: i32) -> String {
    let mut shortened = printable(text);
    if text_width(&shortened) <= width {
        return shortened;
    }
    while !shortened.is_empty() && text_width(&shortened) + FONT > width {
        shortened.pop();
    }
    shortened + "…"
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    fn charts(experiment: usize) -> Vec<Chart> {
        draw_charts(&fixture::bench_results().experiments[experiment]).unwrap()
    }

    #[test]
    fn charts_hold_every_series() {
        let [chart] = &charts(0)[..] else {
            panic!("one chart")
        };
        for part in [
            "link 1ms",
            "link 20ms",
            "auto",
            "wall time, s",
            "connections",
        ] {
            assert!(chart.svg.contains(&format!("\n{part}\n")), "{part}");
        }
        assert_eq!(
            chart
                .svg
                .matches("<polyline fill=\"none\" opacity=\"1\" stroke=\"var(--s0)\"")
                .count(),
            2
        );
        let [small, large] = &charts(1)[..] else {
            panic!("two charts")
        };
        assert_eq!(small.caption, "files 100 x 1k");
        for chart in [small, large] {
            assert_eq!(chart.svg.matches("<rect").count(), 16);
            assert_eq!(chart.svg.matches("(baseline)").count(), 1);
            assert_eq!(
                chart
                    .svg
                    .matches("https-resumed, connections each\n")
                    .count(),
                2
            );
        }
        let [chart] = &charts(2)[..] else {
            panic!("one chart")
        };
        for series in 0..3 {
            assert!(chart.svg.contains(&format!("var(--s{series})")));
        }
    }

    #[test]
    fn no_placeholder_of_a_colour_is_left() {
        for chart in (0..3).flat_map(charts) {
            assert!(!chart.svg.contains("\"#0"), "{}", chart.svg);
            assert!(chart.svg.contains("<title id=") && chart.svg.contains("<desc id="));
        }
    }

    #[test]
    fn axes_begin_at_0_and_end_above_the_highest() {
        assert_eq!(axis_ticks(4.3), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(axis_ticks(100.0), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(axis_ticks(0.0).first(), Some(&0.0));
        for highest in [0.001, 0.7, 3.0, 9.99, 12.0, 51.0, 99_999.0] {
            let ticks = axis_ticks(highest);
            assert!(
                ticks.last().is_some_and(|last| *last >= highest * 0.999),
                "{ticks:?}"
            );
            assert!((3..=7).contains(&ticks.len()), "{ticks:?}");
        }
    }

    #[test]
    fn labels_of_many_levels_do_not_meet() {
        let places = (1..=100).map(|level| (level.to_string(), f64::from(level) / 100.0));
        let levels = AxisLevels {
            places: places.collect(),
        };
        let labelled = levels.labelled(800);
        assert!((10..40).contains(&labelled.len()), "{labelled:?}");
        assert_eq!(levels.name_at(labelled[labelled.len() - 1]), "100");
        assert_eq!(shorten("short", 500), "short");
        assert!(shorten(&"long".repeat(100), 500).ends_with('…'));
    }
}
