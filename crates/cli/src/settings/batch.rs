//! Whether the arguments make a batch, and which.
//!
//! A few URLs are downloads that are watched one by one: a bar each, names from the origin, an exit code of their own. What comes
//! from a list, or is more than would be watched, is a batch: counted, accounted for, in bounded memory.

use std::fs::File;
use std::io::{self, Seek as _};
use std::path::Path;

use haul_plan::dispatch::{HostRequestLimit, JobDispatcherOptions};
use haul_plan::{ContentExpectation, ErrorLimit, PathLayout};
use haul_transfer::ConnectionCount;
use haul_transfer::archive::ArchiveDestination;
use haul_transfer::batch::{BatchOptions, CommitGroupOptions};
use haul_transfer::list::{BadLine, BadLineProblem, DownloadList, ListEntry, ListFormat};

use super::SettingError;
use super::credentials::complete;
use crate::args::{BatchArgs, GetArgs, LayoutKind, ListFormatArg, OnErrorArg};
use crate::sources::{JobSourceArg, JobSourceArgs};
use crate::{message, sys};

/// More URLs than this are a batch. These all go on at once, with a line each: what hides the round trips of small files; large
/// ones share the connections to their origin anyway.
const FEW: u64 = 16;

/// Many files.
#[derive(Debug)]
pub(crate) struct BatchWorkload {
    /// Settings of all together.
    pub(crate) options: BatchOptions,
    /// What names them.
    pub(crate) sources: JobSourceArgs,
}

/// Whether what the arguments name is a batch.
pub(super) fn is_batch(args: &GetArgs, sources: &[JobSourceArg]) -> bool {
    let BatchArgs {
        // What they name is among the sources.
        input: _,
        mirror,
        // These say how to read something, not what becomes of it.
        input_format: _,
        globoff: _,
        jobs,
        max_connections_total,
        layout,
        output_template,
        tar,
        // It says how the archive is written.
        shard_size: _,
        manifest,
        expect_type,
        min_size,
        max_size,
        max_errors,
        on_error,
    } = &args.batch;
    let asked = [
        sources.iter().any(JobSourceArg::is_list),
        jobs.is_some(),
        max_connections_total.is_some(),
        layout.is_some(),
        output_template.is_some(),
        tar.is_some(),
        manifest.is_some(),
        !expect_type.is_empty(),
        min_size.is_some(),
        max_size.is_some(),
        max_errors.is_some(),
        on_error.is_some(),
        // Only files that are fetched by one request each share a connection.
        args.connection.http2,
    ];
    let files = sources.iter().map(JobSourceArg::count);
    let many = !mirror && files.fold(0, u64::saturating_add) > FEW;
    many || asked.contains(&true)
}

/// What files must be.
pub(super) fn expectation(args: &BatchArgs) -> Result<ContentExpectation, SettingError> {
    let (min, max) = (
        args.min_size.map(|size| size.0),
        args.max_size.map(|size| size.0),
    );
    if min.zip(max).is_some_and(|(min, max)| min > max) {
        return Err(SettingError::new("--min-size is more than --max-size"));
    }
    Ok(ContentExpectation {
        media_types: args.expect_type.clone(),
        min_length: min,
        max_length: max,
        exact_length: None,
    })
}

/// Opens the lists.
pub(super) fn lists(args: &BatchArgs) -> Result<Vec<JobSourceArg>, SettingError> {
    let from_stdin = args.input.iter().filter(|path| is_stdin(path)).count();
    if from_stdin > 1 {
        let error = SettingError::new("-i - is given twice");
        return Err(error.hint("standard input can be read once"));
    }
    let format = args.input_format.map(format);
    let open = |path: &std::path::PathBuf| open(path, format);
    args.input.iter().map(open).collect()
}

fn is_stdin(path: &Path) -> bool {
    // `./-` is a file of that name.
    path.as_os_str() == "-"
}

