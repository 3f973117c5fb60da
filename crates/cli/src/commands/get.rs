//! `haul get`.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use tokio::time::Instant;

use super::run::{CannotBegin, Work, runtime, transfer};
use super::teller::Teller;
use crate::args::{GetArgs, MessageArgs};
use crate::exit::Exit;
use crate::message::Form;
use crate::progress::{Wish, renderer};
use crate::settings::GetSettings;
use crate::{message, output, report};

/// Downloads what the arguments name; tells how that ended.
pub(crate) fn run(args: &GetArgs) -> ExitCode {
    begin(args).unwrap_or_else(|exit| exit).into()
}

/// What can be known to fail before a byte is asked for.
fn begin(args: &GetArgs) -> Result<Exit, Exit> {
    let form = Form::of(args);
    let settings = GetSettings::resolve(args)
        .map_err(|error| form.fail(error.exit(), &message::chain(&error), error.advice()))?;
    if results_go_to_stdout(args) {
        output::stdout_is_open().map_err(|error| {
            let (text, hint) = output::explain(&error);
            form.fail(Exit::LocalIo, &text, Some(hint))
        })?;
    }
    if let Some(directory) = &args.output.directory {
        make(directory).map_err(|(text, hint)| form.fail(Exit::LocalIo, &text, Some(hint)))?;
    }
    let runtime = runtime()
        .map_err(|error| form.fail(Exit::LocalIo, &format!("cannot start: {error}"), None))?;
    let exit = runtime.block_on(download(args, settings));
    // A look-up of a name that hangs in the system's resolver is not waited for.
    runtime.shutdown_background();
    Ok(exit)
}

/// Whether something is to be written there.
fn results_go_to_stdout(args: &GetArgs) -> bool {
    args.messages.json
        || args.output.is_stdout()
        || args.output.checksum.iter().any(|sum| sum.digest.is_none())
}

/// Makes the directory that `-d` names, as those before it did.
fn make(directory: &Path) -> Result<(), (String, &'static str)> {
    let Err(error) = std::fs::create_dir_all(directory) else {
        return Ok(());
    };
    let in_the_way = directory
        .ancestors()
        .find(|above| above.symlink_metadata().is_ok() && !above.is_dir());
    Err(match in_the_way {
        Some(file) => (
            format!("{} is not a directory", file.display()),
            "-o FILE names a file, -d a directory to put it into",
        ),
        None => (
            format!(
                "cannot create the directory {}: {error}",
                directory.display()
            ),
            "choose a place you may write to with -d",
        ),
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
    if args.connection.insecure && !quiet {
        screen.warn(Duration::ZERO, "--insecure: nobody checks who answers");
    }
    let mut teller = Teller::new(&args.messages);
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
        return cannot_begin(args, &error);
    }
    if count > 1 && !quiet {
        let width = screen.width();
        let files = (teller.done, count);
        screen.say(&report::total(files, teller.bytes, begun.elapsed(), width));
    }
    let exit = teller.exit(&mut *screen, count);
    if exit == Exit::Interrupted {
        let goes_on = "the same command goes on where this one stopped";
        screen.say(&message::error_text(
            "interrupted",
            teller.resumable.then_some(goes_on),
        ));
    }
    exit
}

fn cannot_begin(args: &GetArgs, error: &CannotBegin) -> Exit {
    let exit = match error {
        CannotBegin::Settings(_) => Exit::Usage,
        CannotBegin::Signals(_) => Exit::LocalIo,
    };
    Form::of(args).fail(exit, &message::chain(error), None)
}
