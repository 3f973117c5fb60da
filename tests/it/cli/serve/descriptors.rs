//! A server with a low limit of open files.

use haul_lab::within;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{ServeProcess, test_folder, wait_for_address};
use crate::cli::harness::{HaulDirectory, LIMIT, RunningHaul};

/// `haul serve d` that may open 64 files.
async fn start_with_64_descriptors(haul: &HaulDirectory, flags: &str) -> ServeProcess {
    let line =
        format!("ulimit -n 64 && exec \"$0\" serve d -l 127.0.0.1:0 --accept single {flags}");
    let mut command = tokio::process::Command::new("sh");
    command
        .args(["-c", &line, env!("CARGO_BIN_EXE_haul")])
        .current_dir(haul.dir.path())
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .kill_on_drop(true);
    wait_for_address(RunningHaul::from_child(command.spawn().unwrap())).await
}

/// Sends a request on a connection that stays open, and reads its short response.
async fn get(stream: &mut TcpStream, target: &str) -> String {
    let response = async {
        let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let (mut answer, mut buffer) = (String::new(), [0; 4096]);
        loop {
            let read = stream.read(&mut buffer).await.unwrap();
            assert_ne!(read, 0, "the server closed the connection: {answer}");
            answer.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
            let Some((head, body)) = answer.split_once("\r\n\r\n") else {
                continue;
            };
            let head = head.to_ascii_lowercase();
            let length = head
                .split_once("content-length: ")
                .unwrap()
                .1
                .lines()
                .next()
                .unwrap();
            if body.len() >= length.parse::<usize>().unwrap() {
                return answer;
            }
        }
    };
    within(LIMIT, response).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_cannot_be_opened_for_lack_of_descriptors_is_a_503() {
    let haul = test_folder();
    for index in 0..100 {
        haul.write(&format!("d/{index}"), "x");
    }
    // The cache of open files leaves descriptors for connections, also when it is configured for more files than the limit allows.
    for flags in ["", "--open-files 1000"] {
        let served = start_with_64_descriptors(&haul, flags).await;
        let mut stream = TcpStream::connect(&served.address).await.unwrap();
        for index in 0..100 {
            let answer = get(&mut stream, &format!("/{index}")).await;
            assert!(answer.starts_with("HTTP/1.1 200 "), "{flags}: {answer}");
        }
    }
    // With this flag, connections may use the descriptors that files would need.
    let served = start_with_64_descriptors(&haul, "--max-connections 1000 --open-files 1").await;
    let mut stream = TcpStream::connect(&served.address).await.unwrap();
    let mut others = Vec::new();
    for _ in 0..64 {
        others.push(TcpStream::connect(&served.address).await.unwrap());
    }
    let mut paths = (0..100).cycle().map(|index| format!("/{index}"));
    let answer = loop {
        let answer = get(&mut stream, &paths.next().unwrap())
            .await
            .to_ascii_lowercase();
        if !answer.starts_with("http/1.1 200 ") {
            break answer;
        }
    };
    assert!(answer.starts_with("http/1.1 503 "), "{answer}");
    assert!(answer.contains("\r\nretry-after: 1\r\n"), "{answer}");
    assert!(answer.contains("its limit of open files"), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_leave_descriptors_for_files() {
    let haul = test_folder();
    let served = start_with_64_descriptors(&haul, "").await;
    let mut streams = Vec::new();
    for _ in 0..32 {
        let mut stream = TcpStream::connect(&served.address).await.unwrap();
        let answer = get(&mut stream, "/none").await;
        assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
        streams.push(stream);
    }
    // The server does not accept these: all but one wait in the listen queue.
    let mut waiting = Vec::new();
    for _ in 0..60 {
        waiting.push(TcpStream::connect(&served.address).await.unwrap());
    }
    for stream in &mut streams {
        let answer = get(stream, "/a.txt").await;
        assert!(answer.ends_with("hello"), "{answer}");
    }
}
