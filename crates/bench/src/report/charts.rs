//! Charts as SVG: the wall times over the levels of one factor, with their quartiles, from 0; a line for each combination of the others.
//!
//! `plotters` draws them: it makes SVG without a font library, a browser or JavaScript, brings a small tree of dependencies, and is kept.
//! Its colours are numbers: those of the lines can be told from white and from black, and [`INK`] becomes the page's `currentColor`, so that a chart
//! is dark or light as the page is. Names and legends are text of the page, as large as its other text on a phone, too.

use plotters::drawing::DrawingAreaErrorKind;
use plotters::prelude::*;

use super::quantity::{TimeUnit, ends};
use super::sentences::{escape_html, level_names, printable, varying_factors};
use crate::results::{CellResults, ExperimentResults};

/// What the library says when it cannot draw.
pub(super) type ChartError = DrawingAreaErrorKind<std::io::Error>;

/// Cells with the levels that they have in common.
type CellGroup<'a> = (String, Vec<&'a CellResults>);

/// Levels whose times differ by more than this are drawn apart, since the shorter times would all lie on the axis.
const MAX_SPREAD: f64 = 4.0;

/// Pixels, of which a page shows about one for two, so that whole numbers are fine enough.
const WIDTH: u32 = 720;
const HEIGHT: u32 = 380;
const LEFT: u32 = 84;
const MARGIN: u32 = 20;
const FONT: u32 = 24;
/// The length of the axis below.
const LENGTH: usize = (WIDTH - LEFT - MARGIN) as usize;
/// The mean width of a character: there is no font to measure.
const CHARACTER: usize = 12;

/// How far apart levels lie on the axis, and how far the lines' places at the same level in all.
const LEVEL: i32 = 1000;
const SHIFTED: i32 = 300;

const INK: RGBColor = RGBColor(1, 1, 1);
/// A sign and a colour for each line, since colours alone tell nothing to some readers and printers. More lines cannot be told apart.
///
/// The numbers draw the sign: how many corners it has, where the first lies, in turns from the top, and how far from the middle they are.
const LINES: [(char, RGBColor, u8, f64, f64); 5] = [
    ('●', RGBColor(47, 129, 247), 16, 0.0, 11.0),
    ('■', RGBColor(217, 98, 15), 4, 0.125, 13.0),
    ('▲', RGBColor(42, 157, 74), 3, 0.0, 16.0),
    ('◆', RGBColor(163, 113, 247), 4, 0.0, 13.0),
    ('▼', RGBColor(27, 149, 168), 3, 0.5, 16.0),
];

/// The charts of an experiment, as figures of a page; none for a single cell.
///
/// The factor with the most levels lies along the axis. Those whose levels take times of other magnitudes, and are not compared with the baseline,
/// have charts of their own for each level; so have others if there were too many lines.
pub(super) fn chart_figures(experiment: &ExperimentResults) -> Result<String, ChartError> {
    let cells: Vec<&CellResults> = experiment
        .cells
        .iter()
        .filter(|cell| cell.wall.is_some())
        .collect();
    let mut factors = varying_factors(experiment);
    let levels_of = |factor: &str| group_cells(&cells, &[factor]);
    let Some(axis) = factors
        .iter()
        .copied()
        .max_by_key(|factor| levels_of(factor).len())
    else {
        return Ok(String::new());
    };
    factors.retain(|factor| *factor != axis);
    let is_apart = |factor: &&str| {
        let levels = levels_of(factor).into_iter();
        let (low, high) = ends(levels.map(|(_, cells)| slowest(&cells)));
        experiment.baseline.level(factor).is_none() && high > MAX_SPREAD * low
    };
    let (mut apart, mut together): (Vec<&str>, Vec<&str>) = factors.into_iter().partition(is_apart);
    while group_cells(&cells, &together).len() > LINES.len() {
        apart.push(together.remove(0));
    }
    let levels: Vec<String> = levels_of(axis)
        .into_iter()
        // Their names without that of the factor.
        .map(|(name, _)| name.get(axis.len() + 1..).unwrap_or_default().to_owned())
        .collect();
    let charts = group_cells(&cells, &apart)
        .into_iter()
        .filter(|(_, cells)| cells.len() > 1);
    let figures = charts.map(|(name, cells)| -> Result<String, ChartError> {
        let unit = TimeUnit::for_times([slowest(&cells)]);
        let lines = group_cells(&cells, &together);
        let title = format!("Wall time in {} over {axis}, {name}", unit.symbol);
        let title = escape_html(title.trim_end_matches(", "));
        let svg = draw_lines(&lines, axis, &levels, unit)?;
        let named = lines.iter().zip(LINES).filter(|((name, _), _)| !name.is_empty());
        let legend: String = named
            .map(|((name, _), (sign, RGBColor(red, green, blue), ..))| {
                let name = escape_html(name);
                format!(" <span><b style=\"color:#{red:02x}{green:02x}{blue:02x}\">{sign}</b> {name}</span>")
            })
            .collect();
        Ok(format!(
            "<figure>\n<figcaption>{title}<br>{legend}</figcaption>\n\
             <svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">{svg}</figure>\n"
        ))
    });
    figures.collect()
}

