//! A private nginx: files, TLS, a limit on each connection, a login, a redirect.

use std::path::{Path, PathBuf};

use haul_lab::{CertificateAuthority, ResourceContent};
use tempfile::TempDir;

use super::program::{ServerProcess, start};

pub(crate) struct Nginx {
    dir: TempDir,
    plain: u16,
    tls: u16,
    /// `None` while it is stopped.
    program: Option<ServerProcess>,
}

impl Nginx {
    pub(crate) async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        // Its workers are another user's when root runs the tests.
        make_readable(&dir);
        let (root, [plain, tls]) = (dir.path().to_str().unwrap(), haul_lab::free_ports());
        let authority = CertificateAuthority::new();
        let issued = authority.issue(&["127.0.0.1", "localhost"]);
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write("ca.pem", &authority.certificate_pem());
        write("cert.pem", &issued.certificate_pem);
        write("key.pem", &issued.key_pem);
        write("users", "me:{PLAIN}secret\n");
        std::fs::create_dir_all(dir.path().join("files/dav")).unwrap();
        make_writable(&dir.path().join("files/dav"));
        write("nginx.conf", &configuration(root, plain, tls));
        let mut nginx = Self {
            dir,
            plain,
            tls,
            program: None,
        };
        nginx.start_again().await;
        nginx
    }

    /// Ends it at once, with all its connections.
    pub(crate) fn stop(&mut self) {
        self.program = None;
    }

    /// Starts it on the same ports.
    pub(crate) async fn start_again(&mut self) {
        let (dir, root) = (self.dir.path(), self.dir.path().to_str().unwrap());
        let path = dir.join("nginx.conf");
        let args = ["-p", root, "-c", path.to_str().unwrap()];
        self.program = Some(start("nginx", &args, self.plain, dir).await);
    }

    pub(crate) fn serve(&self, name: &str, content: &ResourceContent) {
        std::fs::write(self.dir.path().join("files").join(name), content.to_vec()).unwrap();
    }

    /// What it serves; its workers must be able to read all of it.
    pub(crate) fn folder(&self) -> PathBuf {
        self.dir.path().join("files")
    }

    /// Where it listens without TLS, and with.
    pub(crate) fn ports(&self) -> [u16; 2] {
        [self.plain, self.tls]
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.plain)
    }

    pub(crate) fn tls_url(&self, path: &str) -> String {
        format!("https://127.0.0.1:{}/{path}", self.tls)
    }

    /// The authority that signed its certificate, as a file.
    pub(crate) fn ca(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }
}

fn make_readable(dir: &TempDir) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// For its workers.
fn make_writable(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
}

fn configuration(root: &str, plain: u16, tls: u16) -> String {
    format!(
        "daemon off; worker_processes 2; pid {root}/pid; error_log {root}/error.log;
         events {{ worker_connections 256; }}
         http {{
            access_log off; sendfile on; root {root}/files;
            client_body_temp_path {root}/t1; proxy_temp_path {root}/t2; fastcgi_temp_path {root}/t3;
            uwsgi_temp_path {root}/t4; scgi_temp_path {root}/t5;
            server {{
                listen 127.0.0.1:{plain};
                location /slow/ {{ alias {root}/files/; limit_rate 4m; }}
                location /locked/ {{ alias {root}/files/; auth_basic vault; auth_basic_user_file {root}/users; }}
                location /dav/ {{ dav_methods PUT; create_full_put_path on; client_max_body_size 64m; }}
                location /small-dav/ {{ dav_methods PUT; client_max_body_size 1k; }}
                location /moved/ {{ rewrite ^/moved/(.*)$ /$1 redirect; }}
            }}
            server {{
                listen 127.0.0.1:{tls} ssl;
                ssl_certificate {root}/cert.pem; ssl_certificate_key {root}/key.pem;
            }}
         }}"
    )
}
