//! An experiment changed for what the user wants: other levels, or a server of his own, which has some factors no more.

use std::time::Duration;

use url::Url;

use super::{Experiment, Factor, Guess, WorkloadKind};
use crate::Cell;
use crate::cell::FileSet;
use crate::servers::LinkSpec;
use crate::workload::check_level;

/// The factor for what is between client and server.
const LINK: &str = "link";

/// Factors that only servers of haul have.
const EMBEDDED_FACTORS: [&str; 4] = [LINK, "route", "accept", "server"];

/// How many requests a file of the user's server gets for a measurement.
const REQUESTS_PER_FILE: usize = 20;

/// What the level of files of the user's server ends with.
const GIVEN: &str = " x given";

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
        let mut levels = self
            .factor("method")
            .into_iter()
            .flat_map(|method| &method.levels);
        self.workload == WorkloadKind::Requests && levels.any(|level| level != "get")
    }

    /// Checks a text as of [`set_by_text`](Self::set_by_text) where files are fetched from these servers, and not stored there.
    ///
    /// # Errors
    /// The servers do not have the factor or the level.
    pub fn check_for_targets(text: &str, targets: &[Url]) -> Result<(), String> {
        let (factor, levels) = text.split_once('=').unwrap_or((text, ""));
        if EMBEDDED_FACTORS.contains(&factor) {
            let text = format!("{factor} is for servers of haul, and not for yours");
            return Err(text);
        }
        let is_http = targets.iter().any(|url| url.scheme() == "http");
        let mistake = |level: &str| match factor {
            "files" if !level.ends_with(GIVEN) => {
                Some(format!("files of your server are COUNT{GIVEN}"))
            }
            "protocol" if is_http && level != "http" => {
                Some(format!("{level} needs a URL with https"))
            }
            "url"
                if level
                    .parse()
                    .is_ok_and(|number: usize| number > targets.len()) =>
            {
                Some(format!("there is no URL {level}"))
            }
            _ => None,
        };
        let mistake = levels.split(',').map(str::trim).find_map(mistake);
        mistake.map_or(Ok(()), Err)
    }

    /// Sets the levels of a factor by a text: `FACTOR=LEVEL,LEVEL`.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn set_by_text(&mut self, text: &str) -> Result<(), String> {
        let Some((name, levels)) = text.split_once('=') else {
            return Err(format!("{text:?} is not FACTOR=LEVEL,LEVEL"));
        };
        let levels = levels.split(',').map(str::trim);
        if name == LINK {
            return self.set_links(levels);
        }
        self.set_factor(Factor::with_levels(name, self.workload, levels)?);
        self.forget_what_is_not_measured();
        Ok(())
    }

    /// Sets what is between client and server. The comparisons of the file are made on each of these links.
    ///
    /// # Errors
    /// What is wrong with a link.
    pub fn set_links<'a>(&mut self, links: impl Iterator<Item = &'a str>) -> Result<(), String> {
        let links = Factor::with_levels(LINK, self.workload, links)?;
        self.guesses = on_each_link(&self.guesses, &links.levels);
        self.findings = on_each_link(&self.findings, &links.levels);
        if links.levels.len() > 1 {
            for finding in &mut self.findings {
                let link = finding.cell.level(LINK).unwrap_or_default();
                finding.text = format!("Link {link}: {}", finding.text);
            }
        }
        self.set_factor(links);
        self.forget_what_is_not_measured();
        Ok(())
    }

    /// Allows the fewest rounds the time that they take on kernel links at least. The file was written for faster ones.
    pub fn allow_time_for_links(&mut self) {
        let cells = self.cells();
        let round: Duration = cells.iter().filter_map(time_on_kernel_link).sum();
        // The first one warms up.
        let fewest = round.saturating_mul(self.rounds.min.min(self.rounds.max).saturating_add(1));
        self.rounds.time = self.rounds.time.max(fewest);
    }

    /// Whether a cell needs a kernel link.
    #[must_use]
    pub fn has_kernel_link(&self) -> bool {
        let links = self.factor(LINK).into_iter();
        let specs = links.flat_map(|link| {
            link.levels
                .iter()
                .filter_map(|level| LinkSpec::parse(level))
        });
        specs.filter_map(LinkSpec::kernel).next().is_some()
    }

    /// Replaces the levels of a factor, or adds it.
    pub(super) fn set_factor(&mut self, factor: Factor) {
        match self
            .factors
            .iter_mut()
            .find(|known| known.name == factor.name)
        {
            Some(known) => *known = factor,
            None => self.factors.push(factor),
        }
    }

    fn set_levels(&mut self, name: &str, levels: impl IntoIterator<Item = String>) {
        self.set_factor(Factor {
            name: name.to_owned(),
            levels: levels.into_iter().collect(),
        });
    }

    /// Makes it an experiment on a server of the user's. Files are fetched where they are, each of them on its own with `each_url`; with
    /// `is_store` files of our own are stored below the URL, and removed.
    pub fn use_targets(&mut self, targets: &[Url], each_url: bool, is_store: bool) {
        let Some(first) = targets.first() else {
            return;
        };
        self.factors
            .retain(|factor| !EMBEDDED_FACTORS.contains(&&*factor.name));
        // The write-up measured another server.
        self.figures.clear();
        for finding in &mut self.findings {
            for cell in [&mut finding.cell, &mut finding.other] {
                cell.levels
                    .retain(|name, _| !EMBEDDED_FACTORS.contains(&&**name));
            }
        }
        self.findings
            .retain(|finding| finding.cell != finding.other);
        match self.workload {
            _ if is_store || first.scheme() == "s3" => {}
            WorkloadKind::Transfer => self.factors.retain(|factor| factor.name != "files"),
            WorkloadKind::Requests => {
                let mut count = targets.len().max(100);
                if each_url {
                    let numbers = (1..=targets.len()).map(|number| number.to_string());
                    self.set_levels("url", numbers);
                    count = REQUESTS_PER_FILE;
                }
                let is_given = |level: &String| level.ends_with(GIVEN);
                let files = self.factor("files");
                if !files.is_some_and(|files| files.levels.iter().all(is_given)) {
                    self.set_levels("files", [format!("{count}{GIVEN}")]);
                }
            }
        }
        if self.factor("protocol").is_some() {
            let protocols: &[&str] = match first.scheme() {
                "https" => &["https", "https-resumed", "h2"],
                _ => &["http"],
            };
            self.set_levels(
                "protocol",
                protocols.iter().map(|protocol| (*protocol).to_owned()),
            );
        }
        self.forget_what_is_not_measured();
    }

    /// Leaves out many files at once, where haul's own engine would fetch them as fast as it can.
    pub fn leave_out_many_files(&mut self) {
        if self.workload == WorkloadKind::Transfer {
            let is_one =
                |level: &String| FileSet::parse(level).is_some_and(|files| files.count == 1);
            let mut factors = self.factors.iter_mut();
            if let Some(files) = factors.find(|factor| factor.name == "files") {
                files.levels.retain(is_one);
            }
            self.forget_what_is_not_measured();
        }
    }

    /// A baseline, a skipped cell, a figure or a guess of levels that are not there any more means nothing.
    pub(super) fn forget_what_is_not_measured(&mut self) {
        let factors = &self.factors;
        let has = |name: &str, level: &String| {
            let mut factors = factors.iter();
            factors.any(|factor| factor.name == name && factor.levels.contains(level))
        };
        let is_known = |cell: &Cell| cell.levels.iter().all(|(name, level)| has(name, level));
        self.baseline.levels.retain(|name, level| has(name, level));
        self.skipped.retain(is_known);
        self.figures.retain(|figure| is_known(&figure.cell));
        for comparisons in [&mut self.guesses, &mut self.findings] {
            comparisons.retain(|guess| is_known(&guess.cell) && is_known(&guess.other));
        }
    }
}

