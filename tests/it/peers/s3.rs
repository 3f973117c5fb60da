//! `haul` as a client of moto and s3s-fs, stores of other people's, and as a store, beside other clients: boto3, aws, rclone, s3cmd,
//! object_store, the client of mountpoint-s3, and pyarrow.
//!
//! `scripts/test` installs them: those that are Python packages into an environment of their own, the others from Debian. A client whose
//! wheel cannot be had, and s3s-fs where it was not built, are skipped with a line. DuckDB is not here: it downloads its S3 client.

mod boto3;
mod copies;
mod interrupted;
mod mountpoint;
mod object_store;
mod other_clients;
mod our_server;
mod our_server_answers;
mod pyarrow;
mod s3s_fs;
mod single_requests;
mod sync;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cli::harness::HaulDirectory;
use crate::peers::program::{ServerProcess, start};

/// A running store with one bucket: moto, or haul itself, and a directory whose programs use it.
struct S3StoreTest {
    _server: ServerProcess,
    dir: HaulDirectory,
    home: tempfile::TempDir,
}

impl S3StoreTest {
    async fn start() -> Self {
        let [port] = haul_lab::free_ports();
        let home = tempfile::tempdir().unwrap();
        let (python, listen) = (python(), port.to_string());
        let args = ["-m", "moto.server", "-H", "127.0.0.1", "-p", &listen];
        let server = start(python.to_str().unwrap(), &args, port, home.path()).await;
        Self::with_server(server, port, home).await
    }

    /// The same with our own server, on the folder `store` of the home directory, with more flags.
    async fn start_haul(flags: &[&str]) -> Self {
        let [port] = haul_lab::free_ports();
        let home = tempfile::tempdir().unwrap();
        let listen = port.to_string();
        std::fs::create_dir(home.path().join("store")).unwrap();
        let args = ["serve", "store", "-w", "--s3", "--s3-key", "key:secret"];
        let args = [&args[..], &["-l", &listen], flags].concat();
        let server = start(env!("CARGO_BIN_EXE_haul"), &args, port, home.path()).await;
        Self::with_server(server, port, home).await
    }

    async fn with_server(server: ServerProcess, port: u16, home: tempfile::TempDir) -> Self {
        let endpoint = format!("http://127.0.0.1:{port}");
        let dir = HaulDirectory::new()
            .with_variable("AWS_ENDPOINT_URL", &endpoint)
            .with_variable("AWS_ACCESS_KEY_ID", "key")
            .with_variable("AWS_SECRET_ACCESS_KEY", "secret")
            .with_variable("AWS_DEFAULT_REGION", "us-east-1");
        let test = Self {
            _server: server,
            dir,
            home,
        };
        let create = "import boto3\nboto3.client('s3').create_bucket(Bucket='bucket')";
        test.python(create, &[]).await;
        test
    }

    /// Runs a script of Python and returns what it prints.
    async fn python(&self, script: &str, args: &[&str]) -> String {
        let path = self.home.path().join("script.py");
        std::fs::write(&path, script).unwrap();
        let line = format!(
            "{} {} {}",
            python().display(),
            path.display(),
            args.join(" ")
        );
        self.shell(&line).await
    }

    /// Runs a line of shell that must succeed and returns what it prints. No settings of the user take part.
    async fn shell(&self, line: &str) -> String {
        let home = self.home.path().display();
        let line = format!("unset AWS_CA_BUNDLE; export HOME={home} LC_ALL=C.UTF-8; {line}");
        let output = self.dir.shell(&line).await;
        assert_eq!(output.code, 0, "{line} {output:#?}");
        output.stdout
    }

    /// Runs haul, which must succeed, and returns what it prints.
    async fn haul(&self, args: &[&str]) -> String {
        let output = self.dir.run(args).await;
        assert_eq!(output.code, 0, "{args:?} {output:#?}");
        output.stdout
    }
}

/// The Python with moto: of the environment that `scripts/test` makes, or the system's.
fn python() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let environment = target.join("python/bin/python3");
    if environment.exists() {
        environment
    } else {
        "python3".into()
    }
}

/// Whether a client is installed that `scripts/test` cannot install everywhere; if not, a line says that it is skipped.
fn has_python_package(module: &str) -> bool {
    let import = format!("import {module}");
    let is_there = Command::new(python())
        .args(["-c", &import])
        .stderr(Stdio::null())
        .status()
        .unwrap()
        .success();
    if !is_there {
        print_skipped(&format!("Python has no {module} here"));
    }
    is_there
}

/// Says that a test is skipped, and why. Not by a macro: the output of those is shown only of tests that fail.
fn print_skipped(reason: &str) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or_default();
    // Nobody may be reading.
    let _ = writeln!(std::io::stderr(), "skipped {name}: {reason}");
}

/// Bytes without a period that parts of any size would share.
fn content(length: u32) -> Vec<u8> {
    (0..length)
        .map(|at| at.wrapping_mul(2_654_435_761).to_le_bytes()[3])
        .collect()
}
