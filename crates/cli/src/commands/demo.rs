//! `haul demo`: what parallel connections bring, against an origin inside this program that limits each connection.
//!
//! Twice the same download, over one connection and with haul's own defaults; both are compared with what the origin
//! serves by SHA-256. Only loopback is touched, no proxy variable is looked at, and nothing is left.

use std::path::Path;
use std::process::ExitCode;

use haul_lab::{Origin, OriginResource, ResourceContent};
use haul_net::ClientConfig;
use haul_plan::{Checksum, DigestAlgorithm};
use haul_transfer::{
    ConnectionCount, DownloadJob, DownloadOutcome, GetError, GetOptions, JobOutput,
};
use url::Url;

use super::jobs::{DownloadWork, run_downloads};
use super::run_loop::new_runtime;
use crate::args::{DemoArgs, ProgressKind};
use crate::exit::ExitReason;
use crate::message;
use crate::output;
use crate::progress::{
    ProgressOptions, ProgressScope, bytes_text, new_renderer, rate_text, stderr_draws_bars,
};

/// Any number: the content must be the same on both sides, and not compressible.
const SEED: u64 = 0x6861_756c;

/// Where the origin has the file.
const PATH: &str = "/demo.bin";

/// Runs the demonstration.
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

/// One of the two downloads.
#[derive(Debug, Clone, Copy)]
struct DemoDownload {
    /// What it shows.
    name: &'static str,
    /// The name of its file.
    file: &'static str,
    /// All that they differ in.
    connections: ConnectionCount,
}

async fn run_demo(args: &DemoArgs) -> Result<ExitReason, ExitReason> {
    let content = ResourceContent::random(SEED, args.size.0);
    let directory = tempfile::tempdir().map_err(|error| {
        message::print_error(
            &format!("cannot make a temporary directory: {error}"),
            Some("TMPDIR says where"),
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
    let takes = [
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
    for take in takes {
        let outcome = download(&origin, directory.path(), take).await?;
        print_result_line(&format!("{:16} {}", take.name, outcome_text(&outcome)))?;
        outcomes.push(outcome);
    }
    print_comparison(&content, &outcomes)
}

async fn download(
    origin: &Origin,
    directory: &Path,
    take: DemoDownload,
) -> Result<DownloadOutcome, ExitReason> {
    let url = origin.url(PATH);
    let Ok(url) = Url::parse(&url) else {
        unreachable!("an origin's own URL: {url}")
    };
    let job = DownloadJob {
        id: 0,
        url,
        output: JobOutput::File(directory.join(take.file)),
        checksums: vec![Checksum {
            algorithm: DigestAlgorithm::Sha256,
            digest: None,
        }],
        mirrors: Vec::new(),
        piece_digests: None,
        credential_urls: None,
        expected_size: None,
        headers: Default::default(),
    };
    let options = GetOptions {
        connections: take.connections,
        ..GetOptions::default()
    };
    // The default client knows no proxy, whatever the environment says.
    let work = DownloadWork {
        client: ClientConfig::default(),
        options,
        jobs: vec![job],
    };
    let kind = if stderr_draws_bars() {
        ProgressKind::Bar
    } else {
        ProgressKind::Plain
    };
    let mut screen = new_renderer(ProgressOptions {
        kind,
        quiet: false,
        verbose: false,
        scope: ProgressScope::Downloads(1),
    });
    let mut result = Err(ExitReason::Interrupted);
    let begun = run_downloads(work, &mut *screen, |(screen, now), job, ended| {
        result = ended.as_ref().cloned().map_err(|error| {
            if !matches!(error, GetError::Interrupted { .. }) {
                screen.job_failed(now, job.id, error);
            }
            ExitReason::from_error(error)
        });
    });
    if let Err(error) = begun.await {
        message::print_error(&message::chain_text(&error), None);
        return Err(ExitReason::LocalIo);
    }
    result
}

/// What a download came to.
fn outcome_text(outcome: &DownloadOutcome) -> String {
    let plural = if outcome.connections == 1 { "" } else { "s" };
    let rate = rate_text(outcome.bytes, outcome.elapsed);
    format!(
        "{rate}, {:.2} s, {} connection{plural}",
        outcome.elapsed.as_secs_f64(),
        outcome.connections
    )
}

/// Compares the downloads with each other, and both with what was served.
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
            message::print_error("a result is not what the origin served", None);
            Err(ExitReason::Verification)
        }
    }
}

/// A line of the result, on standard output.
fn print_result_line(line: &str) -> Result<(), ExitReason> {
    output::write_stdout_lines([line]).map_err(|error| output::report_write_error(&error))
}