fn open(path: &Path, format: Option<ListFormat>) -> Result<JobSourceArg, SettingError> {
    if is_stdin(path) {
        // `/dev/null` stands in its place, and would be a list that names nothing.
        if sys::stdin_closed() {
            let error = SettingError::new("-i: cannot read standard input: it is closed");
            return Err(error.hint("pipe a list into it, or name a file"));
        }
        return Ok(JobSourceArg::Stdin(format));
    }
    let name = path.display().to_string();
    let wrong =
        |error: io::Error| SettingError::new(format!("-i: cannot read {name}")).because(error);
    let mut file = File::open(path).map_err(wrong)?;
    let kind = file.metadata().map_err(wrong)?;
    if kind.is_dir() {
        return Err(SettingError::new(format!("-i: {name} is a directory")));
    }
    // Whether it is a document, and so perhaps a few downloads, is looked at where that takes nothing away and waits for nobody.
    if kind.is_file() && matches!(format, None | Some(ListFormat::Metalink)) {
        let again = file.try_clone().map_err(wrong)?;
        let list = DownloadList::open(Box::new(again), format, &name);
        if list.format() == ListFormat::Metalink {
            return document(list.collect(), &name);
        }
        file.rewind().map_err(wrong)?;
    }
    Ok(JobSourceArg::List { name, file, format })
}

/// A Metalink document, unless there is nothing in it to download.
fn document(
    files: Vec<Result<ListEntry, BadLine>>,
    name: &str,
) -> Result<JobSourceArg, SettingError> {
    if files.iter().any(Result::is_ok) {
        return Ok(JobSourceArg::Document(files));
    }
    let of_no_use = |bad: &&BadLine| !matches!(bad.problem, BadLineProblem::NoHttpUrl);
    let mut bad = files.iter().filter_map(|file| file.as_ref().err());
    Err(match bad.find(of_no_use) {
        Some(BadLine { line, problem, .. }) => {
            let why = format!("line {line}: {}", message::chain(problem));
            SettingError::new(format!("-i: {name} cannot be used")).because(why)
        }
        None => SettingError::new(format!("-i: {name} names no http or https URL"))
            .hint("haul downloads http:// and https://"),
    })
}

fn format(format: ListFormatArg) -> ListFormat {
    match format {
        ListFormatArg::Plain => ListFormat::Plain,
        ListFormatArg::Aria2 => ListFormat::Aria2,
        ListFormatArg::Csv => ListFormat::Csv,
        ListFormatArg::Tsv => ListFormat::Tsv,
        ListFormatArg::Jsonl => ListFormat::JsonLines,
        ListFormatArg::Metalink => ListFormat::Metalink,
    }
}

/// A batch of what arguments and lists name.
pub(super) fn many(
    args: &GetArgs,
    connections: ConnectionCount,
    sources: Vec<JobSourceArg>,
) -> Result<BatchWorkload, SettingError> {
    let options = options(args, connections)?;
    Ok(BatchWorkload {
        options,
        sources: JobSourceArgs::new(sources),
    })
}

/// The settings of a batch.
fn options(args: &GetArgs, connections: ConnectionCount) -> Result<BatchOptions, SettingError> {
    if args.output.file.is_some() {
        return Err(super::few::several());
    }
    if args.output.checksum.iter().any(|sum| sum.digest.is_some()) {
        let error = SettingError::new("--checksum has a digest, but there are several files");
        return Err(error.hint("a list may have one for each: in a column sha256, or as checksum="));
    }
    let checksums = args.output.checksum.clone();
    if args.batch.is_tar_to_stdout() {
        to_stdout(args)?;
    }
    shards(&args.batch)?;
    let each = args.messages.json || args.messages.verbose || !checksums.is_empty();
    Ok(BatchOptions {
        directory: args.output.directory.clone().unwrap_or_default(),
        dispatch: dispatch(&args.batch, connections),
        layout: layout(&args.batch),
        error_limit: match (args.batch.max_errors, args.batch.on_error) {
            (Some(limit), _) => Some(limit),
            (None, Some(OnErrorArg::Stop)) => Some(ErrorLimit::Count(0)),
            (None, Some(OnErrorArg::Continue) | None) => None,
        },
        checksums,
        report_every_row: each,
        commit_group: group(),
        ..BatchOptions::default()
    })
}

