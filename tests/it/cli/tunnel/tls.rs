//! Messages about failed TLS with a proxy: the cause, and the flag that helps.

use haul_lab::{CertificateAuthority, HttpProxy, IssuedCertificate};

use super::{HaulDirectory, HaulOutput};

/// `--stdio` by a proxy with this certificate.
async fn hint_for(
    issued: &IssuedCertificate,
    clients: Option<&CertificateAuthority>,
    flags: &[&str],
) -> HaulOutput {
    let proxy = HttpProxy::builder()
        .tls(issued.server_config(clients))
        .start()
        .await;
    let haul = HaulDirectory::new();
    let front = ["tunnel", "-p", &proxy.url()];
    let output = haul
        .run(&[&front, flags, &["--stdio", "echo.test:7"]].concat())
        .await;
    output.assert_code(5);
    for internal in [
        "InvalidCertificate",
        "CaUsed",
        "Alert",
        "docs.rs",
        "rustls",
        "UNIX",
    ] {
        assert!(!output.stderr.contains(internal), "{output:#?}");
    }
    output
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_tls_error_has_a_message_and_the_flag_that_helps() {
    let authority = CertificateAuthority::new();
    let haul = HaulDirectory::new();
    let ca = haul.write("ca.pem", authority.certificate_pem());
    let trusting = ["--proxy-cacert", &ca[..]];
    hint_for(
        &CertificateAuthority::self_signed_ca(&["127.0.0.1"], false),
        None,
        &trusting,
    )
    .await
    .assert_stderr_has("the server's certificate is self-signed, or is a CA certificate")
    .assert_stderr_has("hint: trust your own authority with --proxy-cacert FILE");
    hint_for(&authority.issue_expired(&["127.0.0.1"]), None, &trusting)
        .await
        .assert_stderr_has("it expired ")
        .assert_stderr_has("with --proxy-insecure");
    hint_for(&authority.issue(&["other.test"]), None, &trusting)
        .await
        .assert_stderr_has("it is for other.test, not for 127.0.0.1")
        .assert_stderr_has("with --proxy-insecure");
    hint_for(
        &authority.issue(&["127.0.0.1"]),
        Some(&authority),
        &trusting,
    )
    .await
    .assert_stderr_has("a client certificate")
    .assert_stderr_has(
        "hint: give the proxy a client certificate with --proxy-cert and --proxy-key",
    );
}
