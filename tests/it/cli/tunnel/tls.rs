//! What is said where TLS with a proxy cannot be made: words for people, and the flag that helps.

use haul_lab::{CertificateAuthority, HttpProxy, IssuedCertificate};

use super::{HaulDirectory, HaulOutput};

/// `--stdio` by a proxy with this certificate.
async fn by(
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
    let ran = haul
        .run(&[&front, flags, &["--stdio", "echo.test:7"]].concat())
        .await;
    ran.assert_code(5);
    for internal in [
        "InvalidCertificate",
        "CaUsed",
        "Alert",
        "docs.rs",
        "rustls",
        "UNIX",
    ] {
        assert!(!ran.stderr.contains(internal), "{ran:#?}");
    }
    ran
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_trouble_is_told_in_words_and_with_the_flag_that_helps() {
    let authority = CertificateAuthority::new();
    let haul = HaulDirectory::new();
    let ca = haul.write("ca.pem", authority.certificate_pem());
    let trusting = ["--proxy-cacert", &ca[..]];
    by(
        &CertificateAuthority::self_signed_ca(&["127.0.0.1"], false),
        None,
        &trusting,
    )
    .await
    .assert_says("is used as a server's")
    .assert_says("hint: --proxy-cacert FILE");
    by(&authority.issue_expired(&["127.0.0.1"]), None, &trusting)
        .await
        .assert_says("it expired ")
        .assert_says("--proxy-insecure goes on");
    by(&authority.issue(&["other.test"]), None, &trusting)
        .await
        .assert_says("it is for other.test, and 127.0.0.1 is wanted")
        .assert_says("--proxy-insecure goes on");
    by(
        &authority.issue(&["127.0.0.1"]),
        Some(&authority),
        &trusting,
    )
    .await
    .assert_says("a client certificate")
    .assert_says("hint: --proxy-cert and --proxy-key");
}
