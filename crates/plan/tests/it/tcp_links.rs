//! Downloads over links with TCP.

use std::time::Duration;

use haul_plan::ConnectionControlOptions;

use crate::race::{fixed, mib};
use crate::congestion_window::CongestionControl;
use crate::tcp_download::TcpDownload;
use crate::tcp_link::TcpPath;

/// A link of `scripts/bench wan`.
fn path(round_trip: u64, mbit: f64, queue: u64) -> TcpPath {
    TcpPath {
        round_trip: Duration::from_millis(round_trip),
        bits_per_second: mbit * 1e6,
        queue_time: Duration::from_millis(queue),
        ..TcpPath::default()
    }
}

#[test]
fn table() {
    let far = path(100, 200.0, 100);
    let cases = [
        ("near", path(30, 500.0, 50), 128.0),
        ("far", far, 64.0),
        ("far-loss", TcpPath { loss: 0.001, ..far }, 64.0),
        ("across", path(200, 200.0, 200), 64.0),
        ("throttled", TcpPath { connection_limit: Some(2.0 * 1048576.0), ..path(100, 500.0, 50) }, 64.0),
        ("mid", far, 8.0),
        ("far-bbr", TcpPath { congestion_control: CongestionControl::Bbr, ..far }, 64.0),
        ("short", path(10, 100.0, 20), 32.0),
        ("one-ms", path(2, 200.0, 5), 64.0),
        ("slow", path(50, 10.0, 50), 8.0),
        ("loss1", TcpPath { loss: 0.01, ..path(50, 100.0, 50) }, 32.0),
        ("small-queue", path(50, 200.0, 12), 64.0),
        ("deep", path(50, 100.0, 100), 64.0),
    ];
    for (name, path, size) in cases {
        for (x, options) in [("1", fixed(1)), ("4", fixed(4)), ("16", fixed(16)), ("u", ConnectionControlOptions::default())] {
            let began = std::time::Instant::now();
            let n = if name == "far-loss" && x == "1" { 12 } else { 8 };
            let mut outs: Vec<_> = (1..=n).map(|seed| TcpDownload::run(TcpPath { seed, ..path }, mib(size), options)).collect();
            outs.sort_by_key(|o| o.time);
            let t = |i: usize| outs[i].time.as_secs_f64();
            let mean = outs.iter().map(|o| o.time.as_secs_f64()).sum::<f64>() / n as f64;
            println!("{name} {x} mean {mean:.3} med {:.3} ({:.3}-{:.3}) req {:?} drops {:?} {:?}", t(n as usize/2), t(0), t(n as usize-1), outs.iter().map(|o| o.requests).collect::<Vec<_>>(), outs.iter().map(|o| o.drops).collect::<Vec<_>>(), began.elapsed() / n as u32);
        }
    }
}
