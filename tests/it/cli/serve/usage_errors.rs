//! Why a server does not begin, in the words of somebody who does it for the first time.

use haul_lab::CertificateAuthority;

use super::{start_server, test_folder};
use crate::cli::harness::HaulDirectory;

/// Runs it to an end that must come by itself.
async fn error_of(haul: &HaulDirectory, args: &[&str], code: i32) -> String {
    let output = haul.run(&[&["serve"], args].concat()).await;
    output.assert_code(code);
    assert_eq!(output.stdout, "");
    assert!(output.stderr.contains("hint: "), "{output:#?}");
    assert!(!output.stderr.contains("listening"), "{output:#?}");
    let line = args.join(" ");
    let stderr = output.stderr_text(haul, None);
    format!("{line}\n{}", stderr.trim_end()).replace(haul.dir.path().to_str().unwrap(), "[DIR]")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn folders() {
    let haul = test_folder();
    haul.write("file", "f");
    std::fs::create_dir(haul.path("odd")).unwrap();
    haul.write("odd/.haul", "not a folder");
    std::fs::create_dir_all(haul.path("linked/.haul")).unwrap();
    std::os::unix::fs::symlink("/nowhere", haul.path("linked/.haul/lock")).unwrap();
    let errors = [
        error_of(&haul, &["none"], 4).await,
        error_of(&haul, &["https://example.com/"], 4).await,
        error_of(&haul, &["file"], 4).await,
        error_of(&haul, &["d/a.txt/b"], 4).await,
        error_of(&haul, &["odd", "-w"], 4).await,
        error_of(&haul, &["linked", "-w"], 4).await,
        error_of(&haul, &["d", "--access-log", "none/log"], 4).await,
    ];
    insta::assert_snapshot!("refused-folders", errors.join("\n\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn addresses() {
    let haul = test_folder();
    haul.write("file", "f");
    let errors = [
        error_of(&haul, &["d", "-l", "192.0.2.1:8080"], 5).await,
        error_of(&haul, &["d", "-l", "unix:none/s.sock"], 4).await,
        error_of(&haul, &["d", "-l", "unix:file"], 4).await,
        error_of(&haul, &["d", "-l", "systemd"], 2).await,
        error_of(&haul, &["d", "-l", "localhost"], 2).await,
        error_of(&haul, &["d", "-l", "http://localhost:80"], 2).await,
        error_of(&haul, &["d", "-l", "127.0.0.1:99999"], 2).await,
    ];
    insta::assert_snapshot!("refused-addresses", errors.join("\n\n"));
    let served = start_server(&haul, &[]).await;
    let taken = served.address.as_str();
    for args in [["d", "-l", taken], ["d", "--admin", taken]] {
        let args = [&args[..], &["-l", "127.0.0.1:0"]].concat();
        let error = error_of(&haul, &args, 5).await;
        assert!(error.contains("is taken by another server"), "{error}");
    }
}

/// Not another server's fault.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn addresses_given_twice() {
    let haul = test_folder();
    let port = haul_lab::free_ports::<1>()[0].to_string();
    let every = format!(":{port}");
    std::os::unix::fs::symlink("d", haul.path("link")).unwrap();
    let mut errors = Vec::new();
    for args in [
        ["-l", "unix:d/s", "-l", "unix:d/s"],
        ["-l", "unix:d/s", "-l", "unix:link/../link/s?mode=600"],
        ["-l", "unix:d/s", "--admin", "unix:d/s"],
        ["-l", &port, "-l", &port],
        ["-l", &every, "-l", &port],
        ["-l", &port, "-l", &every],
        ["-l", &port, "--admin", &port],
    ] {
        let error = error_of(&haul, &[&["d"], &args[..]].concat(), 2).await;
        errors.push(error.replace(&port, "[PORT]"));
    }
    insta::assert_snapshot!("refused-twice", errors.join("\n\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates() {
    let haul = test_folder();
    let issued = CertificateAuthority::new().issue(&["localhost"]);
    haul.write("cert.pem", &issued.certificate_pem);
    haul.write("key.pem", &issued.key_pem);
    haul.write(
        "other.pem",
        CertificateAuthority::new().issue(&["localhost"]).key_pem,
    );
    haul.write("junk.pem", "junk");
    let errors = [
        error_of(&haul, &["d", "--cert", "none.pem"], 2).await,
        error_of(&haul, &["d", "--cert", "cert.pem"], 2).await,
        error_of(&haul, &["d", "--cert", "key.pem", "--key", "cert.pem"], 2).await,
        error_of(&haul, &["d", "--cert", "cert.pem", "--key", "other.pem"], 2).await,
        error_of(&haul, &["d", "--cert", "junk.pem", "--key", "key.pem"], 2).await,
    ];
    insta::assert_snapshot!("refused-certificates", errors.join("\n\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_and_times() {
    let haul = test_folder();
    let errors = [
        error_of(&haul, &["d", "--max-connections", "0"], 2).await,
        error_of(
            &haul,
            &["d", "--max-connections", "99999999999999999999"],
            2,
        )
        .await,
        error_of(&haul, &["d", "--max-connections", "many"], 2).await,
        error_of(&haul, &["d", "--grace", "0"], 2).await,
        error_of(&haul, &["d", "--grace", "2000d"], 2).await,
        error_of(&haul, &["d", "--grace", "soon"], 2).await,
        error_of(&haul, &["d", "--allow-host", "http://a.example"], 2).await,
    ];
    insta::assert_snapshot!("refused-numbers", errors.join("\n\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logins() {
    let haul = test_folder().with_variable("HAUL_AUTH", "# of the office\na:b:ro\n\nc:s3cret");
    let of_variable = error_of(&haul, &["d"], 2).await;
    assert!(!of_variable.contains("s3cret"));
    let haul = test_folder();
    haul.write("lines", "# nobody\n\nme:hash:ro\n");
    let errors = [
        of_variable,
        error_of(&haul, &["d", "--auth", "a:b:rx"], 2).await,
        error_of(&haul, &["d", "--auth", "a:b:c:rw"], 2).await,
        error_of(&haul, &["d", "--auth", "a:b"], 2).await,
        error_of(&haul, &["d", "--token", "t:rx"], 2).await,
        error_of(&haul, &["d", "--auth-file", "d"], 2).await,
        error_of(&haul, &["d", "--auth-file", "none"], 2).await,
        error_of(&haul, &["d", "--auth-file", "lines"], 2).await,
        error_of(&haul, &["d", "--token-file", "d"], 2).await,
        error_of(&haul, &["d", "--sign-key", "d"], 2).await,
    ];
    insta::assert_snapshot!("refused-logins", errors.join("\n\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_few_descriptors_are_reported_at_the_start() {
    let haul = test_folder();
    for (strategy, error) in [
        ("round-robin", "cannot start threads: Too many open files"),
        (
            "reuseport",
            "cannot listen on 127.0.0.1:0: Too many open files",
        ),
    ] {
        // Fewer than there are threads: whatever is open already, their sockets alone are too many.
        let line = format!(
            "ulimit -n 40 && exec \"$0\" serve d -l 127.0.0.1:0 --threads 64 --accept {strategy}"
        );
        let mut command = tokio::process::Command::new("sh");
        command
            .args(["-c", &line, env!("CARGO_BIN_EXE_haul")])
            .current_dir(haul.dir.path())
            .stdin(std::process::Stdio::null())
            .kill_on_drop(true);
        let output = haul_lab::within(super::LIMIT, command.output()).await;
        let output = crate::cli::harness::HaulOutput::from_output(output.unwrap());
        output
            .assert_code(4)
            .assert_stderr_has(error)
            .assert_stderr_has("ulimit -n N");
    }
}
