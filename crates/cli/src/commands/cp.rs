//! `haul cp`: copies objects inside a store.

use std::collections::{HashSet, VecDeque};
use std::process::ExitCode;

use haul_plan::{KeyFilter, KeyPattern};
use haul_s3::{ListedObject, S3Address};
use haul_transfer::bucket::{BucketError, ObjectLister, StoreSession, retrying};
use haul_transfer::put::{SourceObject, UploadInput, UploadJob};
use http::HeaderMap;
use tokio::runtime::Handle;

use super::objects::{bucket_hint, report};
use super::run_loop::{RunLoop, new_runtime};
use super::uploads::{
    BadInput, FoundUpload, UploadJobSource, UploadRun, UploadSettings, connect, dry_run,
    storage_headers,
};
use crate::args::{CpArgs, ProgressKind};
use crate::exit::ExitReason;
use crate::message::{self, JsonOutputs};
use crate::output;

/// Copies what the arguments name.
pub(crate) fn run(args: &CpArgs) -> ExitCode {
    let outputs = JsonOutputs {
        result: args.messages.json,
        progress: args.messages.progress == ProgressKind::Json,
    };
    copy(args, outputs).unwrap_or_else(|exit| exit).into()
}

fn copy(args: &CpArgs, outputs: JsonOutputs) -> Result<ExitReason, ExitReason> {
    let plan = CopyPlan::new(args)
        .map_err(|error| outputs.report_failure(ExitReason::Usage, &error.text, error.hint))?;
    if args.messages.json {
        output::check_stdout().map_err(|error| output::report_write_error(&error))?;
    }
    let runtime = new_runtime().map_err(|error| {
        outputs.report_failure(ExitReason::LocalIo, &format!("cannot start: {error}"), None)
    })?;
    let exit = runtime.block_on(Box::pin(run_copies(args, plan, outputs)));
    runtime.shutdown_background();
    exit
}

async fn run_copies(
    args: &CpArgs,
    plan: CopyPlan,
    outputs: JsonOutputs,
) -> Result<ExitReason, ExitReason> {
    let settings = UploadSettings {
        s3: &args.s3,
        connection: &args.connection,
        max_connections: args.max_connections,
        part_size: args.part_size.map(|size| size.0),
        expected_size: None,
        limit_rate: None,
        resume: None,
        checksum: None,
        login: None,
    };
    let mut session = connect(settings, outputs).await?;
    let (run_loop, events) = RunLoop::start().map_err(|error| {
        outputs.report_failure(ExitReason::LocalIo, &message::chain_text(&error), None)
    })?;
    session.stop = run_loop.stop();
    let (known_count, stop) = (plan.known_count(), session.stop.clone());
    let source = UploadJobSource::from_iterator(CopyJobs::new(plan, session.clone()), known_count);
    if args.dry_run {
        let exit = dry_run(&args.messages, source, "copy", outputs).await?;
        return Ok(
            match stop.is_cancelled() && exit != ExitReason::Interrupted {
                true => report(&BucketError::Interrupted, outputs),
                false => exit,
            },
        );
    }
    let run = UploadRun {
        messages: &args.messages,
        options: settings.put_options(&session),
        session,
        source,
        manifest: None,
        run_loop,
        events,
    };
    let (report, mut renderer) = Box::pin(run.run()).await;
    if report.summary.listed == 0 && !report.is_interrupted {
        let text = "there is nothing to copy";
        return Ok(outputs.report_failure(ExitReason::SomeFailed, text, None));
    }
    let hint = "the same command copies them again";
    Ok(report.finish(args.messages.quiet, hint, &mut *renderer))
}

/// What is copied where.
#[derive(Debug)]
struct CopyPlan {
    sources: VecDeque<S3Address>,
    target: S3Address,
    /// Whether each object gets a key below the target.
    is_prefix: bool,
    is_recursive: bool,
    globoff: bool,
    filter: KeyFilter,
    headers: HeaderMap,
}

impl CopyPlan {
    fn new(args: &CpArgs) -> Result<Self, BadInput> {
        let Some((target, sources)) = args.addresses.split_last() else {
            return Err(BadInput::new("there is nothing to copy"));
        };
        let is_pattern = |key: &str| !args.globoff && KeyPattern::is_pattern(key);
        let is_single = sources.len() == 1 && !args.recursive;
        let is_single = is_single && !sources.iter().any(|source| is_pattern(&source.key));
        let mut target = target.clone();
        if !is_single && !target.is_prefix() {
            target.key.push('/');
        }
        for source in sources {
            if !args.recursive && source.is_prefix() {
                let text = format!("{source} is a folder");
                return Err(BadInput::new(text).with_hint("-r copies everything below it"));
            }
            let listed = match args.recursive {
                true => source.key.clone(),
                false => KeyPattern::parse(&source.key).literal_prefix(),
            };
            // The list that is being read would come to the copies.
            let is_listed = args.recursive || is_pattern(&source.key);
            let is_inside = target.bucket == source.bucket && target.key.starts_with(&listed);
            if is_listed && is_inside {
                let text = format!("{target} is inside {source}: copies would be copied again");
                return Err(BadInput::new(text).with_hint("choose a target outside of it"));
            }
        }
        Ok(Self {
            is_prefix: target.is_prefix(),
            sources: sources.iter().cloned().collect(),
            target,
            is_recursive: args.recursive,
            globoff: args.globoff,
            filter: args.filter.filter.clone(),
            headers: storage_headers(&args.storage)?,
        })
    }

