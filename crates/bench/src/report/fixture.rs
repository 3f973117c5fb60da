//! Results for the tests of reports: three experiments, of which one has failures and was stopped.

use std::sync::LazyLock;

use crate::Cell;
use crate::measurement::{CpuTime, LatencyQuantiles, Measurement, PhaseTimes, ThreadCounts};
use crate::results::{
    BenchEnvironment, BenchResults, CellResults, ExperimentResults, GuessResults, GuessVerdict,
    RESULTS_FORMAT, RatioInterval, RoundsEnd,
};
use crate::statistics::{ratio_interval, spread};

/// A run with all that reports show.
pub(super) fn bench_results() -> BenchResults {
    // Intervals take a while in a debug build.
    static RESULTS: LazyLock<BenchResults> = LazyLock::new(build_results);
    RESULTS.clone()
}

fn build_results() -> BenchResults {
    BenchResults {
        format: RESULTS_FORMAT.to_owned(),
        started: "2027-01-18T09:30:00Z".to_owned(),
        elapsed_s: 192.4,
        is_partial: true,
        rate_hint: String::new(),
        environment: BenchEnvironment {
            haul: "0.9.0".to_owned(),
            commit: "4ded777c".to_owned(),
            command: "haul bench all --report out".to_owned(),
            kernel: "Linux 6.12.9".to_owned(),
            cpu: "AMD EPYC 7B13".to_owned(),
            cpus: 2,
            memory: 8 << 30,
        },
        experiments: vec![accelerate(), quirks(), sweep()],
    }
}

/// The same with a text of somebody else wherever there is one.
pub(super) fn with_text(text: &str) -> BenchResults {
    let mut results = bench_results();
    results.environment.cpu = text.to_owned();
    results.environment.command = text.to_owned();
    for experiment in &mut results.experiments {
        experiment.title = text.to_owned();
        experiment.lesson = text.to_owned();
        experiment.target = Some(text.to_owned());
        for factor in &mut experiment.factors {
            factor.push_str(text);
        }
        for (number, cell) in experiment.cells.iter_mut().enumerate() {
            let levels = std::mem::take(&mut cell.cell.levels);
            let level = |(factor, level)| (format!("{factor}{text}"), format!("{level}{text}"));
            cell.cell.levels = levels.into_iter().map(level).collect();
            cell.write_up = (number % 3 == 0).then(|| text.to_owned());
            cell.failure = (number % 7 == 0).then(|| text.to_owned());
            if let Some(measurement) = cell.measurements.first_mut() {
                measurement.add_errors(text, u64::from(number % 4 == 0));
            }
        }
        for guess in &mut experiment.guesses {
            guess.text = text.to_owned();
            guess.compared = text.to_owned();
        }
    }
    results
}

/// The text without the codes of colours.
pub(super) fn without_color(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap_or_default().to_owned();
    let rest = parts.map(|part| part.split_once('m').map_or(part, |(_, rest)| rest));
    first + &rest.collect::<String>()
}

/// The measurements of eleven rounds, of which some are slower than others.
fn measure(base: &Measurement) -> Vec<Measurement> {
    let round = |number: u32| {
        let factor = 1.0 + f64::from(number * 7 % 11) * 0.012;
        let mut measurement = base.clone();
        measurement.wall_s *= factor;
        if let Some(latency) = &mut measurement.latency {
            latency.p50_s *= factor;
            latency.p99_s *= factor;
        }
        measurement
    };
    (0..11).map(round).collect()
}

fn cell(levels: &[(&str, &str)], base: &Measurement) -> CellResults {
    let measurements = if base.wall_s > 0.0 {
        measure(base)
    } else {
        Vec::new()
    };
    CellResults {
        cell: Cell::new(levels.iter().copied()),
        wall: spread(&walls(&measurements)),
        measurements,
        ratio: None,
        write_up: None,
        failure: None,
    }
}

fn walls(measurements: &[Measurement]) -> Vec<f64> {
    let successful = measurements.iter().filter(|m| m.successes > 0);
    successful.map(|m| m.wall_s).collect()
}

