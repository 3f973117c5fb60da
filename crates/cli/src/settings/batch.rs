//! Decides whether the arguments make a batch, and builds its options.
//!
//! A few URLs are single downloads: a bar each, names from the origin, exit codes of their own. A list, or more URLs than anybody would
//! watch, is a batch: counted, with a manifest, in bounded memory.

use std::fs::File;
use std::io::{self, Seek as _};
use std::path::Path;

use haul_transfer::archive::ArchiveDestination;
use haul_transfer::batch::{
    BatchOptions, CommitGroupOptions, ErrorLimit, JobDispatcherOptions, dispatcher_options,
};
use haul_transfer::list::{BadLine, BadLineProblem, DownloadList, ListEntry, ListFormat};
use haul_transfer::{ConnectionCount, ContentExpectation, PathLayout};

use super::SettingError;
use super::credentials::complete_passwords;
use crate::args::{BatchArgs, ChecksumArg, GetArgs, LayoutKind, OnErrorArg};
use crate::{message, sys};
use haul_transfer::{JobSource, JobSources};

/// More URLs than this are a batch. These all run at once, with a line each: that hides the round trips of small files; large ones share
/// the connections to their origin anyway.
const MOST_SINGLE_DOWNLOADS: u64 = 16;

#[derive(Debug)]
pub(crate) struct BatchWorkload {
    pub(crate) options: BatchOptions,
    pub(crate) sources: JobSources,
}

pub(super) fn is_batch(args: &GetArgs, sources: &[JobSource]) -> bool {
    let BatchArgs {
        // These are among the sources.
        input: _,
        mirror,
        // These say how to read URLs and lists.
        input_format: _,
        globoff: _,
        jobs,
        max_connections_total,
        rate_per_host,
        layout,
        output_template,
        tar,
        // It is about the archive.
        shard_size: _,
        manifest,
        expect_type,
        min_size,
        max_size,
        max_errors,
        on_error,
    } = &args.batch;
    let is_given = [
        sources.iter().any(JobSource::is_list),
        jobs.is_some(),
        max_connections_total.is_some(),
        rate_per_host.is_some(),
        layout.is_some(),
        output_template.is_some(),
        tar.is_some(),
        manifest.is_some(),
        !expect_type.is_empty(),
        min_size.is_some(),
        max_size.is_some(),
        max_errors.is_some(),
        on_error.is_some(),
        // Only files fetched by one request each share a connection.
        args.version.http2,
    ];
    let files = sources.iter().map(JobSource::file_count);
    let many = !mirror && files.fold(0, u64::saturating_add) > MOST_SINGLE_DOWNLOADS;
    many || is_given.contains(&true)
}

/// What files must match.
pub(super) fn content_expectation(args: &BatchArgs) -> Result<ContentExpectation, SettingError> {
    let (min, max) = (
        args.min_size.map(|size| size.0),
        args.max_size.map(|size| size.0),
    );
    if min.zip(max).is_some_and(|(min, max)| min > max) {
        return Err(SettingError::new("--min-size is larger than --max-size"));
    }
    Ok(ContentExpectation {
        media_types: args.expect_type.clone(),
        min_length: min,
        max_length: max,
        exact_length: None,
        listed: None,
    })
}

pub(super) fn open_lists(args: &BatchArgs) -> Result<Vec<JobSource>, SettingError> {
    let from_stdin = args.input.iter().filter(|path| is_stdin(path)).count();
    if from_stdin > 1 {
        let error = SettingError::new("-i - is given twice");
        return Err(error.with_hint("standard input can be read once"));
    }
    let format = args.input_format;
    let open = |path: &std::path::PathBuf| open_list(path, format);
    args.input.iter().map(open).collect()
}

fn is_stdin(path: &Path) -> bool {
    // `./-` names a file.
    path.as_os_str() == "-"
}

fn open_list(path: &Path, format: Option<ListFormat>) -> Result<JobSource, SettingError> {
    if is_stdin(path) {
        // `/dev/null` is in its place, and would be an empty list.
        if sys::stdin_closed() {
            let error = SettingError::new("-i: cannot read standard input: it is closed");
            return Err(error.with_hint("pipe a list into it, or name a file"));
        }
        return Ok(JobSource::Stdin(format));
    }
    let name = path.display().to_string();
    let to_error =
        |error: io::Error| SettingError::new(format!("-i: cannot read {name}")).caused_by(error);
    let mut file = File::open(path).map_err(to_error)?;
    let kind = file.metadata().map_err(to_error)?;
    if kind.is_dir() {
        return Err(SettingError::new(format!("-i: {name} is a directory")));
    }
    // Whether the list is a Metalink document, and so perhaps single downloads, is checked only where reading takes nothing away and waits
    // for nobody.
    if kind.is_file() && matches!(format, None | Some(ListFormat::Metalink)) {
        let copy = file.try_clone().map_err(to_error)?;
        let list = DownloadList::open(Box::new(copy), format, &name);
        if list.format() == ListFormat::Metalink {
            return document_source(list.collect(), &name);
        }
        file.rewind().map_err(to_error)?;
    }
    Ok(JobSource::List { name, file, format })
}

