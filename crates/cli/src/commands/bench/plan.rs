//! What a command line of `haul bench` asks for: experiments, changed for the user's server and levels, and how much that server may be asked.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, IsTerminal as _, Read as _, Write as _};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::Path;

use haul_bench::experiment::{BUILTIN_EXPERIMENTS, Experiment, WorkloadKind, builtin_experiment};
use url::{Host, Url};

use crate::args::{BenchCommand, BenchRunArgs};
use crate::exit::ExitReason;
use crate::message;

/// Requests a second that a host which is not this machine gets without being asked for.
const POLITE_RATE: f64 = 100.0;

/// The longest list of URLs: more would be a batch, and not an experiment.
const MAX_LIST: u64 = 1 << 20;

/// What is to be run.
pub(super) struct BenchPlan<'a> {
    pub(super) experiments: Vec<Experiment>,
    pub(super) targets: Vec<Url>,
    /// Whether files of ours are stored at the target.
    pub(super) is_store: bool,
    pub(super) proxy: Option<SocketAddr>,
    pub(super) max_rate: Option<f64>,
    pub(super) run: &'a BenchRunArgs,
}

/// Why there is nothing to run.
pub(super) struct BenchProblem {
    pub(super) text: String,
    pub(super) hint: Option<String>,
    pub(super) exit: ExitReason,
}

impl BenchProblem {
    fn usage(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            hint: None,
            exit: ExitReason::Usage,
        }
    }
}

/// The experiments of a command, and their servers.
struct ChosenExperiments<'a> {
    experiments: Vec<Experiment>,
    targets: Vec<Url>,
    each_url: bool,
    is_store: bool,
    proxy: Option<SocketAddr>,
    run: &'a BenchRunArgs,
}

impl<'a> BenchPlan<'a> {
    /// What a command asks for. Asks the user before a host that is not this machine gets many requests.
    ///
    /// # Errors
    /// The command asks for something that is not there.
    pub(super) fn new(command: &'a BenchCommand) -> Result<Self, BenchProblem> {
        let mut chosen = ChosenExperiments::new(command)?;
        chosen.check_targets()?;
        for experiment in &mut chosen.experiments {
            experiment.use_targets(&chosen.targets, chosen.each_url, chosen.is_store);
        }
        for text in &chosen.run.set {
            chosen.set_levels(text)?;
        }
        for experiment in &mut chosen.experiments {
            if let Some(time) = chosen.run.time {
                experiment.rounds.time = time.0;
            }
        }
        let max_rate = max_rate(&chosen, chosen.run.yes);
        if max_rate.is_some_and(|cap| chosen.exceeds(cap)) {
            let text = "a rate of more than 100 requests a second needs --yes";
            return Err(BenchProblem::usage(text));
        }
        if max_rate.is_some() {
            // The engine has no limit of requests. One large file has few.
            chosen
                .experiments
                .iter_mut()
                .for_each(Experiment::leave_out_many_files);
            chosen
                .experiments
                .retain(|experiment| !experiment.cells().is_empty());
        }
        if chosen.experiments.is_empty() {
            let text = "without --yes there is nothing to measure: many small files are more than 100 requests a second";
            return Err(BenchProblem::usage(text));
        }
        Ok(Self {
            max_rate,
            experiments: chosen.experiments,
            targets: chosen.targets,
            is_store: chosen.is_store,
            proxy: chosen.proxy,
            run: chosen.run,
        })
    }
}

