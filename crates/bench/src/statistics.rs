//! Medians, and how sure their ratios are.
//!
//! The interval of a ratio is a percentile bootstrap (Efron 1979): both samples are drawn anew, with replacement, as often as each has
//! values, and the ratio of the medians is noted; the middle 95 % of a thousand such ratios are the interval. It asks nothing of the
//! distribution, which is what times on a busy machine need.

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use crate::results::{RatioInterval, Spread};

/// How often the samples are drawn. The ends of the interval are then those of 25 ratios each.
const RESAMPLES: usize = 1000;

/// The fewest values of a sample that a ratio has an interval for: even two equal samples of three lie wholly apart once in ten times.
pub const MIN_VALUES: usize = 4;

/// With fewer values the interval reaches from the least ratio of two values to the largest: two equal samples of four lie wholly apart in 3 %
/// of all cases, and the bootstrap would be too sure.
const MIN_RESAMPLED: usize = 5;

/// A quantile of sorted values, between the two that are next to it.
fn quantile(sorted: &[f64], part: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let at = part * last as f64;
    let (low, rest) = (at.floor(), at.fract());
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an index of the slice"
    )]
    let low = low as usize;
    let high = sorted[(low + 1).min(last)];
    Some(sorted[low] + (high - sorted[low]) * rest)
}

/// The median of values in any order; `None` without any.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    Some(spread(values)?.median)
}

/// The median and the quartiles; `None` without values.
#[must_use]
pub fn spread(values: &[f64]) -> Option<Spread> {
    let sorted = sorted(values.iter().copied());
    Some(Spread {
        low: quantile(&sorted, 0.25)?,
        median: quantile(&sorted, 0.5)?,
        high: quantile(&sorted, 0.75)?,
    })
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The ratio of two medians, and its interval of 95 %. `None` with fewer than [`MIN_VALUES`] values on either side, or where the denominator
/// may be zero. The same seed gives the same interval.
#[must_use]
pub fn ratio_interval(numerator: &[f64], denominator: &[f64], seed: u64) -> Option<RatioInterval> {
    let samples = [numerator, denominator];
    let [above, below] = samples.map(|values| sorted(values.iter().copied()));
    let fewest = above.len().min(below.len());
    if fewest < MIN_VALUES || *below.first()? <= 0.0 {
        return None;
    }
    let ratio = quantile(&above, 0.5)? / quantile(&below, 0.5)?;
    if fewest < MIN_RESAMPLED {
        return Some(RatioInterval {
            ratio,
            low: above.first()? / below.last()?,
            high: above.last()? / below.first()?,
        });
    }
    let mut random = StdRng::seed_from_u64(seed);
    let mut ratios = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        // As many values as there are, with replacement.
        let [above, below] = samples.map(|values| {
            let drawn = values
                .iter()
                .map(|_| values[random.random_range(0..values.len())]);
            sorted(drawn)
        });
        ratios.push(quantile(&above, 0.5)? / quantile(&below, 0.5)?);
    }
    let ratios = sorted(ratios.into_iter());
    Some(RatioInterval {
        ratio,
        // The median of all is inside whatever was drawn.
        low: quantile(&ratios, 0.025)?.min(ratio),
        high: quantile(&ratios, 0.975)?.max(ratio),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quartiles_are_between_values() {
        let found = spread(&[4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!((found.low, found.median, found.high), (1.75, 2.5, 3.25));
        assert_eq!(median(&[7.0]), Some(7.0));
        assert_eq!(spread(&[]), None);
    }

    #[test]
    fn a_ratio_needs_four_values_and_a_denominator() {
        assert_eq!(ratio_interval(&[1.0; 3], &[1.0; 4], 1), None);
        assert_eq!(ratio_interval(&[1.0; 4], &[0.0, 1.0, 1.0, 1.0], 1), None);
        let found = ratio_interval(&[2.0; 4], &[4.0; 4], 1).unwrap();
        assert_eq!((found.ratio, found.low, found.high), (0.5, 0.5, 0.5));
        let found = ratio_interval(&[2.0, 2.0, 2.0, 3.0], &[4.0, 4.0, 4.0, 5.0], 1).unwrap();
        assert_eq!((found.ratio, found.low, found.high), (0.5, 0.4, 0.75));
    }

    /// Of many pairs of samples of one distribution, at least about 95 % have an interval that holds the true ratio of 1, from the fewest values on.
    #[test]
    fn the_interval_holds_the_true_ratio_as_often_as_it_says() {
        let mut random = StdRng::seed_from_u64(11);
        const PAIRS: u64 = 200;
        for values in [4, 5, 8, 15] {
            let mut holds = 0;
            for seed in 0..PAIRS {
                let mut sample = || -> Vec<f64> {
                    (0..values)
                        .map(|_| 1.0 + random.random::<f64>() + random.random::<f64>())
                        .collect()
                };
                let (one, other) = (sample(), sample());
                let interval = ratio_interval(&one, &other, seed).unwrap();
                holds += u64::from(interval.holds_one());
            }
            assert!(
                (184..=200).contains(&holds),
                "{holds} of {PAIRS}, {values} values"
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn a_true_factor_is_found(values in prop::collection::vec(0.9_f64..1.1, 7..30), factor in 1.5_f64..4.0, seed: u64) {
            let scaled: Vec<f64> = values.iter().map(|value| value * factor).collect();
            let found = ratio_interval(&scaled, &values, seed).unwrap();
            prop_assert!((found.ratio - factor).abs() < 1e-9);
            prop_assert!(found.low <= factor && factor <= found.high && !found.holds_one());
            prop_assert!(found.low >= factor * 0.9 / 1.1 && found.high <= factor * 1.1 / 0.9);
        }

        #[test]
        fn quantiles_are_in_order(values in prop::collection::vec(-1e9_f64..1e9, 1..50)) {
            let found = spread(&values).unwrap();
            prop_assert!(found.low <= found.median && found.median <= found.high);
        }
    }
}
