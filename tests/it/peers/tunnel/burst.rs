//! `ab` with many connections at a time.

use haul_lab::ResourceContent;

use super::{RunningTunnel, WorkDirectory};
use crate::peers::nginx::Nginx;
use crate::peers::squid::{Squid, SquidAuth};
use crate::peers::test_server::FileOrigin;

impl WorkDirectory {
    /// Sends requests, none of which may fail.
    #[track_caller]
    fn burst(&self, flags: &[&str], count: &str, url: &str) {
        let args = [&["-q", "-n", count, "-c", "50"], flags, &[url]].concat();
        let output = self.run("ab", &args).stdout;
        let complete = format!("Complete requests:      {count}\n");
        assert!(
            output.contains(&complete) && output.contains("Failed requests:        0\n"),
            "{output}"
        );
        assert!(!output.contains("Non-2xx"), "{output}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn none_of_many_connections_fails() {
    let (nginx, here) = (Nginx::start().await, WorkDirectory::new());
    nginx.serve("f", &ResourceContent::random(1, 3000));
    let (squid, spec) = (
        Squid::start(SquidAuth::None).await,
        format!("0:127.0.0.1:{}", nginx.ports()[0]),
    );
    for flags in [&[][..], &["--warm", "16"]] {
        let tunnel = RunningTunnel::start(&[&["-p", &squid.url("")], flags].concat(), &[&spec]);
        let url = format!("http://{}/f", tunnel.address(0));
        here.burst(&[], "2000", &url);
        here.burst(&["-k"], "2000", &url);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn none_of_many_connections_fails_through_an_http_listener() {
    let (nginx, here) = (Nginx::start().await, WorkDirectory::new());
    nginx.serve("f", &ResourceContent::random(1, 3000));
    let (squid, url) = (Squid::start(SquidAuth::Basic).await, nginx.url("f"));
    let tunnel = RunningTunnel::start(&["-p", &squid.url("me:secret")], &["--http=0"]);
    let http = tunnel.address(0).to_string();
    here.burst(&["-X", &http], "1000", &url);
    here.burst(&["-k", "-X", &http], "1000", &url);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e4_a_used_up_nonce_is_replaced() {
    let (nginx, here) = (Nginx::start().await, WorkDirectory::new());
    nginx.serve("f", &ResourceContent::random(1, 3000));
    let spec = format!("0:127.0.0.1:{}", nginx.ports()[0]);
    // squid accepts a nonce 50 times.
    let squid = Squid::start(SquidAuth::Digest).await;
    let tunnel = RunningTunnel::start(&["-p", &squid.url("me:secret")], &[&spec]);
    let url = format!("http://{}/f", tunnel.address(0));
    here.burst(&[], "1500", &url);
    let tunnel = RunningTunnel::start(&["-p", &squid.url("me:secret")], &["--http=0"]);
    let http = tunnel.address(0).to_string();
    here.burst(&["-X", &http], "500", &nginx.url("f"));
    // A body can be sent only once.
    let shelf = FileOrigin::start(&["--writable", "--durability", "none"], |_| ()).await;
    std::fs::write(here.path("body"), "x".repeat(5000)).unwrap();
    here.burst(&["-X", &http, "-u", "body"], "500", &shelf.url("put"));
}
