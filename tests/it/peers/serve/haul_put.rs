//! `haul put` to URLs: our own server, nginx with its dav module, and a server that breaks connections.

use haul_lab::within;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufStream};
use tokio::net::{TcpListener, TcpStream};

use super::{LARGE, SMALL, ServedFolder, assert_is, file};
use crate::cli::harness::{HaulDirectory, LIMIT};
use crate::peers::nginx::Nginx;

const HAUL: &str = env!("CARGO_BIN_EXE_haul");

#[test]
fn files_folders_and_streams_go_to_our_server() {
    let serve = ServedFolder::start(&["--auth", "ann:secret:rw"]);
    let here = |name| serve.test_directory(name);
    std::fs::create_dir_all(here("tree/a b")).unwrap();
    std::fs::copy(here("small"), here("tree/a b/ü")).unwrap();
    let with_login = serve.url("in-url").replace("http://", "http://ann:secret@");
    let login = ["-u", "ann:secret"];
    let put = |args: &[&str]| serve.run(HAUL, &[&["put"], args].concat());
    put(&["large", &with_login]);
    put(&[&["large", &serve.url("by-flag")][..], &login].concat());
    put(&[&["large", "small", &serve.url("several")][..], &login].concat());
    put(&[&["-r", "tree", &serve.url("")][..], &login].concat());
    let line = format!(
        "cat large | {HAUL} put - {} -u ann:secret",
        serve.url("stream")
    );
    serve.run("sh", &["-c", &line]);
    for (key, length) in [
        ("in-url", LARGE),
        ("by-flag", LARGE),
        ("several/large", LARGE),
        ("several/small", SMALL),
        ("a b/ü", SMALL),
        ("stream", LARGE),
    ] {
        serve.assert_upload(key, length);
    }
    let url = serve.url("by-flag");
    let again = ["put", "small", &url, "--if-none-match", "-u", "ann:secret"];
    let (succeeded, output) = serve.try_run(HAUL, &again);
    assert!(
        !succeeded && output.stderr.contains("exists already"),
        "{output:?}"
    );
    serve.assert_upload("by-flag", LARGE);
}

#[test]
fn refusals_say_why_and_what_to_do() {
    for (flags, words) in [
        (
            &["--auth", "ann:secret:rw"][..],
            "give credentials with -u USER",
        ),
        (&["--max-body", "1M"], "413"),
    ] {
        let serve = ServedFolder::start(flags);
        for words in [words, "haul: error"] {
            let (succeeded, output) = serve.try_run(HAUL, &["put", "large", &serve.url("new")]);
            assert!(!succeeded && output.stderr.contains(words), "{output:?}");
        }
        assert!(!serve.folder.path().join("new").exists());
    }
    let serve = ServedFolder::start_read_only(&[]);
    let (succeeded, output) = serve.try_run(HAUL, &["put", "large", &serve.url("new")]);
    assert!(
        !succeeded && output.stderr.contains("haul serve accepts files with -w"),
        "{output:?}"
    );
}

#[tokio::test]
async fn nginx_stores_files_and_refuses_them_before_they_are_sent() {
    let nginx = Nginx::start().await;
    let dir = HaulDirectory::new();
    dir.write("large", file(LARGE));
    let put = async |path: &str| dir.run(&["put", "large", &nginx.url(path)]).await;
    put("dav/new/large").await.assert_code(0);
    put("dav/new/folder/").await.assert_code(0);
    dir.write("empty", "");
    let empty = dir.run(&["put", "empty", &nginx.url("dav/empty")]).await;
    empty.assert_code(0);
    assert_is(&nginx.folder().join("dav/empty"), 0);
    assert_is(&nginx.folder().join("dav/new/large"), LARGE);
    assert_is(&nginx.folder().join("dav/new/folder/large"), LARGE);
    let refused = put("small-dav/large").await;
    refused.assert_code(5).assert_stderr_has("413");
}

/// Reads a request with a body, and returns the body if all of it came.
async fn read_request(stream: &mut BufStream<TcpStream>, limit: usize) -> Vec<u8> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    assert!(head.starts_with("put /file http/1.1"), "{head}");
    if head.contains("expect: 100-continue") {
        stream
            .write_all(b"HTTP/1.1 100 Continue\r\n\r\n")
            .await
            .unwrap();
        stream.flush().await.unwrap();
    }
    let (_, length) = head.split_once("content-length: ").unwrap();
    let length: usize = length.split("\r\n").next().unwrap().parse().unwrap();
    let mut body = vec![0; length.min(limit)];
    stream.read_exact(&mut body).await.unwrap();
    body
}

#[tokio::test]
async fn a_file_is_sent_again_when_the_connection_breaks_or_the_server_is_busy() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/file", listener.local_addr().unwrap());
    let dir = HaulDirectory::new();
    dir.write("large", file(LARGE));
    let server = async {
        // The first connection breaks in the middle of the body.
        let (stream, _) = listener.accept().await.unwrap();
        read_request(&mut BufStream::new(stream), 1 << 20).await;
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = BufStream::new(stream);
        for response in [
            "503 Service Unavailable\r\nRetry-After: 0",
            "201 Created\r\nETag: \"e\"",
        ] {
            let body = read_request(&mut stream, usize::MAX).await;
            assert!(body == file(LARGE));
            let response = format!("HTTP/1.1 {response}\r\nContent-Length: 0\r\n\r\n");
            stream.write_all(response.as_bytes()).await.unwrap();
            stream.flush().await.unwrap();
        }
    };
    let args = ["put", "large", &url, "--json"];
    let (output, ()) = within(LIMIT, async { tokio::join!(dir.run(&args), server) }).await;
    output.assert_code(0);
    let tag = r#""etag":"\"e\"""#;
    assert!(output.stdout.contains(tag), "{output:#?}");
}
