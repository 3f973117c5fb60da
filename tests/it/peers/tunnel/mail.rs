//! Mail: Python's client of IMAP and a private dovecot, with TLS by the client or by the tunnel.

use haul_lab::CertificateAuthority;
use tempfile::TempDir;

use super::{RunningTunnel, WorkDirectory};
use crate::peers::program::{NOBODY, ServerProcess, start_as_nobody};
use crate::peers::squid::{Squid, SquidAuth};

/// A running dovecot. Every user has the password `secret` and an inbox.
struct Dovecot {
    dir: TempDir,
    /// The ports without TLS and with TLS.
    ports: [u16; 2],
    _program: ServerProcess,
}

impl Dovecot {
    async fn start() -> Self {
        use std::os::unix::fs::PermissionsExt as _;
        let (dir, ports) = (tempfile::tempdir().unwrap(), haul_lab::free_ports());
        // The server may run as another user.
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let authority = CertificateAuthority::new();
        let issued = authority.issue(&["127.0.0.1"]);
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write("ca.pem", &authority.certificate_pem());
        write("cert.pem", &issued.certificate_pem);
        write("key.pem", &issued.key_pem);
        let root = dir.path().to_str().unwrap();
        write("dovecot.conf", &configuration(root, ports));
        let path = dir.path().join("dovecot.conf");
        let args = ["-F", "-c", path.to_str().unwrap()];
        let program = start_as_nobody("dovecot", &args, ports[0], dir.path()).await;
        Self {
            dir,
            ports,
            _program: program,
        }
    }

    /// The authority that signed its certificate, as a file.
    fn ca(&self) -> String {
        self.dir.path().join("ca.pem").to_str().unwrap().to_owned()
    }
}

fn configuration(root: &str, [plain, tls]: [u16; 2]) -> String {
    let (user, group) = if rustix::process::geteuid().is_root() {
        (NOBODY.0.to_owned(), NOBODY.1.to_owned())
    } else {
        // It takes names, and no numbers.
        let own = |flag| {
            WorkDirectory::new()
                .run("id", &[flag])
                .stdout
                .trim()
                .to_owned()
        };
        (own("-un"), own("-gn"))
    };
    format!(
        "base_dir = {root}/run\nstate_dir = {root}/run\ninstance_name = haul\nlog_path = {root}/log\n\
         protocols = imap\nlisten = 127.0.0.1\nfirst_valid_uid = 1\nmail_location = maildir:{root}/mail\n\
         default_internal_user = {user}\ndefault_internal_group = {group}\ndefault_login_user = {user}\n\
         ssl = yes\nssl_cert = <{root}/cert.pem\nssl_key = <{root}/key.pem\ndisable_plaintext_auth = no\n\
         passdb {{\n driver = static\n args = password=secret\n}}\n\
         userdb {{\n driver = static\n args = uid={user} gid={group} home={root}/home\n}}\n\
         service imap-login {{\n chroot =\n\
         inet_listener imap {{\n port = {plain}\n }}\n inet_listener imaps {{\n port = {tls}\n }}\n}}\n\
         service anvil {{\n chroot =\n}}\n"
    )
}

/// Logs in, puts a message into the inbox, and fetches it back.
const PYTHON: &str = r#"
import imaplib, os, ssl, sys
how, port, ca = sys.argv[1], int(sys.argv[2]), sys.argv[3]
context = ssl.create_default_context(cafile=ca)
if how == "tls":
    mail = imaplib.IMAP4_SSL("127.0.0.1", port, ssl_context=context)
else:
    mail = imaplib.IMAP4("127.0.0.1", port)
if how == "starttls":
    assert mail.starttls(context)[0] == "OK"
assert mail.login("me", "secret")[0] == "OK"
body = b"\r\n".join(os.urandom(30).hex().encode() for _ in range(40000))
message = b"From: me@mail.test\r\nSubject: by " + how.encode() + b"\r\n\r\n" + body + b"\r\n"
assert mail.append("INBOX", None, None, message)[0] == "OK"
assert mail.select("INBOX")[0] == "OK"
found, numbers = mail.search(None, "SUBJECT", '"by %s"' % how)
assert found == "OK" and len(numbers[0].split()) == 1, numbers
found, parts = mail.fetch(numbers[0].split()[0], "(RFC822)")
assert found == "OK" and parts[0][1] == message, len(parts[0][1])
assert mail.logout()[0] == "BYE"
print("done")
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mail_is_sent_and_fetched() {
    let (dovecot, squid) = (Dovecot::start().await, Squid::start(SquidAuth::Basic).await);
    let (here, ca, proxy) = (WorkDirectory::new(), dovecot.ca(), squid.url("me:secret"));
    let [plain, tls] = dovecot.ports.map(|port| format!("0:127.0.0.1:{port}"));
    let tunnel = RunningTunnel::start(&["-p", &proxy], &[&plain, &tls]);
    let by_tunnel = RunningTunnel::start(&["-p", &proxy, "--target-tls", "--cacert", &ca], &[&tls]);
    for (how, tunnel, place) in [
        ("starttls", &tunnel, 0),
        ("tls", &tunnel, 1),
        ("plain", &by_tunnel, 0),
    ] {
        let args = ["-c", PYTHON, how, &tunnel.port(place), &ca];
        assert_eq!(here.run("python3", &args).stdout, "done\n");
        let line = tunnel.wait_for_line(" via 127.0.0.1:");
        // With TLS either side may close without waiting for the other, so how the connection ended does not matter.
        assert!(!line.contains("failed"), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_untrusted_certificate_is_refused() {
    let (dovecot, squid) = (Dovecot::start().await, Squid::start(SquidAuth::None).await);
    let spec = format!("0:127.0.0.1:{}", dovecot.ports[1]);
    let tunnel = RunningTunnel::start(&["-p", &squid.url(""), "--target-tls"], &[&spec]);
    let line = tunnel.assert_client_refused(0);
    assert!(line.contains("certificate"), "{line}");
}
