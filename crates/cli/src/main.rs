//! The binary: parses arguments, calls the library crates, prints, exits. It decides nothing about transfers and moves no bytes.

mod args;
mod commands;
mod exit;
mod message;
mod open_file_limit;
mod output;
mod password_prompt;
mod progress;
mod report;
mod settings;
mod signals;
mod sys;
mod traces;

use std::process::ExitCode;

use args::{CliArgs, CliCommand};
use message::JsonOutputs;

fn main() -> ExitCode {
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
    traces::print_traces(&args.command);
    open_file_limit::raise_open_file_limit();
    match args.command {
        CliCommand::Get(get) => commands::get::run(&get),
        CliCommand::Serve(serve) => commands::serve::run(&serve),
        CliCommand::Tunnel(tunnel) => commands::tunnel::run(&tunnel),
        CliCommand::Put(put) => commands::put::run(&put),
        CliCommand::Sync(sync) => commands::sync::run(&sync),
        CliCommand::Ls(ls) => commands::objects::ls(&ls),
        CliCommand::Cp(cp) => commands::cp::run(&cp),
        CliCommand::Rm(rm) => commands::objects::rm(&rm),
        CliCommand::Presign(presign) => commands::objects::presign(&presign),
        CliCommand::Sign(sign) => commands::sign::run(&sign),
        CliCommand::Bench(bench) => commands::bench::run(&bench),
        CliCommand::Demo(demo) => commands::demo::run(&demo),
        CliCommand::Version => output::print(CliArgs::version_text().as_bytes()),
        CliCommand::Completions(which) => commands::completions::run(which.shell),
    }
}
