//! Medians, quartiles, and the bootstrap interval of a ratio of medians.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::results::{RatioInterval, Spread};

const RESAMPLES: usize = 1000;

/// The median and the quartiles; `None` of no values.
#[must_use]
pub fn spread(values: &[f64]) -> Option<Spread> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    (!sorted.is_empty()).then(|| Spread {
        low: quantile(&sorted, 0.25),
        median: quantile(&sorted, 0.5),
        high: quantile(&sorted, 0.75),
    })
}

/// The ratio of the medians, with the 95 % of a bootstrap of it.
#[must_use]
pub fn ratio_interval(numerator: &[f64], denominator: &[f64], seed: u64) -> Option<RatioInterval> {
    let ratio = spread(numerator)?.median / spread(denominator)?.median;
    let mut random = StdRng::seed_from_u64(seed);
    let mut resample = |values: &[f64]| {
        let drawn = (0..values.len()).map(|_| values[random.random_range(0..values.len())]);
        spread(&drawn.collect::<Vec<_>>()).map_or(f64::NAN, |spread| spread.median)
    };
    let ratios = (0..RESAMPLES).map(|_| resample(numerator) / resample(denominator));
    let mut ratios: Vec<f64> = ratios.filter(|ratio| ratio.is_finite()).collect();
    ratios.sort_by(f64::total_cmp);
    (ratio.is_finite() && !ratios.is_empty()).then(|| RatioInterval {
        ratio,
        low: quantile(&ratios, 0.025),
        high: quantile(&ratios, 0.975),
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the position lies within the values"
)]
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let position = share * (sorted.len() - 1) as f64;
    let (below, above) = (
        sorted[position.floor() as usize],
        sorted[position.ceil() as usize],
    );
    below + (above - below) * position.fract()
}