impl<'a> ChosenExperiments<'a> {
    fn new(command: &'a BenchCommand) -> Result<Self, BenchProblem> {
        let url = |url: &Option<crate::args::DownloadUrl>| -> Vec<Url> {
            url.iter().map(|url| url.0.clone()).collect()
        };
        match command {
            BenchCommand::Accelerate(args) => {
                let targets = url(&args.url);
                Self::builtin(&["accelerate"], targets, &args.run)
            }
            BenchCommand::Quirks(args) => {
                let targets = args.urls.iter().map(|url| url.0.clone()).collect();
                let chosen = Self::builtin(&["quirks"], targets, &args.run)?;
                Ok(Self {
                    each_url: true,
                    ..chosen
                })
            }
            BenchCommand::Sweep(args) => match &args.input {
                // A queue that is too short is ours alone.
                Some(list) => Self::builtin(&["sweep"], read_list(list)?, &args.run),
                None => Self::builtin(&["sweep", "collapse"], Vec::new(), &args.run),
            },
            BenchCommand::Store(args) => {
                let targets = url(&args.url);
                let chosen = Self::builtin(&["store"], targets, &args.run)?;
                Ok(Self {
                    is_store: !chosen.targets.is_empty(),
                    ..chosen
                })
            }
            BenchCommand::Tunnel(args) => {
                let chosen = Self::builtin(&["tunnel"], Vec::new(), &args.run)?;
                let proxy = args.proxy.as_deref().map(proxy_address).transpose()?;
                Ok(Self { proxy, ..chosen })
            }
            BenchCommand::S3(args) => Self::builtin(&["s3"], url(&args.url), &args.run),
            BenchCommand::All(args) => Self::builtin(
                &BUILTIN_EXPERIMENTS.map(|(name, _)| name),
                Vec::new(),
                &args.run,
            ),
            BenchCommand::Run(args) => {
                let experiment = Experiment::read(&args.file, args.run.full);
                let experiment = experiment.map_err(|error| BenchProblem {
                    hint: Some("`haul bench show quirks` prints an example".to_owned()),
                    ..BenchProblem::usage(message::chain_text(&error))
                })?;
                let targets = args.urls.iter().map(|url| url.0.clone()).collect();
                Self::with(vec![experiment], targets, &args.run)
            }
            BenchCommand::Show { .. } | BenchCommand::Compare { .. } => {
                unreachable!("they run nothing")
            }
        }
    }

    fn builtin(
        names: &[&str],
        targets: Vec<Url>,
        run: &'a BenchRunArgs,
    ) -> Result<Self, BenchProblem> {
        let experiments = names.iter().map(|name| {
            let experiment = builtin_experiment(name, run.full);
            let experiment = experiment.unwrap_or_else(|| unreachable!("{name} is built in"));
            experiment.map_err(|error| BenchProblem::usage(format!("{name}, {error}")))
        });
        Self::with(experiments.collect::<Result<_, _>>()?, targets, run)
    }

    fn with(
        experiments: Vec<Experiment>,
        targets: Vec<Url>,
        run: &'a BenchRunArgs,
    ) -> Result<Self, BenchProblem> {
        let schemes: Vec<&str> = targets.iter().map(Url::scheme).collect();
        if schemes.iter().any(|scheme| Some(scheme) != schemes.first()) {
            let text = "the URLs have several schemes, and each experiment needs one of them";
            return Err(BenchProblem::usage(text));
        }
        Ok(Self {
            experiments,
            targets,
            each_url: false,
            is_store: false,
            proxy: None,
            run,
        })
    }

    /// Whether a fixed arrival rate is above the cap.
    fn exceeds(&self, cap: f64) -> bool {
        let mut experiments = self.experiments.iter();
        experiments.any(|experiment| experiment.max_fixed_rate().is_some_and(|rate| rate > cap))
    }

    /// Finds what the user's servers cannot be asked, and whether files are stored there.
    fn check_targets(&mut self) -> Result<(), BenchProblem> {
        if self.targets.is_empty() {
            return Ok(());
        }
        let mut experiments = self.experiments.iter();
        if self.targets.len() > 1
            && experiments.any(|experiment| experiment.workload == WorkloadKind::Transfer)
        {
            return Err(BenchProblem::usage(
                "an experiment of the workload transfer has one URL",
            ));
        }
        let stores = |text: &String| text.starts_with("method=") && text != "method=get";
        // Never with files of the user's.
        self.is_store |= self.experiments.iter().any(Experiment::changes_files)
            || self.run.set.iter().any(stores);
        let is_s3 = self.targets.iter().any(|url| url.scheme() == "s3");
        let needs_s3 = self.experiments.iter().any(|experiment| {
            let store = experiment.factor("store");
            store.is_some_and(|store| store.levels.iter().any(|level| level == "s3"))
        });
        if is_s3 != needs_s3 {
            let text = "an experiment with the store s3 needs an s3:// URL, and others http:// or https://";
            return Err(BenchProblem::usage(text));
        }
        if is_s3 && self.targets.iter().any(|url| !url.path().ends_with('/')) {
            return Err(BenchProblem::usage(
                "the prefix must end with a slash: s3://BUCKET/PREFIX/",
            ));
        }
        for text in &self.run.set {
            if !self.is_store && !is_s3 {
                Experiment::check_for_targets(text, &self.targets)
                    .map_err(|problem| BenchProblem::usage(format!("--set {text}: {problem}")))?;
            }
        }
        Ok(())
    }