/// Fills in the ratios to the baseline.
fn compare_with_baseline(experiment: &mut ExperimentResults) {
    let cells = experiment.cells.clone();
    for cell in &mut experiment.cells {
        let baseline = cell.cell.with(&experiment.baseline);
        let baseline = cells.iter().find(|other| other.cell == baseline);
        if let Some(baseline) = baseline.filter(|baseline| baseline.cell != cell.cell) {
            cell.ratio = ratio_interval(
                &walls(&cell.measurements),
                &walls(&baseline.measurements),
                7,
            );
        }
    }
}

fn accelerate() -> ExperimentResults {
    let mut cells = Vec::new();
    for (link, window) in [("1ms", 90.0), ("20ms", 26.4)] {
        for (level, connections) in [
            ("1", 1_u32),
            ("2", 2),
            ("4", 4),
            ("8", 8),
            ("16", 16),
            ("auto", 6),
        ] {
            // The link carries 180 MiB/s in all.
            let rate = f64::min(
                window * f64::from(connections),
                180.0 - f64::from(connections),
            );
            let mut cell = cell(
                &[("connections", level), ("link", link), ("size", "150M")],
                &Measurement {
                    wall_s: 150.0 / rate,
                    successes: 1,
                    bytes: 150 << 20,
                    connections: Some(u64::from(connections)),
                    client_cpu: Some(cpu(0.09 + 0.002 * f64::from(connections))),
                    server_cpu: Some(cpu(0.07)),
                    client_memory: Some(21 << 20),
                    ..Measurement::default()
                },
            );
            cell.write_up = match level {
                "1" => Some("26.4 MiB/s at home, 35 on a server".to_owned()),
                "auto" => Some("36.6 and 135 MiB/s, with 6".to_owned()),
                _ => None,
            };
            cells.push(cell);
        }
    }
    let mut experiment = ExperimentResults {
        name: "accelerate".to_owned(),
        title: "How many connections a download is worth".to_owned(),
        factors: ["size", "link", "connections"].map(str::to_owned).to_vec(),
        baseline: Cell::new([("connections", "1")]),
        max_rate: None,
        target: None,
        rounds: 11,
        end: RoundsEnd::Narrow,
        cells,
        guesses: vec![guess("Several connections are faster where one is limited by the round trip.", 0.24, GuessVerdict::Holds)],
        lesson: "One connection carries a window of data for each round trip. The longer the round trip, the more connections fit beside it \
                 before the link is full; beyond that each further one only costs a handshake."
            .to_owned(),
    };
    compare_with_baseline(&mut experiment);
    experiment
}

fn quirks() -> ExperimentResults {
    let mut cells = Vec::new();
    for (files, count, small) in [("100 x 1k", 100, true), ("20 x 10M", 20, false)] {
        for (concurrency, parallel) in [("sequential", 1.0), ("parallel", 4.2)] {
            for (protocol, tls) in [
                ("http", 0.0),
                ("https", 1.0),
                ("https-resumed", 0.4),
                ("h2", 0.9),
            ] {
                for (connections, handshakes) in [("kept", 0.02), ("each", 1.0)] {
                    let each = if small {
                        0.0035 / parallel
                    } else {
                        0.9 + 0.02 * parallel
                    };
                    let handshake = handshakes * (0.001 + 0.024 * tls);
                    cells.push(cell(
                        &[
                            ("files", files),
                            ("concurrency", concurrency),
                            ("protocol", protocol),
                            ("connections", connections),
                        ],
                        &request_measurement(count, small, each + handshake / parallel, handshake),
                    ));
                }
            }
        }
    }
    cells[0].write_up = Some("0.436 s".to_owned());
    cells[8].write_up = Some("0.097 s".to_owned());
    cells[16].write_up = Some("17.95 s".to_owned());
    let mut experiment = ExperimentResults {
        name: "quirks".to_owned(),
        title: "Small and large files, one after another and at once".to_owned(),
        factors: ["files", "concurrency", "protocol", "connections", "link"].map(str::to_owned).to_vec(),
        baseline: Cell::new([("concurrency", "sequential"), ("protocol", "http"), ("connections", "kept")]),
        max_rate: None,
        target: Some("https://files.example/<set>".to_owned()),
        rounds: 11,
        end: RoundsEnd::TimeSpent,
        cells,
        guesses: vec![
            guess("The handshake is what HTTPS costs.", 3.1, GuessVerdict::Holds),
            guess("Congestion control slows large files that are fetched in parallel.", 1.02, GuessVerdict::Open),
            guess("HTTP/2 is slower than HTTP/1.1 with keep-alive.", 0.93, GuessVerdict::Refuted),
        ],
        lesson: "Keep connections. A hundred small files are a hundred round trips if fetched in turn; in parallel the waits overlap. Large files \
                 wait for the link, so that neither matters."
            .to_owned(),
    };
    compare_with_baseline(&mut experiment);
    experiment
}

