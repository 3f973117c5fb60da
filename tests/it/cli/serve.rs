//! `haul serve` from the command line: its messages, addresses, files and shutdown.
//!
//! Each server listens on a port that the system chooses, and prints it. Requests are plain text on a socket: the tests of `haul-serve`
//! cover HTTP itself.

mod access;
mod descriptors;
mod host_names;
mod kill_relay;
mod listeners;
mod s3_http_uploads;
mod s3_kills;
mod shutdown;
mod sign;
mod startup;
mod usage_errors;

use std::time::Duration;

use haul_lab::within;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::harness::{HaulDirectory, HaulOutput, LIMIT, RunningHaul};

/// A server that listens.
struct ServeProcess {
    running: RunningHaul,
    /// Host and port of the first address.
    address: String,
    /// The lines it printed at the start, without colours.
    startup_lines: Vec<String>,
}

/// A folder with one file in it.
fn test_folder() -> HaulDirectory {
    let haul = HaulDirectory::new();
    std::fs::create_dir(haul.path("d")).unwrap();
    haul.write("d/a.txt", "hello");
    haul
}

/// `haul serve d` on a port of its own.
async fn start_server(haul: &HaulDirectory, flags: &[&str]) -> ServeProcess {
    let args = [&["serve", "d", "-l", "127.0.0.1:0"], flags].concat();
    wait_for_address(haul.start(&args)).await
}

/// Reads the output of a server up to the line with its address.
async fn wait_for_address(mut running: RunningHaul) -> ServeProcess {
    let mut startup_lines = Vec::new();
    let read = async {
        while let Some(line) = running.stderr.next_line().await.unwrap() {
            startup_lines.push(line.clone());
            if let Some((_, url)) = line.split_once("listening on ") {
                return url.to_owned();
            }
        }
        panic!("the server does not listen: {startup_lines:#?}");
    };
    let url = within(LIMIT, read).await;
    let address = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
    ServeProcess {
        address: address.trim_end_matches('/').to_owned(),
        running,
        startup_lines,
    }
}

impl ServeProcess {
    /// Sends a request on a connection of its own. Returns the whole response.
    async fn request(&self, head: &str, body: &str) -> String {
        request(&self.address, head, body).await
    }

    /// Stops the server with SIGTERM, and waits for its end.
    async fn stop(self) -> HaulOutput {
        self.running.signal(rustix::process::Signal::TERM);
        self.running.wait().await
    }
}

/// Sends a request. `head` is its method and path, and then header lines.
pub(super) async fn request(address: &str, head: &str, body: &str) -> String {
    let response = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let length = body.len();
        let text = format!(
            "{}\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}",
            request_line_and_fields(head)
        );
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    };
    within(Duration::from_secs(20), response).await
}

fn request_line_and_fields(head: &str) -> String {
    let mut lines = head.lines();
    let first = lines.next().unwrap();
    let fields: String = lines.map(|field| format!("\r\n{field}")).collect();
    format!("{first} HTTP/1.1{fields}")
}

#[track_caller]
fn assert_status(answer: &str, status: u16) {
    let start = format!("HTTP/1.1 {status} ");
    assert!(answer.starts_with(&start), "not {status}: {answer}");
}
