//! `haul`: parses, calls the engine, prints, exits. Everything that decides or moves bytes is in the library crates.

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

use clap::Parser;

use args::{CliArgs, CliCommand};
use message::JsonOutputs;

fn main() -> ExitCode {
    heap::limit_arenas();
    let args = match CliArgs::try_parse() {
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

/// What is traced unasked. Downloads tell their troubles by themselves; those of a server that runs have nobody else to tell them.
fn default_log_filter(command: &CliCommand) -> Option<&'static str> {
    match command {
        // Files that all can read are told of in the form of other warnings.
        CliCommand::Serve(serve) if !serve.running.quiet => {
            Some("haul_serve=warn,haul_service=warn,haul_serve::access::auth_files=off")
        }
        CliCommand::Serve(_) => Some("haul_serve=error,haul_service=error"),
        CliCommand::Tunnel(tunnel) if !tunnel.running.quiet => {
            Some("haul_tunnel=warn,haul_service=warn")
        }
        CliCommand::Tunnel(_) => Some("haul_tunnel=error,haul_service=error"),
        _ => None,
    }
}

/// `RUST_LOG` turns on what the libraries trace, on standard error.
fn start_tracing(unasked: Option<&str>) {
    let asked = std::env::var("RUST_LOG").ok();
    let Some(filter) = asked.or_else(|| unasked.map(str::to_owned)) else {
        return;
    };
    // The lossy way would print what it leaves out, and panic where that cannot be printed.
    let filter = match tracing_subscriber::EnvFilter::try_new(filter) {
        Ok(filter) => filter,
        Err(error) => {
            let text = format!("RUST_LOG is not used: {error}");
            return message::print_line(&message::warning_text(&message::sanitize(&text)));
        }
    };
    // Set once, here: it cannot fail.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never)
        // It would be told on standard error, which is what failed, and panic there.
        .log_internal_errors(false)
        .try_init();
}
