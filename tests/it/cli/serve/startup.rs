//! The flags of a server and its start message.

use std::os::unix::fs::PermissionsExt as _;

use haul_lab::CertificateAuthority;

use super::{assert_status, start_server, test_folder, wait_for_address};
use crate::cli::harness::HaulDirectory;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_is_shared_for_reading() {
    let haul = test_folder();
    let served = start_server(&haul, &[]).await;
    let folder = haul.path("d").canonicalize().unwrap();
    assert_eq!(
        served.startup_lines,
        [
            format!(
                "haul: serving {}, read-only, to everybody",
                folder.display()
            ),
            format!("haul: listening on http://{}/", served.address),
        ]
    );
    let answer = served.request("GET /a.txt", "").await;
    assert_status(&answer, 200);
    assert!(answer.ends_with("\r\n\r\nhello"), "{answer}");
    assert_status(&served.request("PUT /b.txt", "b").await, 405);
    assert_eq!(haul.listing(), ["d"]);
    assert_eq!(
        super::super::harness::file_names(&haul.path("d")),
        ["a.txt"]
    );
    let output = served.stop().await;
    output.assert_code(0);
    assert_eq!(output.stdout, "");
}

/// Of a temporary store nobody could guess them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quiet_temporary_store_prints_its_keys_and_its_address_and_nothing_else() {
    let place = tempfile::tempdir().unwrap();
    let haul = HaulDirectory::new().with_variable("TMPDIR", place.path().to_str().unwrap());
    let mut served = haul.start(&["serve", "--s3", "-q", "-l", "127.0.0.1:0"]);
    let keys = served.wait_for_line("AWS_ACCESS_KEY_ID=").await;
    let variables: Vec<&str> = keys
        .split(' ')
        .filter_map(|word| word.split_once('='))
        .map(|(_, value)| value)
        .collect();
    let line = served.wait_for_line("--endpoint-url").await;
    // Nor can another user of the machine read the objects.
    for folder in std::fs::read_dir(place.path()).unwrap() {
        let mode = folder.unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
    let endpoint = line
        .split(' ')
        .find(|word| word.starts_with("http://"))
        .unwrap();
    let dir = HaulDirectory::new()
        .with_variable("AWS_ACCESS_KEY_ID", variables[0])
        .with_variable("AWS_SECRET_ACCESS_KEY", variables[1]);
    dir.run(&["ls", "--endpoint-url", endpoint, "s3://none/"])
        .await
        .assert_code(5)
        .assert_stderr_has("NoSuchBucket");
    served.signal(rustix::process::Signal::TERM);
    let output = served.wait().await;
    output.assert_code(0);
    assert_eq!(output.stderr, "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_current_folder_is_served_when_none_is_named() {
    let haul = HaulDirectory::new();
    haul.write("here.txt", "here");
    let served = wait_for_address(haul.start(&["serve", "-l", "127.0.0.1:0"])).await;
    let answer = served.request("GET /here.txt", "").await;
    assert_status(&answer, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uploads_are_accepted_with_writable_within_their_limits() {
    let haul = test_folder();
    let flags = [
        "-w",
        "--max-body",
        "1k",
        "--quota",
        "20",
        "--durability",
        "full",
    ];
    let served = start_server(&haul, &flags).await;
    assert!(served.startup_lines[0].contains("writable, to everybody"));
    assert_status(&served.request("PUT /new/b.txt", "bytes").await, 201);
    assert_eq!(std::fs::read(haul.path("d/new/b.txt")).unwrap(), b"bytes");
    let long = "x".repeat(1025);
    assert_status(&served.request("PUT /c.txt", &long).await, 413);
    // Ten are there already.
    assert_status(&served.request("PUT /c.txt", "0123456789a").await, 507);
    assert_status(&served.request("DELETE /new/b.txt", "").await, 204);
    assert!(!haul.path("d/new/b.txt").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unfinished_uploads_of_an_earlier_run_are_removed_and_reported() {
    let haul = test_folder();
    let served = start_server(&haul, &["-w"]).await;
    served.stop().await.assert_code(0);
    haul.write("d/.haul/.haul-put-4000000-0", "half an upload");
    let mut again = haul.start(&["serve", "d", "-w", "-l", "127.0.0.1:0"]);
    again.wait_for_line("removed 1 unfinished upload of").await;
    assert!(!haul.path("d/.haul/.haul-put-4000000-0").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_have_the_given_cache_control() {
    let haul = test_folder();
    let served = start_server(&haul, &["--cache-control", "max-age=7"]).await;
    let answer = served.request("GET /a.txt", "").await.to_ascii_lowercase();
    assert!(answer.contains("cache-control: max-age=7\r\n"), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_accept_strategy_serves() {
    let haul = test_folder();
    for strategy in ["work-stealing", "reuseport", "round-robin", "single"] {
        let served = start_server(&haul, &["--accept", strategy]).await;
        assert_status(&served.request("GET /a.txt", "").await, 200);
        served.stop().await.assert_code(0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_self_signed_certificate_comes_with_its_fingerprint() {
    let haul = test_folder();
    let mut served = start_server(&haul, &["--self-signed"]).await;
    let line = served.running.wait_for_line("fingerprint").await;
    let fingerprint = line.rsplit(' ').next().unwrap();
    assert_eq!(fingerprint.split(':').count(), 32, "{line}");
    let url = format!("https://{}/a.txt", served.address);
    haul.run(&["get", &url]).await.assert_code(5);
    haul.run(&["get", "-k", &url]).await.assert_code(0);
    assert_eq!(std::fs::read(haul.path("a.txt")).unwrap(), b"hello");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_is_reloaded_when_its_file_changes() {
    let haul = test_folder();
    let old = CertificateAuthority::new();
    let issued = old.issue(&["127.0.0.1"]);
    let both = |issued: &haul_lab::IssuedCertificate| {
        format!("{}{}", issued.certificate_pem, issued.key_pem)
    };
    let cert = haul.write("both.pem", both(&issued));
    haul.write("old.pem", old.certificate_pem());
    let mut served = start_server(&haul, &["--cert", &cert]).await;
    assert!(served.startup_lines[1].contains("listening on https://"));
    let url = format!("https://{}/a.txt", served.address);
    haul.run(&["get", "--cacert", "old.pem", "-o", "1", &url])
        .await
        .assert_code(0);
    let new = CertificateAuthority::new();
    haul.write("new.pem", new.certificate_pem());
    // Half of a pair first: the old pair stays in use, with one warning.
    haul.write("both.pem", new.issue(&["127.0.0.1"]).certificate_pem);
    served
        .running
        .wait_for_line("the old certificate stays in use")
        .await;
    haul.run(&["get", "--cacert", "old.pem", "-o", "2", &url])
        .await
        .assert_code(0);
    haul.write("both.pem", both(&new.issue(&["127.0.0.1"])));
    served.running.signal(rustix::process::Signal::HUP);
    served.running.wait_for_line("haul: reloaded").await;
    haul.run(&["get", "--cacert", "new.pem", "-o", "3", &url])
        .await
        .assert_code(0);
    served.stop().await.assert_code(0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expired_certificate_is_used_and_warned_of() {
    let haul = test_folder();
    let authority = CertificateAuthority::new();
    let both = |issued: &haul_lab::IssuedCertificate| {
        format!("{}{}", issued.certificate_pem, issued.key_pem)
    };
    let cert = haul.write("both.pem", both(&authority.issue_expired(&["127.0.0.1"])));
    let mut served = start_server(&haul, &["--cert", &cert]).await;
    let warning = "both.pem expired on ";
    let line = served.running.wait_for_line(warning).await;
    assert!(
        line.contains("warning: ") && line.contains("renewed"),
        "{line}"
    );
    let url = format!("https://{}/a.txt", served.address);
    haul.run(&["get", "-k", "-o", "1", &url])
        .await
        .assert_code(0);
    // Read again it is no better.
    served.running.signal(rustix::process::Signal::HUP);
    served.running.wait_for_line(warning).await;
    served.running.wait_for_line("haul: reloaded").await;
    // What failed is not called reloaded.
    std::fs::remove_file(&cert).unwrap();
    served.running.signal(rustix::process::Signal::HUP);
    served
        .running
        .wait_for_line("the old certificate stays in use")
        .await;
    let output = served.stop().await;
    output.assert_code(0);
    assert!(!output.stderr.contains("haul: reloaded"), "{output:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quiet_is_quiet() {
    let haul = test_folder();
    let socket = haul.path("s.sock");
    let address = format!("unix:{}", socket.display());
    // With a service manager to say when it is ready, since it says nothing itself.
    let manager = std::os::unix::net::UnixDatagram::bind(haul.path("notify")).unwrap();
    let place = haul.path("notify").to_str().unwrap().to_owned();
    let haul = haul.with_variable("NOTIFY_SOCKET", &place);
    let running = haul.start(&["serve", "d", "-q", "-w", "-l", &address, "-l", "0.0.0.0:0"]);
    let mut notification = [0; 64];
    let length = tokio::task::spawn_blocking(move || {
        manager.recv(&mut notification).map(|n| (n, notification))
    });
    let (length, notification) = haul_lab::within(super::LIMIT, length)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(&notification[..length], b"READY=1");
    running.signal(rustix::process::Signal::INT);
    let output = running.wait().await;
    output.assert_code(0);
    // The service manager is gone before it could be notified of the end.
    assert!(!output.stderr.contains("serving") && !output.stderr.contains("may put and delete"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uploaded_html_is_served_without_rights() {
    let haul = test_folder();
    haul.write("d/x.html", "<script>1</script>");
    let field = "content-security-policy: sandbox";
    for (flags, path, is_boxed) in [
        (&["-w"][..], "/x.html", true),
        (&["-w"], "/a.txt", false),
        (&[], "/x.html", false),
    ] {
        let served = start_server(&haul, flags).await;
        let answer = served.request(&format!("GET {path}"), "").await;
        assert_eq!(
            answer.contains(field),
            is_boxed,
            "{flags:?} {path}: {answer}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_has_the_bytes_received() {
    let haul = test_folder();
    let log = haul.path("log").display().to_string();
    let served = start_server(&haul, &["-w", "--access-log", &log, "--log-format", "json"]).await;
    assert_status(&served.request("PUT /new", &"x".repeat(1234)).await, 201);
    served.stop().await.assert_code(0);
    let log_text = std::fs::read_to_string(&log).unwrap();
    assert!(log_text.contains("\"received\":1234"), "{log_text}");
}