/// How long a cell takes at least on its kernel link, if it has one: for the bytes, and for two round trips of each file, as many at a time as
/// the cell has.
fn time_on_kernel_link(cell: &Cell) -> Option<Duration> {
    let link = LinkSpec::parse(cell.level(LINK)?)?.kernel()?;
    let files = FileSet::parse(cell.level("files")?)?;
    let bytes = files.bytes.saturating_mul(files.count.into());
    let millis = bytes.saturating_mul(1000) / link.bytes_per_second;
    let mut counts = ["concurrency", "connections"].into_iter();
    let at_a_time = counts.find_map(|factor| cell.level(factor)?.parse::<u32>().ok());
    let turns = files
        .count
        .div_ceil(at_a_time.unwrap_or(files.count).max(1));
    Some(Duration::from_millis(millis) + link.round_trip * 2 * turns)
}

/// Comparisons on each of these links, whatever the links of their cells. What only compares links has nothing to compare.
fn on_each_link(comparisons: &[Guess], links: &[String]) -> Vec<Guess> {
    let mut on_links = Vec::new();
    for comparison in comparisons {
        for link in links {
            let link = Cell::new([(LINK, link.as_str())]);
            let moved = Guess {
                cell: comparison.cell.with(&link),
                other: comparison.other.with(&link),
                ..comparison.clone()
            };
            if moved.cell != moved.other && !on_links.contains(&moved) {
                on_links.push(moved);
            }
        }
    }
    on_links
}

