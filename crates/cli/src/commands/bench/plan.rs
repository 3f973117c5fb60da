//! What a command line of `haul bench` asks for: experiments, changed for the user's server and levels, and how much that server may be asked.

use std::fs::File;
use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::Path;

use haul_bench::experiment::{BUILTIN_EXPERIMENTS, Experiment, WorkloadKind, builtin_text};
use haul_bench::servers::{ServerError, prepare_kernel_links};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use url::{Host, Url};

use crate::args::{BenchCommand, BenchRunArgs, HttpUrl};
use crate::commands::service::command_error::CommandError;
use crate::message;

/// Requests a second that a host which is not this machine gets without being asked for.
const POLITE_RATE: f64 = 100.0;

/// The longest experiment, and the longest list of URLs: more would be a batch.
const MAX_FILE: u64 = 1 << 20;

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

impl<'a> BenchPlan<'a> {
    /// What a command asks for. Asks the user before a host that is not this machine gets many requests.
    ///
    /// # Errors
    /// The command asks for something that is not there.
    pub(super) fn new(command: &'a BenchCommand) -> Result<Self, CommandError> {
        let mut plan = Self::of_command(command)?;
        let run = plan.run;
        check_processes(&run.server_pid)?;
        plan.check_targets()?;
        let each_url = matches!(command, BenchCommand::Quirks { .. });
        for experiment in &mut plan.experiments {
            experiment.use_targets(&plan.targets, each_url, plan.is_store);
        }
        for text in &run.set {
            plan.set_levels(text)?;
        }
        plan.set_links()?;
        for experiment in &mut plan.experiments {
            match run.time {
                Some(time) => experiment.rounds.time = time.0,
                None => experiment.allow_time_for_links(),
            }
        }
        plan.max_rate = plan.max_rate();
        if let Some(cap) = plan.max_rate {
            let mut rates = plan
                .experiments
                .iter()
                .filter_map(Experiment::max_fixed_rate);
            if rates.any(|rate| rate > cap) {
                let text = "a rate of more than 100 requests a second needs --yes";
                return Err(CommandError::usage(text));
            }
            // The engine has no limit of requests. One large file has few.
            plan.experiments
                .iter_mut()
                .for_each(Experiment::leave_out_many_files);
            plan.experiments
                .retain(|experiment| !experiment.cells().is_empty());
        }
        if plan.experiments.is_empty() {
            let text = "without --yes there is nothing to measure: many small files are more than 100 requests a second";
            return Err(CommandError::usage(text));
        }
        Ok(plan)
    }

    /// The experiments of a command as they are in their files, and their servers.
    fn of_command(command: &'a BenchCommand) -> Result<Self, CommandError> {
        let all = BUILTIN_EXPERIMENTS.map(|(name, _)| name);
        let mut proxy = None;
        let (names, targets, run): (&[&str], Vec<Url>, _) = match command {
            BenchCommand::Accelerate(args) => (&["accelerate"], args.targets(), &args.run),
            BenchCommand::Quirks { urls, run } => (&["quirks"], url_list(urls), run),
            BenchCommand::Sweep { urls, input, run } => {
                let targets = match input {
                    Some(list) => read_list(list)?,
                    None => url_list(urls),
                };
                // A queue that is too short is ours alone.
                let names: &[&str] = if targets.is_empty() {
                    &["sweep", "collapse"]
                } else {
                    &["sweep"]
                };
                (names, targets, run)
            }
            BenchCommand::Store(args) => (&["store"], args.targets(), &args.run),
            BenchCommand::Tunnel {
                proxy: address,
                run,
            } => {
                proxy = address.as_deref().map(proxy_address).transpose()?;
                (&["tunnel"], Vec::new(), run)
            }
            BenchCommand::S3(args) => (&["s3"], args.targets(), &args.run),
            BenchCommand::All(run) => (&all, Vec::new(), run),
            BenchCommand::Run { urls, run, .. } => {
                let targets = urls.iter().map(|url| url.0.clone());
                (&[], targets.collect(), run)
            }
            BenchCommand::Load(_) | BenchCommand::Show { .. } | BenchCommand::Compare { .. } => {
                unreachable!("they run no experiment")
            }
        };
        let mut experiments = names
            .iter()
            .map(|name| {
                let text = builtin_text(name).unwrap_or_default();
                let experiment = Experiment::parse(name, text, run.full);
                experiment.map_err(|error| CommandError::usage(format!("{name}, {error}")))
            })
            .collect::<Result<Vec<_>, _>>()?;
        if let BenchCommand::Run { file, .. } = command {
            experiments.push(read_experiment(file, run.full)?);
        }
        Ok(Self {
            experiments,
            targets,
            is_store: false,
            proxy,
            max_rate: None,
            run,
        })
    }

