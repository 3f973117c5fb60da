//! nginx in front: it keeps connections to the server behind it, and passes bodies on as they come.

use tempfile::TempDir;

use super::{LARGE, SMALL, ServedFolder};
use crate::peers::program::{ServerProcess, start};

/// A running nginx that passes everything on.
struct NginxProxy {
    dir: TempDir,
    port: u16,
    _program: ServerProcess,
}

impl NginxProxy {
    async fn of(serve: &ServedFolder) -> Self {
        let (dir, [port]) = (tempfile::tempdir().unwrap(), haul_lab::free_ports());
        let root = dir.path().to_str().unwrap().to_owned();
        let text = format!(
            "daemon off; worker_processes 2; pid {root}/pid; error_log {root}/error.log;
             events {{ worker_connections 256; }}
             http {{
                access_log off; client_max_body_size 0; client_body_temp_path {root}/t1; proxy_temp_path {root}/t2;
                fastcgi_temp_path {root}/t3; uwsgi_temp_path {root}/t4; scgi_temp_path {root}/t5;
                upstream haul {{ server {}; keepalive 8; }}
                server {{
                    listen 127.0.0.1:{port};
                    location / {{
                        proxy_pass http://haul; proxy_http_version 1.1; proxy_set_header Connection \"\";
                        proxy_request_buffering off; proxy_buffering off;
                    }}
                }}
             }}",
            serve.served.address
        );
        let path = dir.path().join("nginx.conf");
        std::fs::write(&path, text).unwrap();
        let args = ["-p", &root, "-c", path.to_str().unwrap()];
        let program = start("nginx", &args, port, dir.path()).await;
        Self {
            dir,
            port,
            _program: program,
        }
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nginx_in_front_passes_everything_on() {
    let serve = ServedFolder::start(&[]);
    let front = NginxProxy::of(&serve).await;
    let status = |args: &[&str]| serve.curl(&[&["-o", "out", "-w", "%{http_code}"], args].concat());
    assert_eq!(status(&["-T", "large", &front.url("put")]), "201");
    serve.assert_upload("put", LARGE);
    let line = format!(
        "cat large | curl -sS -w '%{{http_code}}' -T - {}",
        front.url("piped")
    );
    assert_eq!(serve.run("sh", &["-c", &line]).stdout, "201");
    serve.assert_upload("piped", LARGE);
    assert_eq!(status(&["-r", "1000000-", &front.url("large")]), "206");
    for _ in 0..5 {
        // Refusals amid requests that share the connections behind.
        assert_eq!(
            status(&["-T", "small", "-H", "If-None-Match: *", &front.url("small")]),
            "412"
        );
        assert_eq!(
            status(&["-T", "large", "-H", "If-None-Match: *", &front.url("small")]),
            "412"
        );
        assert_eq!(status(&["-X", "DELETE", &front.url("none")]), "404");
        assert_eq!(status(&[&front.url("large")]), "200");
        serve.assert_download("out", LARGE);
    }
    serve.assert_upload("small", SMALL);
    let url = front.url("small");
    let output = serve
        .run("ab", &["-q", "-k", "-n", "2000", "-c", "16", &url])
        .stdout;
    assert!(
        output.contains("Failed requests:        0\n") && !output.contains("Non-2xx"),
        "{output}"
    );
    // Connections behind it that break are errors in its log.
    let log = std::fs::read_to_string(front.dir.path().join("error.log")).unwrap();
    assert!(!log.contains("upstream"), "{log}");
}
