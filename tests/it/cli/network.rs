//! Requests and connections: header fields, addresses, TLS, redirects.

use haul_lab::{CertificateAuthority, Origin, OriginResource, RequestMatcher, faults};

use crate::cli::harness::{HaulDirectory, content, start_origin};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn header_fields_are_added_replaced_and_removed() {
    let origin = start_origin(OriginResource::new(content())).await;
    let flags = ["-H", "X-One: 1", "-H", "User-Agent: mine", "-H", "Accept:"];
    HaulDirectory::new()
        .get(&origin.url("/f.bin"), &flags)
        .await
        .assert_code(0);
    let request = &origin.requests()[0];
    assert_eq!(
        (
            request.header("x-one"),
            request.header("user-agent"),
            request.header("accept")
        ),
        (Some("1"), Some("mine"), None)
    );
    assert_eq!(request.header("accept-encoding"), Some("identity"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resolve_sets_the_address_of_a_name() {
    let origin = start_origin(OriginResource::new(content())).await;
    let port = origin.address().port();
    let haul = HaulDirectory::new();
    let pin = format!("files.test:{port}:127.0.0.1");
    haul.get(
        &format!("http://files.test:{port}/f.bin"),
        &["--resolve", &pin, "-4"],
    )
    .await
    .assert_code(0);
    assert_eq!(
        origin.requests()[0].header("host"),
        Some(format!("files.test:{port}").as_str())
    );
    haul.get(&origin.url("/f.bin"), &["-6", "-o", "g", "--retries", "0"])
        .await
        .assert_code(5);
    assert_eq!(origin.requests().len(), 1, "IPv4 was used in spite of -6");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_trust_and_client_certificates() {
    let authority = CertificateAuthority::new();
    let haul = HaulDirectory::new();
    let ca = haul.write("ca.pem", authority.certificate_pem());
    let issued = authority.issue(&["127.0.0.1"]);
    let start = |clients| {
        Origin::builder()
            .tls(issued.server_config(clients))
            .resource("/f.bin", OriginResource::new(content()))
            .start()
    };

    let origin = start(None).await;
    haul.get(&origin.url("/f.bin"), &["--cacert", &ca])
        .await
        .assert_code(0);
    haul.assert_file("f.bin", &content());
    let output = haul
        .get(&origin.url("/f.bin"), &["--insecure", "-o", "g"])
        .await;
    output
        .assert_code(0)
        .assert_stderr_has("haul: warning: --insecure");
    let trusting = HaulDirectory::new().with_variable("SSL_CERT_FILE", &ca);
    trusting
        .get(&origin.url("/f.bin"), &[])
        .await
        .assert_code(0);

    let closed = start(Some(&authority)).await;
    let client = authority.issue(&["client.test"]);
    let (cert, key) = (
        haul.write("cert.pem", &client.certificate_pem),
        haul.write("key.pem", &client.key_pem),
    );
    let flags = ["--cacert", &ca, "-o", "h", "--retries", "0"];
    haul.get(&closed.url("/f.bin"), &flags).await.assert_code(5);
    haul.get(
        &closed.url("/f.bin"),
        &[&flags[..], &["--cert", &cert, "--key", &key]].concat(),
    )
    .await
    .assert_code(0);
    haul.assert_file("h", &content());
    let both = haul.write(
        "both.pem",
        format!("{}{}", client.key_pem, client.certificate_pem),
    );
    for more in [&["--key", &*both][..], &[]] {
        let flags = ["--cacert", &ca, "-o", "i", "--overwrite", "--cert", &both];
        let flags = [&flags, more].concat();
        haul.get(&closed.url("/f.bin"), &flags).await.assert_code(0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_the_environment_names_must_exist() {
    let directory = tempfile::tempdir().unwrap();
    for directory in ["", directory.path().to_str().unwrap()] {
        let haul = HaulDirectory::new()
            .with_variable("SSL_CERT_FILE", "/nope")
            .with_variable("SSL_CERT_DIR", directory);
        let url = "https://127.0.0.1:1/f";
        haul.get(url, &[])
            .await
            .assert_code(2)
            .assert_stderr_has("SSL_CERT_FILE: cannot read /nope: No such file");
        // Then no request uses it.
        haul.get(url, &["-k", "--retries", "0"])
            .await
            .assert_code(5);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redirects_from_https_to_http_are_followed_when_allowed() {
    let plain = start_origin(OriginResource::new(content())).await;
    let authority = CertificateAuthority::new();
    let down = faults::status_with_header(302, "Location", plain.url("/f.bin"));
    let secure = Origin::builder()
        .tls(authority.issue(&["127.0.0.1"]).server_config(None))
        .resource(
            "/f.bin",
            OriginResource::new(content()).rule(RequestMatcher::always(), down),
        )
        .start()
        .await;
    let haul = HaulDirectory::new();
    let ca = haul.write("ca.pem", authority.certificate_pem());
    let url = secure.url("/f.bin");
    let output = haul.get(&url, &["--cacert", &ca]).await;
    output
        .assert_code(5)
        .assert_stderr_has("a redirect from https to http")
        .assert_stderr_has("hint: --allow-downgrade");
    assert!(plain.requests().is_empty());
    haul.get(&url, &["--cacert", &ca, "--allow-downgrade"])
        .await
        .assert_code(0);
    haul.assert_file("f.bin", &content());
}
