//! `haul` as a client of moto, a store of other people's, and as a store, beside other clients: boto3, aws, rclone and
//! s3cmd.
//!
//! `scripts/test` installs them: moto, boto3 and aws into an environment of their own, the others from Debian.

mod boto3;
mod copies;
mod interrupted;
mod other_clients;
mod our_server;
mod our_server_answers;
mod single_requests;
mod sync;

use std::path::{Path, PathBuf};

use crate::cli::harness::HaulDirectory;
use crate::peers::program::{ServerProcess, free_ports, start};

/// A running store with one bucket: moto, or haul itself, and a directory whose programs use it.
struct S3StoreTest {
    _server: ServerProcess,
    dir: HaulDirectory,
    home: tempfile::TempDir,
}

impl S3StoreTest {
    async fn start() -> Self {
        let [port] = free_ports();
        let home = tempfile::tempdir().unwrap();
        let (python, listen) = (python(), port.to_string());
        let args = ["-m", "moto.server", "-H", "127.0.0.1", "-p", &listen];
        let server = start(python.to_str().unwrap(), &args, port, home.path()).await;
        Self::with_server(server, port, home).await
    }

    /// The same with our own server, on the folder `store` of the home directory, with more flags.
    async fn start_haul(flags: &[&str]) -> Self {
        let [port] = free_ports();
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
    match environment.exists() {
        true => environment,
        false => "python3".into(),
    }
}

/// Bytes without a period that parts of any size would share.
fn content(length: u32) -> Vec<u8> {
    (0..length)
        .map(|at| at.wrapping_mul(2_654_435_761).to_le_bytes()[3])
        .collect()
}
