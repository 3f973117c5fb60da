//! squid between us and nginx.

use haul_lab::ResourceContent;

use super::nginx::Nginx;
use super::squid::{Squid, SquidAuth};
use crate::cli::harness::HaulDirectory;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_is_forwarded_and_https_tunnelled_with_every_login() {
    let (nginx, content) = (Nginx::start().await, ResourceContent::random(1, 3 << 20));
    nginx.serve("f", &content);
    let ca = nginx.ca();
    for login in [SquidAuth::None, SquidAuth::Basic, SquidAuth::Digest] {
        let squid = Squid::start(login).await;
        let proxy = squid.url(if login == SquidAuth::None {
            ""
        } else {
            "me:secret"
        });
        for url in [nginx.url("f"), nginx.tls_url("f")] {
            let haul = HaulDirectory::new();
            let flags = [
                "--proxy",
                &proxy,
                "--cacert",
                ca.to_str().unwrap(),
                "--segment-size",
                "512k",
                "-x",
                "3",
            ];
            haul.get(&url, &flags).await.assert_code(0);
            haul.assert_file("f", &content);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a21_a_proxy_that_needs_a_login_is_reported_and_no_password_is_shown() {
    let (nginx, squid) = (Nginx::start().await, Squid::start(SquidAuth::Basic).await);
    nginx.serve("f", &ResourceContent::random(1, 10));
    for url in [nginx.url("f"), nginx.tls_url("f")] {
        for proxy in [squid.url(""), squid.url("me:wrongword")] {
            let output = HaulDirectory::new()
                .get(&url, &["--proxy", &proxy, "--insecure"])
                .await;
            output
                .assert_code(5)
                .assert_stderr_has("corp")
                .assert_stderr_has("hint: ");
            assert!(!output.stderr.contains("wrongword"), "{output:#?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_environment_names_the_proxy_and_hosts_without_it() {
    let (nginx, content) = (Nginx::start().await, ResourceContent::random(1, 10));
    nginx.serve("f", &content);
    // Nothing listens there.
    let haul = HaulDirectory::new()
        .with_variable("http_proxy", "http://127.0.0.1:1")
        .with_variable("no_proxy", "127.0.0.0/8");
    haul.get(&nginx.url("f"), &[]).await.assert_code(0);
    haul.assert_file("f", &content);
}
