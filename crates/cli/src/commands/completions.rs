//! `haul completions`: prints a completion script for a shell.

use std::process::ExitCode;

use clap::CommandFactory as _;

use crate::args::CliArgs;
use crate::output;

pub(crate) fn run(shell: clap_complete::Shell) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut CliArgs::command(), "haul", &mut script);
    output::print(&script)
}