/// A Metalink document, unless it contains nothing to download.
fn document_source(
    files: Vec<Result<ListEntry, BadLine>>,
    name: &str,
) -> Result<JobSource, SettingError> {
    if files.iter().any(Result::is_ok) {
        return Ok(JobSource::Document(files));
    }
    let is_unusable = |bad: &&BadLine| !matches!(bad.problem, BadLineProblem::NoHttpUrl);
    let mut bad = files.iter().filter_map(|file| file.as_ref().err());
    Err(match bad.find(is_unusable) {
        Some(BadLine { line, problem, .. }) => {
            let why = format!("line {line}: {}", message::chain_text(problem));
            SettingError::new(format!("-i: {name} cannot be used")).caused_by(why)
        }
        None => SettingError::new(format!("-i: {name} contains no http or https URL"))
            .with_hint("haul downloads http:// and https:// URLs"),
    })
}

/// A batch of these sources.
pub(super) fn batch_workload(
    args: &GetArgs,
    connections: ConnectionCount,
    sources: Vec<JobSource>,
) -> Result<BatchWorkload, SettingError> {
    let options = batch_options(args, connections)?;
    Ok(BatchWorkload {
        options,
        sources: JobSources::new(sources),
    })
}

fn batch_options(
    args: &GetArgs,
    connections: ConnectionCount,
) -> Result<BatchOptions, SettingError> {
    if args.output.file.is_some() {
        return Err(super::single_downloads::several_urls_error());
    }
    let report = |checksum: &ChecksumArg| match checksum {
        ChecksumArg::Checksum(checksum) if checksum.digest.is_none() => Ok(checksum.clone()),
        _ => {
            let error = SettingError::new("--checksum has a digest, but there are several files");
            Err(error
                .with_hint("a list can have one for each file, in a column sha256 or as checksum="))
        }
    };
    let checksums = args
        .output
        .checksum
        .iter()
        .map(report)
        .collect::<Result<Vec<_>, _>>()?;
    if args.batch.is_tar_to_stdout() {
        check_stdout_is_free(args)?;
    }
    check_shards(&args.batch)?;
    let prints_digests = !checksums.is_empty() && args.batch.manifest.is_none();
    Ok(BatchOptions {
        directory: args.output.directory.clone().unwrap_or_default(),
        dispatch: JobDispatcherOptions {
            rate_per_host: args.batch.rate_per_host,
            ..dispatcher_options(
                args.batch.jobs,
                args.batch.max_connections_total,
                connections,
            )
        },
        layout: path_layout(&args.batch),
        error_limit: match (args.batch.max_errors, args.batch.on_error) {
            (Some(limit), _) => Some(limit),
            (None, Some(OnErrorArg::Stop)) => Some(ErrorLimit::Count(0)),
            (None, Some(OnErrorArg::Continue) | None) => None,
        },
        checksums,
        report_every_row: args.messages.json || args.messages.verbose || prints_digests,
        commit_group: CommitGroupOptions::for_open_files(),
        ..BatchOptions::default()
    })
}

/// Checks that nothing else goes to standard output with the archive.
fn check_stdout_is_free(args: &GetArgs) -> Result<(), SettingError> {
    let other = match args.messages.json {
        true => "--json",
        false if !args.output.checksum.is_empty() && args.batch.manifest.is_none() => "--checksum",
        false => return Ok(()),
    };
    let error = SettingError::new(format!("{other} and --tar - both write to standard output"));
    Err(error.with_hint("--manifest FILE has results and digests, too"))
}

/// Checks that the archive can be split.
fn check_shards(args: &BatchArgs) -> Result<(), SettingError> {
    match &args.tar {
        Some(tar) if args.shard_size.is_some() && archive_destination(tar).is_stream() => {
            let tar = tar.display();
            let text =
                format!("--shard-size makes several archives, and --tar {tar} is one stream");
            let hint = "leave out --shard-size, or give --tar the name of a file";
            Err(SettingError::new(text).with_hint(hint))
        }
        _ => Ok(()),
    }
}

/// The destination that `--tar` names.
pub(crate) fn archive_destination(tar: &Path) -> ArchiveDestination {
    // `./-` names a file.
    if tar.as_os_str() == "-" {
        ArchiveDestination::Stdout
    } else {
        ArchiveDestination::File(tar.to_owned())
    }
}

fn path_layout(args: &BatchArgs) -> PathLayout {
    match (&args.output_template, args.layout) {
        (Some(template), _) => PathLayout::Template(template.clone()),
        (None, Some(LayoutKind::Path)) => PathLayout::Path,
        (None, Some(LayoutKind::Hash)) => PathLayout::Hash,
        (None, Some(LayoutKind::Name) | None) => PathLayout::Name,
    }
}

impl BatchWorkload {
    /// Connections to one origin that are worth keeping between two files.
    pub(super) fn idle_connections(&self) -> usize {
        let dispatch = &self.options.dispatch;
        dispatch.per_host.max().min(dispatch.request_slots)
    }
}

/// Completes the passwords of URLs and patterns that name a user.
pub(super) fn complete_logins(
    sources: &mut [JobSource],
    credentials: &haul_net::UserCredentials,
) -> Result<(), SettingError> {
    complete_passwords(
        sources.iter_mut().filter_map(JobSource::url_mut),
        credentials,
    )
}