impl Factor {
    /// A factor with levels.
    ///
    /// # Errors
    /// As those of [`add_level`](Self::add_level).
    fn with_levels<'a>(
        name: &str,
        workload: WorkloadKind,
        levels: impl Iterator<Item = &'a str>,
    ) -> Result<Self, String> {
        let mut factor = Self::new(name);
        for level in levels {
            factor.add_level(workload, level)?;
        }
        Ok(factor)
    }

    /// A factor that has no level yet.
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            levels: Vec::new(),
        }
    }

    /// Adds a level.
    ///
    /// # Errors
    /// The workload does not have the factor or the level, or the level is there already.
    pub(super) fn add_level(&mut self, workload: WorkloadKind, level: &str) -> Result<(), String> {
        check_level(workload, &self.name, level)?;
        if self.levels.iter().any(|known| known == level) {
            return Err(format!("{level:?} is there twice"));
        }
        self.levels.push(level.to_owned());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::builtin_text;

    fn experiment(name: &str) -> Experiment {
        Experiment::parse(name, builtin_text(name).unwrap(), false).unwrap()
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
    fn comparisons_are_made_on_each_link() {
        let compared = |guesses: &[Guess]| -> Vec<_> {
            let cells = guesses.iter().map(|guess| [&guess.cell, &guess.other]);
            cells
                .map(|cells| cells.map(|cell| cell.level("link").map(str::to_owned)))
                .collect()
        };
        let links = ["kernel:30ms,25M", "20ms"];
        let on = |link: &str| [Some(link.to_owned()), Some(link.to_owned())];
        // These two say on which link they guess, and this one does not.
        let mut accelerate = experiment("accelerate");
        let (guesses, findings) = (accelerate.guesses.len(), accelerate.findings.clone());
        accelerate.set_links(links.into_iter()).unwrap();
        assert!(guesses > 0 && accelerate.guesses.len() == 2 * guesses);
        assert_eq!(compared(&accelerate.guesses)[..2], links.map(on));
        assert_eq!(accelerate.findings.len(), 2 * findings.len());
        let text = format!("Link {}: {}", links[0], findings[0].text);
        assert_eq!(accelerate.findings[0].text, text);
        let mut sweep = experiment("sweep");
        sweep.set_by_text("link=30ms").unwrap();
        assert!(
            compared(&sweep.guesses)
                .iter()
                .all(|links| *links == on("30ms"))
        );
        assert_eq!(sweep.findings.len(), experiment("sweep").findings.len());
        // What compares links only is gone.
        let [mut one, mut other] =
            [&accelerate.guesses[0].cell, &accelerate.guesses[1].cell].map(Clone::clone);
        std::mem::swap(&mut one, &mut other);
        accelerate.guesses[0].other = one;
        accelerate.guesses.truncate(1);
        accelerate.set_links(["1ms"].into_iter()).unwrap();
        assert_eq!(accelerate.guesses, []);
        assert!(accelerate.set_links(["kernel:1ms"].into_iter()).is_err());
    }

    #[test]
    fn the_fewest_rounds_have_the_time_that_a_kernel_link_takes() {
        let time = |links: &[&str], files| {
            let mut accelerate = experiment("accelerate");
            accelerate.set_by_text(files).unwrap();
            accelerate.set_by_text("connections=1,2").unwrap();
            accelerate.set_links(links.iter().copied()).unwrap();
            accelerate.allow_time_for_links();
            accelerate.rounds.time.as_secs()
        };
        assert_eq!(time(&["20ms 1M/1M"], "files=1 x 24M"), 35);
        assert_eq!(time(&["kernel:0ms,24M"], "files=1 x 24M"), 35);
        // Five rounds of two cells of 8 s, and of two of 4 s.
        assert_eq!(time(&["kernel:0ms,3M"], "files=1 x 24M"), 80);
        let links = ["kernel:0ms,3M", "20ms", "kernel:0ms,6M"];
        assert_eq!(time(&links, "files=12 x 2M"), 120);
        // Twelve files by one connection and by two: 18 times two round trips.
        assert_eq!(time(&["kernel:500ms,100M"], "files=12 x 1k"), 90);
    }

    #[test]
    fn an_experiment_knows_whether_it_needs_a_kernel_link() {
        let mut store = experiment("store");
        assert!(!store.has_kernel_link());
        store
            .set_links(["20ms", "kernel:20ms,1M"].into_iter())
            .unwrap();
        assert!(store.has_kernel_link());
    }

    #[test]
    fn figures_are_of_the_sizes_of_the_file() {
        let figures = |experiment: &Experiment| {
            let cells = experiment.cells();
            cells
                .iter()
                .filter(|cell| experiment.figure(cell).is_some())
                .count()
        };
        let mut accelerate = experiment("accelerate");
        assert_eq!(figures(&accelerate), 4);
        accelerate.set_by_text("files=1 x 2M,1 x 24M").unwrap();
        assert_eq!(figures(&accelerate), 4);
        // The larger size is a level of the file, too.
        accelerate.set_by_text("files=1 x 256M").unwrap();
        assert_eq!(figures(&accelerate), 4);
        accelerate.set_by_text("files=1 x 2M").unwrap();
        assert_eq!(figures(&accelerate), 0);
        let mut sweep = experiment("sweep");
        sweep.use_targets(&urls(&["http://h/a"]), false, false);
        assert_eq!(figures(&sweep), 0);
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
        assert!(accelerate.guesses.is_empty() && accelerate.figures.is_empty());
        // What is said of the connections is said of this server's.
        assert!(!accelerate.findings.is_empty());
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
