//! haul as a server: a child process that listens on an address of its own.
//!
//! A process of its own has CPU time of its own. Its environment is ours without the variables that would change what is measured: proxies,
//! settings of haul, credentials.

use std::ffi::OsStr;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, ChildStderr, Command};
use tokio::task::JoinSet;

use super::network::Network;

/// The access key of embedded S3 servers. They are on loopback and have nothing but noise.
pub const S3_ACCESS_KEY: &str = "bench";
pub const S3_SECRET_KEY: &str = "bench-secret";

/// The longest that a server may take until it listens. It takes milliseconds; a machine under load may take longer.
const START_LIMIT: Duration = Duration::from_secs(20);
/// What is said after that.
const SILENT: &str = "did not listen within 20 s";

/// The last bytes of its standard error that are kept for messages.
const KEPT_OUTPUT: usize = 16 << 10;

/// The lines of it that a message quotes.
const QUOTED_LINES: usize = 5;

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The program cannot be run.
    #[error("cannot run {}", program.display())]
    Run {
        program: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// It ended, or runs and does not listen. Has its command line and the last lines of its standard error.
    #[error("{0}")]
    Failed(String),
    /// A file or folder for servers cannot be made.
    #[error("cannot write {}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A kernel link cannot be started: this process may not, the device is missing, or the system is not Linux.
    #[error("cannot start a kernel link, which needs Linux, network namespaces and TUN devices")]
    KernelLink(#[source] io::Error),
    /// A server of `lab` cannot be started.
    #[error("cannot start a server in this process")]
    Lab(#[source] io::Error),
}

/// A haul that listens. When dropped, it is killed; on Linux also when the thread ends that started it, which a killed process does.
#[derive(Debug)]
pub struct HaulProcess {
    child: Child,
    address: SocketAddr,
    command: String,
    output: OutputTail,
    /// Reads its standard error, so that it is never blocked by it.
    _reader: JoinSet<()>,
}

impl HaulProcess {
    /// Runs `program` with these arguments in a network, and waits until it listens.
    ///
    /// # Errors
    /// See [`ServerError`]; the last lines of its standard error are quoted.
    pub async fn start<A: AsRef<OsStr> + Sync>(
        program: &Path,
        arguments: &[A],
        network: &Network,
    ) -> Result<Self, ServerError> {
        let mut command = Command::new(program);
        command.args(arguments).kill_on_drop(true);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_removed_variable(name)) {
            command.env_remove(name);
        }
        let s3_keys = format!("{S3_ACCESS_KEY}:{S3_SECRET_KEY}");
        command.env("NO_COLOR", "1").env("HAUL_S3_KEYS", s3_keys);
        #[cfg(target_os = "linux")]
        super::sys::end_with_this_thread(&mut command);
        let run_error = |source| ServerError::Run {
            program: program.to_owned(),
            source,
        };
        let mut child = network.run(|| command.spawn()).map_err(run_error)?;
        let stderr = child
            .stderr
            .take()
            .ok_or_else(|| run_error(io::ErrorKind::BrokenPipe.into()))?;
        let (command, output) = (command_line(program, arguments), OutputTail::default());
        let (address, reader) = wait_for_address(stderr, &command, &output).await?;
        Ok(Self {
            child,
            address,
            command,
            output,
            _reader: reader,
        })
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id().unwrap_or_default()
    }

    /// Checks that it still runs.
    ///
    /// # Errors
    /// [`ServerError::Failed`].
    pub fn check(&mut self) -> Result<(), ServerError> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            _ => Err(self.output.failure(&self.command, "ended")),
        }
    }
}

/// Reads standard error up to the address, and then on in a task.
async fn wait_for_address(
    mut stderr: ChildStderr,
    command: &str,
    output: &OutputTail,
) -> Result<(SocketAddr, JoinSet<()>), ServerError> {
    let read = async {
        while output.read_from(&mut stderr).await {
            if let Some(address) = listening_address(&output.text()) {
                return Some(address);
            }
        }
        None
    };
    match tokio::time::timeout(START_LIMIT, read).await {
        Ok(Some(address)) => {
            let (mut reader, output) = (JoinSet::new(), output.clone());
            reader.spawn(async move { while output.read_from(&mut stderr).await {} });
            Ok((address, reader))
        }
        Ok(None) => Err(output.failure(command, "ended")),
        Err(_) => Err(output.failure(command, SILENT)),
    }
}

/// The address in the first complete line `listening on URL` or `haul: listening on ADDRESS -> ...`.
fn listening_address(text: &str) -> Option<SocketAddr> {
    let (_, rest) = text.split_once("listening on ")?;
    let (line, _) = rest.split_once('\n')?;
    let word = line.split_whitespace().next()?;
    let address = word.split_once("://").map_or(word, |(_, rest)| rest);
    address.trim_end_matches('/').parse().ok()
}

/// Whether a server must not get this variable of ours.
fn is_removed_variable(name: &OsStr) -> bool {
    let name = name.to_string_lossy().to_ascii_uppercase();
    name.starts_with("HAUL_")
        || name.starts_with("AWS_")
        || name.ends_with("_PROXY")
        || matches!(&*name, "RUST_LOG" | "CLICOLOR_FORCE")
}

