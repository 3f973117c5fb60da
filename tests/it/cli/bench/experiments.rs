//! Each experiment on haul's own servers.

use haul_bench::statistics::median;
use haul_lab::HttpProxy;

use super::{bench_success, set};
use crate::cli::harness::HaulDirectory;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accelerate_shows_that_connections_add_up_where_each_is_limited() {
    let haul = HaulDirectory::new();
    let flags = set(&["files=1 x 2M", "link=1ms 8M/200M", "connections=1,4,auto"]);
    let run = bench_success(&haul, &[&["accelerate"], &*flags].concat()).await;
    assert_eq!(run.experiment("accelerate").cells.len(), 3);
    // 2 MiB at 8 MiB/s.
    for measured in run.measurements("accelerate", &[("connections", "1")]) {
        assert!(measured.wall_s > 0.15, "{measured:#?}");
        assert_eq!(measured.connections, Some(1));
    }
    assert!(run.ratio("accelerate", &[("connections", "4")]) < 0.9);
    // The write-up's figures are of other sizes.
    let report = std::fs::read_to_string(haul.path("out/report.md")).unwrap();
    assert!(!report.contains("MiB/s at home"), "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quirks_splits_the_time_of_each_protocol() {
    let haul = HaulDirectory::new();
    let flags = set(&["files=6 x 1k", "link=2ms", "concurrency=1,all"]);
    let run = bench_success(&haul, &[&["quirks"], &*flags].concat()).await;
    assert_eq!(run.experiment("quirks").cells.len(), 14);
    for protocol in ["http", "https", "https-resumed", "h2"] {
        let of = |connections| {
            run.measurements(
                "quirks",
                &[("protocol", protocol), ("connections", connections)],
            )
        };
        for measured in of("each") {
            assert_eq!(measured.connections, Some(6), "{protocol}");
            let resumed = (protocol == "https-resumed").then_some(6);
            assert_eq!(measured.resumed, resumed, "{protocol}");
            let phases = measured.phases.unwrap();
            assert!(phases.connect_s > 0.0, "{protocol}: {phases:?}");
            assert_eq!(phases.tls_s > 0.0, protocol != "http", "{protocol}");
            // The link's round trip.
            assert!(phases.first_byte_s >= 0.002, "{protocol}: {phases:?}");
            assert!(measured.latency.unwrap().p50_s >= 0.002, "{protocol}");
        }
        if protocol == "https-resumed" {
            // A kept connection resumes nothing.
            continue;
        }
        let kept = run.measurements(
            "quirks",
            &[
                ("protocol", protocol),
                ("connections", "keep-alive"),
                ("concurrency", "1"),
            ],
        );
        for measured in kept {
            // The one connection is made before the first request, or is part of it.
            assert_eq!(measured.connections, Some(1), "{protocol}");
        }
    }
    // A handshake for six requests, and one for each.
    let handshake = |connections| {
        let levels = [
            ("protocol", "https"),
            ("connections", connections),
            ("concurrency", "1"),
        ];
        let times: Vec<f64> = run
            .measurements("quirks", &levels)
            .into_iter()
            .map(|found| found.phases.unwrap().tls_s)
            .collect();
        median(&times).unwrap()
    };
    assert!(handshake("keep-alive") < 0.5 * handshake("each"));
    let parallel = [
        ("protocol", "http"),
        ("connections", "keep-alive"),
        ("concurrency", "all"),
    ];
    assert!(run.ratio("quirks", &parallel) < 0.9);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sweep_is_faster_with_more_requests_at_a_time() {
    let haul = HaulDirectory::new();
    let flags = set(&["files=20 x 1k", "link=10ms", "concurrency=5,20"]);
    // A list leaves the other experiment out, and these have none.
    let file = haul.run(&["bench", "show", "sweep"]).await.stdout;
    haul.write("sweep.toml", file);
    let run = bench_success(&haul, &[&["run", "sweep.toml"], &*flags].concat()).await;
    assert_eq!(run.experiment("sweep").cells.len(), 6);
    for (client, connections) in [
        ("threads", "keep-alive"),
        ("async", "keep-alive"),
        ("async", "each"),
    ] {
        let levels = |concurrency| {
            [
                ("client", client),
                ("connections", connections),
                ("concurrency", concurrency),
            ]
        };
        assert!(run.ratio("sweep", &levels("20")) < 0.8);
        for (concurrency, most) in [("5", 5), ("20", 20)] {
            for measured in run.measurements("sweep", &levels(concurrency)) {
                let made = measured.connections.unwrap();
                match connections {
                    "each" => assert_eq!(made, 20),
                    _ => assert!((1..=most).contains(&made), "{made} of {most}"),
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_queue_makes_a_client_wait_and_not_work() {
    let haul = HaulDirectory::new();
    let flags = set(&[
        "files=40 x 1k",
        "link=loopback",
        "connections=each",
        "concurrency=5,40",
        "client=async",
    ]);
    let run = bench_success(&haul, &[&["sweep"], &*flags].concat()).await;
    let levels = |server, concurrency| [("server", server), ("concurrency", concurrency)];
    for measured in run.measurements("collapse", &levels("short-queue", "40")) {
        assert!(measured.wall_s > 0.9, "{measured:#?}");
        assert!(
            measured.client_cpu.unwrap().total_s() < 0.5,
            "{measured:#?}"
        );
        assert!(measured.latency.unwrap().max_s > 0.9, "{measured:#?}");
    }
    for levels in [levels("short-queue", "5"), levels("serve", "40")] {
        let cells = run.cells("collapse", &levels);
        assert!(cells[0].wall.unwrap().median < 0.9, "{cells:#?}");
    }
    let both: Vec<_> = run
        .results
        .experiments
        .iter()
        .map(|all| &all.name)
        .collect();
    assert_eq!(both, ["sweep", "collapse"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn store_puts_gets_and_deletes_with_each_way_of_accepting() {
    let haul = HaulDirectory::new();
    let flags = set(&["files=20 x 4k", "concurrency=4"]);
    // The experiment skips some combinations of methods and its own sizes alone.
    let run = bench_success(&haul, &[&["store"], &*flags].concat()).await;
    assert_eq!(run.experiment("store").cells.len(), 12);
    for accept in ["single", "reuseport", "round-robin", "work-stealing"] {
        for method in ["put", "get", "delete"] {
            for measured in run.measurements("store", &[("accept", accept), ("method", method)]) {
                let made = measured.connections.unwrap();
                assert!((1..=4).contains(&made), "{accept} {method}: {made}");
                let threads = measured.server_threads.unwrap();
                assert!(threads.busy + threads.idle > 0, "{threads:?}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tunnel_takes_each_route_and_counts_the_tunnel_to_the_server() {
    let haul = HaulDirectory::new();
    let flags = set(&["files=30 x 1k"]);
    let run = bench_success(&haul, &[&["tunnel"], &*flags].concat()).await;
    assert_eq!(run.experiment("tunnel").cells.len(), 8);
    for route in ["direct", "proxy", "tunnel", "warm-tunnel"] {
        let of = |connections| {
            run.measurements("tunnel", &[("route", route), ("connections", connections)])
        };
        for measured in of("each") {
            assert_eq!(measured.connections, Some(30), "{route}");
        }
        for measured in of("keep-alive") {
            let made = measured.connections.unwrap();
            // The proxy closes each connection, like the write-up's; what is tunnelled is kept.
            match route {
                "proxy" => assert_eq!(made, 30),
                _ => assert!((1..=5).contains(&made), "{route}: {made}"),
            }
        }
    }
    // Two processes have more memory than one.
    let least = |route| {
        let memory = run.measurements("tunnel", &[("route", route)]);
        memory.iter().filter_map(|found| found.server_memory).min()
    };
    assert!(least("tunnel").unwrap() > least("direct").unwrap() + (4 << 20));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_of_the_users_is_used() {
    let haul = HaulDirectory::new();
    let proxy = HttpProxy::builder().start().await;
    let address = proxy.address().to_string();
    let flags = set(&["files=5 x 1k", "route=proxy,tunnel", "connections=each"]);
    let args = [&["tunnel", "--proxy", &address], &*flags].concat();
    let run = bench_success(&haul, &args).await;
    assert_eq!(run.experiment("tunnel").cells.len(), 2);
    let requests = proxy.requests();
    for method in ["GET", "CONNECT"] {
        let is_there = requests.iter().any(|request| request.method == method);
        assert!(is_there, "{method}: {requests:#?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_puts_and_gets_large_and_small_objects() {
    let haul = HaulDirectory::new();
    let flags = set(&["files=1 x 6M,8 x 1k", "link=5ms", "connections=1,4"]);
    let run = bench_success(&haul, &[&["s3"], &*flags].concat()).await;
    assert_eq!(run.experiment("s3").cells.len(), 8);
    for direction in ["put", "get"] {
        let small = [
            ("direction", direction),
            ("files", "8 x 1k"),
            ("connections", "4"),
        ];
        assert!(run.ratio("s3", &small) < 0.95, "{direction}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_experiments_come_into_one_report() {
    let haul = HaulDirectory::new();
    let mut args = vec!["all", "--time", "50ms"];
    for levels in [
        "files=2 x 1k",
        "link=loopback",
        "concurrency=1",
        "connections=1",
        "connections=each",
        "protocol=http,h2",
        "accept=single",
        "route=direct,tunnel",
        "direction=get",
    ] {
        args.extend(["--set", levels]);
    }
    let run = bench_success(&haul, &args).await;
    let names: Vec<_> = run
        .results
        .experiments
        .iter()
        .map(|all| &*all.name)
        .collect();
    let all = [
        "accelerate",
        "quirks",
        "sweep",
        "collapse",
        "store",
        "tunnel",
        "s3",
    ];
    assert_eq!(names, all);
    let page = std::fs::read_to_string(haul.path("out/report.html")).unwrap();
    for name in all {
        assert!(page.contains(name) && run.output.stdout.contains(&format!("{name}: ")));
    }
    let environment = &run.results.environment;
    assert!(
        environment.command.contains(" bench all "),
        "{environment:?}"
    );
    assert!(environment.cpus > 0 && environment.kernel.starts_with("Linux "));
}
