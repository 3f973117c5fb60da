//! `haul completions`: a script for a shell, on standard output.

use std::process::ExitCode;

use clap::CommandFactory as _;

use crate::args::Args;
use crate::exit::Exit;

pub(crate) fn run(shell: clap_complete::Shell) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "haul", &mut script);
    // A closed standard output leaves nobody to tell.
    let _ = std::io::Write::write_all(&mut std::io::stdout(), &script);
    Exit::Done.into()
}
