//! `haul bench load`: puts one load on a server and reports the results.

use haul_bench::Measurement;
use haul_bench::load::{
    LoadClient, LoadEnd, LoadMethod, LoadOutcome, LoadPace, LoadPlan, LoadProtocol, NO_ANSWER,
    run_load,
};
use haul_bench::report::load_text;
use haul_bench::servers::Network;
use haul_net::{TlsOptions, redacted_url};
use haul_transfer::batch::StopReason;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::super::run_loop::{new_runtime, stop_on_signals};
use super::super::service::command_error::CommandError;
use super::plan::{ask_for_rate, remote_host};
use super::{local_error, print, terminal};
use crate::args::BenchLoadArgs;
use crate::exit::ExitReason;
use crate::message;
use crate::settings::peer_tls_options;

pub(super) fn run(args: &BenchLoadArgs) -> Result<ExitReason, CommandError> {
    let plan = load_plan(args)?;
    let runtime =
        new_runtime().map_err(|error| CommandError::local(format!("cannot start: {error}")))?;
    let stop = CancellationToken::new();
    let found = runtime.block_on(async {
        let _signals = stop_on_signals(stop.clone()).map_err(|error| local_error(&error))?;
        check_server(&plan, &stop).await?;
        if !args.quiet {
            announce(args, &plan.urls);
        }
        load(plan, &stop).await
    });
    runtime.shutdown_background();
    let LoadOutcome {
        measurement: mut found,
        stopped,
    } = found?;
    let is_interrupted = stopped == Some(StopReason::Interrupted);
    if is_interrupted {
        // It is the user who ended them.
        found.errors.remove(NO_ANSWER);
    }
    Ok(report(args, &found, is_interrupted))
}

fn load_plan(args: &BenchLoadArgs) -> Result<LoadPlan, CommandError> {
    let urls: Vec<Url> = args.urls.iter().map(|url| url.0.clone()).collect();
    let is_tls = urls.iter().any(|url| url.scheme() == "https");
    if args.http2 && urls.iter().any(|url| url.scheme() != "https") {
        return Err(CommandError::usage("--http2 needs https URLs"));
    }
    let tls = if is_tls {
        peer_tls_options(&args.tls)
    } else {
        // The certificates of this machine may be missing where nobody needs them.
        Ok(TlsOptions {
            insecure: true,
            ..TlsOptions::default()
        })
    };
    let tls = tls
        .map_err(|error| CommandError::usage(message::chain_text(&error)))?
        .client_config()
        .map_err(|error| CommandError::usage(message::chain_text(&error)))?;
    Ok(LoadPlan {
        max_rate: remote_host(&urls).and_then(|host| ask_for_rate(&host, args.yes)),
        urls,
        files: None,
        method: LoadMethod::Get,
        put_bytes: 0,
        connect_to: None,
        network: Network::Machine,
        proxy: None,
        client: LoadClient::Async,
        concurrency: args.concurrency,
        protocol: match (args.http2, is_tls) {
            (true, _) => LoadProtocol::Http2,
            (false, true) => LoadProtocol::Https,
            (false, false) => LoadProtocol::Http,
        },
        is_kept_alive: !args.no_keep_alive,
        pace: args
            .rate
            .map_or(LoadPace::Closed, |rate| LoadPace::Rate(rate.into())),
        end: match args.requests {
            Some(requests) => LoadEnd::Requests(requests),
            None => LoadEnd::Seconds(args.time.0.as_secs_f64()),
        },
        tls,
    })
}

/// Sends one request, which is not measured: a server that cannot be reached would be asked ten thousand times in vain.
async fn check_server(plan: &LoadPlan, stop: &CancellationToken) -> Result<(), CommandError> {
    for url in &plan.urls {
        let one = LoadPlan {
            urls: vec![url.clone()],
            concurrency: 1,
            pace: LoadPace::Closed,
            end: LoadEnd::Requests(1),
            ..plan.clone()
        };
        let found = load(one, stop).await?;
        let failure = found.measurement.errors.into_keys().next();
        // A status is a response, which may be what is to be measured.
        if let Some(failure) =
            failure.filter(|kind| !kind.starts_with("status ") && found.stopped.is_none())
        {
            let text = format!("no response from {}: {failure}", redacted_url(url));
            return Err(CommandError::network(text).with_hint(match &*failure {
                "TLS" => "-k accepts any certificate; a server without TLS has an http:// URL",
                _ => "is the server up, and are its host and port correct?",
            }));
        }
    }
    Ok(())
}

async fn load(plan: LoadPlan, stop: &CancellationToken) -> Result<LoadOutcome, CommandError> {
    let found = run_load(plan, stop.clone()).await;
    found.map_err(|error| local_error(&error))
}

fn announce(args: &BenchLoadArgs, urls: &[Url]) {
    let more = match urls.len() {
        1 => String::new(),
        count => format!(" and {} more", count - 1),
    };
    let url = urls.first().map(redacted_url).unwrap_or_default();
    let end = match args.requests {
        Some(requests) => format!("{requests} requests"),
        None => format!("{}", args.time),
    };
    let text = format!("haul: {} at a time, {end}: {url}{more}", args.concurrency);
    message::print_line(&message::sanitize(&text));
}

fn report(args: &BenchLoadArgs, found: &Measurement, is_interrupted: bool) -> ExitReason {
    let text = if args.json {
        serde_json::to_string(found).unwrap_or_default() + "\n"
    } else {
        let (width, has_color) = terminal();
        load_text(found, args.concurrency, width, has_color)
    };
    match (print(&text), found.successes, found.failures()) {
        (ExitReason::Done, _, _) if is_interrupted => ExitReason::Interrupted,
        (ExitReason::Done, 0, _) => ExitReason::Network,
        (ExitReason::Done, _, 1..) => ExitReason::SomeFailed,
        (printed, _, _) => printed,
    }
}
