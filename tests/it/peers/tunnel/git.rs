//! git over https: a repository that nginx serves, cloned through a proxy and through a port.

use haul_lab::ResourceContent;

use super::{RunningTunnel, WorkDirectory};
use crate::peers::nginx::Nginx;
use crate::peers::squid::{Squid, SquidAuth};

impl WorkDirectory {
    #[track_caller]
    fn git(&self, args: &[&str]) -> String {
        let options = [
            "-c",
            "user.name=me",
            "-c",
            "user.email=me@mail.test",
            "-c",
            "init.defaultBranch=main",
        ];
        self.run("git", &[&options, args].concat()).stdout
    }

    /// Makes a repository with two commits in a directory that a web server serves, and returns the last commit's name.
    #[track_caller]
    fn publish(&self, bare: &str) -> String {
        self.git(&["init", "-q", "own"]);
        std::fs::write(
            self.path("own/f"),
            ResourceContent::random(4, 2 << 20).to_vec(),
        )
        .unwrap();
        for text in ["first", "second"] {
            std::fs::write(self.path("own/text"), text).unwrap();
            self.git(&["-C", "own", "add", "."]);
            self.git(&["-C", "own", "commit", "-q", "-m", text]);
        }
        self.git(&["clone", "-q", "--bare", "own", bare]);
        self.git(&["-C", bare, "update-server-info"]);
        self.git(&["-C", "own", "rev-parse", "HEAD"])
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repository_is_cloned_through_proxy_and_port() {
    let (nginx, here) = (Nginx::start().await, WorkDirectory::new());
    let commit = here.publish(nginx.folder().join("own.git").to_str().unwrap());
    let (squid, [_, tls]) = (Squid::start(SquidAuth::Basic).await, nginx.ports());
    let spec = format!("0:127.0.0.1:{tls}");
    let tunnel = RunningTunnel::start(&["-p", &squid.url("me:secret")], &[&spec, "--http=0"]);
    let http = format!("http://{}", tunnel.address(1));
    let (variable, proxy) = (format!("https_proxy={http}"), format!("http.proxy={http}"));
    let (ca, url) = (
        format!("http.sslCAInfo={}", nginx.ca().display()),
        nginx.tls_url("own.git"),
    );
    let by_port = format!("https://{}/own.git", tunnel.address(0));
    let clones = [
        (
            "variable",
            vec![&*variable, "git", "-c", &ca, "clone", "-q", &url],
        ),
        (
            "setting",
            vec!["git", "-c", &proxy, "-c", &ca, "clone", "-q", &url],
        ),
        ("port", vec!["git", "-c", &ca, "clone", "-q", &by_port]),
    ];
    for (name, line) in clones {
        here.run("env", &[&line[..], &[name]].concat());
        assert_eq!(here.git(&["-C", name, "rev-parse", "HEAD"]), commit);
        here.git(&["-C", name, "fsck", "--strict"]);
        here.assert_file(&format!("{name}/f"), &ResourceContent::random(4, 2 << 20));
        let line = tunnel.wait_for_line(&format!(" > 127.0.0.1:{tls} via "));
        assert!(line.contains(": closed, "), "{line}");
    }
}