fn command_line(program: &Path, arguments: &[impl AsRef<OsStr>]) -> String {
    let mut text = program.file_name().unwrap_or_default().to_owned();
    for argument in arguments {
        text.push(" ");
        text.push(argument);
    }
    text.to_string_lossy().into_owned()
}

/// The end of what a server wrote to standard error; clones share it.
#[derive(Debug, Clone, Default)]
struct OutputTail(Arc<Mutex<Vec<u8>>>);

impl OutputTail {
    /// Reads some more. False at the end.
    async fn read_from(&self, stderr: &mut ChildStderr) -> bool {
        let mut buffer = [0; 1024];
        let Ok(count @ 1..) = stderr.read(&mut buffer).await else {
            return false;
        };
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(&buffer[..count]);
        let surplus = kept.len().saturating_sub(KEPT_OUTPUT);
        kept.drain(..surplus);
        true
    }

    fn text(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&kept).into_owned()
    }

    fn failure(&self, command: &str, problem: &str) -> ServerError {
        ServerError::Failed(match self.last_lines().trim() {
            "" => format!("{command} {problem}"),
            output => format!("{command} {problem}: {output}"),
        })
    }

    fn last_lines(&self) -> String {
        let text = self.text();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(QUOTED_LINES)..].join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shell in place of haul.
    async fn start(script: &str) -> Result<HaulProcess, ServerError> {
        HaulProcess::start(Path::new("/bin/sh"), &["-c", script], &Network::Machine).await
    }

    #[test]
    fn the_address_is_that_of_the_first_line_that_has_one() {
        for (text, address) in [
            (
                "haul: serving /x\nhaul: listening on http://127.0.0.1:81/\n",
                "127.0.0.1:81",
            ),
            (
                "listening on https://[::1]:82/\nlistening on http://127.0.0.1:1/\n",
                "[::1]:82",
            ),
            (
                "haul: listening on 127.0.0.1:83 -> 127.0.0.1:80\n",
                "127.0.0.1:83",
            ),
        ] {
            assert_eq!(listening_address(text), address.parse().ok(), "{text}");
        }
        for text in [
            "",
            "listening on http://127.0.0.1:8",
            "listening on unix:/x\n",
        ] {
            assert_eq!(listening_address(text), None, "{text}");
        }
    }

    #[test]
    fn settings_and_credentials_of_ours_are_removed() {
        for name in [
            "HAUL_AUTH",
            "AWS_PROFILE",
            "https_proxy",
            "NO_PROXY",
            "RUST_LOG",
        ] {
            assert!(is_removed_variable(OsStr::new(name)), "{name}");
        }
        for name in ["PATH", "HOME", "TMPDIR", "PROXY"] {
            assert!(!is_removed_variable(OsStr::new(name)), "{name}");
        }
    }

    #[tokio::test]
    async fn a_process_is_killed_when_it_is_dropped_and_never_blocked_by_its_output() {
        let script = "echo 'haul: listening on 127.0.0.1:9' >&2; \
            i=0; while [ $i -lt 3000 ]; do echo 'a line of forty bytes, to fill the pipe' >&2; i=$((i+1)); done; \
            echo done >&2; exec sleep 1000";
        let mut process = start(script).await.unwrap();
        assert_eq!(process.address(), "127.0.0.1:9".parse().unwrap());
        let has_written_all = async {
            while !process.output.last_lines().ends_with("done") {
                tokio::task::yield_now().await;
            }
        };
        haul_lab::within(START_LIMIT, has_written_all).await;
        assert!(process.output.text().len() <= KEPT_OUTPUT);
        process.check().unwrap();
        let proc = PathBuf::from(format!("/proc/{}/status", process.pid()));
        drop(process);
        let is_gone = async {
            while std::fs::read_to_string(&proc).is_ok_and(|status| !status.contains("(zombie)")) {
                tokio::task::yield_now().await;
            }
        };
        haul_lab::within(START_LIMIT, is_gone).await;
    }

    #[tokio::test]
    async fn an_end_is_reported_with_the_last_lines() {
        let script = "for i in 1 2 3 4 5 6 7; do echo line $i >&2; done";
        let error = start(script).await.unwrap_err().to_string();
        assert!(error.starts_with("sh -c for"), "{error}");
        assert!(
            error.ends_with("ended: line 3\nline 4\nline 5\nline 6\nline 7"),
            "{error}"
        );
        let missing =
            HaulProcess::start(Path::new("/nowhere/haul"), &["serve"], &Network::Machine).await;
        assert_eq!(missing.unwrap_err().to_string(), "cannot run /nowhere/haul");
    }

    #[tokio::test]
    async fn an_end_after_the_start_is_noticed() {
        let mut process = start("echo 'listening on http://127.0.0.1:9/' >&2")
            .await
            .unwrap();
        let has_ended = async {
            while process.check().is_ok() {
                tokio::task::yield_now().await;
            }
        };
        haul_lab::within(START_LIMIT, has_ended).await;
        assert!(
            process
                .check()
                .unwrap_err()
                .to_string()
                .contains("ended: listening")
        );
    }
}
