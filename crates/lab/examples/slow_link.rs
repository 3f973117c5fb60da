//! The slow link as a program, for benches: relays to an address with latency and a rate, until its standard input ends.
//!
//! Use: slow_link TARGET [--delay 25ms] [--rate BYTES_A_SECOND] [--total BYTES_A_SECOND] [--uploads yes]
//!
//! The delay applies to each direction, the rate to each connection, the total to all together; both hold towards the client, and with
//! `--uploads yes` towards the target, too. The first line of its standard output is the address on which it listens.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use haul_lab::SlowLinkBuilder;

const USAGE: &str = "use: slow_link TARGET [--delay 25ms] [--rate BYTES_A_SECOND] [--total BYTES_A_SECOND] [--uploads yes]";

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(link) = parse(&arguments) else {
        let _ = writeln!(std::io::stderr(), "{USAGE}");
        return ExitCode::from(2);
    };
    let link = link.start().await;
    let mut out = std::io::stdout();
    if writeln!(out, "{}", link.address()).is_err() || out.flush().is_err() {
        return ExitCode::FAILURE;
    }
    // Standard input ends when the bench ends, so that no link outlives its bench.
    let ended = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    let _ = ended.await;
    ExitCode::SUCCESS
}

/// Parses the arguments.
fn parse(arguments: &[String]) -> Option<SlowLinkBuilder> {
    let (target, options) = arguments.split_first()?;
    let mut link = SlowLinkBuilder::new(target.parse::<SocketAddr>().ok()?);
    let (pairs, rest) = options.as_chunks::<2>();
    for [name, value] in pairs {
        link = match name.as_str() {
            "--delay" => link.latency(Duration::from_millis(
                value.strip_suffix("ms")?.parse().ok()?,
            )),
            "--rate" => link.rate_per_connection(value.parse().ok()?),
            "--total" => link.total_rate(value.parse().ok()?),
            "--uploads" if value == "yes" => link.limit_uploads(),
            _ => return None,
        };
    }
    rest.is_empty().then_some(link)
}
