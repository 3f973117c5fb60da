//! `haul bench`: chooses the experiments, runs them, and shows their results.

mod load;
mod plan;
mod progress;

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use haul_bench::environment::bench_environment;
use haul_bench::experiment::{BUILTIN_EXPERIMENTS, Experiment, builtin_text};
use haul_bench::report::{ReportError, compare_text, read_results, text_report, write_reports};
use haul_bench::results::BenchResults;
use haul_bench::session::{BenchOptions, run_experiments};
use haul_bench::workload::requests::RequestsOptions;
use haul_bench::workload::transfer::TransferOptions;
use haul_net::{ClientConfig, RedirectOptions, redacted_text};
use haul_s3::S3Config;
use tokio_util::sync::CancellationToken;

use super::run_loop::{new_runtime, stop_on_signals};
use super::service::command_error::CommandError;
use crate::args::{BenchArgs, BenchCommand, BenchRunArgs};
use crate::exit::ExitReason;
use crate::message;
use crate::output;
use crate::settings::peer_tls_options;
use plan::BenchPlan;
use progress::BenchProgress;

/// Columns of output that is not a terminal.
const DEFAULT_WIDTH: usize = 100;

pub(crate) fn run(args: &BenchArgs) -> ExitCode {
    let exit = match &args.command {
        BenchCommand::Show { name } => show(name.as_deref()),
        BenchCommand::Compare { before, after } => compare(before, after),
        BenchCommand::Load(args) => load::run(args),
        command => run_plan(command),
    };
    exit.unwrap_or_else(|error| error.report()).into()
}

/// Prints the file of an experiment, or the names.
fn show(name: Option<&str>) -> Result<ExitReason, CommandError> {
    let Some(name) = name else {
        let lines = BUILTIN_EXPERIMENTS.iter().map(|(name, text)| {
            let experiment = Experiment::parse(name, text, false);
            let title = experiment.map(|experiment| experiment.title);
            format!("{name:12} {}\n", title.unwrap_or_default())
        });
        return Ok(print(&lines.collect::<String>()));
    };
    let text = builtin_text(name).ok_or_else(|| {
        let names = BUILTIN_EXPERIMENTS.map(|(name, _)| name).join(", ");
        CommandError::usage(format!("there is no experiment {name:?}"))
            .with_hint(format!("the experiments are {names}"))
    })?;
    Ok(print(text))
}

fn compare(before: &Path, after: &Path) -> Result<ExitReason, CommandError> {
    let read = |path| {
        read_results(path).map_err(|error| match error {
            ReportError::TooLarge { .. } | ReportError::Parse { .. } => {
                local_error(&error).with_hint("name one that `haul bench --report DIR` wrote")
            }
            _ => local_error(&error),
        })
    };
    let (before, after) = (read(before)?, read(after)?);
    let (width, has_color) = terminal();
    Ok(print(&compare_text(&before, &after, width, has_color)))
}

fn run_plan(command: &BenchCommand) -> Result<ExitReason, CommandError> {
    let plan = BenchPlan::new(command)?;
    if let Some(directory) = &plan.run.report {
        // Before the minutes that would be lost.
        let is_writable = std::fs::create_dir_all(directory)
            .and_then(|()| tempfile::tempfile_in(directory).map(drop));
        is_writable.map_err(|error| {
            CommandError::local(format!(
                "cannot write into {}: {error}",
                directory.display()
            ))
        })?;
    }
    plan.prepare_links()?;
    let runtime =
        new_runtime().map_err(|error| CommandError::local(format!("cannot start: {error}")))?;
    let results = runtime.block_on(measure(&plan));
    runtime.shutdown_background();
    Ok(report(plan.run, &results?))
}

