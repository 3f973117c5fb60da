//! Listeners that are proxies themselves, with curl as their client.

use haul_lab::ResourceContent;

use super::tinyproxy::Tinyproxy;
use super::{RunningTunnel, WorkDirectory};
use crate::peers::nginx::Nginx;
use crate::peers::squid::{FORBIDDEN, Squid, SquidAuth};
use crate::peers::test_server::FileOrigin;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curl_reaches_targets_through_socks_and_http_listeners() {
    let (nginx, content) = (Nginx::start().await, ResourceContent::random(1, 3 << 20));
    nginx.serve("f", &content);
    let (here, ca, [plain, tls]) = (WorkDirectory::new(), nginx.ca(), nginx.ports());
    for login in [SquidAuth::Basic, SquidAuth::Digest] {
        let squid = Squid::start(login).await;
        let tunnel =
            RunningTunnel::start(&["-p", &squid.url("me:secret")], &["--socks=0", "--http=0"]);
        let (socks, http) = (
            tunnel.address(0).to_string(),
            format!("http://{}", tunnel.address(1)),
        );
        for by in [["--socks5-hostname", &socks], ["-x", &http]] {
            // The name is squid's to resolve.
            for (url, port) in [
                ("http://localhost", plain),
                ("https://localhost", tls),
                ("http://127.0.0.1", plain),
            ] {
                let args = [&by[..], &["--cacert", ca.to_str().unwrap()]].concat();
                here.curl_gets(&format!("{url}:{port}/f"), &args, &content);
                let host = url.split("//").nth(1).unwrap();
                let line = tunnel.wait_for_line(&format!(" > {host}:{port} via "));
                assert!(line.contains(": closed, "), "{line}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_body_reaches_a_proxy_that_needs_a_login() {
    let (here, content) = (
        WorkDirectory::new(),
        ResourceContent::random(3, (6 << 20) + 7),
    );
    std::fs::write(here.path("own"), content.to_vec()).unwrap();
    let shelf = FileOrigin::start(&["--writable", "--durability", "none"], |_| ()).await;
    for login in [SquidAuth::Basic, SquidAuth::Digest] {
        let squid = Squid::start(login).await;
        let tunnel = RunningTunnel::start(&["-p", &squid.url("me:secret")], &["--http=0"]);
        let http = format!("http://{}", tunnel.address(0));
        let by = ["-x", &http, "-o", "answer", "-w", "%{http_code}"];
        let form = ["-F", "file=@own", &shelf.url("form/")];
        assert_eq!(here.curl(&[&by[..], &form].concat()), "303");
        let put = ["-T", "own", &shelf.url("put")];
        assert_eq!(here.curl(&[&by[..], &put].concat()), "201");
        for name in ["form/own", "put"] {
            assert!(
                std::fs::read(shelf.path(name)).unwrap() == content.to_vec(),
                "{name}"
            );
            std::fs::remove_file(shelf.path(name)).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e4_a_wrong_password_is_not_sent_again_and_again() {
    let (nginx, here) = (Nginx::start().await, WorkDirectory::new());
    for login in [SquidAuth::Basic, SquidAuth::Digest] {
        let squid = Squid::start(login).await;
        let tunnel = RunningTunnel::start(&["-p", &squid.url("me:wrongword")], &["--http=0"]);
        let http = format!("http://{}", tunnel.address(0));
        let status = |args: &[&str]| {
            let by = ["-sS", "-x", &http, "-o", "got", "-w", "%{http_code}"];
            here.run("curl", &[&by[..], args].concat()).stdout
        };
        // And not squid's own page: a login that the client would show is not passed on.
        assert_eq!(status(&[&nginx.url("f")]), "502");
        assert_eq!(status(&["-d", "body", &nginx.url("f")]), "502");
        let page = std::fs::read_to_string(here.path("got")).unwrap();
        assert!(page.contains("refused the credentials"), "{page}");
        let refusals = squid.refused_requests(3).await;
        assert!((3..=4).contains(&refusals), "{login:?}: {refusals}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e5_a_client_of_an_http_listener_learns_the_reason() {
    let (nginx, squid, here) = (
        Nginx::start().await,
        Squid::start(SquidAuth::None).await,
        WorkDirectory::new(),
    );
    let tunnel = RunningTunnel::start(&["-p", &squid.url("")], &["--socks=0", "--http=0"]);
    let (socks, http) = (
        tunnel.address(0).to_string(),
        format!("http://{}", tunnel.address(1)),
    );
    let url = format!("{FORBIDDEN}:{}/", nginx.ports()[1]);
    let refused = |by: [&str; 2], scheme: &str, words: &str| {
        let output = here.run_checked(
            "curl",
            &[&by[..], &["-sS", &format!("{scheme}://{url}")]].concat(),
        );
        let all = output.stdout.clone() + &output.stderr;
        assert!(all.contains(words), "{output:?}");
        output
    };
    let by_socks = refused(["--socks5-hostname", &socks], "https", "(2)");
    assert!(!by_socks.is_well);
    assert!(!refused(["-x", &http], "https", "403").is_well);
    // What squid says itself.
    assert!(refused(["-x", &http], "http", "Access Denied").is_well);
}

/// curl's requests share its connection, whatever the proxy behind says of its own: tinyproxy answers in HTTP/1.0 and closes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_of_one_curl_share_a_connection() {
    let (nginx, here) = (Nginx::start().await, WorkDirectory::new());
    let content = ResourceContent::random(1, 300_000);
    nginx.serve("f", &content);
    let squid = Squid::start(SquidAuth::Digest).await;
    let (open, locked) = (Tinyproxy::start(false).await, Tinyproxy::start(true).await);
    for proxy in [
        String::new(),
        squid.url("me:secret"),
        open.url(""),
        locked.url("me:secret"),
    ] {
        let tunnel = RunningTunnel::start(&["-p", &proxy], &["--http=0"]);
        let http = format!("http://{}", tunnel.address(0));
        let url = nginx.url("f");
        let by = ["-x", &http, "-w", "%{http_code} %{num_connects}\n"];
        let outputs = ["-o", "one", &url, "-o", "two", &url, "-o", "three", &url];
        let printed = here.curl(&[&by[..], &outputs].concat());
        assert_eq!(printed, "200 1\n200 0\n200 0\n", "{proxy}");
        for name in ["one", "two", "three"] {
            here.assert_file(name, &content);
            let line = tunnel.wait_for_line(&format!(" > 127.0.0.1:{} via ", nginx.ports()[0]));
            assert!(line.contains(": closed, "), "{line}");
        }
    }
}
