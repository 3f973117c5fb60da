//! ssh to a private sshd: by `ProxyCommand` as people have it in their configuration, and by a port.

use haul_lab::ResourceContent;

use super::{RunningTunnel, WorkDirectory};
use crate::peers::program::{ServerProcess, start};
use crate::peers::squid::{Squid, SquidAuth};

/// Bytes sent through `cat` and back: more than all buffers in between hold.
const LARGE: u64 = (12 << 20) + 345;

/// A running sshd. The user who runs the tests logs in by a key.
struct Sshd {
    port: u16,
    /// Its keys and configuration, and the working directory of clients.
    here: WorkDirectory,
    _program: ServerProcess,
}

impl Sshd {
    async fn start() -> Self {
        let (here, [port]) = (WorkDirectory::new(), haul_lab::free_ports());
        for name in ["host", "own"] {
            here.run("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", name]);
        }
        let public = std::fs::read_to_string(here.path("host.pub")).unwrap();
        std::fs::write(here.path("known"), format!("far {public}")).unwrap();
        let folder = here.text("");
        // StrictModes refuses files below /tmp.
        let text = format!(
            "ListenAddress 127.0.0.1\nPort {port}\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/own.pub\nPidFile none\n\
             UsePAM no\nStrictModes no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\n\
             MaxStartups 100\nPrintMotd no\n"
        );
        std::fs::write(here.path("sshd_config"), text).unwrap();
        if rustix::process::geteuid().is_root() {
            // The directory to which it changes its root, which the system makes else.
            std::fs::create_dir_all("/run/sshd").unwrap();
        }
        let (config, log) = (here.text("sshd_config"), here.text("log"));
        // It needs its absolute path, to run itself again for each client.
        let args = ["-D", "-f", &config, "-E", &log];
        let program = start("/usr/sbin/sshd", &args, port, &here.path("")).await;
        Self {
            port,
            here,
            _program: program,
        }
    }

    /// Runs a line of shell in which `$SSH` is a client that knows the server's key and has one of its own.
    #[track_caller]
    fn shell(&self, options: &str, line: &str) -> String {
        let ssh = format!(
            "ssh -F none -i own -o IdentitiesOnly=yes -o IdentityAgent=none -o BatchMode=yes -o ConnectTimeout=30 \
             -o UserKnownHostsFile=known -o GlobalKnownHostsFile=/dev/null -o StrictHostKeyChecking=yes -o HostKeyAlias=far {options}"
        );
        self.here
            .run("bash", &["-ec", &line.replace("$SSH", &ssh)])
            .stdout
    }

    /// Runs a command by a client with these options, and sends many bytes both ways.
    #[track_caller]
    fn run_session(&self, options: &str, destination: &str) {
        let output = self.shell(
            options,
            &format!("$SSH {destination} 'echo well; exit 3' || echo $?"),
        );
        assert_eq!(output, "well\n3\n");
        let content = ResourceContent::random(7, LARGE);
        std::fs::write(self.here.path("up"), content.to_vec()).unwrap();
        self.shell(options, &format!("$SSH {destination} cat <up >down"));
        self.here.assert_file("down", &content);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e2_ssh_by_proxy_command() {
    let sshd = Sshd::start().await;
    for login in [SquidAuth::None, SquidAuth::Digest] {
        let squid = Squid::start(login).await;
        let user = if login == SquidAuth::None {
            ""
        } else {
            "me:secret"
        };
        let command = format!(
            "-o ProxyCommand='{} tunnel -p {} --stdio %h:%p' -p {}",
            env!("CARGO_BIN_EXE_haul"),
            squid.url(user),
            sshd.port
        );
        sshd.run_session(&command, "127.0.0.1");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e2_ssh_by_port() {
    let (sshd, squid) = (Sshd::start().await, Squid::start(SquidAuth::Basic).await);
    let spec = format!("0:127.0.0.1:{}", sshd.port);
    for flags in [&[][..], &["--warm", "2"]] {
        let tunnel = RunningTunnel::start(
            &[&["-p", &squid.url("me:secret")], flags].concat(),
            &[&spec],
        );
        sshd.run_session(&format!("-p {}", tunnel.port(0)), "127.0.0.1");
        let line = tunnel.wait_for_line(": closed, ");
        assert!(
            line.contains(&format!(" > 127.0.0.1:{} via ", sshd.port)),
            "{line}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e5_ssh_ends_with_the_message_of_the_proxy() {
    let (sshd, squid) = (Sshd::start().await, Squid::start(SquidAuth::Basic).await);
    let haul = env!("CARGO_BIN_EXE_haul");
    let command = format!(
        "-o ProxyCommand='{haul} tunnel -p {} --stdio %h:%p'",
        squid.url("me:wrongword")
    );
    let output = sshd.shell(&command, "$SSH -p 22 127.0.0.1 true 2>&1 || echo $?");
    assert!(
        output.contains("refused the credentials for \"corp\"")
            && output.ends_with("255\n")
            && !output.contains("wrongword"),
        "{output}"
    );
}
