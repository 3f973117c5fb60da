//! `haul get`.

use std::io::{self, Write as _};
use std::process::ExitCode;

use haul_transfer::{GetError, Job, Outcome, Output};
use tokio::time::Instant;

use super::run::{CannotBegin, Work, runtime, transfer};
use crate::args::{GetArgs, MessageArgs};
use crate::exit::{Exit, Tally};
use crate::progress::{Renderer, Wish, renderer};
use crate::settings::GetSettings;
use crate::{message, report};

/// Downloads what the arguments name; tells how that ended.
pub(crate) fn run(args: &GetArgs) -> ExitCode {
    let settings = match GetSettings::resolve(args) {
        Ok(settings) => settings,
        Err(error) => {
            message::error(&message::chain(&error), error.advice());
            return Exit::Usage.into();
        }
    };
    if let Err(exit) = make_directory(args) {
        return exit.into();
    }
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
    let exit = runtime.block_on(download(args, settings));
    // A look-up of a name that hangs in the system's resolver is not waited for.
    runtime.shutdown_background();
    exit.into()
}

/// Makes the directory that `-d` names, as those before it did.
fn make_directory(args: &GetArgs) -> Result<(), Exit> {
    let Some(directory) = &args.output.directory else {
        return Ok(());
    };
    std::fs::create_dir_all(directory).map_err(|error| {
        let text = format!(
            "cannot create the directory {}: {error}",
            directory.display()
        );
        message::error(
            &message::harmless(&text),
            Some("choose a place you may write to with -d"),
        );
        Exit::LocalIo
    })
}

async fn download(args: &GetArgs, settings: GetSettings) -> Exit {
    let GetSettings {
        client,
        options,
        jobs,
    } = settings;
    let count = jobs.len();
    let MessageArgs {
        progress,
        quiet,
        verbose,
        ..
    } = args.messages;
    let mut screen = renderer(Wish {
        kind: progress,
        quiet,
        verbose,
        jobs: count,
    });
    let mut teller = Teller::new(args);
    let begun = Instant::now();
    let work = Work {
        client,
        options,
        jobs,
    };
    let done = transfer(work, &mut *screen, |screen, job, result| {
        teller.ended(screen, job, result)
    })
    .await;
    if let Err(error) = done {
        message::error(&message::chain(&error), None);
        return if matches!(error, CannotBegin::Settings(_)) {
            Exit::Usage
        } else {
            Exit::LocalIo
        };
    }
    if count > 1 && !quiet {
        screen.say(&report::total(
            (teller.done, count),
            teller.bytes,
            begun.elapsed(),
        ));
    }
    let exit = teller.tally.exit(count);
    if exit == Exit::Interrupted {
        let goes_on = "the same command goes on where this one stopped";
        screen.say(&message::error_text(
            "interrupted",
            teller.resumable.then_some(goes_on),
        ));
    }
    exit
}

/// Tells the ends of jobs: data on standard output, the rest through the renderer.
struct Teller<'a> {
    /// What to tell.
    args: &'a GetArgs,
    /// How jobs ended.
    tally: Tally,
    /// Jobs that ended well.
    done: usize,
    /// What those brought in this run.
    bytes: u64,
    /// Whether what a signal stopped can go on.
    resumable: bool,
}

impl<'a> Teller<'a> {
    fn new(args: &'a GetArgs) -> Self {
        Self {
            args,
            tally: Tally::default(),
            done: 0,
            bytes: 0,
            resumable: false,
        }
    }

    fn ended(&mut self, screen: &mut dyn Renderer, job: &Job, result: &Result<Outcome, GetError>) {
        let mut exit = result.as_ref().map_or_else(Exit::of, |_| Exit::Done);
        if let Err(error) = self.to_stdout(job, result) {
            exit = unwritten(screen, &error);
        }
        match result {
            Ok(outcome) => self.done(screen, job, outcome),
            Err(GetError::Interrupted { resumable }) => self.resumable |= resumable,
            // `haul get -o - URL | head` ends quietly, as every tool in a pipe does.
            Err(error) if job.output == Output::Stdout && is_broken_pipe(error) => {
                exit = Exit::ReaderGone
            }
            Err(error) => screen.failed(job.id, error),
        }
        self.tally.add(exit);
    }

    fn done(&mut self, screen: &mut dyn Renderer, job: &Job, outcome: &Outcome) {
        self.done += 1;
        self.bytes += report::came(outcome);
        if job.output == Output::Stdout {
            // Standard output holds the file itself.
            report::checksums(outcome)
                .iter()
                .for_each(|line| screen.say(line));
        }
        if !self.args.messages.quiet {
            screen.say(&report::summary(outcome));
        }
    }

    fn to_stdout(&self, job: &Job, result: &Result<Outcome, GetError>) -> io::Result<()> {
        let lines = match result {
            _ if job.output == Output::Stdout => return Ok(()),
            Ok(outcome) if self.args.messages.json => vec![report::object(outcome).to_string()],
            Ok(outcome) => report::checksums(outcome),
            Err(error) if self.args.messages.json => {
                vec![report::failure(&job.url, error).to_string()]
            }
            Err(_) => return Ok(()),
        };
        let mut out = io::stdout().lock();
        lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        out.flush()
    }
}

/// The result could not be written to standard output: quiet where nobody reads it any more.
fn unwritten(screen: &mut dyn Renderer, error: &io::Error) -> Exit {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Exit::ReaderGone;
    }
    screen.say(&message::error_text(
        &format!("cannot write to standard output: {error}"),
        None,
    ));
    Exit::LocalIo
}

fn is_broken_pipe(error: &GetError) -> bool {
    matches!(error, GetError::Local { source, .. } if source.kind() == io::ErrorKind::BrokenPipe)
}