async fn measure(plan: &BenchPlan<'_>) -> Result<BenchResults, CommandError> {
    let options = bench_options(plan)?;
    let stop = CancellationToken::new();
    let _signals = stop_on_signals(stop.clone()).map_err(|error| local_error(&error))?;
    // The path of the program does not matter for the run.
    let words = std::env::args().skip(1).map(|word| redacted_text(&word));
    let words = std::iter::once("haul".to_owned()).chain(words);
    let environment = bench_environment(words.collect::<Vec<_>>().join(" "));
    let mut progress = BenchProgress::new(plan.run.quiet);
    let mut results = run_experiments(
        &plan.experiments,
        &options,
        environment,
        &stop,
        &mut |found| progress.show(&found),
        |experiment, error| {
            let text = format!("{experiment}: {}", message::chain_text(error));
            message::print_line(&message::warning_text(&message::sanitize(&text)));
        },
    )
    .await;
    progress.end();
    results.rate_hint = "--yes allows more".to_owned();
    Ok(results)
}

fn bench_options(plan: &BenchPlan<'_>) -> Result<BenchOptions, CommandError> {
    fn failed(error: impl Error) -> CommandError {
        CommandError::usage(message::chain_text(&error))
    }
    let tls = peer_tls_options(&plan.run.tls).map_err(failed)?;
    let haul = std::env::current_exe().map_err(failed)?;
    let server_pids = &plan.run.server_pid;
    Ok(BenchOptions {
        requests: RequestsOptions {
            haul: haul.clone(),
            targets: plan.targets.clone(),
            is_store: plan.is_store,
            // The platform's certificates may be missing where nobody needs them.
            tls: if plan.targets.iter().any(|url| url.scheme() == "https") {
                Some(tls.clone().client_config().map_err(failed)?)
            } else {
                None
            },
            max_rate: plan.max_rate,
            server_pids: server_pids.clone(),
            proxy: plan.proxy,
        },
        transfer: TransferOptions {
            haul,
            target: plan.targets.first().cloned(),
            client: ClientConfig {
                tls,
                // Another host was not named.
                redirects: RedirectOptions {
                    max_redirects: 0,
                    ..RedirectOptions::default()
                },
                ..ClientConfig::default()
            },
            store: S3Config::default(),
            server_pids: server_pids.clone(),
        },
        seed: rand::random(),
    })
}

/// Shows and writes the results.
fn report(run: &BenchRunArgs, results: &BenchResults) -> ExitReason {
    let mut exit = exit_reason(results);
    if let Some(directory) = &run.report {
        match write_reports(directory, results) {
            Err(error) => exit = local_error(&error).report(),
            Ok(()) if run.quiet => {}
            Ok(()) => {
                let page = directory.join("report.html");
                message::print_line(&format!("haul: wrote {}", page.display()));
            }
        }
    }
    let text = if run.json {
        serde_json::to_string(results).unwrap_or_default() + "\n"
    } else {
        let (width, has_color) = terminal();
        text_report(results, width, has_color)
    };
    match print(&text) {
        ExitReason::Done => exit,
        failed => failed,
    }
}

/// The exit code of a run.
fn exit_reason(results: &BenchResults) -> ExitReason {
    if results.is_partial {
        return ExitReason::Interrupted;
    }
    let experiments = results.experiments.iter();
    let mut cells = experiments.flat_map(|found| &found.cells);
    // Without a failure a cell may be one that the time did not suffice for.
    if cells.clone().all(|cell| cell.wall.is_none()) {
        return ExitReason::Network;
    }
    if cells.any(|cell| cell.wall.is_none() || cell.failure.is_some()) {
        ExitReason::SomeFailed
    } else {
        ExitReason::Done
    }
}

/// The width of standard output, and whether it has colours.
fn terminal() -> (usize, bool) {
    let terminal = console::Term::stdout();
    let size = terminal
        .is_term()
        .then(|| terminal.size_checked())
        .flatten();
    let width = size.map_or(DEFAULT_WIDTH, |(_, width)| width.into());
    (width, terminal.is_term() && console::colors_enabled())
}

fn print(text: &str) -> ExitReason {
    match output::write_stdout(text.as_bytes()) {
        Ok(()) => ExitReason::Done,
        Err(error) => output::report_write_error(&error),
    }
}

fn local_error(error: &dyn Error) -> CommandError {
    CommandError::local(message::chain_text(error))
}
