//! The kernel link as a program, for benches: joins two network namespaces until its standard input ends or SIGTERM comes.
//!
//! Use: kernel_link CLIENT_NAMESPACE SERVER_NAMESPACE [--mtu 1500] [--congestion-control cubic] [--seed 1] [OPTION VALUE]...
//!
//! These options hold for both directions, or for one as `--to-client-...` or `--to-server-...`:
//!
//!     --delay 25ms         of each packet, half of the round trip
//!     --mbit 500           the rate, in millions of bits a second; `none` for no limit
//!     --queue 100ms        how long a packet may wait for the transmitter
//!     --loss 0.1           percentage of packets
//!     --reordering 0.1     percentage of packets
//!     --max-packet 1400    larger packets vanish
//!     --down yes           or `no`
//!
//! Namespaces are names as of `ip netns`; those that do not exist are created, and removed at the end. The client is 198.18.0.1, the server
//! 198.18.0.2. Once both are connected it prints `ready`. Each line of standard input may change an option of the running link, as
//! `to-client-mbit 5`, or print the counts of packets: `counts`. These are one line of JSON, which it also prints at the end.

use std::error::Error;
use std::io::{self, BufRead as _, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use haul_lab::kernel_link::{
    KernelLink, KernelLinkOptions, LinkDirectionOptions, NetworkNamespace, PacketCounts,
};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

const USAGE: &str = "use: kernel_link CLIENT_NAMESPACE SERVER_NAMESPACE [--mtu 1500] [--congestion-control cubic] [--seed 1] \
    [--[to-client-|to-server-]delay|mbit|queue|loss|reordering|max-packet|down VALUE]...";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((client, server, options)) = parse(&arguments) else {
        let _ = writeln!(io::stderr(), "{USAGE}");
        return ExitCode::from(2);
    };
    match run(client, server, options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let mut message = error.to_string();
            if let Some(source) = error.source() {
                message = format!("{message}: {source}");
            }
            let _ = writeln!(io::stderr(), "kernel_link: {message}");
            ExitCode::FAILURE
        }
    }
}

async fn run(
    client: &str,
    server: &str,
    mut options: KernelLinkOptions,
) -> Result<(), Box<dyn Error>> {
    let mut terminated = signal(SignalKind::terminate())?;
    let client = NetworkNamespace::named(client)?;
    let server = NetworkNamespace::named(server)?;
    let link = KernelLink::start_between(client, server, &options)?;
    writeln!(io::stdout(), "ready")?;
    let mut lines = stdin_lines();
    loop {
        let line = tokio::select! {
            line = lines.recv() => line,
            _ = terminated.recv() => None,
        };
        match line.as_deref().map(|line| (line, line.split_once(' '))) {
            None => break,
            Some(("counts", _)) => print_counts(&link)?,
            Some((_, Some((name, value)))) if set(&mut options, name, value).is_some() => {
                link.to_server().change(|now| *now = options.to_server);
                link.to_client().change(|now| *now = options.to_client);
            }
            Some((line, _)) => writeln!(io::stderr(), "kernel_link: not an option: {line}")?,
        }
    }
    print_counts(&link)?;
    Ok(())
}

/// Lines from a thread that nobody waits for: a read of standard input cannot be cancelled.
fn stdin_lines() -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                break;
            }
        }
    });
    lines
}

fn parse(arguments: &[String]) -> Option<(&str, &str, KernelLinkOptions)> {
    let [client, server, pairs @ ..] = arguments else {
        return None;
    };
    let mut options = KernelLinkOptions::symmetric(LinkDirectionOptions::default());
    let (pairs, rest) = pairs.as_chunks::<2>();
    for [name, value] in pairs {
        set(&mut options, name.strip_prefix("--")?, value)?;
    }
    rest.is_empty().then_some((client, server, options))
}

fn set(options: &mut KernelLinkOptions, name: &str, value: &str) -> Option<()> {
    if let Some(name) = name.strip_prefix("to-server-") {
        return set_direction(&mut options.to_server, name, value);
    }
    if let Some(name) = name.strip_prefix("to-client-") {
        return set_direction(&mut options.to_client, name, value);
    }
    match name {
        "mtu" => options.mtu = value.parse().ok()?,
        "congestion-control" => options.congestion_control = Some(value.into()),
        "seed" => options.seed = value.parse().ok()?,
        _ => {
            set_direction(&mut options.to_server, name, value)?;
            set_direction(&mut options.to_client, name, value)?;
        }
    }
    Some(())
}

fn set_direction(options: &mut LinkDirectionOptions, name: &str, value: &str) -> Option<()> {
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| *number >= 0.0);
    let time = || {
        let milliseconds = number(value.strip_suffix("ms")?)?;
        Duration::try_from_secs_f64(milliseconds / 1000.0).ok()
    };
    match name {
        "delay" => options.delay = time()?,
        "mbit" if value == "none" => options.bits_per_second = None,
        "mbit" => options.bits_per_second = Some(bits_per_second(number(value)?)),
        "queue" => options.queue_time = time()?,
        "loss" => options.loss = number(value)? / 100.0,
        "reordering" => options.reordering = number(value)? / 100.0,
        "max-packet" => options.max_packet = value.parse().ok()?,
        "down" => options.is_down = value == "yes",
        _ => return None,
    }
    Some(())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is not negative, and the cast saturates"
)]
fn bits_per_second(megabits: f64) -> u64 {
    (megabits * 1e6) as u64
}

fn print_counts(link: &KernelLink) -> io::Result<()> {
    let json = |counts: PacketCounts| {
        format!(
            r#"{{"delivered":{},"queue_full":{},"lost":{},"too_large":{},"while_down":{}}}"#,
            counts.delivered, counts.queue_full, counts.lost, counts.too_large, counts.while_down
        )
    };
    let (to_server, to_client) = (link.to_server().counts(), link.to_client().counts());
    let (to_server, to_client) = (json(to_server), json(to_client));
    let mut out = io::stdout();
    writeln!(
        out,
        r#"{{"to_server":{to_server},"to_client":{to_client}}}"#
    )
}
