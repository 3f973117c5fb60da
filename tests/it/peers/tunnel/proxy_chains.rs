//! Proxies in a row, one in place of another, and none at all.

use haul_lab::ResourceContent;

use super::tinyproxy::Tinyproxy;
use super::{RunningTunnel, WorkDirectory};
use crate::peers::nginx::Nginx;
use crate::peers::squid::{Squid, SquidAuth};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chain_of_squid_and_tinyproxy_reaches_the_target() {
    let (nginx, content) = (Nginx::start().await, ResourceContent::random(1, 3 << 20));
    nginx.serve("f", &content);
    let (squid, tinyproxy) = (
        Squid::start(SquidAuth::Digest).await,
        Tinyproxy::start(true).await,
    );
    let (here, ca, [plain, tls]) = (WorkDirectory::new(), nginx.ca(), nginx.ports());
    let (first, second) = (squid.url("me:secret"), tinyproxy.url("me:secret"));
    let tunnel = RunningTunnel::start(
        &["-p", &first, "-p", &second],
        &[
            &format!("0:127.0.0.1:{plain}"),
            &format!("0:127.0.0.1:{tls}"),
        ],
    );
    let bare = |url: String| url.replace("http://", "");
    let via = format!(
        "via {} > {}: closed",
        bare(squid.url("")),
        bare(tinyproxy.url(""))
    );
    here.curl_gets(&format!("http://{}/f", tunnel.address(0)), &[], &content);
    tunnel.wait_for_line(&via);
    let url = format!("https://{}/f", tunnel.address(1));
    here.curl_gets(&url, &["--cacert", ca.to_str().unwrap()], &content);
    tunnel.wait_for_line(&via);
    let requests = tinyproxy.requests();
    for port in [plain, tls] {
        let line = format!(": CONNECT 127.0.0.1:{port} ");
        assert!(
            requests.iter().any(|request| request.contains(&line)),
            "{requests:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_alternative_that_is_down_is_skipped() {
    let (nginx, content) = (Nginx::start().await, ResourceContent::random(1, 100_000));
    nginx.serve("f", &content);
    let (squid, here, [dead]) = (
        Squid::start(SquidAuth::Basic).await,
        WorkDirectory::new(),
        haul_lab::free_ports(),
    );
    let either = format!("127.0.0.1:{dead},{}", squid.url("me:secret"));
    let spec = format!("0:127.0.0.1:{}", nginx.ports()[0]);
    let tunnel = RunningTunnel::start(&["-p", &either], &[&spec]);
    let via = format!("via {}: closed", squid.url("").replace("http://", ""));
    for _ in 0..3 {
        here.curl_gets(&format!("http://{}/f", tunnel.address(0)), &[], &content);
        tunnel.wait_for_line(&via);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e6_without_its_proxy_the_tunnel_connects_directly_if_allowed() {
    let (nginx, content) = (Nginx::start().await, ResourceContent::random(1, 100_000));
    nginx.serve("f", &content);
    let (squid, here) = (Squid::start(SquidAuth::None).await, WorkDirectory::new());
    let (proxy, spec) = (squid.url(""), format!("0:127.0.0.1:{}", nginx.ports()[0]));
    let may = RunningTunnel::start(&["-p", &proxy, "--direct-fallback"], &[&spec]);
    let must = RunningTunnel::start(&["-p", &proxy], &[&spec]);
    let get = |tunnel: &RunningTunnel| {
        here.curl_gets(&format!("http://{}/f", tunnel.address(0)), &[], &content);
    };
    let via = format!("via {}: closed", proxy.replace("http://", ""));
    for tunnel in [&may, &must] {
        get(tunnel);
        tunnel.wait_for_line(&via);
    }
    drop(squid);
    for _ in 0..2 {
        get(&may);
        may.wait_for_line("via direct: closed");
        let line = must.assert_client_refused(0);
        assert!(line.contains(&proxy.replace("http://", "")), "{line}");
    }
}