fn request_measurement(count: u32, small: bool, each: f64, handshake: f64) -> Measurement {
    Measurement {
        wall_s: each * f64::from(count),
        successes: u64::from(count),
        bytes: u64::from(count) * if small { 1 << 10 } else { 10 << 20 },
        latency: Some(LatencyQuantiles {
            p50_s: each,
            p90_s: each * 1.2,
            p99_s: each * 1.7,
            p999_s: each * 2.0,
            max_s: each * 2.5,
        }),
        phases: Some(PhaseTimes {
            dns_s: 0.0,
            connect_s: handshake * 0.1,
            tls_s: handshake * 0.9,
            first_byte_s: each * 0.4,
            body_s: each * 0.6,
        }),
        client_cpu: Some(cpu(0.002 + handshake)),
        ..Measurement::default()
    }
}

fn sweep() -> ExperimentResults {
    let mut cells = Vec::new();
    for (client, at_five, floor) in [
        ("threads", 3.64, 0.43),
        ("async", 2.75, 0.40),
        ("async-each", 5.55, 0.38),
    ] {
        for concurrency in [5_u32, 10, 20, 40, 60, 80, 100] {
            let mut base = request_measurement(100, true, 0.01, 0.001);
            base.wall_s = f64::max(at_five * 5.0 / f64::from(concurrency), floor);
            base.server_threads = Some(ThreadCounts { busy: 1, idle: 3 });
            if client == "async-each" && concurrency > 60 {
                base.successes = 81;
                base.wall_s *= 2.4;
                base.add_errors("timeout", 17);
                base.add_errors("connection refused", 2);
            }
            let concurrency_level = concurrency.to_string();
            let levels = [
                ("client", client),
                ("concurrency", concurrency_level.as_str()),
            ];
            if (client, concurrency) == ("async-each", 100) {
                base.wall_s = 0.0;
            }
            cells.push(cell(&levels, &base));
        }
    }
    if let Some(last) = cells.last_mut() {
        last.failure = Some("the origin did not answer within 30 s".to_owned());
    }
    cells[0].write_up = Some("3.64 s".to_owned());
    let mut experiment = ExperimentResults {
        name: "sweep".to_owned(),
        title: "A hundred files at more and more at once".to_owned(),
        factors: ["client", "concurrency"].map(str::to_owned).to_vec(),
        baseline: Cell::new([("client", "threads")]),
        max_rate: None,
        target: None,
        rounds: 11,
        end: RoundsEnd::Interrupted,
        cells,
        guesses: Vec::new(),
        lesson: "A listen queue that overflows drops connections, and each drop costs a second until it is tried again.".to_owned(),
    };
    compare_with_baseline(&mut experiment);
    experiment
}

fn guess(text: &str, ratio: f64, verdict: GuessVerdict) -> GuessResults {
    GuessResults {
        text: text.to_owned(),
        compared: "protocol https against protocol http, connections each".to_owned(),
        ratio: Some(RatioInterval {
            ratio,
            low: ratio * 0.94,
            high: ratio * 1.05,
        }),
        verdict,
    }
}

const fn cpu(total: f64) -> CpuTime {
    CpuTime {
        user_s: total * 0.3,
        system_s: total * 0.7,
    }
}
