//! Resolves the arguments of `haul serve`, and refuses flags that contradict each other.
//!
//! Files with logins and keys are read here, certificates later: a self-signed one depends on the addresses that haul listens on. Access is
//! in [`access`], access for pages of other sites in [`pages`].

mod access;
mod pages;
mod s3;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use haul_serve::accept::{AcceptStrategy, WorkerThreadsOptions};
use haul_serve::dialect::Dialect;
use haul_serve::observe::AccessLogFormat;
use haul_serve::store::FileStoreOptions;
use haul_serve::tls::CertificatePair;
use haul_serve::{FileServerOptions, TimeoutOptions};
use haul_service::listen::ListenAddress;
use haul_service::observe::{LogOptions, LogTarget};

use super::{SettingError, world_readable_warning};
use crate::args::{FileArgs, LimitArgs, RunningArgs, ServeArgs, TlsArgs};
pub(crate) use access::AccessSummary;
pub(crate) use s3::S3Settings;

/// Descriptors that are neither connections nor files of the store: those of threads, standard streams, logs.
const OTHER_FILES: u64 = 64;

/// The resolved settings of `haul serve`.
#[derive(Debug)]
pub(crate) struct ServeSettings {
    pub(crate) folder: PathBuf,
    pub(crate) store: FileStoreOptions,
    pub(crate) listen: Vec<ListenAddress>,
    pub(crate) tls: TlsSettings,
    /// A summary for people.
    pub(crate) access: AccessSummary,
    /// How S3 is served, if it is.
    pub(crate) s3: Option<S3Settings>,
    /// Further host names that requests may use; `None`: any.
    pub(crate) allowed_hosts: Option<Vec<String>>,
    /// The log and the metrics are added later.
    pub(crate) server: FileServerOptions,
    pub(crate) workers: WorkerThreadsOptions,
    pub(crate) log: Option<LogOptions>,
    pub(crate) log_format: AccessLogFormat,
    pub(crate) admin: Option<ListenAddress>,
    /// How long running requests may take at shutdown.
    pub(crate) grace: Duration,
    pub(crate) quiet: bool,
    pub(crate) warnings: Vec<String>,
}

/// Whether and how connections use TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TlsSettings {
    Off,
    Files(Vec<CertificatePair>),
    /// A certificate made at the start.
    SelfSigned,
}

impl ServeSettings {
    /// Resolves the arguments. Reads files of logins and keys.
    ///
    /// # Errors
    /// Flags that contradict each other, files that cannot be read or used.
    pub(crate) fn resolve(args: &ServeArgs) -> Result<Self, SettingError> {
        let allowed = haul_transfer::batch::open_file_limit();
        let mut store = store_options(&args.files, &args.running, allowed);
        let variable = |name: &str| std::env::var_os(name);
        let (access, who, mut warnings) = access::access_control(&args.access, &store, variable)?;
        // A link from one prefix to another would bypass a right that is limited to one.
        let s3 = s3::s3_settings(args, !access.is_open(), variable)?;
        let has_buckets = s3.as_ref().is_some_and(|s3| s3.has_bucket_scopes);
        store.follow_links = !who.has_prefixes && !has_buckets;
        if s3.as_ref().is_some_and(|s3| s3.temporary.is_some()) {
            store.writable = true
        } else {
            check_upload_flags(&args.files, &args.running)?
        }
        let folder = s3::served_folder(args, s3.as_ref());
        warnings.extend(served_secrets_warnings(args, &folder));
        warnings.extend(descriptor_warning(&args.limits, &store, allowed));
        let tls = tls_settings(&args.tls)?;
        if let TlsSettings::Files(pairs) = &tls {
            let keys = pairs.iter().map(|pair| pair.key.as_path());
            warnings.extend(keys.filter_map(world_readable_warning));
        }
        Ok(Self {
            folder,
            listen: args.listen.clone(),
            tls,
            access: who,
            allowed_hosts: pages::allowed_hosts(&args.cors.allow_host),
            server: FileServerOptions {
                access,
                cors: pages::cors_policy(&args.cors, store.writable)?,
                max_body: args.files.max_body.map(|size| size.0),
                cache_control: args.files.cache_control.clone(),
                timeouts: timeout_options(&args.limits),
                connection_rate: args.limits.limit_rate.map(|size| size.0),
                total_rate: args.limits.limit_rate_total.map(|size| size.0),
                dialect: s3
                    .as_ref()
                    .map(|s3| Arc::clone(&s3.dialect) as Arc<dyn Dialect>),
                ..FileServerOptions::default()
            },
            s3,
            store,
            workers: worker_options(&args.limits, &args.running, allowed)?,
            log: log_options(&args.running)?,
            log_format: args.running.log_format.unwrap_or_default(),
            admin: admin_address(&args.running)?,
            grace: args.running.grace.0,
            quiet: args.running.quiet,
            warnings,
        })
    }
}

