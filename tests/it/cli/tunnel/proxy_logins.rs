//! Logins for the proxy from every source, and that none of them is ever seen.

use haul_lab::{CertificateAuthority, HttpProxy, faults::RequiredLogin};

use super::{
    EchoServer, HaulDirectory, TunnelProcess, assert_echo, shutdown_and_read, start_tunnel,
};

/// A proxy that wants `me` with `s3cret`.
async fn proxy_with_login(echo: &EchoServer) -> HttpProxy {
    let proxy = HttpProxy::builder().route("echo.test:7", echo.address);
    proxy
        .require_login(RequiredLogin::basic("me", "s3cret"))
        .start()
        .await
}

/// Asserts that a tunnel works and prints no secret.
async fn assert_works(tunnel: TunnelProcess) {
    let mut client = tunnel.connect().await;
    assert_echo(&mut client, "hello").await;
    assert_eq!(shutdown_and_read(client).await, b"");
    let mut text = tunnel.stderr_lines.join("\n");
    let output = tunnel.stop().await;
    output.assert_code(0);
    text.push_str(&output.stderr);
    text.push_str(&output.stdout);
    for secret in ["s3cret", "bWU6czNjcmV0"] {
        assert!(!text.contains(secret), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_comes_from_each_source() {
    let echo = EchoServer::start().await;
    let proxy = proxy_with_login(&echo).await;
    let at = proxy.address().to_string();
    let url = proxy.url_with_login("me", "s3cret");
    let spec = "0:echo.test:7";
    let haul = HaulDirectory::new();
    haul.write("password", "s3cret\n");
    haul.write("both", "me:s3cret");
    haul.write("netrc", "machine 127.0.0.1 login me password s3cret");
    for name in ["password", "both", "netrc"] {
        use std::os::unix::fs::PermissionsExt as _;
        let private = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(haul.path(name), private).unwrap();
    }
    for args in [
        &["-p", &url, spec][..],
        &["-p", &at, "-U", "me:s3cret", spec],
        &[
            "-p",
            &at,
            "-U",
            "me",
            "--proxy-password-file",
            "password",
            spec,
        ],
        &["-p", &at, "--proxy-password-file", "both", spec],
        &["-p", &at, "-U", "me", "--netrc-file", "netrc", spec],
        &["-p", &at, "--netrc-file", "netrc", spec],
        &[
            "-p",
            &format!("http://me@{at}"),
            "--netrc-file",
            "netrc",
            spec,
        ],
    ] {
        assert_works(start_tunnel(&haul, args, 1).await).await;
    }
    let haul = HaulDirectory::new().with_variable("HAUL_PROXY_USER", "me:s3cret");
    assert_works(start_tunnel(&haul, &["-p", &at, spec], 1).await).await;
    let haul = haul.with_variable("https_proxy", &at);
    assert_works(start_tunnel(&haul, &[spec], 1).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_login_is_reported_and_not_shown() {
    let echo = EchoServer::start().await;
    let proxy = proxy_with_login(&echo).await;
    let at = proxy.address().to_string();
    let haul = HaulDirectory::new();
    let args = [
        "tunnel",
        "-p",
        &at,
        "-U",
        "me:wr0ng",
        "--stdio",
        "echo.test:7",
    ];
    let output = haul.run(&args).await;
    output
        .assert_code(5)
        .assert_stderr_has("cannot reach echo.test:7: ")
        .assert_stderr_has("hint: check the user name and password of the proxy");
    assert!(!output.stderr.contains("wr0ng"), "{output:#?}");
    let output = haul
        .run(&["tunnel", "-p", &at, "--stdio", "echo.test:7"])
        .await;
    output
        .assert_code(5)
        .assert_stderr_has("hint: log in with -U USER");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn header_fields_and_certificates_are_for_the_proxy() {
    let echo = EchoServer::start().await;
    let authority = CertificateAuthority::new();
    let issued = authority.issue(&["127.0.0.1"]);
    let haul = HaulDirectory::new();
    let ca = haul.write("ca.pem", authority.certificate_pem());
    let proxy = HttpProxy::builder()
        .route("echo.test:7", echo.address)
        .tls(issued.server_config(None))
        .start()
        .await;
    let url = proxy.url();
    let args = [
        "-p",
        &url,
        "--proxy-cacert",
        &ca,
        "-H",
        "X-Token: s3cret",
        "0:echo.test:7",
    ];
    assert_works(start_tunnel(&haul, &args, 1).await).await;
    assert_eq!(proxy.requests()[0].header("x-token"), Some("s3cret"));
    // Trust in any target is none in any proxy.
    let stdio = ["--stdio", "echo.test:7"];
    let careless = [&["tunnel", "-p", &url, "--target-tls", "-k"][..], &stdio].concat();
    haul.run(&careless)
        .await
        .assert_code(5)
        .assert_stderr_has("hint: trust your own authority with --proxy-cacert FILE");
    let careless = [&["tunnel", "-p", &url, "--proxy-insecure"][..], &stdio].concat();
    haul.run(&careless).await.assert_code(0);
}
