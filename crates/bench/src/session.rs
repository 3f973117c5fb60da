//! A run of experiments, one after the other: each gets servers and a workload of its own.

use haul_net::redacted_url;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::experiment::{Experiment, WorkloadKind};
use crate::results::{BenchEnvironment, BenchResults, RESULTS_FORMAT, RoundsEnd};
use crate::runner::{ExperimentRun, RunProgress};
use crate::workload::WorkloadError;
use crate::workload::requests::{RequestsOptions, RequestsWorkload};
use crate::workload::transfer::{TransferOptions, TransferWorkload};
use crate::{Cell, Measurement};

/// What all experiments of a run share.
#[derive(Debug, Clone)]
pub struct BenchOptions {
    /// Of those with the workload `requests`. Their targets are those of the run.
    pub requests: RequestsOptions,
    /// Of those with the workload `transfer`.
    pub transfer: TransferOptions,
    /// What the order of measurements and the intervals follow from.
    pub seed: u64,
}

enum AnyWorkload {
    Requests(Box<RequestsWorkload>),
    Transfer(Box<TransferWorkload>),
}

impl AnyWorkload {
    fn new(kind: WorkloadKind, options: &BenchOptions) -> Result<Self, WorkloadError> {
        Ok(match kind {
            WorkloadKind::Requests => {
                let workload = RequestsWorkload::new(options.requests.clone())?;
                Self::Requests(Box::new(workload))
            }
            WorkloadKind::Transfer => {
                let workload = TransferWorkload::new(options.transfer.clone())?;
                Self::Transfer(Box::new(workload))
            }
        })
    }

    async fn measure(
        &mut self,
        cell: &Cell,
        stop: &CancellationToken,
    ) -> Result<Measurement, WorkloadError> {
        match self {
            Self::Requests(workload) => workload.measure(cell, stop).await,
            Self::Transfer(workload) => workload.measure(cell, stop).await,
        }
    }

    async fn finish(&mut self) -> Result<(), WorkloadError> {
        match self {
            Self::Requests(workload) => workload.finish().await,
            Self::Transfer(workload) => workload.finish().await,
        }
    }
}

/// Runs experiments. When `stop` is cancelled, the results have what was measured by then. An experiment that cannot begin is in the results, too,
/// and ends no other. `warn` is told of it, and of what could not be removed from a user's server, with the name of the experiment.
pub async fn run_experiments(
    experiments: &[Experiment],
    options: &BenchOptions,
    environment: BenchEnvironment,
    stop: &CancellationToken,
    observer: &mut (dyn FnMut(RunProgress<'_>) + Send),
    warn: impl Fn(&str, &WorkloadError),
) -> BenchResults {
    let started = Instant::now();
    let now = OffsetDateTime::now_utc();
    let now = now.replace_nanosecond(0).unwrap_or(now);
    let mut results = BenchResults {
        format: RESULTS_FORMAT.to_owned(),
        started: now.format(&Rfc3339).unwrap_or_default(),
        elapsed_s: 0.0,
        is_partial: false,
        environment,
        experiments: Vec::new(),
        rate_hint: String::new(),
    };
    for experiment in experiments {
        if stop.is_cancelled() {
            break;
        }
        let target = target_text(&options.requests.targets);
        let max_rate = options.requests.max_rate;
        let run = ExperimentRun::new(experiment, target, max_rate, options.seed);
        let (ended, failure) = match AnyWorkload::new(experiment.workload, options) {
            Err(error) => (run.fail(&error), Some(error)),
            Ok(mut workload) => {
                let measure = async |cell: &Cell, stop: &CancellationToken| {
                    workload.measure(cell, stop).await
                };
                let ended = Box::pin(run.run(measure, stop, observer)).await;
                (ended, workload.finish().await.err())
            }
        };
        if let Some(error) = failure {
            warn(&experiment.name, &error);
        }
        results.is_partial |= ended.end == RoundsEnd::Interrupted;
        results.experiments.push(ended);
    }
    results.is_partial |= results.experiments.len() < experiments.len();
    results.elapsed_s = started.elapsed().as_secs_f64();
    results
}

/// The user's server, without what opens it.
fn target_text(targets: &[Url]) -> Option<String> {
    let first = redacted_url(targets.first()?).to_string();
    Some(match targets.len() {
        1 => first,
        count => format!("{first} and {} more", count - 1),
    })
}
