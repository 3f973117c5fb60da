//! `haul bench`: chooses the experiments, runs them, and shows what came of them.

mod plan;
mod progress;

use std::path::Path;
use std::process::ExitCode;

use haul_bench::environment::bench_environment;
use haul_bench::experiment::{BUILTIN_EXPERIMENTS, builtin_text};
use haul_bench::report::{compare_text, read_results, text_report, write_reports};
use haul_bench::results::BenchResults;
use haul_bench::runner::RunProgress;
use haul_bench::session::{BenchOptions, run_experiments};
use haul_net::{ClientConfig, redacted_text};
use haul_plan::RedirectOptions;
use haul_s3::S3Config;
use tokio_util::sync::CancellationToken;

use super::run_loop::{new_runtime, stop_on_signals};
use crate::args::{BenchArgs, BenchCommand, BenchRunArgs};
use crate::exit::ExitReason;
use crate::message;
use crate::output;
use crate::settings::peer_tls_options;
use plan::BenchPlan;
use progress::BenchProgress;

/// Columns of output that is no terminal.
const DEFAULT_WIDTH: usize = 100;

/// Runs the command.
pub(crate) fn run(args: &BenchArgs) -> ExitCode {
    let exit = match &args.command {
        BenchCommand::Show { name } => show(name.as_deref()),
        BenchCommand::Compare { before, after } => compare(before, after),
        command => run_plan(command),
    };
    exit.unwrap_or_else(|exit| exit).into()
}

/// Prints the file of an experiment, or the names.
fn show(name: Option<&str>) -> Result<ExitReason, ExitReason> {
    let text = match name {
        None => {
            let lines = BUILTIN_EXPERIMENTS.iter().map(|(name, text)| {
                let title = text.lines().find_map(|line| line.strip_prefix("title = "));
                format!(
                    "{name:12} {}\n",
                    title.unwrap_or_default().trim_matches('"')
                )
            });
            lines.collect()
        }
        Some(name) => match builtin_text(name) {
            Some(text) => text.to_owned(),
            None => {
                let names: Vec<&str> = BUILTIN_EXPERIMENTS.iter().map(|(name, _)| *name).collect();
                let text = format!("there is no experiment {name:?}");
                let hint = format!("there are {}", names.join(", "));
                message::print_error(&text, Some(&hint));
                return Err(ExitReason::Usage);
            }
        },
    };
    print(text.as_bytes())
}

fn compare(before: &Path, after: &Path) -> Result<ExitReason, ExitReason> {
    let read = |path| {
        read_results(path).map_err(|error| {
            message::print_error(&message::chain_text(&error), None);
            ExitReason::LocalIo
        })
    };
    let (before, after) = (read(before)?, read(after)?);
    let (width, has_color) = terminal();
    print(compare_text(&before, &after, width, has_color).as_bytes())
}

/// Runs experiments.
fn run_plan(command: &BenchCommand) -> Result<ExitReason, ExitReason> {
    let plan = BenchPlan::new(command).map_err(|problem| {
        message::print_error(&message::sanitize(&problem.text), problem.hint.as_deref());
        problem.exit
    })?;
    let run = plan.run;
    if let Some(directory) = &run.report {
        // Before the minutes that would be lost.
        let is_writable = std::fs::create_dir_all(directory)
            .and_then(|()| tempfile::tempfile_in(directory).map(drop));
        is_writable.map_err(|error| {
            let text = format!("cannot write into {}: {error}", directory.display());
            message::print_error(&text, None);
            ExitReason::LocalIo
        })?;
    }
    let runtime = new_runtime().map_err(|error| {
        message::print_error(&format!("cannot start: {error}"), None);
        ExitReason::LocalIo
    })?;
    let results = runtime.block_on(measure(&plan));
    runtime.shutdown_background();
    report(run, &results?)
}

async fn measure(plan: &BenchPlan<'_>) -> Result<BenchResults, ExitReason> {
    let options = bench_options(plan)?;
    let stop = CancellationToken::new();
    let _signals = stop_on_signals(stop.clone()).map_err(|error| {
        message::print_error(&message::chain_text(&error), None);
        ExitReason::LocalIo
    })?;
    // Where the program is says nothing about the run.
    let words = std::env::args().skip(1).map(|word| redacted_text(&word));
    let words = std::iter::once("haul".to_owned()).chain(words);
    let environment = bench_environment(
        env!("CARGO_PKG_VERSION"),
        words.collect::<Vec<_>>().join(" "),
    );
    let progress = BenchProgress::new(plan.run.quiet);
    let mut observer = |found: RunProgress<'_>| progress.show(&found);
    let running = run_experiments(
        &plan.experiments,
        &options,
        environment,
        &stop,
        &mut observer,
        |error| message::print_line(&message::warning_text(&message::chain_text(error))),
    );
    let results = running.await.map_err(|error| {
        message::print_error(&message::chain_text(&error), None);
        ExitReason::LocalIo
    });
    progress.end();
    results
}

fn bench_options(plan: &BenchPlan<'_>) -> Result<BenchOptions, ExitReason> {
    let failed = |error: &dyn std::error::Error| {
        message::print_error(&message::chain_text(error), None);
        ExitReason::Usage
    };
    let tls = peer_tls_options(&plan.run.tls).map_err(|error| failed(&error))?;
    let haul = std::env::current_exe().map_err(|error| failed(&error))?;
    Ok(BenchOptions {
        haul,
        targets: plan.targets.clone(),
        is_store: plan.is_store,
        client: ClientConfig {
            tls: tls.clone(),
            // Another host was not named.
            redirects: RedirectOptions {
                max_redirects: 0,
                ..RedirectOptions::default()
            },
            ..ClientConfig::default()
        },
        store: S3Config::default(),
        // The platform's certificates may be missing where nobody needs them.
        tls: match plan.targets.iter().any(|url| url.scheme() == "https") {
            true => Some(tls.client_config().map_err(|error| failed(&error))?),
            false => None,
        },
        max_rate: plan.max_rate,
        server_pids: plan.run.server_pid.clone(),
        proxy: plan.proxy,
        seed: rand::random(),
    })
}

/// Shows and writes the results.
fn report(run: &BenchRunArgs, results: &BenchResults) -> Result<ExitReason, ExitReason> {
    let mut written = Ok(());
    if let Some(directory) = &run.report {
        written = write_reports(directory, results).map_err(|error| {
            message::print_error(&message::chain_text(&error), None);
            ExitReason::LocalIo
        });
        if written.is_ok() && !run.quiet {
            let page = directory.join("report.html");
            message::print_line(&format!("haul: wrote {}", page.display()));
        }
    }
    let text = match run.json {
        true => serde_json::to_string(results).unwrap_or_default() + "\n",
        false => {
            let (width, has_color) = terminal();
            text_report(results, width, has_color)
        }
    };
    print(text.as_bytes())?;
    written?;
    Ok(exit_reason(results))
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
    match cells.any(|cell| cell.wall.is_none() || cell.failure.is_some()) {
        true => ExitReason::SomeFailed,
        false => ExitReason::Done,
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

fn print(text: &[u8]) -> Result<ExitReason, ExitReason> {
    output::write_stdout(text)
        .map(|()| ExitReason::Done)
        .map_err(|error| output::report_write_error(&error))
}
