//! A private tinyproxy, which responds in HTTP/1.0 and closes after a 407; and curl through it.

use haul_lab::ResourceContent;
use tempfile::TempDir;

use super::{RunningTunnel, WorkDirectory};
use crate::peers::nginx::Nginx;
use crate::peers::program::{ServerProcess, start};

pub(super) struct Tinyproxy {
    /// It has the configuration and the log.
    dir: TempDir,
    port: u16,
    _program: ServerProcess,
}

impl Tinyproxy {
    /// Starts a proxy without a login, or with the login `me:secret`.
    pub(super) async fn start(has_login: bool) -> Self {
        let (dir, [port]) = (tempfile::tempdir().unwrap(), haul_lab::free_ports());
        let log = dir.path().join("log");
        let login = if has_login {
            "BasicAuth me secret\n"
        } else {
            ""
        };
        let text = format!(
            "Port {port}\nListen 127.0.0.1\nTimeout 60\nMaxClients 50\nLogLevel Connect\nLogFile \"{}\"\n{login}",
            log.display()
        );
        let path = dir.path().join("tinyproxy.conf");
        std::fs::write(&path, text).unwrap();
        let args = ["-d", "-c", path.to_str().unwrap()];
        let program = start("tinyproxy", &args, port, dir.path()).await;
        Self {
            dir,
            port,
            _program: program,
        }
    }

    /// Its URL, with a login if one is given.
    pub(super) fn url(&self, login: &str) -> String {
        let at = if login.is_empty() { "" } else { "@" };
        format!("http://{login}{at}127.0.0.1:{}", self.port)
    }

    /// The first lines of the requests that it received.
    pub(super) fn requests(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.dir.path().join("log")).unwrap();
        let requests = log.lines().filter(|line| line.contains("Request ("));
        requests.map(str::to_owned).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e1_with_a_login_and_without() {
    let (nginx, content) = (Nginx::start().await, ResourceContent::random(1, 5 << 20));
    nginx.serve("f", &content);
    let (here, ca) = (WorkDirectory::new(), nginx.ca());
    let specs = nginx.ports().map(|port| format!("0:127.0.0.1:{port}"));
    for login in ["", "me:secret"] {
        let tinyproxy = Tinyproxy::start(!login.is_empty()).await;
        let tunnel = RunningTunnel::start(&["-p", &tinyproxy.url(login)], &[&specs[0], &specs[1]]);
        here.curl_gets(&format!("http://{}/f", tunnel.address(0)), &[], &content);
        let url = format!("https://{}/f", tunnel.address(1));
        here.curl_gets(&url, &["--cacert", ca.to_str().unwrap()], &content);
        let requests = tinyproxy.requests();
        assert!(
            requests
                .iter()
                .all(|line| line.contains(": CONNECT 127.0.0.1:")),
            "{requests:?}"
        );
        assert!(!requests.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e5_a_refusal_is_reported() {
    let (locked, [dead]) = (Tinyproxy::start(true).await, haul_lab::free_ports());
    let spec = format!("0:127.0.0.1:{dead}");
    let refused = |login: &str, status: &str| {
        let line =
            RunningTunnel::start(&["-p", &locked.url(login)], &[&spec]).assert_client_refused(0);
        assert!(
            line.contains(status) && !line.contains("wrongword"),
            "{line}"
        );
    };
    refused("", "requires credentials for \"Tinyproxy\"");
    // It says so by 401.
    refused("me:wrongword", "refused the credentials for \"Tinyproxy\"");
    refused("me:secret", "500");
}
