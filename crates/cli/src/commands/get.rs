//! `haul get`.

use std::io::Write as _;
use std::process::ExitCode;

use haul_transfer::{GetError, Job, Outcome};
use tokio_util::sync::CancellationToken;

use super::run::{runtime, transfer};
use crate::args::GetArgs;
use crate::exit::Exit;
use crate::progress::{Wish, renderer};
use crate::settings::GetSettings;
use crate::{message, report, signals};

pub(crate) fn run(args: GetArgs) -> ExitCode {
    let settings = match GetSettings::resolve(&args) {
        Ok(settings) => settings,
        Err(error) => {
            message::error(&message::chain(&error), error.advice());
            return Exit::Usage.into();
        }
    };
    if args.connection.insecure && !args.messages.quiet {
        message::warning("--insecure: nobody checks who answers");
    }
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => {
            message::error(&format!("cannot start: {error}"), None);
            return Exit::LocalIo.into();
        }
    };
    let code = runtime.block_on(download(&args, settings));
    // A look-up of a name that hangs in the system's resolver is not waited for.
    runtime.shutdown_background();
    code.into()
}

async fn download(args: &GetArgs, settings: GetSettings) -> Exit {
    let stop = CancellationToken::new();
    let several = settings.jobs.len() > 1;
    let wish = Wish { kind: args.messages.progress, quiet: args.messages.quiet, verbose: args.messages.verbose };
    let mut tally = Tally::default();
    let GetSettings { client, options, jobs } = settings;
    let work = transfer((client, options), jobs, renderer(wish), &stop, |job, result| {
        tally.add(Exit::of_result(&result));
        tell(args, job, &result);
    });
    let done = tokio::select! {
        biased;
        done = work => done,
        () = signals::watch(stop.clone()) => Ok(()),
    };
    match done {
        Ok(()) => tally.exit(several),
        Err(error) => {
            message::error(&message::chain(&error), None);
            Exit::Usage
        }
    }
}

/// Tells a job's end on standard output and standard error.
fn tell(args: &GetArgs, job: &Job, result: &Result<Outcome, GetError>) {
    let mut out = std::io::stdout().lock();
    // A closed standard output leaves nobody to tell; the file is in place all the same.
    let _ = match result {
        Ok(outcome) if args.messages.json => writeln!(out, "{}", report::object(outcome)),
        Ok(outcome) if outcome.path.is_some() => report::checksums(outcome, &mut out),
        Ok(outcome) => report::checksums(outcome, &mut std::io::stderr().lock()),
        Err(error) if args.messages.json => writeln!(out, "{}", report::failure(&job.url, error)),
        Err(_) => Ok(()),
    };
    match result {
        Ok(outcome) if !args.messages.quiet => message::note(&report::summary(outcome)),
        Ok(_) => {}
        Err(error) if is_closed_pipe(error) => {}
        Err(error) => message::failed(error),
    }
}

/// `haul get -o - URL | head` ends quietly, as every tool in a pipe does.
fn is_closed_pipe(error: &GetError) -> bool {
    matches!(error, GetError::Local { source, .. } if source.kind() == std::io::ErrorKind::BrokenPipe)
}

/// How the jobs ended.
#[derive(Debug, Default)]
struct Tally {
    /// The first that was not `Done`.
    worst: Option<Exit>,
    interrupted: bool,
}

impl Tally {
    fn add(&mut self, exit: Exit) {
        self.interrupted |= exit == Exit::Interrupted;
        if exit != Exit::Done {
            self.worst.get_or_insert(exit);
        }
    }

    /// One job's own code; of several, whether any failed.
    fn exit(&self, several: bool) -> Exit {
        match self.worst {
            None => Exit::Done,
            Some(_) if self.interrupted => Exit::Interrupted,
            Some(_) if several => Exit::SomeFailed,
            Some(exit) => exit,
        }
    }
}