    /// Finds what the user's servers cannot be asked, and whether files are stored there.
    fn check_targets(&mut self) -> Result<(), CommandError> {
        let Some(first) = self.targets.first() else {
            return Ok(());
        };
        let is_s3 = first.scheme() == "s3";
        let is_transfer = |experiment: &Experiment| experiment.workload == WorkloadKind::Transfer;
        let needs_s3 = self.experiments.iter().any(|experiment| {
            let store = experiment.factor("store");
            store.is_some_and(|store| store.levels.iter().any(|level| level == "s3"))
        });
        let mistake = if self
            .targets
            .iter()
            .any(|url| url.scheme() != first.scheme())
        {
            Some("the URLs have several schemes, and each experiment needs one of them")
        } else if self.targets.len() > 1 && self.experiments.iter().any(is_transfer) {
            Some("an experiment of the workload transfer has one URL")
        } else if is_s3 != needs_s3 {
            Some(
                "an experiment with the store s3 needs an s3:// URL, and others http:// or https://",
            )
        } else if is_s3 && self.targets.iter().any(|url| !url.path().ends_with('/')) {
            Some("the prefix must end with a slash: s3://BUCKET/PREFIX/")
        } else {
            None
        };
        if let Some(mistake) = mistake {
            return Err(CommandError::usage(mistake));
        }
        let stores = |text: &String| text.starts_with("method=") && text != "method=get";
        // Never with files of the user's.
        self.is_store = self.experiments.iter().any(Experiment::changes_files)
            || self.run.set.iter().any(stores);
        let mut sets = self.run.set.iter().filter(|_| !self.is_store && !is_s3);
        sets.try_for_each(|text| {
            Experiment::check_for_targets(text, &self.targets)
                .map_err(|mistake| CommandError::usage(format!("--set {text}: {mistake}")))
        })
    }

    /// Sets levels where an experiment has the factor. Where none has it, those get it that can.
    fn set_levels(&mut self, text: &str) -> Result<(), CommandError> {
        let name = text.split('=').next().unwrap_or_default();
        let has_factor = |experiment: &Experiment| experiment.factor(name).is_some();
        let is_known = self.experiments.iter().any(has_factor);
        let experiments = self
            .experiments
            .iter_mut()
            .filter(|experiment| !is_known || has_factor(experiment));
        let set = experiments
            .map(|experiment| experiment.set_by_text(text))
            // All of them are tried; one that can is enough.
            .reduce(|one, other| if one.is_ok() { one } else { other });
        set.unwrap_or(Ok(())).map_err(|mistake| {
            let error = CommandError::usage(format!("--set {text}: {mistake}"));
            if text.starts_with("link=") && text.contains("kernel:") {
                error.with_hint("give a kernel link, which has commas, with --link")
            } else {
                error
            }
        })
    }

    /// Puts the links of the command line into each experiment.
    fn set_links(&mut self) -> Result<(), CommandError> {
        let links = &self.run.link;
        if links.is_empty() {
            return Ok(());
        }
        if !self.targets.is_empty() {
            let text = "--link works with servers of haul, not with yours";
            return Err(CommandError::usage(text));
        }
        if self.run.set.iter().any(|text| text.starts_with("link=")) {
            let text = "--link and --set link= say the same: use --link for all links";
            return Err(CommandError::usage(text));
        }
        for experiment in &mut self.experiments {
            let set = experiment.set_links(links.iter().map(String::as_str));
            set.map_err(|mistake| CommandError::usage(format!("--link: {mistake}")))?;
        }
        Ok(())
    }

    /// Prepares this process for kernel links, if there are any. To be called while it has one thread.
    pub(super) fn prepare_links(&self) -> Result<(), CommandError> {
        if !self.experiments.iter().any(Experiment::has_kernel_link) {
            return Ok(());
        }
        if self.proxy.is_some() {
            let text =
                "a client on a kernel link cannot reach your proxy: leave --proxy or the link out";
            return Err(CommandError::usage(text));
        }
        prepare_kernel_links().map_err(|error| {
            CommandError::local(message::chain_text(&error)).with_hint(match &error {
                ServerError::KernelLink(source) => kernel_link_hint(source),
                _ => ANY_LINK,
            })
        })
    }

    /// The most requests a second for these hosts.
    fn max_rate(&self) -> Option<f64> {
        let remote = remote_host(&self.targets);
        let proxy = self.proxy.filter(|proxy| !proxy.ip().is_loopback());
        let host = remote.or_else(|| proxy.map(|proxy| proxy.ip().to_string()))?;
        ask_for_rate(&host, self.run.yes)
    }
}

/// What a machine without kernel links has.
const ANY_LINK: &str =
    "a relay works everywhere, such as --link 100ms, but has no TCP between its ends";