/// The cells by their levels of these factors, in the order in which they come.
fn group_cells<'a>(cells: &[&'a CellResults], factors: &[&str]) -> Vec<CellGroup<'a>> {
    let mut groups: Vec<CellGroup<'a>> = Vec::new();
    for cell in cells.iter().copied() {
        let name = level_names(factors.iter().copied(), &cell.cell);
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, cells)) => cells.push(cell),
            None => groups.push((name, vec![cell])),
        }
    }
    groups
}

/// The longest time that is drawn.
fn slowest(cells: &[&CellResults]) -> f64 {
    ends(cells.iter().filter_map(|cell| Some(cell.wall?.high))).1
}

/// The content of the SVG, and its end.
fn draw_lines(
    lines: &[CellGroup<'_>],
    axis: &str,
    levels: &[String],
    unit: TimeUnit,
) -> Result<String, ChartError> {
    let highest = lines
        .iter()
        .map(|(_, cells)| slowest(cells))
        .fold(0.0, f64::max);
    let labels = axis_labels(levels);
    let label = |place: &i32| {
        let label = labels.iter().find(|(labelled, _)| labelled == place);
        label.map_or_else(String::new, |(_, label)| label.clone())
    };
    let places = labels.iter().map(|(place, _)| *place).collect();
    let end = i32::try_from(levels.len()).unwrap_or(0) * LEVEL;
    let count = i32::try_from(lines.len()).unwrap_or(1).max(1);
    let mut svg = String::new();
    let root = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
    let mut chart = ChartBuilder::on(&root)
        .margin_top(MARGIN)
        .margin_right(MARGIN)
        .x_label_area_size(2 * FONT)
        .y_label_area_size(LEFT)
        .build_cartesian_2d(
            (-LEVEL / 2..end - LEVEL / 2).with_key_points(places),
            0.0..highest * unit.per_second * 1.05,
        )?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(INK.mix(0.15).stroke_width(2))
        .axis_style(INK.mix(0.4).stroke_width(2))
        .set_all_tick_mark_size(6)
        .label_style(
            ("sans-serif", f64::from(FONT) * 1.24)
                .into_font()
                .color(&INK),
        )
        .y_labels(6)
        .x_label_formatter(&label)
        .y_label_formatter(&|time| format!("{}", (time * 1e6).round() / 1e6))
        .draw()?;
    for (index, (number, (_, cells))) in (0..).zip(lines).enumerate() {
        // Lines lie a little beside each other, so that equal ones are all seen.
        let shift = (2 * number + 1) * SHIFTED / (2 * count) - SHIFTED / 2;
        let points = cells.iter().filter_map(|cell| {
            let level = cell.cell.level(axis)?;
            let (place, _) = (0..).zip(levels).find(|(_, other)| *other == level)?;
            let wall = cell.wall?;
            let times = [wall.low, wall.median, wall.high].map(|time| time * unit.per_second);
            Some((place * LEVEL + shift, times, level.parse::<f64>().is_ok()))
        });
        draw_line(chart.plotting_area(), index, &points.collect::<Vec<_>>())?;
    }
    root.present()?;
    drop((chart, root));
    let ink = format!("\"#{:02X}{:02X}{:02X}\"", INK.0, INK.1, INK.2);
    let body = svg.split_once('>').map_or("", |(_, body)| body);
    Ok(body.replace(&ink, "\"currentColor\""))
}

/// The places of levels on the axis, with labels as far as there is room: of many levels some have none, and long ones are cut.
fn axis_labels(levels: &[String]) -> Vec<(i32, String)> {
    let room = (LENGTH / levels.len().max(1)).max(1);
    let longest = levels.iter().map(|level| level.chars().count()).max();
    let wanted = longest.unwrap_or(0).min(8) * CHARACTER;
    let step = wanted.div_ceil(room).max(1);
    let cut = |level: &String| {
        let characters = room * step / CHARACTER;
        printable(level).chars().take(characters).collect()
    };
    let labels = (0..).map(|index| index * LEVEL).zip(levels.iter().map(cut));
    let first = levels.len().saturating_sub(1) % step;
    labels.skip(first).step_by(step).collect()
}

/// Draws places with their quartiles and the median between them, and a line between places that are numbers.
fn draw_line<C: CoordTranslate<From = (i32, f64)>>(
    area: &DrawingArea<SVGBackend<'_>, C>,
    number: usize,
    points: &[(i32, [f64; 3], bool)],
) -> Result<(), ChartError> {
    let (_, color, corners, first, distance) = LINES[number % LINES.len()];
    let outline = sign_outline(corners, first, distance);
    let numeric = points.iter().filter(|(_, _, is_number)| *is_number);
    let line: Vec<_> = numeric
        .map(|(place, [_, median, _], _)| (*place, *median))
        .collect();
    area.draw(&PathElement::new(line, color.stroke_width(4)))?;
    for (place, [low, median, high], _) in points.iter().copied() {
        area.draw(&ErrorBar::new_vertical(
            place,
            low,
            median,
            high,
            color.stroke_width(3),
            12,
        ))?;
        area.draw(
            &(EmptyElement::at((place, median)) + Polygon::new(outline.clone(), color.filled())),
        )?;
    }
    Ok(())
}

/// The corners of a line's sign around its place.
#[expect(clippy::cast_possible_truncation, reason = "some pixels")]
fn sign_outline(corners: u8, first: f64, distance: f64) -> Vec<(i32, i32)> {
    let corner = |number| {
        let turn = f64::from(number) / f64::from(corners) + first;
        let (x, y) = (turn * std::f64::consts::TAU).sin_cos();
        (
            (x * distance).round() as i32,
            (y * -distance).round() as i32,
        )
    };
    (0..corners).map(corner).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    fn charts(experiment: &ExperimentResults) -> Vec<String> {
        let figures = chart_figures(experiment).unwrap();
        figures
            .split_inclusive("</figure>\n")
            .map(str::to_owned)
            .collect()
    }

    fn names(chart: &str) -> Vec<&str> {
        let entries = chart.split("</b> ").skip(1);
        entries
            .map(|entry| entry.split('<').next().unwrap())
            .collect()
    }

    #[test]
    fn the_longest_factor_is_the_axis_and_uneven_levels_are_apart() {
        let results = fixture::bench_results();
        let [accelerate, quirks, sweep] = &results.experiments[..] else {
            panic!("three experiments");
        };
        let [chart] = &charts(accelerate)[..] else {
            panic!("one chart");
        };
        assert!(chart.contains("<figcaption>Wall time in s over connections<br>"));
        assert_eq!(names(chart), ["link 1ms", "link 20ms"]);
        for label in ["1", "16", "auto", "2", "6"] {
            assert!(chart.contains(&format!("\n{label}\n")), "{label}");
        }
        for RGBColor(red, green, blue) in [LINES[0].1, LINES[1].1] {
            // Three lines for the quartiles of each of six cells.
            let line = format!("<line opacity=\"1\" stroke=\"#{red:02X}{green:02X}{blue:02X}\"");
            assert_eq!(chart.matches(&line).count(), 3 * 6);
        }
        let charts_of_quirks = charts(quirks);
        for (chart, files) in charts_of_quirks.iter().zip(["100 x 1k", "20 x 10M"]) {
            assert!(
                chart.contains(&format!(" over protocol, files {files}<br>")),
                "{chart}"
            );
            assert_eq!(names(chart).len(), 4);
        }
        assert_eq!((charts_of_quirks.len(), charts(sweep).len()), (2, 1));
    }

    #[test]
    fn crowded_charts_are_divided() {
        let mut sweep = fixture::bench_results().experiments.remove(2);
        let template = sweep.cells[0].clone();
        sweep.factors.push("host".to_owned());
        for (number, cell) in sweep.cells.iter_mut().enumerate() {
            let host = (number % 2).to_string();
            cell.cell.levels.insert("host".to_owned(), host);
        }
        for host in 2..4 {
            let mut cell = template.clone();
            cell.cell.levels.insert("host".to_owned(), host.to_string());
            sweep.cells.push(cell);
        }
        let charts = charts(&sweep);
        assert_eq!(charts.len(), 3);
        for chart in charts {
            assert!((1..=LINES.len()).contains(&names(&chart).len()), "{chart}");
        }
    }

    #[test]
    fn a_page_chooses_the_colour_of_the_text() {
        for experiment in fixture::bench_results().experiments {
            let figures = chart_figures(&experiment).unwrap();
            assert!(!figures.contains("#010101") && figures.contains("fill=\"currentColor\""));
        }
    }

    #[test]
    fn a_single_cell_has_no_chart() {
        let mut experiment = fixture::bench_results().experiments.remove(0);
        experiment.cells.truncate(1);
        assert_eq!(chart_figures(&experiment).unwrap(), "");
    }

    #[test]
    fn many_long_levels_have_room() {
        let mut experiment = fixture::bench_results().experiments.remove(0);
        for (number, cell) in experiment.cells.iter_mut().enumerate() {
            let level = format!("{number} is a level with a long name");
            cell.cell.levels.insert("connections".to_owned(), level);
        }
        let figures = chart_figures(&experiment).unwrap();
        let labels = figures.lines().filter(|line| line.contains(" is a "));
        assert!((3..=6).contains(&labels.count()), "{figures}");
        assert!(!figures.contains("long name"));
    }
}
