//! `haul completions`: prints a completion script for a shell.

use std::process::ExitCode;

use clap::CommandFactory as _;

use crate::args::CliArgs;
use crate::exit::ExitReason;
use crate::output;

pub(crate) fn run(shell: clap_complete::Shell) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut CliArgs::command(), "haul", &mut script);
    match output::write_stdout(&script) {
        Ok(()) => ExitReason::Done.into(),
        Err(error) => output::report_write_error(&error).into(),
    }
}