/// What a user can do about a kernel link that cannot be started.
fn kernel_link_hint(error: &io::Error) -> &'static str {
    match Errno::from_io_error(error) {
        Some(Errno::PERM) => {
            "run it as root, or allow users to create user namespaces (sysctl kernel.unprivileged_userns_clone, \
             kernel.apparmor_restrict_unprivileged_userns); a container needs --cap-add SYS_ADMIN,NET_ADMIN --device /dev/net/tun"
        }
        Some(Errno::ACCESS) => {
            "run it as root, or let all users open the device (chmod 666 /dev/net/tun): they can only use it in namespaces of their own"
        }
        Some(Errno::NOENT | Errno::NODEV) => {
            "load the module tun (modprobe tun); a container needs --device /dev/net/tun"
        }
        _ => ANY_LINK,
    }
}

/// The first host that is not this machine.
pub(super) fn remote_host(targets: &[Url]) -> Option<String> {
    let remote = targets.iter().find(|url| !is_this_machine(url));
    remote.map(|url| url.host_str().unwrap_or_default().to_owned())
}

/// The most requests a second for a host that is not this machine. Asks the user, unless he has said so.
pub(super) fn ask_for_rate(host: &str, is_allowed: bool) -> Option<f64> {
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

fn url_list(urls: &[HttpUrl]) -> Vec<Url> {
    urls.iter().map(|url| url.0.clone()).collect()
}

/// Checks that the processes that are to be measured are there.
fn check_processes(pids: &[u32]) -> Result<(), CommandError> {
    let is_there = |pid: u32| {
        let process = Pid::from_raw(i32::try_from(pid).ok()?)?;
        // One of another user's exists, too.
        (test_kill_process(process) != Err(Errno::SRCH)).then_some(())
    };
    match pids.iter().find(|pid| is_there(**pid).is_none()) {
        None => Ok(()),
        Some(pid) => {
            let text = format!("--server-pid {pid}: there is no such process");
            Err(CommandError::usage(text))
        }
    }
}

/// Whether a URL is of this machine; one of S3, whether its endpoint is.
fn is_this_machine(url: &Url) -> bool {
    if url.scheme() == "s3" {
        let variables = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"];
        let endpoint = variables
            .iter()
            .find_map(|name| std::env::var(name).ok())
            .and_then(|text| text.parse::<Url>().ok());
        return endpoint.is_some_and(|url| url.scheme() != "s3" && is_this_machine(&url));
    }
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        None => false,
    }
}

fn proxy_address(text: &str) -> Result<SocketAddr, CommandError> {
    let text = text
        .strip_prefix("http://")
        .unwrap_or(text)
        .trim_end_matches('/');
    if text.contains('@') {
        // It is not repeated: it has a password.
        return Err(CommandError::usage("--proxy is HOST:PORT, without a login"));
    }
    let mut addresses = text.to_socket_addrs().map_err(|error| {
        CommandError::usage(format!("--proxy {text} is not HOST:PORT: {error}"))
    })?;
    let first = addresses.next();
    first.ok_or_else(|| CommandError::usage(format!("--proxy {text} has no address")))
}

/// The experiment of a file, whose name without `.toml` is that of the experiment.
fn read_experiment(path: &Path, is_full: bool) -> Result<Experiment, CommandError> {
    let failed = |text: String| {
        CommandError::usage(text).with_hint("`haul bench show quirks` prints an example")
    };
    let text = read_text(path)
        .map_err(|error| failed(format!("cannot read {}: {error}", path.display())))?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    Experiment::parse(&name, &text, is_full)
        .map_err(|error| failed(format!("{}, {error}", path.display())))
}

/// The URLs of a list, one a line.
fn read_list(path: &Path) -> Result<Vec<Url>, CommandError> {
    let text = read_text(path)
        .map_err(|error| CommandError::local(format!("cannot read {}: {error}", path.display())))?;
    let mut urls = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let failed =
            |text: &str| CommandError::usage(format!("{}:{number}: {text}", path.display()));
        if line.contains(char::is_whitespace) {
            return Err(failed("the line has more than a URL"));
        }
        let url = line.parse::<HttpUrl>();
        urls.push(url.map_err(|error| failed(&error.to_string()))?.0);
    }
    if urls.is_empty() {
        Err(CommandError::usage(format!(
            "{} has no URL",
            path.display()
        )))
    } else {
        Ok(urls)
    }
}

/// The text of a file that is not too long.
fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let length = File::open(path)?
        .take(MAX_FILE + 1)
        .read_to_string(&mut text)?;
    if length as u64 > MAX_FILE {
        Err(io::Error::other(format!(
            "it is longer than {MAX_FILE} bytes"
        )))
    } else {
        Ok(text)
    }
}
