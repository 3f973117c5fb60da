//! The experiments that haul brings along.

/// Names and files, in the order in which `haul bench all` runs them.
pub const BUILTIN_EXPERIMENTS: [(&str, &str); 7] = [
    ("accelerate", include_str!("builtin/accelerate.toml")),
    ("quirks", include_str!("builtin/quirks.toml")),
    ("sweep", include_str!("builtin/sweep.toml")),
    ("collapse", include_str!("builtin/collapse.toml")),
    ("store", include_str!("builtin/store.toml")),
    ("tunnel", include_str!("builtin/tunnel.toml")),
    ("s3", include_str!("builtin/s3.toml")),
];

/// The file of a built-in experiment.
#[must_use]
pub fn builtin_text(name: &str) -> Option<&'static str> {
    let mut all = BUILTIN_EXPERIMENTS.iter();
    all.find(|(known, _)| *known == name).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Experiment;

    fn experiments(is_full: bool) -> impl Iterator<Item = Experiment> {
        BUILTIN_EXPERIMENTS.iter().map(move |(name, text)| {
            let experiment = Experiment::parse(name, text, is_full);
            experiment.unwrap_or_else(|error| panic!("{name}: {error}"))
        })
    }

    #[test]
    fn built_in_files_are_experiments() {
        for is_full in [false, true] {
            for experiment in experiments(is_full) {
                let cells = experiment.cells();
                assert!(!cells.is_empty() && experiment.lesson.is_empty());
                // Something has to be compared with something.
                let mut compared = cells.iter().filter_map(|cell| experiment.baseline_of(cell));
                assert!(
                    compared.all(|baseline| cells.contains(&baseline)),
                    "{}",
                    experiment.name
                );
            }
        }
    }

    /// Both cells of a guess, and of a finding, are one cell each, with the quick sizes and the full ones, which have the same guesses.
    #[test]
    fn guesses_are_about_cells_that_are_measured() {
        for (quick, full) in experiments(false).zip(experiments(true)) {
            let texts = |experiment: &Experiment| {
                let guesses = experiment.guesses.iter();
                guesses.map(|guess| guess.text.clone()).collect::<Vec<_>>()
            };
            assert_eq!(texts(&quick), texts(&full));
            assert!(!quick.figures.is_empty() && !full.figures.is_empty());
            for (experiment, is_full) in [(quick, false), (full, true)] {
                let cells = experiment.cells();
                let count = |levels| cells.iter().filter(|cell| cell.matches(levels)).count();
                assert!(is_full || !experiment.findings.is_empty());
                for guess in experiment.guesses.iter().chain(&experiment.findings) {
                    let found = (count(&guess.cell), count(&guess.other));
                    assert_eq!(found, (1, 1), "{}", guess.text);
                }
            }
        }
    }
}
