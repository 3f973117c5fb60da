//! Where a client of the tunnel runs: a folder of its own, an environment with nothing in it, a limited time.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use haul_lab::ResourceContent;
use tempfile::TempDir;

/// A folder to run programs in.
pub(super) struct WorkDirectory {
    dir: TempDir,
}

#[derive(Debug)]
pub(super) struct ProgramOutput {
    pub(super) is_well: bool,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl WorkDirectory {
    pub(super) fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The same as arguments want it.
    pub(super) fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Runs a program that must say that all went well.
    #[track_caller]
    pub(super) fn run(&self, program: &str, args: &[&str]) -> ProgramOutput {
        let output = self.run_checked(program, args);
        assert!(output.is_well, "{program} {args:?}: {output:#?}");
        output
    }

    /// Runs one that may say otherwise.
    #[track_caller]
    pub(super) fn run_checked(&self, program: &str, args: &[&str]) -> ProgramOutput {
        let output = Command::new("timeout")
            .args(["60", program])
            .args(args)
            .current_dir(self.dir.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.dir.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_ne!(
            output.status.code(),
            Some(127),
            "{program} is missing: scripts/test installs it"
        );
        ProgramOutput::file_url(output)
    }

    /// `curl` with its errors shown, its standard output returned.
    #[track_caller]
    pub(super) fn curl(&self, args: &[&str]) -> String {
        self.run("curl", &[&["-sSf", "--max-time", "50"], args].concat())
            .stdout
    }

    /// Fetches a URL by `curl`, which must be this.
    #[track_caller]
    pub(super) fn curl_gets(&self, url: &str, args: &[&str], content: &ResourceContent) {
        self.curl(&[args, &["-o", "got", url]].concat());
        self.assert_file("got", content);
    }

    #[track_caller]
    pub(super) fn assert_file(&self, name: &str, content: &ResourceContent) {
        let found = std::fs::read(self.path(name)).unwrap();
        assert!(
            found == content.to_vec(),
            "{name} is not what was sent: {} bytes",
            found.len()
        );
    }
}

impl ProgramOutput {
    fn file_url(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            is_well: output.status.success(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }
}
