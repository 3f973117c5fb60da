//! Runs the binary in a new directory, with a minimal environment, for a limited time.

use std::io::{PipeReader, PipeWriter};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use haul_lab::{Origin, OriginResource, ResourceContent, within};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStderr, Command};

/// The time limit of a run of the binary.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A directory to run in.
pub(crate) struct HaulDirectory {
    pub(crate) dir: TempDir,
    /// Variables added to the environment, which otherwise has little more than HOME and TMPDIR.
    variables: Vec<(String, String)>,
}

/// The output and exit code of a run.
#[derive(Debug)]
pub(crate) struct HaulOutput {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

pub(crate) struct RunningHaul {
    pub(crate) child: Child,
    pub(crate) stderr: Lines<BufReader<ChildStderr>>,
}

impl HaulDirectory {
    pub(crate) fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            variables: Vec::new(),
        }
    }

    pub(crate) fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        std::fs::write(self.path(name), bytes).unwrap();
        self.path(name).to_str().unwrap().to_owned()
    }

    /// The names in the directory, sorted.
    pub(crate) fn listing(&self) -> Vec<String> {
        file_names(self.dir.path())
    }

    #[track_caller]
    pub(crate) fn assert_file(&self, name: &str, content: &ResourceContent) {
        let found =
            std::fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(
            found == content.to_vec(),
            "{name} is not the origin's file: {} bytes",
            found.len()
        );
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_haul"));
        command
            .args(args)
            .current_dir(self.dir.path())
            .env_clear()
            .env("HOME", self.dir.path())
            .env("TMPDIR", self.dir.path());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        // The path of the coverage profile.
        command
            .envs(std::env::var_os("LLVM_PROFILE_FILE").map(|value| ("LLVM_PROFILE_FILE", value)));
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// A command line that script(1) runs on a terminal of its own. Its standard output is the terminal's output.
    #[cfg(target_os = "linux")]
    pub(crate) fn terminal_command(&self, line: &str) -> Command {
        let mut command = Command::new("script");
        command
            .args(["-qefc", line, "/dev/null"])
            .current_dir(self.dir.path());
        command
            .env("TERM", "xterm")
            .env_remove("NO_COLOR")
            .env("HOME", self.dir.path());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Runs a shell command in the directory.
    #[cfg(unix)]
    pub(crate) async fn shell(&self, line: &str) -> HaulOutput {
        let mut command = Command::new("sh");
        command
            .args(["-c", line])
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        HaulOutput::from_output(within(LIMIT, command.output()).await.unwrap())
    }

    /// Runs the binary with a shell redirection of its standard streams.
    #[cfg(unix)]
    pub(crate) async fn run_redirected(&self, redirection: &str, args: &[&str]) -> HaulOutput {
        HaulOutput::from_output(self.redirected_output(redirection, args).await)
    }

    /// The same, and asserts the exit code. Standard output may have bytes that are not UTF-8.
    #[cfg(unix)]
    #[track_caller]
    pub(crate) fn assert_redirected_code(
        &self,
        redirection: &str,
        args: &[&str],
        code: i32,
    ) -> impl Future<Output = ()> {
        let caller = std::panic::Location::caller();
        async move {
            let mut output = self.redirected_output(redirection, args).await;
            output.stdout.clear();
            let output = HaulOutput::from_output(output);
            assert_eq!(
                output.code, code,
                "{redirection} {args:?} at {caller}: {output:#?}"
            );
        }
    }

    #[cfg(unix)]
    async fn redirected_output(&self, redirection: &str, args: &[&str]) -> Output {
        let line = format!("exec \"$0\" \"$@\" {redirection}");
        let mut command = Command::new("sh");
        command
            .args(["-c", &line, env!("CARGO_BIN_EXE_haul")])
            .args(args)
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        within(LIMIT, command.output()).await.unwrap()
    }

    pub(crate) async fn run(&self, args: &[&str]) -> HaulOutput {
        let output = within(LIMIT, self.command(args).output()).await.unwrap();
        HaulOutput::from_output(output)
    }

    pub(crate) async fn get(&self, url: &str, flags: &[&str]) -> HaulOutput {
        self.run(&[&["get", url], flags].concat()).await
    }

    /// Starts the binary; its standard error can be read line by line.
    pub(crate) fn start(&self, args: &[&str]) -> RunningHaul {
        RunningHaul::from_child(self.command(args).spawn().unwrap())
    }

    /// Starts a shell command; its standard error can be read line by line.
    #[cfg(unix)]
    pub(crate) fn start_shell(&self, line: &str) -> RunningHaul {
        let mut command = Command::new("sh");
        command
            .args(["-c", line])
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        RunningHaul::from_child(command.spawn().unwrap())
    }
}

impl HaulOutput {
    pub(crate) fn from_output(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let code = output.status.code().unwrap_or(-1);
        Self {
            code,
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    /// Asserts the exit code, and that the program did not panic.
    #[track_caller]
    pub(crate) fn assert_code(&self, code: i32) -> &Self {
        assert_eq!(self.code, code, "{self:#?}");
        assert!(
            !self.stderr.contains("panicked") && !self.stderr.contains("backtrace"),
            "{self:#?}"
        );
        self
    }

    #[track_caller]
    pub(crate) fn assert_stderr_has(&self, words: &str) -> &Self {
        assert!(self.stderr.contains(words), "{words:?} is not in {self:#?}");
        self
    }

    /// Standard error, with placeholders for what differs between runs.
    pub(crate) fn stderr_text(&self, haul: &HaulDirectory, origin: Option<&Origin>) -> String {
        let mut text = self
            .stderr
            .replace(haul.dir.path().to_str().unwrap(), "[DIR]");
        if let Some(origin) = origin {
            text = text.replace(&origin.address().to_string(), "[ORIGIN]");
        }
        text
    }
}

impl RunningHaul {
    /// The standard error of `child` must be a pipe.
    pub(crate) fn from_child(mut child: Child) -> Self {
        let stderr = BufReader::new(child.stderr.take().unwrap()).lines();
        Self { child, stderr }
    }

    /// Reads until a line of standard error has these words.
    pub(crate) async fn wait_for_line(&mut self, words: &str) -> String {
        let read = async {
            while let Some(line) = self.stderr.next_line().await.unwrap() {
                if line.contains(words) {
                    return line;
                }
            }
            panic!("the process ended without the line {words:?}");
        };
        within(LIMIT, read).await
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        assert!(self.try_signal(signal), "the process has ended");
    }

    /// Sends a signal to a process that may have ended. Returns whether it had not.
    pub(crate) fn try_signal(&self, signal: rustix::process::Signal) -> bool {
        send_signal(&self.child, signal)
    }

    /// Waits for the process. Lines that were not read yet are in `stderr`.
    pub(crate) async fn wait(mut self) -> HaulOutput {
        let rest = async {
            let mut stderr = String::new();
            while let Some(line) = self.stderr.next_line().await.unwrap() {
                stderr.push_str(&line);
                stderr.push('\n');
            }
            (stderr, self.child.wait_with_output().await.unwrap())
        };
        let (stderr, output) = within(LIMIT, rest).await;
        HaulOutput {
            stderr,
            ..HaulOutput::from_output(output)
        }
    }
}

/// The names in a directory, sorted.
pub(crate) fn file_names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// An origin with one resource at `/f.bin`.
pub(crate) async fn start_origin(resource: OriginResource) -> Origin {
    Origin::builder().resource("/f.bin", resource).start().await
}

/// A little more than 1 MiB.
pub(crate) fn content() -> ResourceContent {
    ResourceContent::random(5, (1 << 20) + 12_345)
}

/// Sends a signal to a process that was not waited for yet. Returns whether it had not ended.
pub(crate) fn send_signal(child: &Child, signal: rustix::process::Signal) -> bool {
    let id = child.id().expect("it was not waited for");
    let id = rustix::process::Pid::from_raw(i32::try_from(id).unwrap()).unwrap();
    rustix::process::kill_process(id, signal).is_ok()
}

/// The two ends of a full pipe: a write blocks.
#[cfg(target_os = "linux")]
pub(crate) fn full_pipe() -> (PipeReader, PipeWriter) {
    use std::io::Write as _;

    const SIZE: usize = 4096;
    let (reader, mut writer) = std::io::pipe().unwrap();
    rustix::pipe::fcntl_setpipe_size(&writer, SIZE).unwrap();
    writer.write_all(&[b'.'; SIZE]).unwrap();
    (reader, writer)
}

/// Connects to a Unix socket as soon as a process listens on it.
pub(crate) async fn connect_when_listening(path: &Path) -> tokio::net::UnixStream {
    let connect = async {
        loop {
            match tokio::net::UnixStream::connect(path).await {
                Ok(stream) => return stream,
                Err(_) => tokio::task::yield_now().await,
            }
        }
    };
    within(LIMIT, connect).await
}
