//! Where levels and times lie on the axes, and which of them are labelled.

use super::{shorten, text_width};
use crate::report::chart_plan::{ChartPanel, level_number};

/// The widest label of a level.
const MAX_LABEL: i32 = 200;

/// The levels of the factor along the axis, with their places between 0 and 1.
#[derive(Debug)]
pub(super) struct AxisLevels {
    places: Vec<(String, f64)>,
}

impl AxisLevels {
    /// Numbers lie as they are, or as their logarithms where each is a multiple of the one before; other levels follow them.
    pub(super) fn of_panel(panel: &ChartPanel<'_>, axis: &str) -> Self {
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

    pub(super) fn place(&self, level: &str) -> Option<f64> {
        let place = self.places.iter().find(|(name, _)| name == level);
        place.map(|(_, place)| *place)
    }

    /// Labels that have room in a plot of this width, from the last one on.
    pub(super) fn labelled(&self, width: i32) -> Vec<(String, f64)> {
        let mut labelled = Vec::new();
        let mut limit = f64::MAX;
        for (name, place) in self.places.iter().rev() {
            let label = shorten(name, MAX_LABEL);
            let half = f64::from(text_width(&label)) / 2.0 + 6.0;
            let center = place * f64::from(width);
            if center + half <= limit {
                labelled.push((label, *place));
                limit = center - half;
            }
        }
        labelled
    }
}

/// Round numbers from 0 to above the highest.
pub(super) fn axis_ticks(highest: f64) -> Vec<f64> {
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
pub(super) fn tick_label(tick: f64) -> String {
    let label = format!("{tick:.6}");
    label.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(labelled[0].0, "100");
    }
}
