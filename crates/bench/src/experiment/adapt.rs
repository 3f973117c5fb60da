//! An experiment changed for what the user wants: other levels, or a server of his own, which has some factors no more.

use url::Url;

use super::{Experiment, WorkloadKind};
use crate::Cell;
use crate::cell::FileSet;
use crate::workload::check_level;

/// Factors that only servers of haul have.
const EMBEDDED_FACTORS: [&str; 4] = ["link", "route", "accept", "server"];

/// How many requests a file of the user's server gets for a measurement.
const REQUESTS_PER_FILE: &str = "20 x given";

impl Experiment {
    /// The highest fixed arrival rate among its levels, in requests a second.
    #[must_use]
    pub fn max_fixed_rate(&self) -> Option<f64> {
        let levels = self.factor("rate")?.levels.iter();
        let rates = levels.filter_map(|level| level.strip_suffix("/s")?.parse::<f64>().ok());
        rates.reduce(f64::max)
    }

    /// Whether its requests store or delete files.
    #[must_use]
    pub fn changes_files(&self) -> bool {
        let method = self
            .factor("method")
            .filter(|_| self.workload == WorkloadKind::Requests);
        method.is_some_and(|method| method.levels.iter().any(|level| level != "get"))
    }

    /// Checks a text as of [`set_by_text`](Self::set_by_text) where files are fetched from these servers, and not stored there.
    ///
    /// # Errors
    /// The servers do not have the factor or the level.
    pub fn check_for_targets(text: &str, targets: &[Url]) -> Result<(), String> {
        let (factor, levels) = text.split_once('=').unwrap_or((text, ""));
        if EMBEDDED_FACTORS.contains(&factor) {
            return Err(format!(
                "{factor} is for servers of haul, and not for yours"
            ));
        }
        let is_http = targets.iter().any(|url| url.scheme() == "http");
        let mut levels = levels.split(',').map(str::trim);
        let wrong = levels.find(|level| match factor {
            "files" => !level.ends_with(" x given"),
            "protocol" => is_http && *level != "http",
            "url" => level
                .parse()
                .is_ok_and(|number: usize| number > targets.len()),
            _ => false,
        });
        match (wrong, factor) {
            (None, _) => Ok(()),
            (Some(_), "files") => Err("files of your server are COUNT x given".to_owned()),
            (Some(level), "protocol") => Err(format!("{level} needs a URL with https")),
            (Some(level), _) => Err(format!("there is no URL {level}")),
        }
    }

