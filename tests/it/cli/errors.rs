//! Errors are one line with a hint, and have the right exit code.

use std::time::Duration;

use haul_lab::{
    CertificateAuthority, Origin, OriginResource, RequestMatcher, ResourceContent, faults,
};

use crate::cli::harness::{HaulDirectory, HaulOutput, content, start_origin};

/// That it is an error line and a hint line, and nothing on standard output.
#[track_caller]
fn assert_two_lines(output: &HaulOutput) {
    let lines: Vec<&str> = output.stderr.lines().collect();
    assert!(
        lines.len() == 2 && lines[0].starts_with("haul: error: ") && lines[1].starts_with("hint: "),
        "{output:#?}"
    );
    assert_eq!(output.stdout, "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exit_2_for_usage_errors() {
    let haul = HaulDirectory::new();
    let mut outputs = Vec::new();
    for args in [
        &["get"][..],
        &["get", "example.com/f.iso"],
        &["get", "ftp://example.com/f.iso"],
        &["get", "http://h.test/f", "--overwite"],
        &["get", "http://h.test/f", "--checksum", "sha3:00"],
        &["get", "http://h.test/f", "--stall-timeout", "soon"],
        &["get", "http://h.test/f", "http://h.test/g", "-o", "f"],
        &["get", "http://h.test/f", "-o", "-", "--json"],
        &["get", "http://h.test/f", "--overwrite", "--update"],
        &["got", "http://h.test/f"],
        &["get", "http://me:SECRET/pw@h.test/f"],
        &["get", "http//me:SECRET@h.test/f"],
        &["get", "me:SECRET@h.test"],
        &["get", "ftp://me:SECRET@h.test/?sig=SECRET"],
        &["get", "-x", "http://me:SECRET@h.test/f?token=SECRET"],
        &["get", "http://h.test/f", "-x", "0"],
        &["get", "http://h.test/f", "--retries", "-1"],
        &[
            "get",
            "http://h.test/f",
            "http://h.test/f?",
            "http://h.test/f",
        ],
        &["get", "http://h.test/f", "--key", "key.pem"],
    ] {
        let output = haul.run(args).await;
        output.assert_code(2);
        assert_two_lines(&output);
        assert!(!output.stderr.contains("SECRET"), "{output:#?}");
        outputs.push(format!("$ haul {}\n{}", args.join(" "), output.stderr));
    }
    insta::assert_snapshot!(outputs.join("\n"));
    assert!(haul.listing().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exit_2_for_files_that_the_flag_cannot_use() {
    let haul = HaulDirectory::new();
    let junk = haul.write("junk.pem", "junk");
    let client = CertificateAuthority::new().issue(&["client.test"]);
    let cert = haul.write("cert.pem", &client.certificate_pem);
    let key = haul.write("key.pem", &client.key_pem);
    let other = CertificateAuthority::new().issue(&["client.test"]);
    let other = haul.write("other.pem", other.key_pem);
    for (flags, message) in [
        (
            &["--cacert", &*junk][..],
            "--cacert: {junk} contains no usable certificate",
        ),
        (
            &["--cert", &junk, "--key", &key],
            "--cert: {junk} contains no usable certificate",
        ),
        (
            &["--cert", &cert, "--key", &junk],
            "--key: {junk} contains no usable private key",
        ),
        (
            &["--cert", &cert, "--key", &other],
            "--key: the private key in {other} does not belong to the certificate in {cert}",
        ),
        (
            &["-p", "https://p.test", "--proxy-cacert", &junk],
            "--proxy-cacert: {junk} contains no usable certificate",
        ),
    ] {
        let message = message
            .replace("{junk}", &junk)
            .replace("{other}", &other)
            .replace("{cert}", &cert);
        haul.get("https://h.test/f", flags)
            .await
            .assert_code(2)
            .assert_stderr_has(&message);
    }
    haul.get("https://h.test/f", &["--cacert", "nowhere"])
        .await
        .assert_code(2)
        .assert_stderr_has("cannot read nowhere");
    haul.get("https://h.test/f", &["--netrc"])
        .await
        .assert_code(2)
        .assert_stderr_has(".netrc");
    haul.get("https://h.test/f", &["-u", "me"])
        .await
        .assert_code(2)
        .assert_stderr_has("no terminal");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exit_3_for_wrong_bytes() {
    let origin = start_origin(OriginResource::new(content())).await;
    let haul = HaulDirectory::new();
    let output = haul
        .get(&origin.url("/f.bin"), &["--checksum", "crc32c:00000000"])
        .await;
    output
        .assert_code(3)
        .assert_stderr_has("has crc32c")
        .assert_stderr_has("hint: the received bytes are in f.bin.haul-bad-checksum");
    assert_eq!(haul.listing(), ["f.bin.haul-bad-checksum"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exit_3_for_a_file_that_its_x_robots_tag_forbids_if_that_is_respected() {
    let tagged = OriginResource::new(content()).header("X-Robots-Tag", "noai");
    let origin = start_origin(tagged).await;
    let (haul, url) = (HaulDirectory::new(), origin.url("/f.bin"));
    for output_flags in [&[][..], &["-o", "-"]] {
        let flags = [&["--robots-tag", "respect"], output_flags].concat();
        let output = haul.get(&url, &flags).await;
        output
            .assert_code(3)
            .assert_stderr_has("/f.bin must not be used: its X-Robots-Tag says noai")
            .assert_stderr_has("hint: --robots-tag ignore downloads it all the same");
        assert_two_lines(&output);
    }
    assert!(haul.listing().is_empty());
    haul.get(&url, &[]).await.assert_code(0);
    haul.assert_file("f.bin", &content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exit_4_for_local_errors() {
    let origin = start_origin(OriginResource::new(content())).await;
    let url = origin.url("/f.bin");
    let haul = HaulDirectory::new();
    haul.write("f.bin", "mine");
    haul.write("file", "");
    std::fs::create_dir(haul.path("dir")).unwrap();
    let mut outputs = Vec::new();
    for flags in [
        &[][..],
        &["-o", "dir"],
        &["-o", "file/f"],
        &["-d", "file/dir"],
    ] {
        let output = haul.get(&url, flags).await;
        output.assert_code(4);
        assert_two_lines(&output);
        outputs.push(format!(
            "$ haul get URL {}\n{}",
            flags.join(" "),
            output.stderr_text(&haul, Some(&origin))
        ));
    }
    insta::assert_snapshot!(outputs.join("\n"));
    assert_eq!(std::fs::read(haul.path("f.bin")).unwrap(), b"mine");
    assert_eq!(haul.listing(), ["dir", "f.bin", "file"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exit_5_for_the_network_and_the_origin() {
    let builder = Origin::builder()
        .resource(
            "/404",
            OriginResource::new(content()).rule(RequestMatcher::always(), faults::status(404)),
        )
        .resource(
            "/500",
            OriginResource::new(content()).rule(RequestMatcher::always(), faults::status(500)),
        )
        .resource(
            "/silent",
            OriginResource::new(content())
                .rule(RequestMatcher::always(), faults::stall_after(1000)),
        )
        .resource(
            "/late",
            OriginResource::new(content()).rule(
                RequestMatcher::always(),
                faults::delay_response(Duration::from_secs(60)),
            ),
        );
    let loops = OriginResource::new(content()).rule(
        RequestMatcher::always(),
        faults::status_with_header(302, "Location", "/loop".into()),
    );
    let realm = faults::status_with_header(401, "WWW-Authenticate", "Basic realm=\"vault\"".into());
    let origin = builder
        .resource("/loop", loops)
        .resource(
            "/401",
            OriginResource::new(content()).rule(RequestMatcher::always(), realm),
        )
        .start()
        .await;
    let haul = HaulDirectory::new();
    let mut outputs = Vec::new();
    for path in ["/404", "/500", "/silent", "/late", "/loop", "/401"] {
        let output = haul
            .get(
                &origin.url(path),
                &[
                    "--retries",
                    "0",
                    "--stall-timeout",
                    "200ms",
                    "--response-timeout",
                    "200ms",
                    "--max-redirs",
                    "3",
                ],
            )
            .await;
        output.assert_code(5);
        assert!(output.stderr.starts_with("haul: error: "), "{output:#?}");
        outputs.push(format!(
            "$ haul get {path}\n{}",
            output.stderr_text(&haul, Some(&origin))
        ));
    }
    insta::assert_snapshot!(outputs.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verbose_shows_the_first_line_of_a_refusals_text() {
    let response = "HTTP/1.1 403 Forbidden\r\nContent-Length: 49\r\n\r\n<html><title>Your quota is used up</title>\n</html>";
    let resource = OriginResource::new(content()).rule(RequestMatcher::always(), |_, reply| {
        reply.raw_bytes = Some(response.into());
    });
    let origin = start_origin(resource).await;
    let haul = HaulDirectory::new();
    let url = origin.url("/f.bin");
    let output = haul.get(&url, &["-v"]).await;
    output
        .assert_code(5)
        .assert_stderr_has("answered 403 Forbidden")
        .assert_stderr_has("the response says: Your quota is used up");
    let output = haul.get(&url, &[]).await;
    assert!(!output.stderr.contains("quota"), "{output:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_to_a_port_that_speaks_tls_gets_a_hint() {
    // nginx and Go respond, OpenSSL closes the connection, rustls sends a TLS alert.
    for response in [
        &b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"[..],
        b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n",
        b"",
        b"\x15\x03\x03\x00\x02\x02\x46",
    ] {
        let resource =
            OriginResource::new(content()).rule(RequestMatcher::always(), move |_, reply| {
                reply.raw_bytes = Some(response.into());
            });
        let origin = start_origin(resource).await;
        let output = HaulDirectory::new()
            .get(&origin.url("/f.bin"), &["--retries", "0"])
            .await;
        output.assert_code(5).assert_stderr_has("https://");
    }
    let resource = OriginResource::new(content()).rule(RequestMatcher::always(), |_, reply| {
        reply.raw_bytes = Some(b"HTTP/1.0 400 Bad Request\r\n\r\nthe path is invalid\n".into());
    });
    let origin = start_origin(resource).await;
    let output = HaulDirectory::new().get(&origin.url("/f.bin"), &[]).await;
    assert!(!output.stderr.contains("https://"), "{output:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exit_5_for_hosts_that_do_not_exist() {
    let haul = HaulDirectory::new();
    // Nobody listens on port 1.
    let output = haul.get("http://127.0.0.1:1/f", &["--retries", "0"]).await;
    output
        .assert_code(5)
        .assert_stderr_has("cannot connect to")
        .assert_stderr_has("hint: is the host up");
    let output = haul
        .get("http://nowhere.invalid/f", &["--retries", "0"])
        .await;
    output
        .assert_code(5)
        .assert_stderr_has("nowhere.invalid")
        .assert_stderr_has("hint: ");
    assert_eq!(output.stderr.lines().count(), 2, "{output:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exit_5_for_untrusted_certificates_with_the_flag_that_trusts_them() {
    let authority = CertificateAuthority::new();
    let certificates = [
        (
            authority.issue(&["127.0.0.1"]),
            "issuer of the certificate is not trusted",
            "--cacert FILE",
        ),
        (
            CertificateAuthority::self_signed(&["127.0.0.1"]),
            "issuer of the certificate is not trusted",
            "--insecure",
        ),
        (
            CertificateAuthority::self_signed_ca(&["127.0.0.1"], false),
            "the server's certificate is self-signed, or is a CA certificate",
            "--cacert FILE",
        ),
    ];
    for (issued, problem, flag) in certificates {
        let origin = Origin::builder()
            .tls(issued.server_config(None))
            .resource("/f.bin", OriginResource::new(content()))
            .start()
            .await;
        let haul = HaulDirectory::new();
        let output = haul.get(&origin.url("/f.bin"), &[]).await;
        output
            .assert_code(5)
            .assert_stderr_has(problem)
            .assert_stderr_has(flag);
        assert!(origin.requests().is_empty(), "a request went to a stranger");
    }
    let trusted = HaulDirectory::new();
    let ca = trusted.write("ca.pem", authority.certificate_pem());
    for issued in [
        authority.issue_expired(&["127.0.0.1"]),
        authority.issue(&["other.test"]),
    ] {
        let origin = Origin::builder()
            .tls(issued.server_config(None))
            .resource("/f.bin", OriginResource::new(content()))
            .start()
            .await;
        let output = trusted.get(&origin.url("/f.bin"), &["--cacert", &ca]).await;
        output
            .assert_code(5)
            .assert_stderr_has("the certificate")
            .assert_stderr_has("with --insecure");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exit_1_when_some_of_several_fail() {
    let origin = start_origin(OriginResource::new(content())).await;
    let haul = HaulDirectory::new();
    let output = haul
        .run(&["get", &origin.url("/f.bin"), &origin.url("/missing")])
        .await;
    output
        .assert_code(1)
        .assert_stderr_has("/missing answered 404")
        .assert_stderr_has("hint: check the URL")
        .assert_stderr_has("f.bin  1.0 MiB in")
        .assert_stderr_has("1 of 2 files, 1.0 MiB in ");
    assert_eq!(haul.listing(), ["f.bin"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retries_are_limited_and_reported() {
    let busy = OriginResource::new(ResourceContent::random(1, 1000))
        .rule(RequestMatcher::always(), faults::status(503));
    let origin = start_origin(busy).await;
    let output = HaulDirectory::new()
        .get(&origin.url("/f.bin"), &["--retries", "2"])
        .await;
    output
        .assert_code(5)
        .assert_stderr_has("(1 of 2)")
        .assert_stderr_has("(2 of 2)");
    assert_eq!(origin.requests().len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn traces_into_a_pipe_have_no_colours() {
    let origin = start_origin(
        OriginResource::new(content()).rule(RequestMatcher::first(1), faults::status(503)),
    )
    .await;
    let haul = HaulDirectory::new().with_variable("RUST_LOG", "debug");
    let output = haul.get(&origin.url("/f.bin"), &[]).await;
    output.assert_code(0).assert_stderr_has("DEBUG");
    assert!(!output.stderr.contains('\x1b'), "{output:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_number_of_retries_applies_to_refused_connections_too() {
    // Nobody listens on port 1.
    let haul = HaulDirectory::new();
    let output = haul.get("http://127.0.0.1:1/f", &[]).await;
    let retried = |text: &str| text.matches("; trying again in ").count();
    assert_eq!(retried(&output.assert_code(5).stderr), 3, "{output:#?}");
    let output = haul.get("http://127.0.0.1:1/f", &["--retries", "4"]).await;
    assert_eq!(retried(&output.assert_code(5).stderr), 4, "{output:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connect_timeout_ends_the_wait() {
    // A listener that is never accepted from: TLS waits for a hello that does not come.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/f", listener.local_addr().unwrap());
    let begun = tokio::time::Instant::now();
    let output = HaulDirectory::new()
        .get(&url, &["--connect-timeout", "300ms", "--retries", "0"])
        .await;
    output.assert_code(5).assert_stderr_has("in time");
    assert!(begun.elapsed() < Duration::from_secs(10));
}