    /// Sets levels where an experiment has the factor. Where none has it, those get it that can.
    fn set_levels(&mut self, text: &str) -> Result<(), BenchProblem> {
        let mut last = None;
        let mut is_set = false;
        let name = text.split('=').next().unwrap_or_default();
        let mut all = self.experiments.iter();
        let is_known = all.any(|experiment| experiment.factor(name).is_some());
        let experiments = self.experiments.iter_mut();
        for experiment in
            experiments.filter(|experiment| !is_known || experiment.factor(name).is_some())
        {
            match experiment.set_by_text(text) {
                Ok(()) => is_set = true,
                Err(problem) => last = Some(problem),
            }
        }
        match last.filter(|_| !is_set) {
            None => Ok(()),
            Some(problem) => Err(BenchProblem::usage(format!("--set {text}: {problem}"))),
        }
    }
}

/// The most requests a second for these hosts. Asks the user if there is one, unless he has said so.
fn max_rate(chosen: &ChosenExperiments<'_>, is_allowed: bool) -> Option<f64> {
    let remote = chosen.targets.iter().find(|url| !is_this_machine(url));
    let remote = remote.map(|url| url.host_str().unwrap_or_default().to_owned());
    let proxy = chosen.proxy.filter(|proxy| !proxy.ip().is_loopback());
    let host = remote.or_else(|| proxy.map(|proxy| proxy.ip().to_string()))?;
    if is_allowed {
        return None;
    }
    if io::stdin().is_terminal() && io::stderr().is_terminal() {
        let question = format!("haul: send more than 100 requests a second to {host}? [y/N] ");
        let mut answer = String::new();
        let asked = write!(io::stderr(), "{}", message::sanitize(&question))
            .and_then(|()| io::stdin().lock().take(100).read_line(&mut answer));
        if asked.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes") {
            return None;
        }
    }
    let text = format!("haul: {host} gets at most 100 requests a second; --yes allows more");
    message::print_line(&message::sanitize(&text));
    Some(POLITE_RATE)
}

/// Whether a URL is of this machine; one of S3, whether its endpoint is.
fn is_this_machine(url: &Url) -> bool {
    if url.scheme() == "s3" {
        let variables = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"];
        let endpoint = variables.iter().find_map(|name| std::env::var(name).ok());
        let endpoint = endpoint.and_then(|text| text.parse::<Url>().ok());
        return endpoint.is_some_and(|url| url.scheme() != "s3" && is_this_machine(&url));
    }
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        None => false,
    }
}

/// The address of a proxy.
fn proxy_address(text: &str) -> Result<SocketAddr, BenchProblem> {
    let text = text.strip_prefix("http://").unwrap_or(text);
    let text = text.trim_end_matches('/');
    if text.contains('@') {
        // It is not repeated: it has a password.
        return Err(BenchProblem::usage("--proxy is HOST:PORT, without a login"));
    }
    let addresses = text.to_socket_addrs();
    let mut addresses = addresses.map_err(|error| {
        BenchProblem::usage(format!("--proxy {text} is not HOST:PORT: {error}"))
    })?;
    let first = addresses.next();
    first.ok_or_else(|| BenchProblem::usage(format!("--proxy {text} has no address")))
}

/// The URLs of a list, one a line.
fn read_list(path: &Path) -> Result<Vec<Url>, BenchProblem> {
    let failed = |error: io::Error| BenchProblem {
        exit: ExitReason::LocalIo,
        ..BenchProblem::usage(format!("cannot read {}: {error}", path.display()))
    };
    let file = File::open(path).map_err(failed)?;
    let mut urls = Vec::new();
    for (number, line) in BufReader::new(file.take(MAX_LIST)).lines().enumerate() {
        let line = line.map_err(failed)?;
        let text = line.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        if text.contains(char::is_whitespace) {
            let text = format!("{}:{}: more than a URL", path.display(), number + 1);
            return Err(BenchProblem::usage(text));
        }
        let url: Result<crate::args::HttpUrl, _> = text.parse();
        let url = url.map_err(|error| {
            BenchProblem::usage(format!("{}:{}: {error}", path.display(), number + 1))
        })?;
        urls.push(url.0);
    }
    match urls.is_empty() {
        true => {
            let text = format!("{} has no URL", path.display());
            Err(BenchProblem::usage(text))
        }
        false => Ok(urls),
    }
}