/// How many files share a sync: each of them is open until then, and so are those of the group before.
fn group() -> CommitGroupOptions {
    let defaults = CommitGroupOptions::default();
    let files = crate::limits::open_files().map_or(defaults.max_files, |most| {
        // Connections need some, too.
        usize::try_from(most / 8).unwrap_or(usize::MAX)
    });
    CommitGroupOptions {
        max_files: files.clamp(4, defaults.max_files),
        ..defaults
    }
}

/// What else would go where the archive goes.
fn to_stdout(args: &GetArgs) -> Result<(), SettingError> {
    let other = match args.messages.json {
        true => "--json",
        false if !args.output.checksum.is_empty() && args.batch.manifest.is_none() => "--checksum",
        false => return Ok(()),
    };
    let error = SettingError::new(format!("{other} and --tar - both write to standard output"));
    Err(error.hint("--manifest FILE has results and digests, too"))
}

/// That there are several archives only where there can be.
fn shards(args: &BatchArgs) -> Result<(), SettingError> {
    match &args.tar {
        Some(tar) if args.shard_size.is_some() && destination(tar).is_stream() => {
            let tar = tar.display();
            let text =
                format!("--shard-size makes several archives, and --tar {tar} is one stream");
            let hint = "leave out --shard-size, or give --tar the name of a file";
            Err(SettingError::new(text).hint(hint))
        }
        _ => Ok(()),
    }
}

/// Where `--tar` says that an archive goes.
pub(crate) fn destination(tar: &Path) -> ArchiveDestination {
    // `./-` is a file of that name.
    match tar.as_os_str() == "-" {
        true => ArchiveDestination::Stdout,
        false => ArchiveDestination::File(tar.to_owned()),
    }
}

fn layout(args: &BatchArgs) -> PathLayout {
    match (&args.output_template, args.layout) {
        (Some(template), _) => PathLayout::Template(template.clone()),
        (None, Some(LayoutKind::Path)) => PathLayout::Path,
        (None, Some(LayoutKind::Hash)) => PathLayout::Hash,
        (None, Some(LayoutKind::Name) | None) => PathLayout::Name,
    }
}

/// How many at once. Who asks for more files at once than one origin would get means that origin, too.
fn dispatch(args: &BatchArgs, connections: ConnectionCount) -> JobDispatcherOptions {
    let defaults = JobDispatcherOptions::default();
    let jobs = args.jobs.map(usize::from);
    let total = args.max_connections_total.map(usize::from);
    JobDispatcherOptions {
        max_jobs: jobs,
        per_host: match connections {
            ConnectionCount::Fixed(n) => HostRequestLimit::Fixed(n),
            ConnectionCount::Auto { .. } => HostRequestLimit::Auto {
                max: defaults.per_host.max().max(jobs.unwrap_or(0)),
            },
        },
        request_slots: total.unwrap_or_else(|| {
            // A quarter of what may be open: files take as much again.
            let room = crate::limits::open_files().map_or(usize::MAX, |most| {
                usize::try_from(most / 4).unwrap_or(usize::MAX)
            });
            let fixed = match connections {
                ConnectionCount::Fixed(n) => n,
                ConnectionCount::Auto { .. } => 0,
            };
            let wanted = defaults.request_slots.max(jobs.unwrap_or(0)).max(fixed);
            wanted.min(room.max(1))
        }),
        ..defaults
    }
}

impl BatchWorkload {
    /// Connections to one origin that are worth keeping between two files.
    pub(super) fn idle(&self) -> usize {
        let dispatch = &self.options.dispatch;
        dispatch.per_host.max().min(dispatch.request_slots)
    }
}

/// Gives URLs and globs that name a user the password that is meant.
pub(super) fn log_in(
    sources: &mut [JobSourceArg],
    credentials: &haul_net::UserCredentials,
) -> Result<(), SettingError> {
    complete(
        sources.iter_mut().filter_map(JobSourceArg::url_mut),
        credentials,
    )
}
