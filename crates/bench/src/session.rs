//! A run of experiments, one after the other: each gets servers and a workload of its own.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use haul_net::{ClientConfig, redacted_url};
use haul_s3::S3Config;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::Cell;
use crate::experiment::{Experiment, WorkloadKind};
use crate::results::{
    BenchEnvironment, BenchResults, ExperimentResults, RESULTS_FORMAT, RoundsEnd,
};
use crate::runner::{BenchTarget, MeasureFuture, ProgressObserver, Workload, run_experiment};
use crate::workload::WorkloadError;
use crate::workload::requests::{RequestsOptions, RequestsWorkload};
use crate::workload::transfer::{TransferOptions, TransferWorkload};

/// What all experiments of a run share.
#[derive(Debug, Clone)]
pub struct BenchOptions {
    /// The program haul, for servers.
    pub haul: PathBuf,
    /// The URLs that the user named, in place of our servers.
    pub targets: Vec<Url>,
    /// Whether files of ours are stored below the first target, and removed.
    pub is_store: bool,
    /// Connections of haul's engine to them.
    pub client: ClientConfig,
    /// Where `s3://` is, and its credentials.
    pub store: S3Config,
    /// TLS of the load generator with them, if one has TLS.
    pub tls: Option<Arc<rustls::ClientConfig>>,
    /// The most requests a second at them.
    pub max_rate: Option<f64>,
    /// Processes of the user's servers, whose CPU time is measured.
    pub server_pids: Vec<u32>,
    /// The user's HTTP proxy, in place of ours.
    pub proxy: Option<SocketAddr>,
    /// What the order of measurements and the intervals follow from.
    pub seed: u64,
}

/// The workload of an experiment.
enum AnyWorkload {
    Requests(Box<RequestsWorkload>),
    Transfer(Box<TransferWorkload>),
}

impl AnyWorkload {
    fn new(kind: WorkloadKind, options: &BenchOptions) -> Result<Self, WorkloadError> {
        Ok(match kind {
            WorkloadKind::Requests => {
                Self::Requests(Box::new(RequestsWorkload::new(RequestsOptions {
                    haul: options.haul.clone(),
                    targets: options.targets.clone(),
                    is_store: options.is_store,
                    tls: options.tls.clone(),
                    max_rate: options.max_rate,
                    server_pids: options.server_pids.clone(),
                    proxy: options.proxy,
                })?))
            }
            WorkloadKind::Transfer => {
                Self::Transfer(Box::new(TransferWorkload::new(TransferOptions {
                    haul: options.haul.clone(),
                    target: options.targets.first().cloned(),
                    client: options.client.clone(),
                    store: options.store.clone(),
                    server_pids: options.server_pids.clone(),
                })?))
            }
        })
    }

    async fn finish(&mut self) -> Result<(), WorkloadError> {
        match self {
            Self::Requests(workload) => workload.finish().await,
            Self::Transfer(workload) => workload.finish().await,
        }
    }
}

impl Workload for AnyWorkload {
    fn measure<'a>(&'a mut self, cell: &'a Cell, stop: &'a CancellationToken) -> MeasureFuture<'a> {
        match self {
            Self::Requests(workload) => Box::pin(workload.measure(cell, stop)),
            Self::Transfer(workload) => Box::pin(workload.measure(cell, stop)),
        }
    }
}

/// Runs experiments. When `stop` is cancelled, the results have what was measured by then. `warn` is told what could not be removed from a user's server.
///
/// # Errors
/// A workload cannot be prepared at all.
pub async fn run_experiments(
    experiments: &[Experiment],
    options: &BenchOptions,
    environment: BenchEnvironment,
    stop: &CancellationToken,
    observer: &mut ProgressObserver<'_>,
    mut warn: impl FnMut(&WorkloadError),
) -> Result<BenchResults, WorkloadError> {
    let started = Instant::now();
    let mut results = BenchResults {
        format: RESULTS_FORMAT.to_owned(),
        started: rfc3339(SystemTime::now()),
        elapsed_s: 0.0,
        is_partial: false,
        environment,
        experiments: Vec::new(),
    };
    let target = target_text(&options.targets).map(|name| BenchTarget {
        name,
        max_rate: options.max_rate,
    });
    for experiment in experiments {
        if stop.is_cancelled() {
            break;
        }
        let mut workload = AnyWorkload::new(experiment.workload, options)?;
        let running = run_experiment(
            experiment,
            &mut workload,
            target.clone(),
            options.seed,
            stop,
            observer,
        );
        let ended: ExperimentResults = running.await;
        if let Err(error) = workload.finish().await {
            warn(&error);
        }
        results.is_partial |= ended.end == RoundsEnd::Interrupted;
        results.experiments.push(ended);
    }
    results.is_partial |= results.experiments.len() < experiments.len();
    results.elapsed_s = started.elapsed().as_secs_f64();
    Ok(results)
}

/// The user's server, without what opens it.
fn target_text(targets: &[Url]) -> Option<String> {
    let first = redacted_url(targets.first()?).to_string();
    Some(match targets.len() {
        1 => first,
        count => format!("{first} and {} more", count - 1),
    })
}

fn rfc3339(time: SystemTime) -> String {
    let time = OffsetDateTime::from(time);
    let time = time.replace_nanosecond(0).unwrap_or(time);
    time.format(&Rfc3339).unwrap_or_default()
}
