//! A private squid: open, or with a login by Basic or Digest, with TLS and without. To [`FORBIDDEN`] it lets nobody.

use std::time::Duration;

use haul_lab::CertificateAuthority;
use tempfile::TempDir;

use super::program::{ServerProcess, start};

/// An address of this machine's that it does not connect to.
pub(crate) const FORBIDDEN: &str = "127.0.0.66";

/// The login that a squid requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SquidAuth {
    None,
    Basic,
    Digest,
}

pub(crate) struct Squid {
    dir: TempDir,
    port: u16,
    /// Where it speaks TLS.
    tls: u16,
    program: ServerProcess,
}

impl Drop for Squid {
    fn drop(&mut self) {
        // Asked to end, it takes two seconds. Killed, it leaves its shared memory.
        self.program.kill();
        for part in ["metadata", "queues", "readers"] {
            let _ = std::fs::remove_file(format!("/dev/shm/{}-cf__{part}.shm", name(self.port)));
        }
    }
}

impl Squid {
    /// Starts one. The login is `me` with `secret`.
    pub(crate) async fn start(login: SquidAuth) -> Self {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        // It gives up root's rights, and then must still be able to write here.
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let (root, [port, tls]) = (dir.path().to_str().unwrap(), haul_lab::free_ports());
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        let authority = CertificateAuthority::new();
        let issued = authority.issue(&["127.0.0.1"]);
        write("ca.pem", &authority.certificate_pem());
        write("cert.pem", &issued.certificate_pem);
        write("key.pem", &issued.key_pem);
        // `me:secret`, with the password's MD5 as crypt(3) writes it, and in clear for Digest.
        write("basic", "me:$apr1$haul$4oUqeo3KDL/g0oYo.xarF/\n");
        write("digest", "me:secret\n");
        write("squid.conf", &configuration(root, [port, tls], login));
        let path = dir.path().join("squid.conf");
        let name = name(port);
        let args = ["-N", "-n", &name, "-f", path.to_str().unwrap()];
        let program = start("squid", &args, port, dir.path()).await;
        Self {
            dir,
            port,
            tls,
            program,
        }
    }

    /// Its URL, with a login if one is given.
    pub(crate) fn url(&self, login: &str) -> String {
        let at = if login.is_empty() { "" } else { "@" };
        format!("http://{login}{at}127.0.0.1:{}", self.port)
    }

    /// The same over TLS.
    pub(crate) fn tls_url(&self, login: &str) -> String {
        let (port, tls) = (self.port.to_string(), self.tls.to_string());
        let url = self.url(login).replace("http:", "https:");
        url.strip_suffix(&port).unwrap().to_owned() + &tls
    }

    /// How many requests it has refused for lack of a valid login, once its log names at least `expected` of them: squid writes a line
    /// after its client has read the response.
    pub(crate) async fn refused_requests(&self, expected: usize) -> usize {
        let refusals = async {
            loop {
                let log = std::fs::read_to_string(self.dir.path().join("access.log")).unwrap();
                let count = log.lines().filter(|line| line.contains("/407 ")).count();
                if count >= expected {
                    return count;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let limit = Duration::from_secs(10);
        tokio::time::timeout(limit, refusals)
            .await
            .unwrap_or_else(|_| panic!("fewer than {expected} refusals in squid's log"))
    }

    /// The authority that signed its certificate, as a file.
    pub(crate) fn ca(&self) -> String {
        self.dir.path().join("ca.pem").to_str().unwrap().to_owned()
    }
}

/// What it calls itself, so that it shares nothing with another.
fn name(port: u16) -> String {
    format!("haul{port}")
}

fn configuration(root: &str, [port, tls]: [u16; 2], login: SquidAuth) -> String {
    let auth = match login {
        SquidAuth::None => String::new(),
        SquidAuth::Basic => format!(
            "auth_param basic program /usr/lib/squid/basic_ncsa_auth {root}/basic\nauth_param basic realm corp\n"
        ),
        SquidAuth::Digest => format!(
            "auth_param digest program /usr/lib/squid/digest_file_auth {root}/digest\nauth_param digest realm corp\n"
        ),
    };
    let rule = if login == SquidAuth::None {
        "http_access allow all"
    } else {
        "acl known proxy_auth REQUIRED\nhttp_access allow known\nhttp_access deny all"
    };
    format!(
        "http_port 127.0.0.1:{port}\nhttps_port 127.0.0.1:{tls} tls-cert={root}/cert.pem tls-key={root}/key.pem\nacl forbidden dst {FORBIDDEN}/32\nhttp_access deny forbidden\n{auth}{rule}\ncache deny all\naccess_log stdio:{root}/access.log\ncache_log {root}/cache.log\n\
         pid_filename none\ncoredump_dir {root}\nshutdown_lifetime 0 seconds\nvisible_hostname localhost\npinger_enable off\n\
         cache_effective_user proxy\nnetdb_filename none\n"
    )
}
