//! Resolves the arguments of `haul get`.

use std::path::Path;

use haul_net::{ClientConfig, RedirectOptions};
use haul_plan::HttpVersionChoice;
use haul_s3::S3Address;
use haul_transfer::{
    ConnectionCount, ExistingFilePolicy, GetOptions, Glob, JobOutput, default_state_directory,
};
use url::Url;

use super::{
    BatchWorkload, SettingError, SingleDownloads, add_login, batch, connection_config,
    download_limits, retry_options, single_downloads,
};
use crate::args::{DownloadUrl, GetArgs, UrlArg};
use haul_transfer::JobSource;
use haul_transfer::bucket::NamedObjects;

/// The resolved settings of `haul get`.
#[derive(Debug)]
pub(crate) struct GetSettings {
    pub(crate) client: ClientConfig,
    pub(crate) options: GetOptions,
    pub(crate) task: GetTask,
}

/// What `haul get` downloads.
#[derive(Debug)]
pub(crate) enum GetTask {
    /// Single downloads, each with a line of progress.
    Single(SingleDownloads),
    Batch(Box<BatchWorkload>),
}

impl GetTask {
    /// The directories of files whose full path is known.
    pub(crate) fn directories(&self) -> impl Iterator<Item = &Path> {
        let jobs = match self {
            Self::Single(few) => few.jobs.as_slice(),
            Self::Batch(_) => &[],
        };
        jobs.iter().filter_map(|job| match &job.output {
            JobOutput::File(path) => path.parent().filter(|path| !path.as_os_str().is_empty()),
            _ => None,
        })
    }
}

impl GetSettings {
    /// Resolves the arguments. Reads the files they name; may ask for a password.
    ///
    /// # Errors
    /// Flags that contradict each other, files that cannot be read or used.
    pub(crate) fn resolve(args: &GetArgs) -> Result<Self, SettingError> {
        if args.output.is_stdout() && args.messages.json {
            return Err(
                SettingError::new("--json and -o - both write to standard output")
                    .with_hint("give -o a file"),
            );
        }
        let mut named = job_sources(args)?;
        let urls = named
            .iter()
            .map(|source| match source {
                JobSource::Url(url) => Some(url.clone()),
                _ => None,
            })
            .collect::<Option<Vec<Url>>>()
            .filter(|_| args.batch.input.is_empty());
        let mut client = client_config(args, urls.as_deref())?;
        let options = GetOptions {
            expected_content: batch::content_expectation(&args.batch)?,
            mirror_links: args.batch.mirror,
            ..get_options(args)
        };
        batch::complete_logins(&mut named, &client.credentials)?;
        let urls = named.len();
        named.extend(batch::open_lists(&args.batch)?);
        if args.batch.mirror && urls > 0 && named.len() > urls {
            let error = SettingError::new(
                "--mirror downloads one file from all URLs, and cannot be used with lists",
            );
            return Err(error.with_hint("a list names mirrors itself, separated by tabs"));
        }
        let task = if batch::is_batch(args, &named) {
            let many = batch::batch_workload(args, options.connections, named)?;
            client.max_idle_per_host = client.max_idle_per_host.max(many.idle_connections());
            client.max_idle = client.max_idle.max(many.options.dispatch.request_slots);
            GetTask::Batch(Box::new(many))
        } else {
            GetTask::Single(single_downloads::single_downloads(args, named)?)
        };
        Ok(Self {
            client,
            options,
            task,
        })
    }
}

/// The URLs and patterns on the command line.
fn job_sources(args: &GetArgs) -> Result<Vec<JobSource>, SettingError> {
    let url = |text: &UrlArg| match text {
        UrlArg::Url(url) if url.0.scheme() == "s3" => object_source(args, &url.0),
        UrlArg::Url(_) if args.recursive => {
            Err(SettingError::new("-r downloads s3:// prefixes only")
                .with_hint("haul follows no links; -i LIST downloads the URLs of a list"))
        }
        UrlArg::Url(url) => Ok(JobSource::Url(url.0.clone())),
        UrlArg::Glob(text) if args.batch.globoff => parse_url(text).map(JobSource::Url),
        UrlArg::Glob(text) => parse_glob(text),
    };
    args.urls.iter().map(url).collect()
}

/// The object, or the objects, that an address names.
fn object_source(args: &GetArgs, url: &Url) -> Result<JobSource, SettingError> {
    let address = S3Address::from_url(url)
        .map_err(|error| SettingError::new("the address cannot be used").caused_by(error))?;
    let has_patterns = !args.batch.globoff;
    let named = NamedObjects::new(&address, args.recursive, has_patterns, &args.filter.filter);
    if let NamedObjects::Selection(selection) = named {
        return Ok(JobSource::Objects(selection));
    }
    if address.is_prefix() {
        Err(
            SettingError::new(format!("{address} is a bucket or a folder"))
                .with_hint("-r downloads everything below it"),
        )
    } else {
        Ok(JobSource::Url(url.clone()))
    }
}

fn parse_url(text: &str) -> Result<Url, SettingError> {
    Ok(text.parse::<DownloadUrl>()?.0)
}

fn parse_glob(text: &str) -> Result<JobSource, SettingError> {
    let to_error = |error| {
        let text = format!("{} cannot be read", haul_net::redacted_text(text));
        SettingError::new(text)
            .caused_by(error)
            .with_hint("-g/--globoff turns brackets and braces off")
    };
    let glob = Glob::parse(text).map_err(to_error)?;
    let first = glob.nth(0).unwrap_or_default();
    let first = parse_url(&first)?;
    Ok(match glob.len() {
        1 => JobSource::Url(first),
        _ => JobSource::Glob { glob, first },
    })
}

fn get_options(args: &GetArgs) -> GetOptions {
    let defaults = GetOptions::default();
    GetOptions {
        connections: args
            .speed
            .max_connections
            .map_or(defaults.connections, |n| ConnectionCount::Fixed(n.into())),
        min_segment_size: args.speed.min_segment_size.map(|size| size.0),
        segment_size: args.speed.segment_size.map(|size| size.0),
        resume: !args.output.no_resume,
        existing_file: match (args.output.overwrite, args.output.update) {
            (true, _) => ExistingFilePolicy::Overwrite,
            (_, true) => ExistingFilePolicy::Update,
            _ => ExistingFilePolicy::Keep,
        },
        decode_content: args.output.decode,
        robots_tag: args.output.robots_tag,
        retry: retry_options(&args.connection),
        limits: download_limits(&args.limits),
        notes_directory: default_state_directory("files"),
        ..defaults
    }
}

/// `urls` are those of the command, `None` if a list or a pattern may name any others.
fn client_config(args: &GetArgs, urls: Option<&[Url]>) -> Result<ClientConfig, SettingError> {
    let mut connection = connection_config(&args.connection, urls)?;
    connection.connector.rate_limit = args.speed.limit_rate.map(|size| size.0);
    add_login(&args.request.login, &mut connection)?;
    Ok(ClientConfig {
        http_version: match (args.version.http1, args.version.http2) {
            (true, _) => HttpVersionChoice::Http1,
            (_, true) => HttpVersionChoice::Http2,
            _ => HttpVersionChoice::Auto,
        },
        redirects: RedirectOptions {
            max_redirects: args.request.max_redirs,
            allow_downgrade: args.request.allow_downgrade,
        },
        max_idle_per_host: args
            .speed
            .max_connections
            .map_or(connection.max_idle_per_host, usize::from),
        ..connection
    })
}

#[cfg(test)]
mod tests;
