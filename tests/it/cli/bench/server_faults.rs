//! Servers that are down, refuse, or drop connections: what is counted, and what the command says.

use haul_bench::results::RoundsEnd;
use haul_lab::{Origin, OriginResource, RequestMatcher, ResourceContent, faults};

use super::{BenchRun, bench, set};
use crate::cli::harness::{HaulDirectory, file_names};

/// `haul bench quirks` of one URL, a few requests at a time.
async fn quirks(haul: &HaulDirectory, url: &str) -> BenchRun {
    let flags = set(&["files=8 x given", "concurrency=2", "connections=each"]);
    bench(haul, &[&["quirks", url], &*flags].concat()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_down_is_told_and_nothing_is_a_success() {
    let haul = HaulDirectory::new();
    // Bound, and nobody listens: no other process gets the port.
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let any = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    socket.bind(&any.into()).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    let url = format!("http://{address}/x");
    let run = quirks(&haul, &url).await;
    run.output.assert_code(5);
    assert!(
        run.output.stdout.contains("connection refused"),
        "{:#?}",
        run.output
    );
    assert_eq!(run.errors()["connection refused"], 8);
    let accelerate = ["accelerate", &url, "--set", "connections=1"];
    let store = ["store", &url, "--set", "files=2 x 1k"];
    for args in [accelerate, store] {
        let run = bench(&haul, &args).await;
        run.output.assert_code(5);
        assert!(run.output.stdout.contains("refused"), "{:#?}", run.output);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_are_counted_by_their_status() {
    let haul = HaulDirectory::new();
    for (rule, kind) in [(503, "status 503"), (404, "status 404")] {
        let resource = OriginResource::new(ResourceContent::random(1, 1000)).rule(
            RequestMatcher::always(),
            faults::status_with_header(rule, "Retry-After", "1".to_owned()),
        );
        let origin = Origin::builder().resource("/x", resource).start().await;
        let run = quirks(&haul, &origin.url("/x")).await;
        run.output.assert_code(5);
        assert_eq!(
            run.errors().into_iter().collect::<Vec<_>>(),
            [(kind.to_owned(), 8)]
        );
        let cell = &run.experiment("quirks").cells[0];
        assert_eq!((cell.wall, cell.measurements[0].successes), (None, 0));
        assert!(run.output.stdout.contains(kind), "{:#?}", run.output);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_break_are_errors_and_the_rest_is_measured() {
    let haul = HaulDirectory::new();
    let even = RequestMatcher::matching(|request| request.connection % 2 == 0);
    let resource = OriginResource::new(ResourceContent::random(1, 100_000))
        .rule(even, faults::close_after(50_000));
    let origin = Origin::builder().resource("/x", resource).start().await;
    let run = quirks(&haul, &origin.url("/x")).await;
    run.output.assert_code(0);
    for measured in run.measurements("quirks", &[]) {
        assert_eq!((measured.successes, measured.bytes), (4, 400_000));
        assert_eq!(measured.errors["truncated body"], 4);
    }
    let report = std::fs::read_to_string(haul.path("out/report.md")).unwrap();
    assert!(report.contains("truncated body"), "{report}");

    let always = OriginResource::new(ResourceContent::random(1, 100_000))
        .rule(RequestMatcher::always(), faults::close_after(50_000));
    let origin = Origin::builder().resource("/x", always).start().await;
    let run = quirks(&haul, &origin.url("/x")).await;
    run.output.assert_code(5);
    assert_eq!(run.errors()["truncated body"], 8);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_says_nothing_is_given_up() {
    let haul = HaulDirectory::new();
    let resource = OriginResource::new(ResourceContent::random(1, 100_000))
        .rule(RequestMatcher::always(), faults::stall_after(1000));
    let origin = Origin::builder().resource("/x", resource).start().await;
    let run = quirks(&haul, &origin.url("/x")).await;
    // Long before its requests are.
    assert!(run.results.elapsed_s < 25.0, "{:#?}", run.output);
    run.output.assert_code(5);
    let found = run.experiment("quirks");
    assert_eq!((found.end, found.rounds), (RoundsEnd::TimeSpent, 0));
    assert!(found.cells[0].wall.is_none() && found.cells[0].measurements.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_of_a_url_are_in_no_report() {
    let haul = HaulDirectory::new();
    let resource = OriginResource::new(ResourceContent::random(1, 1000));
    let origin = Origin::builder().resource("/x", resource).start().await;
    let url = format!(
        "http://me:s3cret@{}/x?X-Amz-Signature=s1gned",
        origin.address()
    );
    let run = quirks(&haul, &url).await;
    for name in file_names(&haul.path("out")) {
        let report = std::fs::read_to_string(haul.path("out").join(&name)).unwrap();
        let texts = [&report, &run.output.stdout, &run.output.stderr];
        for text in texts {
            assert!(
                !text.contains("s3cret") && !text.contains("s1gned"),
                "{name}: {text}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_url_that_fails_does_not_spoil_the_other() {
    let haul = HaulDirectory::new();
    let resource = OriginResource::new(ResourceContent::random(1, 1000));
    let origin = Origin::builder().resource("/x", resource).start().await;
    let (good, missing) = (origin.url("/x"), origin.url("/missing"));
    let flags = set(&["files=4 x given", "concurrency=1", "connections=each"]);
    let run = bench(&haul, &[&["quirks", &good, &missing], &*flags].concat()).await;
    run.output.assert_code(1);
    let cells = &run.experiment("quirks").cells;
    assert!(cells[0].wall.is_some() && cells[0].failure.is_none());
    let failure = cells[1].failure.as_deref().unwrap();
    assert_eq!(failure, "nothing but failures: 4 x status 404");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_host_gets_no_more_than_100_requests_a_second() {
    let haul = HaulDirectory::new();
    let words = "bench.invalid gets at most 100 requests a second; --yes allows more";
    let run = quirks(&haul, "http://bench.invalid/x").await;
    run.output.assert_code(5).assert_stderr_has(words);
    assert_eq!(run.errors()["name resolution"], 8);
    let flags = set(&["files=2 x given", "concurrency=1", "connections=each"]);
    let args = [&["quirks", "http://bench.invalid/x", "--yes"], &*flags].concat();
    let run = bench(&haul, &args).await;
    run.output.assert_code(5);
    assert!(!run.output.stderr.contains("at most"), "{:#?}", run.output);
    // This machine may have as many as it takes.
    let [port] = haul_lab::free_ports();
    let url = format!("http://localhost:{port}/x");
    let run = quirks(&haul, &url).await;
    assert!(!run.output.stderr.contains("at most"), "{:#?}", run.output);
}
