//! Builds the jobs of single downloads, from URLs and Metalink documents.

use std::collections::HashSet;

use haul_transfer::list::{BadLine, ListEntry};
use haul_transfer::{DownloadJob, JobOutput};
use url::Url;

use super::SettingError;
use super::checksums::checksums_of;
use crate::args::GetArgs;
use haul_transfer::{JobSource, JobSources};

/// More mirrors of one file are a mistake.
const MAX_MIRRORS: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct SingleDownloads {
    pub(crate) jobs: Vec<DownloadJob>,
    /// Files of documents that cannot be downloaded.
    pub(crate) unusable: Vec<BadLine>,
}

/// A job for each URL, or one for all of them, and one for each file of a document.
pub(super) fn single_downloads(
    args: &GetArgs,
    sources: Vec<JobSource>,
) -> Result<SingleDownloads, SettingError> {
    let mut files = Vec::new();
    let mut unusable = Vec::new();
    let mut named = Vec::new();
    for source in sources {
        match source {
            JobSource::Document(document) => {
                for file in document {
                    match file {
                        Ok(file) => files.push(file),
                        Err(error) => unusable.push(error),
                    }
                }
            }
            source => named.push(source),
        }
    }
    let urls = collect_urls(named)?;
    if args.output.file.is_some() && urls.len() > 1 && !args.batch.mirror {
        return Err(several_urls_error());
    }
    check_urls_are_unique(&urls)?;
    let typed = urls.clone();
    let mut jobs: Vec<DownloadJob> = if args.batch.mirror {
        mirrored_job(args, urls)?.into_iter().collect()
    } else {
        let jobs = urls.into_iter().map(|url| plain_job(args, url));
        jobs.collect::<Result<_, _>>()?
    };
    for file in files {
        jobs.push(document_job(args, file, &typed)?);
    }
    for (id, job) in (0..).zip(&mut jobs) {
        job.id = id;
    }
    Ok(SingleDownloads { jobs, unusable })
}

/// All URLs. There may be more mirrors of one file than single downloads.
fn collect_urls(named: Vec<JobSource>) -> Result<Vec<Url>, SettingError> {
    let mut urls = Vec::new();
    for entry in JobSources::new(named) {
        let entry = entry
            .map_err(|unusable| SettingError::new("a URL cannot be used").caused_by(unusable))?;
        if urls.len() > MAX_MIRRORS {
            return Err(SettingError::new(format!(
                "there are more than {MAX_MIRRORS} mirrors"
            )));
        }
        urls.push(entry.url);
    }
    Ok(urls)
}

pub(super) fn several_urls_error() -> SettingError {
    SettingError::new("-o names one file, but there are several URLs")
        .with_hint("use -d DIR for several files, or --mirror if all URLs are the same file")
}

/// Checks that no URL is given twice, which would write one file twice. Different URLs may do so, too, but the names that origins give are
/// not known yet.
fn check_urls_are_unique(urls: &[Url]) -> Result<(), SettingError> {
    let mut seen = HashSet::new();
    for url in urls {
        let mut bare = url.clone();
        // The fragment is not sent to the origin.
        bare.set_fragment(None);
        if !seen.insert(bare) {
            let shown = haul_net::redacted_url(url);
            let error = SettingError::new(format!("{shown} is given twice"));
            return Err(error.with_hint("leave one out: both would write the same file"));
        }
    }
    Ok(())
}

fn plain_job(args: &GetArgs, url: Url) -> Result<DownloadJob, SettingError> {
    let output = &args.output;
    let place = match &output.file {
        Some(_) if output.is_stdout() => JobOutput::Stdout,
        Some(file) => JobOutput::File(match &output.directory {
            Some(directory) => directory.join(file),
            None => file.clone(),
        }),
        // An empty directory joined with a name is the name alone, and messages show it like that.
        None => JobOutput::Directory(output.directory.clone().unwrap_or_default()),
    };
    Ok(DownloadJob {
        checksums: checksums_of(output, &url)?,
        ..DownloadJob::new(0, url, place)
    })
}

/// One file that all URLs have.
fn mirrored_job(args: &GetArgs, urls: Vec<Url>) -> Result<Option<DownloadJob>, SettingError> {
    let mut urls = urls.into_iter();
    let Some(first) = urls.next() else {
        return Ok(None);
    };
    Ok(Some(DownloadJob {
        mirrors: urls.collect(),
        ..plain_job(args, first)?
    }))
}

/// A file of a Metalink document, under its name there. The author of the document is not the user: its hosts get credentials only if the
/// user typed a URL with them.
fn document_job(
    args: &GetArgs,
    file: ListEntry,
    typed: &[Url],
) -> Result<DownloadJob, SettingError> {
    let job = plain_job(args, file.url)?;
    let directory = args.output.directory.clone().unwrap_or_default();
    Ok(DownloadJob {
        mirrors: file.mirrors,
        output: match file.path {
            Some(path) => JobOutput::File(directory.join(path)),
            None => job.output,
        },
        checksums: file.checksums.into_iter().chain(job.checksums).collect(),
        piece_digests: file.pieces,
        credential_urls: Some(typed.to_vec()),
        expected_size: file.size,
        headers: file.headers,
        ..job
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use haul_transfer::list::DownloadList;

    use super::*;
    use crate::args::{CliArgs, CliCommand};

    #[test]
    fn only_typed_urls_are_trusted_with_credentials() {
        let command = CliArgs::try_parse_from(["haul", "get", "http://h.test/f"]);
        let CliCommand::Get(args) = command.unwrap().command else {
            unreachable!()
        };
        let document = b"<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\"><file name=\"g\">\
            <url>http://m.test/g</url><url>http://h.test/g</url></file></metalink>";
        let files = DownloadList::open(Box::new(&document[..]), None, "d").collect();
        let url: Url = "http://h.test/f".parse().unwrap();
        let typed = JobSource::Url(url.clone());
        let [plain, documented] = &single_downloads(&args, vec![typed, JobSource::Document(files)])
            .unwrap()
            .jobs[..]
        else {
            panic!("two files")
        };
        assert_eq!(plain.credential_urls, None);
        assert_eq!(documented.credential_urls, Some(vec![url]));
        assert_eq!(documented.url.as_str(), "http://m.test/g");
    }
}