    fn known_count(&self) -> Option<usize> {
        let is_list = |source: &S3Address| self.pattern(source).is_some();
        let is_known = !self.is_recursive && !self.sources.iter().any(is_list);
        is_known.then_some(self.sources.len())
    }

    fn pattern(&self, source: &S3Address) -> Option<KeyPattern> {
        let is_pattern = !self.is_recursive && !self.globoff;
        (is_pattern && KeyPattern::is_pattern(&source.key)).then(|| KeyPattern::parse(&source.key))
    }
}

/// The copies of a command, found as they are needed.
struct CopyJobs {
    plan: CopyPlan,
    session: StoreSession,
    runtime: Handle,
    list: Option<ListedSource>,
    /// The names of objects that arguments have named. A later one of the same name would replace the copy.
    names: HashSet<String>,
    next_id: u64,
}

/// A list of sources that is being read.
struct ListedSource {
    lister: ObjectLister,
    page: VecDeque<ListedObject>,
    prefix: S3Address,
    pattern: Option<KeyPattern>,
    /// How much of a key is left out of the new one.
    folder_length: usize,
}

impl CopyJobs {
    fn new(plan: CopyPlan, session: StoreSession) -> Self {
        Self {
            plan,
            session,
            runtime: Handle::current(),
            list: None,
            names: HashSet::new(),
            next_id: 0,
        }
    }

    fn open(&mut self, source: S3Address) -> Option<FoundUpload> {
        let pattern = self.plan.pattern(&source);
        if pattern.is_none() && !self.plan.is_recursive {
            return Some(self.single(source));
        }
        let prefix = match &pattern {
            Some(pattern) => source.with_key(pattern.literal_prefix()),
            None => source.into_folder(),
        };
        let (client, retry) = (self.session.client.clone(), self.session.retry.clone());
        let stop = self.session.stop.clone();
        let _entered = self.runtime.enter();
        self.list = Some(ListedSource {
            lister: ObjectLister::start(client, &prefix, retry, stop),
            page: VecDeque::new(),
            folder_length: prefix.key.rfind('/').map_or(0, |slash| slash + 1),
            prefix,
            pattern,
        });
        None
    }

    /// The copy of one object, whose size and version the store has to say.
    fn single(&mut self, source: S3Address) -> FoundUpload {
        let name = source.key.rsplit('/').next().unwrap_or_default().to_owned();
        if !self.names.insert(name.clone()) {
            let text = format!("{source} is not copied: another {name} of this command was");
            return Err(BadInput {
                exit: ExitReason::Usage,
                ..BadInput::new(text).with_hint("copy it to another prefix")
            });
        }
        let session = &self.session;
        let head = retrying(&session.retry, &session.stop, || {
            session.client.head_object(&source)
        });
        let found = self
            .runtime
            .block_on(head)
            .map_err(|error| bad_source(&error))?;
        let source = SourceObject {
            address: source,
            size: found.size,
            etag: found.etag,
        };
        self.job(source, &name)
    }

    fn next_listed(&mut self) -> Option<FoundUpload> {
        loop {
            let list = self.list.as_mut()?;
            let Some(object) = list.page.pop_front() else {
                match list.lister.blocking_next_page() {
                    Some(Ok(page)) => list.page = page.into(),
                    Some(Err(error)) => {
                        self.list = None;
                        return Some(Err(bad_source(&error)));
                    }
                    None => self.list = None,
                }
                continue;
            };
            let key = object.key.as_str();
            let behind = key.strip_prefix(&list.prefix.key).unwrap_or(key);
            let is_meant = match &list.pattern {
                Some(pattern) => pattern.matches(key),
                None => self.plan.filter.accepts(behind),
            };
            if is_meant {
                let name = key.get(list.folder_length..).unwrap_or(key).to_owned();
                let source = SourceObject {
                    address: list.prefix.with_key(object.key),
                    size: object.size,
                    etag: object.etag,
                };
                return Some(self.job(source, &name));
            }
        }
    }

    fn job(&mut self, source: SourceObject, name: &str) -> FoundUpload {
        let target = match self.plan.is_prefix {
            true => {
                let target = &self.plan.target;
                target.with_key(format!("{}{name}", target.key))
            }
            false => self.plan.target.clone(),
        };
        if target == source.address {
            let text = format!("{target} would be copied to itself");
            return Err(BadInput {
                exit: ExitReason::Usage,
                ..BadInput::new(text)
            });
        }
        let id = self.next_id;
        self.next_id += 1;
        Ok(UploadJob {
            id,
            input: UploadInput::Object(source),
            target: target.into(),
            headers: self.plan.headers.clone(),
            conditions: HeaderMap::new(),
        })
    }
}

impl Iterator for CopyJobs {
    type Item = FoundUpload;

    fn next(&mut self) -> Option<Self::Item> {
        // A run that is stopped asks for no more; a dry run has to be told.
        while !self.session.stop.is_cancelled() {
            if let Some(job) = self.next_listed() {
                return Some(job);
            }
            let source = self.plan.sources.pop_front()?;
            if let Some(job) = self.open(source) {
                return Some(job);
            }
        }
        None
    }
}

/// Why a source cannot be read.
fn bad_source(error: &BucketError) -> BadInput {
    BadInput {
        exit: ExitReason::from_class(error.class()),
        hint: bucket_hint(error),
        ..BadInput::new(message::chain_text(error))
    }
}