    /// Sets the levels of a factor by a text: `FACTOR=LEVEL,LEVEL`.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn set_by_text(&mut self, text: &str) -> Result<(), String> {
        let Some((factor, levels)) = text.split_once('=') else {
            return Err(format!("{text:?} is not FACTOR=LEVEL,LEVEL"));
        };
        let levels: Vec<String> = levels
            .split(',')
            .map(|level| level.trim().to_owned())
            .collect();
        for (at, level) in levels.iter().enumerate() {
            check_level(self.workload, factor, level)?;
            if levels[..at].contains(level) {
                return Err(format!("{level:?} is there twice"));
            }
        }
        self.set_levels(factor, levels);
        self.forget_what_is_not_measured();
        Ok(())
    }

    /// Replaces the levels of a factor, or adds it.
    pub(super) fn set_levels(&mut self, name: &str, levels: Vec<String>) {
        match self.factors.iter_mut().find(|factor| factor.name == name) {
            Some(factor) => factor.levels = levels,
            None => self.factors.push(super::Factor {
                name: name.to_owned(),
                levels,
            }),
        }
    }

    /// Makes it an experiment on a server of the user's. Files are fetched where they are, each of them on its own with `each_url`; with
    /// `is_store` files of our own are stored below the URL, and removed.
    pub fn use_targets(&mut self, targets: &[Url], each_url: bool, is_store: bool) {
        let Some(first) = targets.first() else {
            return;
        };
        self.factors
            .retain(|factor| !EMBEDDED_FACTORS.contains(&&*factor.name));
        let is_s3 = first.scheme() == "s3";
        if !is_s3 && !is_store {
            match self.workload {
                WorkloadKind::Transfer => self.factors.retain(|factor| factor.name != "files"),
                WorkloadKind::Requests => {
                    let mut count = format!("{} x given", targets.len().max(100));
                    if each_url {
                        let urls = (1..=targets.len()).map(|number| number.to_string());
                        self.set_levels("url", urls.collect());
                        REQUESTS_PER_FILE.clone_into(&mut count);
                    }
                    let files = self.factor("files");
                    let is_given = |level: &String| level.ends_with(" x given");
                    if !files.is_some_and(|files| files.levels.iter().all(is_given)) {
                        self.set_levels("files", vec![count]);
                    }
                }
            }
        }
        if self.factor("protocol").is_some() {
            let protocols: &[&str] = match first.scheme() {
                "https" => &["https", "https-resumed", "h2"],
                _ => &["http"],
            };
            let protocols = protocols.iter().map(|protocol| (*protocol).to_owned());
            self.set_levels("protocol", protocols.collect());
        }
        self.forget_what_is_not_measured();
    }

    /// Leaves out many files at once, where haul's own engine would fetch them as fast as it can.
    pub fn leave_out_many_files(&mut self) {
        let files = self
            .factor("files")
            .filter(|_| self.workload == WorkloadKind::Transfer);
        let Some(files) = files else {
            return;
        };
        let is_one = |level: &&String| FileSet::parse(level).is_some_and(|files| files.count == 1);
        let single: Vec<String> = files.levels.iter().filter(is_one).cloned().collect();
        self.set_levels("files", single);
        self.forget_what_is_not_measured();
    }

    /// A baseline, a skipped cell, a figure or a guess of levels that are not there any more means nothing.
    pub(super) fn forget_what_is_not_measured(&mut self) {
        let factors = self.factors.clone();
        let has = |factor: &str, level: &str| {
            let mut all = factors.iter();
            all.any(|known| known.name == factor && known.levels.iter().any(|each| each == level))
        };
        let is_known = |cell: &Cell| cell.levels.iter().all(|(factor, level)| has(factor, level));
        let is_varied = |cell: &Cell| {
            let mut names = cell.levels.keys();
            names.all(|name| factors.iter().any(|factor| factor.name == *name))
        };
        self.baseline
            .levels
            .retain(|factor, level| has(factor, level));
        self.skipped.retain(is_known);
        self.figures.retain(|figure| is_known(&figure.cell));
        self.guesses.retain(|guess| {
            is_varied(&guess.cell) && is_known(&guess.cell) && is_known(&guess.other)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::builtin_experiment;

    fn experiment(name: &str) -> Experiment {
        builtin_experiment(name, false).unwrap().unwrap()
    }

    fn urls(texts: &[&str]) -> Vec<Url> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn levels_are_set_and_what_is_gone_is_forgotten() {
        let mut sweep = experiment("sweep");
        sweep.set_by_text("concurrency=10, 20").unwrap();
        assert_eq!(sweep.cells().len(), 6);
        assert!(sweep.baseline.levels.is_empty() && sweep.guesses.is_empty());
        for text in [
            "concurrency",
            "concurrency=x",
            "colour=red",
            "=",
            "files=1",
            "concurrency=5,5",
        ] {
            assert!(sweep.set_by_text(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_server_of_the_users_has_its_own_files_and_protocols() {
        let mut quirks = experiment("quirks");
        quirks.use_targets(&urls(&["https://h/a", "https://h/b"]), true, false);
        let levels = |name: &str| quirks.factor(name).map(|factor| factor.levels.join(" "));
        assert_eq!(levels("url").as_deref(), Some("1 2"));
        assert_eq!(
            levels("protocol").as_deref(),
            Some("https https-resumed h2")
        );
        assert_eq!((levels("link"), quirks.cells().len()), (None, 20));
        let mut accelerate = experiment("accelerate");
        accelerate.use_targets(&urls(&["http://h/a"]), false, false);
        assert_eq!(accelerate.cells().len(), 8);
        assert!(accelerate.guesses.is_empty() && accelerate.figures.len() == 2);
        let mut store = experiment("store");
        store.use_targets(&urls(&["http://h/d/"]), false, true);
        assert_eq!(store.cells().len(), 3);
        let mut s3 = experiment("s3");
        s3.use_targets(&urls(&["s3://b/p/"]), false, false);
        assert_eq!(s3.cells().len(), 16);
        s3.leave_out_many_files();
        assert_eq!(s3.cells().len(), 8);
        let cells = quirks.cells();
        quirks.leave_out_many_files();
        assert_eq!(quirks.cells(), cells);
    }
}
