//! squid between curl and nginx: its logins, and what it refuses.

use haul_lab::ResourceContent;

use super::{RunningTunnel, WorkDirectory};
use crate::peers::nginx::Nginx;
use crate::peers::squid::{FORBIDDEN, Squid, SquidAuth};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e4_every_login_method_works() {
    let (nginx, content) = (Nginx::start().await, ResourceContent::random(1, 5 << 20));
    nginx.serve("f", &content);
    let (here, ca) = (WorkDirectory::new(), nginx.ca());
    let specs = nginx.ports().map(|port| format!("0:127.0.0.1:{port}"));
    for login in [SquidAuth::None, SquidAuth::Basic, SquidAuth::Digest] {
        let squid = Squid::start(login).await;
        let proxy = squid.url(if login == SquidAuth::None {
            ""
        } else {
            "me:secret"
        });
        let tunnel = RunningTunnel::start(&["-p", &proxy], &[&specs[0], &specs[1]]);
        let via = format!("via {}: closed", squid.url("").replace("http://", ""));
        // Twice: of what Digest has learned the second begins with.
        for _ in 0..2 {
            here.curl_gets(&format!("http://{}/f", tunnel.address(0)), &[], &content);
            tunnel.wait_for_line(&via);
            let url = format!("https://{}/f", tunnel.address(1));
            here.curl_gets(&url, &["--cacert", ca.to_str().unwrap()], &content);
            tunnel.wait_for_line(&via);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e4_a_wrong_login_is_reported_and_not_shown() {
    let nginx = Nginx::start().await;
    let spec = format!("0:127.0.0.1:{}", nginx.ports()[0]);
    for login in [SquidAuth::Basic, SquidAuth::Digest] {
        let squid = Squid::start(login).await;
        for user in ["", "me:wrongword"] {
            let tunnel = RunningTunnel::start(&["-p", &squid.url(user)], &[&spec]);
            // The account is not locked, and the next client gets the same.
            for _ in 0..2 {
                let line = tunnel.assert_client_refused(0);
                assert!(
                    line.contains("credentials") && line.contains("corp"),
                    "{line}"
                );
                assert!(!line.contains("wrongword"), "{line}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e5_a_refusal_is_reported_and_the_next_connection_tries_again() {
    let (nginx, squid, here) = (
        Nginx::start().await,
        Squid::start(SquidAuth::None).await,
        WorkDirectory::new(),
    );
    let content = ResourceContent::random(1, 1000);
    nginx.serve("f", &content);
    let ([port, _], [dead]) = (nginx.ports(), haul_lab::free_ports());
    let tunnel = RunningTunnel::start(
        &["-p", &squid.url("")],
        &[
            &format!("0:{FORBIDDEN}:{port}"),
            &format!("0:127.0.0.1:{dead}"),
            &format!("0:127.0.0.1:{port}"),
        ],
    );
    for _ in 0..2 {
        for (place, status) in [(0, "403"), (1, "503")] {
            let line = tunnel.assert_client_refused(place);
            assert!(line.contains(status), "{line}");
        }
        let url = format!("http://{}/f", tunnel.address(2));
        here.curl_gets(&url, &[], &content);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e13_the_certificate_of_a_proxy_over_tls_is_checked() {
    let (nginx, content) = (Nginx::start().await, ResourceContent::random(1, 5 << 20));
    nginx.serve("f", &content);
    let (squid, here) = (Squid::start(SquidAuth::Digest).await, WorkDirectory::new());
    let specs = nginx.ports().map(|port| format!("0:127.0.0.1:{port}"));
    let (proxy, ca, nginx_ca) = (squid.tls_url("me:secret"), squid.ca(), nginx.ca());
    let known = RunningTunnel::start(
        &["-p", &proxy, "--proxy-cacert", &ca],
        &[&specs[0], &specs[1]],
    );
    here.curl_gets(&format!("http://{}/f", known.address(0)), &[], &content);
    known.wait_for_line(": closed, ");
    let url = format!("https://{}/f", known.address(1));
    here.curl_gets(&url, &["--cacert", nginx_ca.to_str().unwrap()], &content);
    known.wait_for_line(": closed, ");
    let stranger = RunningTunnel::start(&["-p", &proxy], &[&specs[0]]);
    let line = stranger.assert_client_refused(0);
    assert!(line.contains("certificate"), "{line}");
}
