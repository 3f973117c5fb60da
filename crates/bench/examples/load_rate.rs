//! Sends requests for some seconds, and prints the rate and the median latency: `load_rate URL CONCURRENCY SECONDS [threads]`.

use std::error::Error;
use std::io::Write as _;
use std::sync::Arc;

use haul_bench::load::{
    LoadClient, LoadEnd, LoadMethod, LoadPace, LoadPlan, LoadProtocol, run_load,
};
use rustls::{ClientConfig, RootCertStore};
use tokio_util::sync::CancellationToken;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [url, concurrency, seconds, client @ ..] = args.as_slice() else {
        return Err("usage: load_rate URL CONCURRENCY SECONDS [threads]".into());
    };
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let plan = LoadPlan {
        urls: vec![url.parse()?],
        method: LoadMethod::Get,
        connect_to: None,
        proxy: None,
        client: if client.is_empty() {
            LoadClient::Async
        } else {
            LoadClient::Threads
        },
        concurrency: concurrency.parse()?,
        protocol: LoadProtocol::Http1,
        is_kept_alive: true,
        pace: LoadPace::Closed,
        end: LoadEnd::Seconds(seconds.parse()?),
        tls: Arc::new(tls),
        max_rate: None,
    };
    let measured = run_load(plan, CancellationToken::new()).await?;
    #[expect(clippy::cast_precision_loss, reason = "a number of requests")]
    let rate = measured.successes as f64 / measured.wall_s;
    let median_us = measured.latency.unwrap_or_default().p50_s * 1e6;
    let mut output = std::io::stdout();
    writeln!(
        output,
        "{rate:.0} requests/s, median {median_us:.0} us, errors {:?}",
        measured.errors
    )?;
    Ok(())
}
