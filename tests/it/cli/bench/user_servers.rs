//! Experiments on a server that the user names.

use std::fmt::Write as _;

use haul_lab::{CertificateAuthority, ObjectStore};

use super::{bench, bench_success, set};
use crate::cli::harness::{HaulDirectory, file_names};
use crate::cli::soak_server::SoakServer;

/// A directory with files `d/0` to `d/4` of 10,000 bytes.
fn directory() -> HaulDirectory {
    let haul = HaulDirectory::new();
    std::fs::create_dir(haul.path("d")).unwrap();
    for number in 0..5 {
        haul.write(&format!("d/{number}"), [b'x'; 10_000]);
    }
    haul
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_fetched_where_they_are() {
    let haul = directory();
    let server = SoakServer::start(&haul.path("d"), &[]);
    let (url, pid) = (
        format!("http://{}/", server.address),
        server.pid().to_string(),
    );
    let (one, other) = (format!("{url}0"), format!("{url}1"));
    let flags = set(&["connections=each", "concurrency=1", "files=4 x given"]);
    let args = [&["quirks", &one, &other, "--server-pid", &pid], &*flags].concat();
    let run = bench_success(&haul, &args).await;
    let found = run.experiment("quirks");
    assert_eq!(found.target, Some(format!("{one} and 1 more")));
    assert_eq!(found.cells.len(), 2);
    for measured in run.measurements("quirks", &[]) {
        assert_eq!((measured.successes, measured.bytes), (4, 40_000));
        assert!(measured.server_cpu.unwrap().total_s() > 0.0);
    }

    let list = (0..5).fold("# files\n".to_owned(), |mut list, number| {
        writeln!(list, "{url}{number}").unwrap();
        list
    });
    haul.write("list", list);
    let flags = set(&["concurrency=5", "client=async", "connections=each"]);
    let run = bench_success(&haul, &[&["sweep", "-i", "list"], &*flags].concat()).await;
    assert_eq!(run.results.experiments.len(), 1);
    for measured in run.measurements("sweep", &[]) {
        assert_eq!((measured.successes, measured.bytes), (100, 1_000_000));
        assert_eq!(measured.server_cpu, None);
    }

    let flags = set(&["connections=1,2"]);
    let args = [&["accelerate", &one, "--server-pid", &pid], &*flags].concat();
    let run = bench_success(&haul, &args).await;
    for measured in run.measurements("accelerate", &[]) {
        assert_eq!((measured.successes, measured.bytes), (1, 10_000));
        assert!(measured.server_cpu.is_some(), "{measured:#?}");
    }
    assert_eq!(file_names(&haul.path("d")).len(), 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn https_needs_a_certificate_that_is_trusted() {
    let haul = directory();
    let authority = CertificateAuthority::new();
    let files = authority.issue(&["127.0.0.1"]).write_files().unwrap();
    let ca = haul.write("ca.pem", authority.certificate_pem());
    let (certificate, key) = (files.certificate.to_str(), files.key.to_str());
    let tls = ["--cert", certificate.unwrap(), "--key", key.unwrap()];
    let server = SoakServer::start(&haul.path("d"), &tls);
    let url = format!("https://{}/0", server.address);
    let flags = set(&["files=3 x given", "concurrency=1"]);
    let args = [&["quirks", &url, "--cacert", &ca], &*flags].concat();
    let run = bench_success(&haul, &args).await;
    assert_eq!(run.experiment("quirks").cells.len(), 5);
    for measured in run.measurements("quirks", &[("connections", "each")]) {
        assert!(measured.phases.unwrap().tls_s > 0.0, "{measured:#?}");
    }
    let flags = set(&["connections=2"]);
    bench_success(
        &haul,
        &[&["accelerate", &url, "--cacert", &ca], &*flags].concat(),
    )
    .await;

    let other = haul.write("other.pem", CertificateAuthority::new().certificate_pem());
    for (command, kind) in [("quirks", "TLS"), ("accelerate", "certificate")] {
        let run = bench(&haul, &[command, &url, "--cacert", &other, "--time", "1s"]).await;
        run.output.assert_code(5);
        assert!(run.output.stdout.contains(kind), "{:#?}", run.output);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_stays_on_a_server_that_stored_files() {
    let haul = directory();
    let server = SoakServer::start(&haul.path("d"), &["--writable"]);
    let url = format!("http://{}/", server.address);
    let flags = set(&["files=10 x 2k", "concurrency=3"]);
    let run = bench_success(&haul, &[&["store", &url], &*flags].concat()).await;
    assert_eq!(run.experiment("store").cells.len(), 3);
    assert!(!run.output.stderr.contains("warning"), "{:#?}", run.output);
    assert_no_stored_file(&haul);
}

/// Asserts that the folder `d` has no more than its own files, and the folder of `haul serve` for uploads.
#[track_caller]
pub(super) fn assert_no_stored_file(haul: &HaulDirectory) {
    let names = file_names(&haul.path("d"));
    assert_eq!(names, [".haul", "0", "1", "2", "3", "4"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_takes_no_files_is_told() {
    let haul = directory();
    let server = SoakServer::start(&haul.path("d"), &[]);
    let url = format!("http://{}/", server.address);
    let flags = set(&["files=4 x 2k", "concurrency=1"]);
    let run = bench(&haul, &[&["store", &url], &*flags].concat()).await;
    run.output.assert_code(5);
    assert!(run.output.stdout.contains("status 4"), "{:#?}", run.output);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_stays_in_a_bucket() {
    let store = ObjectStore::start().await;
    store.insert("p/mine", b"kept");
    let haul = HaulDirectory::new()
        .with_variable("AWS_ENDPOINT_URL_S3", &store.url())
        .with_variable("AWS_ACCESS_KEY_ID", "key")
        .with_variable("AWS_SECRET_ACCESS_KEY", "s3cret");
    let flags = set(&["files=1 x 6M,4 x 1k", "connections=1,4"]);
    let run = bench_success(&haul, &[&["s3", "s3://bucket/p/"], &*flags].concat()).await;
    assert_eq!(run.experiment("s3").cells.len(), 8);
    assert_eq!(store.keys(), ["p/mine"]);
    assert_eq!(store.pending_uploads(), 0);
    assert!(
        !std::fs::read_to_string(haul.path("out/results.json"))
            .unwrap()
            .contains("s3cret")
    );
    // A key that is wrong, or none.
    let haul = HaulDirectory::new().with_variable("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1");
    let refused = bench(&haul, &[&["s3", "s3://bucket/p/"], &*flags].concat()).await;
    refused.output.assert_code(5);
}
