//! Flags of `haul get` for many files: lists, how many files at once, names, checks, and how many files may fail.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use haul_transfer::batch::{ErrorLimit, RequestRate};
use haul_transfer::list::ListFormat;
use haul_transfer::{MediaRange, PathTemplate};

use super::values::{SizeArg, choice, job_count};

/// Flags that name many files and say what to do with them.
#[derive(Debug, Args)]
#[command(next_help_heading = "Lists")]
pub(crate) struct BatchArgs {
    /// Download the files in LIST; `-` is standard input. Repeatable.
    ///
    /// Formats: one URL a line; aria2 input files, with mirrors separated by tabs and indented options (out=, dir=, checksum=, header=);
    /// CSV, TSV or JSON lines with url, path, sha256 and size; Metalink documents. gzip and zstd lists are decompressed. haul starts
    /// downloading while it reads the list, and does not hold the list in memory; it reads a Metalink document completely first.
    #[arg(short, long, value_name = "LIST", conflicts_with = "file")]
    pub(crate) input: Vec<PathBuf>,
    /// Format of the lists [default: detected from the first line].
    #[arg(long, value_name = "FORMAT", requires = "input", value_parser = choice([
        ("plain", ListFormat::Plain, "One URL a line; tabs and indents have no meaning"),
        ("aria2", ListFormat::Aria2, "An aria2 input file"),
        ("csv", ListFormat::Csv, "Comma-separated, with a header row that names the columns"),
        ("tsv", ListFormat::Tsv, "Tab-separated, with a header row"),
        ("jsonl", ListFormat::JsonLines, "One JSON object a line"),
        ("metalink", ListFormat::Metalink, "A Metalink document"),
    ]))]
    pub(crate) input_format: Option<ListFormat>,
    /// Do not expand brackets and braces in URLs.
    ///
    /// By default `img[001-100].jpg` and `{a,b}.txt` stand for many URLs, as in curl.
    #[arg(short, long)]
    pub(crate) globoff: bool,
    /// Download at most N files at once [default: automatic, up to 128 for each origin].
    #[arg(
        short,
        long,
        value_name = "N",
        value_parser = job_count,
        allow_negative_numbers = true,
        conflicts_with = "file"
    )]
    pub(crate) jobs: Option<u16>,
    /// Receive data for at most N files at once, over all origins [default: 256, or the number of -j].
    ///
    /// -x sets the number for each origin.
    #[arg(
        long,
        value_name = "N",
        value_parser = job_count,
        allow_negative_numbers = true,
        conflicts_with = "file"
    )]
    pub(crate) max_connections_total: Option<u16>,
    /// Send at most N requests a second to each origin; 0.5 is one every two seconds.
    ///
    /// haul counts one request for each try of a file. It does not count the other segments of a large file, or redirects.
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        conflicts_with = "file"
    )]
    pub(crate) rate_per_host: Option<RequestRate>,
    /// Download one file from all URLs at once, and from mirrors that its origins name (Link header fields).
    ///
    /// haul fetches segments from each mirror, and drops a mirror that is unavailable, is slow, or has another version of the file. Lists
    /// name their mirrors themselves; with a list this flag allows mirrors that origins name. haul may then contact hosts that you did not
    /// name.
    #[arg(long)]
    pub(crate) mirror: bool,
    /// How to name files in DIR [default: name].
    #[arg(
        long,
        value_enum,
        value_name = "LAYOUT",
        conflicts_with_all = ["output_template", "file"]
    )]
    pub(crate) layout: Option<LayoutKind>,
    /// Name files by TEMPLATE, as `{host}/{index:06}.{ext}`.
    ///
    /// {index} is the number of the job, from 0; {line} is the number of its line; both take a width. {host}, {dir}, {name}, {stem} and
    /// {ext} come from the URL, {hash} is the URL's SHA-256. `{{` and `}}` are braces.
    #[arg(long, value_name = "TEMPLATE", conflicts_with = "file")]
    pub(crate) output_template: Option<PathTemplate>,
    /// Write the files into a tar archive instead of DIR; `-` is standard output.
    ///
    /// Entries have the paths that the files would have. With --manifest the same command continues an interrupted archive.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["file", "directory", "overwrite", "update"]
    )]
    pub(crate) tar: Option<PathBuf>,
    /// Start a new archive when the current one would exceed SIZE.
    ///
    /// `--tar t.tar` then makes t-000000.tar, t-000001.tar and so on; each gets its name when it is complete.
    #[arg(
        long,
        value_name = "SIZE",
        allow_negative_numbers = true,
        requires = "tar"
    )]
    pub(crate) shard_size: Option<SizeArg>,
    /// Write a row for each file into FILE, and skip files that FILE lists as done.
    ///
    /// FILE ends in .jsonl or .csv. haul writes a row when the file is on disk: url, path, state, status, bytes, checksum, etag, attempts,
    /// times, error. The same command then fetches only the missing files.
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    pub(crate) manifest: Option<PathBuf>,
    /// Accept only these media types: image/*,application/pdf.
    ///
    /// haul checks the Content-Type before it reads the body. A file of another type fails, with exit code 1.
    #[arg(
        long,
        value_name = "TYPES",
        value_delimiter = ',',
        conflicts_with = "file"
    )]
    pub(crate) expect_type: Vec<MediaRange>,
    /// Refuse files smaller than SIZE.
    #[arg(
        long,
        value_name = "SIZE",
        allow_negative_numbers = true,
        conflicts_with = "file"
    )]
    pub(crate) min_size: Option<SizeArg>,
    /// Refuse files larger than SIZE.
    #[arg(
        long,
        value_name = "SIZE",
        allow_negative_numbers = true,
        conflicts_with = "file"
    )]
    pub(crate) max_size: Option<SizeArg>,
    /// Stop when more than N files have failed, or more than P% once 100 files have ended.
    #[arg(
        long,
        value_name = "N|P%",
        allow_negative_numbers = true,
        conflicts_with_all = ["on_error", "file"]
    )]
    pub(crate) max_errors: Option<ErrorLimit>,
    /// What to do when a file fails [default: continue].
    #[arg(long, value_enum, value_name = "WHAT", conflicts_with = "file")]
    pub(crate) on_error: Option<OnErrorArg>,
}

/// How to name files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LayoutKind {
    /// The last part of the URL, all in one directory; equal names get a suffix, the same one on every run.
    Name,
    /// Host and path of the URL.
    Path,
    /// `ab/cd/` and the SHA-256 of the URL.
    Hash,
}

/// What to do when a file fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnErrorArg {
    /// Continue with the other files.
    Continue,
    /// Start no more files, and stop the running ones.
    Stop,
}

impl BatchArgs {
    pub(crate) fn is_tar_to_stdout(&self) -> bool {
        // `./-` names a file.
        self.tar.as_ref().is_some_and(|tar| tar.as_os_str() == "-")
    }
}
