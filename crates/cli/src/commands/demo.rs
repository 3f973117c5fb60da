//! `haul demo`: the effect of parallel connections, with an origin inside this program that limits each connection.
//!
//! It downloads the same file over one connection and with haul's defaults, and compares both with the origin's SHA-256. It uses only
//! loopback, ignores proxy variables, and leaves no file behind.

use std::path::Path;
use std::process::ExitCode;

use haul_lab::{Origin, OriginResource, ResourceContent};
use haul_net::ClientConfig;
use haul_plan::{Checksum, DigestAlgorithm};
use haul_transfer::{
    ConnectionCount, DownloadJob, DownloadOutcome, GetError, GetOptions, JobOutput, TransferEvent,
};
use url::Url;

use super::run_loop::{EngineEvents, RenderContext, new_runtime};
use super::single_downloads::run_downloads;
use crate::args::{DemoArgs, ProgressKind};
use crate::exit::ExitReason;
use crate::message;
use crate::output;
use crate::progress::{
    ProgressOptions, ProgressScope, bytes_text, new_renderer, rate_text, stderr_draws_bars,
};

/// Any number: the content must be reproducible, and not compressible.
const SEED: u64 = 0x6861_756c;

const PATH: &str = "/demo.bin";

pub(crate) fn run(args: &DemoArgs) -> ExitCode {
    let runtime = match new_runtime() {
        Ok(runtime) => runtime,
        Err(error) => {
            message::print_error(&format!("cannot start: {error}"), None);
            return ExitReason::LocalIo.into();
        }
    };
    let exit = runtime.block_on(run_demo(args)).unwrap_or_else(|exit| exit);
    exit.into()
}

#[derive(Debug, Clone, Copy)]
struct DemoDownload {
    name: &'static str,
    file: &'static str,
    connections: ConnectionCount,
}

async fn run_demo(args: &DemoArgs) -> Result<ExitReason, ExitReason> {
    let content = ResourceContent::random(SEED, args.size.0);
    let directory = tempfile::tempdir().map_err(|error| {
        message::print_error(
            &format!("cannot make a temporary directory: {error}"),
            Some("TMPDIR sets its parent directory"),
        );
        ExitReason::LocalIo
    })?;
    let resource = OriginResource::new(content.clone());
    let origin = Origin::builder()
        .rate_per_connection(args.rate.0)
        .resource(PATH, resource)
        .start()
        .await;
    let (size, rate) = (bytes_text(args.size.0), bytes_text(args.rate.0));
    print_result_line(&format!(
        "origin           {}, {size}, {rate}/s for each connection",
        origin.address()
    ))?;
    let downloads = [
        DemoDownload {
            name: "one connection",
            file: "one.bin",
            connections: ConnectionCount::Fixed(1),
        },
        DemoDownload {
            name: "haul's defaults",
            file: "many.bin",
            connections: GetOptions::default().connections,
        },
    ];
    let mut outcomes = Vec::new();
    for demo_download in downloads {
        let outcome = download(&origin, directory.path(), demo_download).await?;
        print_result_line(&format!(
            "{:16} {}",
            demo_download.name,
            outcome_text(&outcome)
        ))?;
        outcomes.push(outcome);
    }
    print_comparison(&content, &outcomes)
}

async fn download(
    origin: &Origin,
    directory: &Path,
    demo_download: DemoDownload,
) -> Result<DownloadOutcome, ExitReason> {
    let url = origin.url(PATH);
    let Ok(url) = Url::parse(&url) else {
        unreachable!("an origin's own URL: {url}")
    };
    let output = JobOutput::File(directory.join(demo_download.file));
    let job = DownloadJob {
        checksums: vec![Checksum {
            algorithm: DigestAlgorithm::Sha256,
            digest: None,
        }],
        ..DownloadJob::new(0, url, output)
    };
    let options = GetOptions {
        connections: demo_download.connections,
        ..GetOptions::default()
    };
    // The default client uses no proxy, whatever the environment says.
    let client = ClientConfig::default();
    let kind = if stderr_draws_bars() {
        ProgressKind::Bar
    } else {
        ProgressKind::Plain
    };
    let mut renderer = new_renderer(ProgressOptions {
        kind,
        quiet: false,
        verbose: false,
        scope: ProgressScope::Downloads(1),
    });
    let mut result = DemoResult(Err(ExitReason::Interrupted));
    let running = run_downloads(client, options, vec![job], &mut *renderer, &mut result);
    if let Err(error) = running.await {
        message::print_error(&message::chain_text(&error), None);
        return Err(ExitReason::LocalIo);
    }
    result.0
}

struct DemoResult(Result<DownloadOutcome, ExitReason>);

impl EngineEvents for DemoResult {
    fn on_event(&mut self, context: RenderContext<'_>, event: &TransferEvent) {
        if let TransferEvent::DownloadEnded(ended) = event {
            self.0 = ended.result.as_ref().cloned().map_err(|error| {
                if !matches!(error, GetError::Interrupted { .. }) {
                    let (now, job) = (context.now, ended.job.id);
                    context.renderer.job_failed(now, job, error);
                }
                ExitReason::from_error(error)
            });
        }
    }
}

fn outcome_text(outcome: &DownloadOutcome) -> String {
    let plural = if outcome.connections == 1 { "" } else { "s" };
    let rate = rate_text(outcome.bytes, outcome.elapsed);
    format!(
        "{rate}, {:.2} s, {} connection{plural}",
        outcome.elapsed.as_secs_f64(),
        outcome.connections
    )
}

/// Compares the downloads with each other and with the origin.
fn print_comparison(
    content: &ResourceContent,
    outcomes: &[DownloadOutcome],
) -> Result<ExitReason, ExitReason> {
    let [one, many] = outcomes else {
        return Err(ExitReason::Network);
    };
    let plural = if many.connections == 1 { "" } else { "s" };
    let times = one.elapsed.as_secs_f64() / many.elapsed.as_secs_f64().max(1e-6);
    print_result_line(&format!(
        "speed-up         {times:.1}x, settled on {} connection{plural}",
        many.connections
    ))?;
    let served = content.sha256();
    print_result_line(&format!("SHA-256, origin  {served}"))?;
    let mut found = outcomes
        .iter()
        .flat_map(|outcome| &outcome.checksums)
        .map(|(_, hex)| hex.as_str());
    match found.find(|hex| *hex != served) {
        None => print_result_line(&format!("SHA-256, result  {served}, the same"))
            .map(|()| ExitReason::Done),
        Some(hex) => {
            print_result_line(&format!("SHA-256, result  {hex}"))?;
            message::print_error("a result differs from what the origin served", None);
            Err(ExitReason::Verification)
        }
    }
}

fn print_result_line(line: &str) -> Result<(), ExitReason> {
    output::write_stdout_lines([line]).map_err(|error| output::report_write_error(&error))
}
