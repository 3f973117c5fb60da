//! What is printed when a batch has ended: how it ended, what failed, and how to go on.

use std::time::Duration;

use haul_s3::S3Address;
use haul_transfer::batch::{BatchSummary, StopReason};
use haul_transfer::bucket::KeyFilter;

use crate::args::{GetArgs, UrlArg};
use crate::settings::archive_destination;
use crate::{message, report};

/// The message when the reader of the archive has left: how far it got, and no more.
pub(super) fn cut_off_lines(args: &GetArgs, summary: &BatchSummary) -> Vec<String> {
    let tar = match &args.batch.tar {
        Some(tar) if !args.batch.is_tar_to_stdout() => tar.display().to_string(),
        _ => "standard output".to_owned(),
    };
    let files = summary.done;
    let text = format!("{tar} was closed by its reader: the archive ends after {files} files");
    let message = message::error_text(&message::sanitize(&text), None);
    (!args.messages.quiet)
        .then_some(message)
        .into_iter()
        .collect()
}

/// The hint how to continue a batch that was interrupted, or to retry what failed. `does` is the verb of that.
pub(super) fn continue_hint(args: &GetArgs, does: &str) -> String {
    let (batch, output) = (&args.batch, &args.output);
    if batch
        .tar
        .as_deref()
        .is_some_and(|tar| archive_destination(tar).is_stream())
    {
        return "the same command starts again: a streamed archive is always complete".to_owned();
    }
    let existing = match () {
        () if output.update => "for existing files it only asks whether they changed",
        () if batch.manifest.is_some() => "files that the manifest lists as done are skipped",
        () if batch.tar.is_some() => {
            return "with --manifest FILE the same command could continue its archive".to_owned();
        }
        () if output.overwrite => {
            return format!("the same command without --overwrite {does}: existing files are kept");
        }
        () => "existing files are not downloaded again",
    };
    format!("the same command {does}: {existing}")
}

/// The hint for a file that is no list.
const LIST_FORMATS: &str = "a list has a URL a line, or is in aria2's format, CSV or TSV with a column 'url', JSON lines or Metalink";

/// The messages at the end, for people.
pub(super) fn end_lines(
    args: &GetArgs,
    summary: &BatchSummary,
    elapsed: Duration,
    width: Option<usize>,
) -> Vec<String> {
    let mut lines = Vec::new();
    if summary.has_found_nothing() && args.batch.input.is_empty() {
        return vec![message::error_text(
            &message::sanitize(&nothing_found(args)),
            None,
        )];
    }
    if !args.messages.quiet {
        if summary.has_found_nothing() {
            lines.push(message::warning_text(
                "the lists contain nothing to download",
            ));
        }
        lines.push(report::summary_line(summary, elapsed, width));
    }
    if summary.pages > 0 {
        let text = format!(
            "{} of these files are pages or error documents, which is not what their names promise: --expect-type refuses such responses",
            summary.pages
        );
        lines.push(message::warning_text(&text));
    }
    if let Some(stopped) = &summary.stopped
        && !summary.is_interrupted()
    {
        let reason = message::sanitize(&report::stop_text(summary, stopped));
        let text = if summary.all_ended() || summary.listed == 0 {
            reason
        } else {
            format!("stopped early: {reason}")
        };
        let hint = (stopped.reason == StopReason::UnusableList).then_some(LIST_FORMATS);
        lines.push(message::error_text(&text, hint));
    }
    let hint = match summary.done {
        _ if summary.are_failures_permanent() => {
            "they would fail again: check the list, and the sizes, types and digests that it or the flags require".to_owned()
        }
        // There is no archive to continue.
        0 if args.batch.tar.is_some() => "the same command retries them".to_owned(),
        _ => continue_hint(args, "retries them"),
    };
    lines.extend(report::failures_text(summary, &hint));
    lines
}

/// The message for addresses without an object.
fn nothing_found(args: &GetArgs) -> String {
    let address = |url: &UrlArg| match url {
        UrlArg::Url(url) => S3Address::from_url(&url.0).ok(),
        UrlArg::Glob(_) => None,
    };
    let addresses = args.urls.iter().filter_map(address);
    let names: Vec<String> = addresses
        .map(|address| {
            if args.recursive {
                format!("below {}", address.into_folder())
            } else {
                format!("at {address}")
            }
        })
        .collect();
    let filtered = if args.filter.filter == KeyFilter::default() {
        ""
    } else {
        " that --include and --exclude leave"
    };
    format!("there is no object {}{filtered}", names.join(" or "))
}
