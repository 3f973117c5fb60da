//! `haul get`, of many files: the lists that name them, how many go on at once, where they go, what they must be, and how many of
//! them may fail.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use haul_plan::{ErrorLimit, MediaRange, PathTemplate};

use super::values::{SizeArg, job_count};

/// What names many files, and how they are told from one.
#[derive(Debug, Args)]
#[command(next_help_heading = "Lists")]
pub(crate) struct BatchArgs {
    /// Download what LIST names; `-` is standard input. Repeatable.
    ///
    /// A URL a line; or as aria2 reads it, with mirrors behind tabs and indented options (out=, dir=, checksum=, header=); or
    /// CSV, TSV or JSON lines with url, path, sha256 and size; or a Metalink document. gzip and zstd are undone. Downloads begin before the list has been read, and none of it
    /// is held in memory; but a document is read first.
    #[arg(short, long, value_name = "LIST", conflicts_with = "file")]
    pub(crate) input: Vec<PathBuf>,
    /// How lists are written [default: found by their first line].
    #[arg(long, value_enum, value_name = "FORMAT", requires = "input")]
    pub(crate) input_format: Option<ListFormatArg>,
    /// Take brackets and braces in URLs as they are.
    ///
    /// Without it `img[001-100].jpg` and `{a,b}.txt` stand for many URLs, as curl reads them.
    #[arg(short, long)]
    pub(crate) globoff: bool,
    /// At most N files at once [default: found by itself, up to 128 of an origin].
    #[arg(
        short,
        long,
        value_name = "N",
        value_parser = job_count,
        allow_negative_numbers = true,
        conflicts_with = "file"
    )]
    pub(crate) jobs: Option<u16>,
    /// At most N files at once that are answered, over all origins [default: 256, or as many as -j].
    ///
    /// -x is the number for each origin.
    #[arg(
        long,
        value_name = "N",
        value_parser = job_count,
        allow_negative_numbers = true,
        conflicts_with = "file"
    )]
    pub(crate) max_connections_total: Option<u16>,
    /// Fetch one file from all URLs at once, and from the mirrors that its origins name (Link fields).
    ///
    /// Segments come from each of them; one that is gone, is slow, or has another version of the file is left out. With lists, which have
    /// mirrors of their own, it allows those that origins name. Other hosts than those you named may be asked then.
    #[arg(long)]
    pub(crate) mirror: bool,
    /// How files are named under DIR [default: name].
    #[arg(
        long,
        value_enum,
        value_name = "LAYOUT",
        conflicts_with_all = ["output_template", "file"]
    )]
    pub(crate) layout: Option<LayoutKind>,
    /// Name files by TEMPLATE, as `{host}/{index:06}.{ext}`.
    ///
    /// {index} is the number of the job, from 0, {line} that of its line; both take a width. {host}, {dir}, {name}, {stem} and {ext} are of the
    /// URL, {hash} is its SHA-256. `{{` and `}}` are braces.
    #[arg(long, value_name = "TEMPLATE", conflicts_with = "file")]
    pub(crate) output_template: Option<PathTemplate>,
    /// Put files into a tar archive in place of DIR; `-` is standard output.
    ///
    /// Entries have the paths that files would have. With --manifest an archive that was interrupted is gone on with.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["file", "directory", "overwrite", "update"]
    )]
    pub(crate) tar: Option<PathBuf>,
    /// Begin another archive when one would be larger than this.
    ///
    /// Of `--tar t.tar` that makes t-000000.tar, t-000001.tar and so on; each gets its name when it is whole.
    #[arg(
        long,
        value_name = "SIZE",
        allow_negative_numbers = true,
        requires = "tar"
    )]
    pub(crate) shard_size: Option<SizeArg>,
    /// Write a row for each file into FILE, and pass over those that it says are done.
    ///
    /// FILE ends in .jsonl or .csv. A row is written when its file is durable: url, path, state, status, bytes, checksum, etag,
    /// attempts, times, error. The same command then fetches what is missing only.
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    pub(crate) manifest: Option<PathBuf>,
    /// Take only files whose media type is one of these: image/*,application/pdf.
    ///
    /// What the origin says it is, before a byte of it is taken. Anything else is a failure, with exit code 1.
    #[arg(
        long,
        value_name = "TYPES",
        value_delimiter = ',',
        conflicts_with = "file"
    )]
    pub(crate) expect_type: Vec<MediaRange>,
    /// Take no file smaller than this.
    #[arg(
        long,
        value_name = "SIZE",
        allow_negative_numbers = true,
        conflicts_with = "file"
    )]
    pub(crate) min_size: Option<SizeArg>,
    /// Take no file larger than this.
    #[arg(
        long,
        value_name = "SIZE",
        allow_negative_numbers = true,
        conflicts_with = "file"
    )]
    pub(crate) max_size: Option<SizeArg>,
    /// Stop when more than N files have failed, or P% of at least a hundred.
    #[arg(
        long,
        value_name = "N|P%",
        allow_negative_numbers = true,
        conflicts_with_all = ["on_error", "file"]
    )]
    pub(crate) max_errors: Option<ErrorLimit>,
    /// What the first failure leads to [default: continue].
    #[arg(long, value_enum, value_name = "WHAT", conflicts_with = "file")]
    pub(crate) on_error: Option<OnErrorArg>,
}

/// How files are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LayoutKind {
    /// The last part of the URL, all in one directory; of equal names one gets a suffix, the same one on every run.
    Name,
    /// Host and path as in the URL.
    Path,
    /// `ab/cd/` and the SHA-256 of the URL.
    Hash,
}

/// What a failure leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnErrorArg {
    /// The others go on.
    Continue,
    /// Nothing more is begun, and what runs is stopped.
    Stop,
}

impl BatchArgs {
    /// Whether an archive goes to standard output.
    pub(crate) fn is_tar_to_stdout(&self) -> bool {
        // `./-` is a file of that name.
        self.tar.as_ref().is_some_and(|tar| tar.as_os_str() == "-")
    }
}

/// How a list is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ListFormatArg {
    /// A URL a line; tabs and indents mean nothing.
    Plain,
    /// As aria2 reads it.
    Aria2,
    /// Commas, with a header that names the columns.
    Csv,
    /// The same with tabs.
    Tsv,
    /// A JSON object a line.
    Jsonl,
    /// A Metalink document.
    Metalink,
}