/// Warnings about secrets and logs inside the served folder, where every reader could get them.
fn served_secrets_warnings(args: &ServeArgs, served: &Path) -> Vec<String> {
    let (access, tls) = (&args.access, &args.tls);
    let secrets = access
        .auth_file
        .iter()
        .chain(&access.token_file)
        .chain(&access.sign_key)
        .chain(&tls.key)
        .chain(&args.s3.s3_key_file);
    let log = match &args.running.access_log {
        Some(LogTarget::File(path)) => Some(path),
        _ => None,
    };
    let Ok(folder) = served.canonicalize() else {
        return Vec::new();
    };
    let is_inside = |path: &Path| {
        // A log may not exist yet.
        let place = path
            .canonicalize()
            .or_else(|_| path.parent().unwrap_or(path).canonicalize());
        place.is_ok_and(|place| place.starts_with(&folder))
    };
    let inside = secrets.chain(log).filter(|path| is_inside(path));
    let warning = |path: &PathBuf| {
        let (path, folder) = (path.display(), served.display());
        format!("{path} is in {folder} and is served like any other file: move it elsewhere")
    };
    inside.map(warning).collect()
}

/// Refuses flags about uploads without --writable.
fn check_upload_flags(files: &FileArgs, running: &RunningArgs) -> Result<(), SettingError> {
    if files.writable {
        return Ok(());
    }
    let flags = [
        ("--durability", files.durability.is_some()),
        ("--max-body", files.max_body.is_some()),
        ("--quota", files.quota.is_some()),
        ("--sink", running.sink.is_some()),
    ];
    match flags.into_iter().find(|(_, is_given)| *is_given) {
        Some((flag, _)) => Err(SettingError::new(format!("{flag} needs uploads"))
            .with_hint("allow them with -w/--writable")),
        None => Ok(()),
    }
}

/// Descriptors that connections leave by default for files being sent and written, threads and listeners: if connections took the last one,
/// haul could not open the files that they request.
fn reserved_descriptors(allowed: u64) -> u64 {
    (allowed / 4).max(32)
}

/// The default, or less where the limit is lower.
fn default_within(default: usize, allowed: Option<u64>) -> usize {
    let allowed = allowed.and_then(|allowed| usize::try_from(allowed).ok());
    default.min(allowed.unwrap_or(default).max(1))
}

fn store_options(
    files: &FileArgs,
    running: &RunningArgs,
    allowed: Option<u64>,
) -> FileStoreOptions {
    let defaults = FileStoreOptions::default();
    let kept = || {
        default_within(
            defaults.max_open_files,
            allowed.map(|allowed| reserved_descriptors(allowed) / 2),
        )
    };
    FileStoreOptions {
        writable: files.writable,
        durability: files.durability.unwrap_or(defaults.durability),
        quota: files.quota.map(|size| size.0),
        max_open_files: files.open_files.unwrap_or_else(kept),
        discard_uploads: running.sink.is_some(),
        ..defaults
    }
}

