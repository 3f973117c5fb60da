//! Charts as SVG: lines over a numeric factor, or bars; medians of wall times with their quartiles, and the axis from 0.
//!
//! `plotters` draws them: it makes SVG without a font library, a browser or JavaScript, brings a small tree of dependencies, and is kept.
//! Its colours are numbers, so it draws with placeholders, which become `currentColor` and variables of the page's style: a chart is dark or
//! light as the page is. Coordinates are whole numbers; a chart is drawn at twice its size, so that they are fine enough.

mod axes;
mod bars;
mod lines;

use plotters::drawing::DrawingAreaErrorKind;
use plotters::prelude::*;

use bars::draw_bars;
use lines::draw_lines;

use super::chart_plan::{ChartPanel, ChartPlan};
use super::quantity::show_time;
use super::sentences::{escape_html, printable};
use crate::results::ExperimentResults;

/// What the library says when it cannot draw.
pub(super) type ChartError = DrawingAreaErrorKind<std::io::Error>;
type Canvas<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

const WIDTH: i32 = 960;
const FONT: i32 = 26;
/// A mean character, in hundredths of the font's size: there is no font to measure.
const CHARACTER_PERCENT: i32 = 55;

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
        for series in ["0", "1"] {
            // Three lines for the quartiles of each of six cells.
            let line = format!("<line opacity=\"1\" stroke=\"var(--s{series})\"");
            assert_eq!(chart.svg.matches(&line).count(), 3 * 6);
        }
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
    fn long_names_are_cut() {
        assert_eq!(shorten("short", 500), "short");
        assert!(shorten(&"long".repeat(100), 500).ends_with('…'));
    }
}
