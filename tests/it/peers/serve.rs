//! `haul serve` with clients and proxies of other projects.
//!
//! curl, wget, Python's client and `haul get` send single requests ([`curl`], [`clients`]); `ab`, `h2load` and `nghttp` send many at once
//! ([`load`]); nginx is a reverse proxy in front of the server ([`nginx_front`]); `slowhttptest` attacks it ([`slow`]).

mod clients;
mod curl;
mod haul_put;
mod load;
mod nginx_front;
mod refused_uploads;
mod slow;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use haul_lab::ResourceContent;
use tempfile::TempDir;

use crate::cli::soak_server::SoakServer;

/// Size of the large file: more than any buffer, and no multiple of one.
const LARGE: u64 = (12 << 20) + 345;

/// Size of the small file.
const SMALL: u64 = 3000;

/// A server with some files, and a folder for a client to work in.
struct ServedFolder {
    served: SoakServer,
    /// The served folder. Dropped after `served`, so the server stops first.
    folder: TempDir,
    /// The client's working directory.
    here: TempDir,
}

#[derive(Debug)]
struct ClientOutput {
    stdout: String,
    stderr: String,
}

impl ServedFolder {
    fn start(args: &[&str]) -> Self {
        Self::start_read_only(&[&["--writable", "--durability", "none"], args].concat())
    }

    fn start_read_only(args: &[&str]) -> Self {
        let (folder, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let write =
            |name: &str, length| std::fs::write(folder.path().join(name), file(length)).unwrap();
        write("large", LARGE);
        write("small", SMALL);
        std::fs::write(folder.path().join("text.txt"), "hello\n").unwrap();
        std::fs::write(here.path().join("large"), file(LARGE)).unwrap();
        std::fs::write(here.path().join("small"), file(SMALL)).unwrap();
        Self {
            served: SoakServer::start(folder.path(), args),
            folder,
            here,
        }
    }

    fn url(&self, path: &str) -> String {
        self.served.url(path)
    }

    /// A path in the client's folder.
    fn test_directory(&self, name: &str) -> PathBuf {
        self.here.path().join(name)
    }

    /// Runs a client in its folder, and asserts that it succeeds.
    #[track_caller]
    fn run(&self, program: &str, args: &[&str]) -> ClientOutput {
        let (succeeded, output) = self.try_run(program, args);
        assert!(succeeded, "{program} {args:?}: {output:#?}");
        output
    }

    /// Runs a client that may fail. Returns whether it succeeded.
    fn try_run(&self, program: &str, args: &[&str]) -> (bool, ClientOutput) {
        let output = Command::new("timeout")
            .args(["60", program])
            .args(args)
            .current_dir(self.here.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let client_output = ClientOutput {
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        };
        assert_ne!(
            output.status.code(),
            Some(127),
            "{program} is missing: scripts/test installs it"
        );
        (output.status.success(), client_output)
    }

    /// `curl` with its errors shown, its standard output returned.
    #[track_caller]
    fn curl(&self, args: &[&str]) -> String {
        self.run("curl", &[&["-sS", "--max-time", "50"], args].concat())
            .stdout
    }

    /// Asserts that a file in the client's folder has the bytes of a served file of this length.
    #[track_caller]
    fn assert_download(&self, name: &str, length: u64) {
        assert_is(&self.test_directory(name), length);
    }

    /// Asserts that a file of this length was uploaded.
    #[track_caller]
    fn assert_upload(&self, key: &str, length: u64) {
        assert_is(&self.folder.path().join(key), length);
    }
}

fn file(length: u64) -> Vec<u8> {
    ResourceContent::random(11, length).to_vec()
}

#[track_caller]
fn assert_is(path: &Path, length: u64) {
    let found = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(
        found == file(length),
        "{}: {} bytes of {length}",
        path.display(),
        found.len()
    );
}