/// A warning if the limit of open files is too low for the requested connections.
fn descriptor_warning(
    limits: &LimitArgs,
    store: &FileStoreOptions,
    allowed: Option<u64>,
) -> Option<String> {
    let wanted = u64::try_from(limits.max_connections?).unwrap_or(u64::MAX);
    let kept = u64::try_from(store.max_open_files).unwrap_or(u64::MAX);
    let needed = wanted.saturating_add(kept).saturating_add(OTHER_FILES);
    let allowed = allowed.filter(|allowed| *allowed < needed)?;
    Some(format!(
        "{wanted} connections may need {needed} open files, and the system allows {allowed} (ulimit -n): further connections will wait"
    ))
}

fn tls_settings(args: &TlsArgs) -> Result<TlsSettings, SettingError> {
    let (certs, keys) = (args.cert.len(), args.key.len());
    if args.self_signed {
        return Ok(TlsSettings::SelfSigned);
    }
    if certs == 0 && keys == 0 {
        return Ok(TlsSettings::Off);
    }
    if certs == 0 {
        return Err(SettingError::new("--key without --cert")
            .with_hint("name its certificate with --cert FILE"));
    }
    if keys != 0 && keys != certs {
        return Err(
            SettingError::new(format!("{certs} --cert flags, but {keys} --key flags"))
                .with_hint("give each --cert its --key, in the same order"),
        );
    }
    // One file may contain both.
    let keys = if keys == 0 { &args.cert } else { &args.key };
    let pairs = args
        .cert
        .iter()
        .zip(keys)
        .map(|(certificate, key)| CertificatePair {
            certificate: certificate.clone(),
            key: key.clone(),
        });
    Ok(TlsSettings::Files(pairs.collect()))
}

fn timeout_options(args: &LimitArgs) -> TimeoutOptions {
    let defaults = TimeoutOptions::default();
    TimeoutOptions {
        handshake: args
            .handshake_timeout
            .map_or(defaults.handshake, |time| time.0),
        request_head: args
            .header_timeout
            .map_or(defaults.request_head, |time| time.0),
        idle: args.idle_timeout.map_or(defaults.idle, |time| time.0),
        grace: args.body_timeout.map_or(defaults.grace, |time| time.0),
        min_body_rate: args.min_rate.map_or(defaults.min_body_rate, |size| size.0),
        min_reader_rate: args
            .min_rate
            .map_or(defaults.min_reader_rate, |size| size.0),
    }
}

fn worker_options(
    limits: &LimitArgs,
    running: &RunningArgs,
    allowed: Option<u64>,
) -> Result<WorkerThreadsOptions, SettingError> {
    let defaults = WorkerThreadsOptions::default();
    let left = allowed.map(|allowed| allowed.saturating_sub(reserved_descriptors(allowed)));
    let single = running.accept == AcceptStrategy::Single;
    if single && running.threads.is_some_and(|threads| threads > 1) {
        return Err(SettingError::new(
            "--accept single uses one thread, but --threads asks for more",
        )
        .with_hint("round-robin, reuseport and work-stealing use several"));
    }
    Ok(WorkerThreadsOptions {
        strategy: running.accept,
        threads: running
            .threads
            .unwrap_or(if single { 1 } else { defaults.threads }),
        max_connections: limits
            .max_connections
            .unwrap_or_else(|| default_within(defaults.max_connections, left)),
    })
}

fn log_options(args: &RunningArgs) -> Result<Option<LogOptions>, SettingError> {
    match (&args.access_log, args.log_format) {
        (Some(target), _) => Ok(Some(LogOptions {
            target: target.clone(),
            ..LogOptions::default()
        })),
        (None, Some(_)) => Err(SettingError::new("--log-format without an access log")
            .with_hint("write one with --access-log FILE, or - for standard output")),
        (None, None) => Ok(None),
    }
}

fn admin_address(args: &RunningArgs) -> Result<Option<ListenAddress>, SettingError> {
    match &args.admin {
        Some(ListenAddress::Systemd { .. }) => {
            Err(SettingError::new("--admin cannot use an inherited socket")
                .with_hint("give it a port, as 127.0.0.1:9090, or unix:PATH"))
        }
        admin => Ok(admin.clone()),
    }
}

#[cfg(test)]
mod tests;
