//! The binary: parses arguments, calls the library crates, prints, exits. It decides nothing about transfers and moves no bytes.

mod args;
mod commands;
mod exit;
mod heap;
mod job_sources;
mod message;
mod open_file_limit;
mod output;
mod password_prompt;
mod progress;
mod report;
mod settings;
mod signals;
mod sys;

use std::process::ExitCode;

use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use args::{CliArgs, CliCommand};
use message::JsonOutputs;

fn main() -> ExitCode {
    heap::limit_arenas();
    sys::ignore_file_size_signal();
    let args = match CliArgs::parse_words(std::env::args_os()) {
        Ok(args) => args,
        Err(error) => {
            return message::report_usage_error(
                &error,
                JsonOutputs::requested_by_words(std::env::args_os()),
            );
        }
    };
    start_tracing(default_log_filter(&args.command));
    open_file_limit::raise_open_file_limit();
    match args.command {
        CliCommand::Get(get) => commands::get::run(&get),
        CliCommand::Serve(serve) => commands::serve::run(&serve),
        CliCommand::Tunnel(tunnel) => commands::tunnel::run(&tunnel),
        CliCommand::Sign(sign) => commands::sign::run(&sign),
        CliCommand::Demo(demo) => commands::demo::run(&demo),
        CliCommand::Completions(which) => commands::completions::run(which.shell),
    }
}

/// The traces that are printed without `RUST_LOG`. A download reports its problems itself; a running server has no other way to.
fn default_log_filter(command: &CliCommand) -> Option<&'static str> {
    match command {
        // World-readable files are reported as other warnings are.
        CliCommand::Serve(serve) if !serve.running.quiet => {
            Some("haul_serve=warn,haul_service=warn,haul_serve::access::auth_files=off")
        }
        CliCommand::Serve(_) => Some("haul_serve=error,haul_service=error"),
        CliCommand::Tunnel(tunnel) if !tunnel.quiet => Some("haul_tunnel=warn,haul_service=warn"),
        CliCommand::Tunnel(_) => Some("haul_tunnel=error,haul_service=error"),
        _ => None,
    }
}

/// Prints what the libraries trace, as `RUST_LOG` selects it, on standard error.
fn start_tracing(default_filter: Option<&str>) {
    // Without a name, an empty filter would select everything.
    let requested = std::env::var("RUST_LOG")
        .ok()
        .filter(|filter| !filter.is_empty());
    let Some(filter) = requested.or_else(|| default_filter.map(str::to_owned)) else {
        return;
    };
    let targets = match filter.parse::<Targets>() {
        Ok(targets) => targets,
        Err(error) => {
            let text = format!("RUST_LOG is ignored: {error}");
            return message::print_line(&message::warning_text(&message::sanitize(&text)));
        }
    };
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never)
        // Such an error would be reported on standard error, which is what failed, and panic.
        .log_internal_errors(false)
        .with_filter(targets);
    // The subscriber is set only here, so this cannot fail.
    let _ = tracing_subscriber::registry().with(lines).try_init();
}
