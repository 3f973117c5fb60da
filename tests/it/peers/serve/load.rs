//! Apache's `ab` and nghttp2's `h2load` and `nghttp`: much at once, and frames that others send.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use super::{LARGE, SMALL, ServedFolder};
use crate::cli::harness::LIMIT;

impl ServedFolder {
    /// Runs `ab`, which must find nothing wrong.
    #[track_caller]
    fn ab(&self, count: &str, args: &[&str], path: &str) {
        let url = self.url(path);
        let output = self
            .run(
                "ab",
                &[&["-q", "-n", count, "-c", "16"], args, &[&url]].concat(),
            )
            .stdout;
        let has = |line: &str, value: &str| {
            let found = output.lines().find_map(|found| found.strip_prefix(line));
            found.is_some_and(|found| found.trim() == value)
        };
        assert!(
            has("Complete requests:", count) && has("Failed requests:", "0"),
            "{output}"
        );
        assert!(!output.contains("Non-2xx"), "{output}");
        assert!(
            !args.contains(&"-k") || has("Keep-Alive requests:", count),
            "{output}"
        );
    }

    /// Runs `h2load`, whose requests must all succeed.
    #[track_caller]
    fn h2load(&self, count: &str, args: &[&str], path: &str) {
        let url = self.url(path);
        let output = self
            .run(
                "h2load",
                &[&["-n", count, "-c", "4"], args, &[&url]].concat(),
            )
            .stdout;
        let succeeded = format!("{count} done, {count} succeeded, 0 failed, 0 errored, 0 timeout");
        assert!(
            output.contains(&succeeded) && output.contains(&format!("{count} 2xx")),
            "{output}"
        );
    }
}

#[test]
fn ab_with_and_without_keep_alive() {
    let serve = ServedFolder::start(&[]);
    serve.ab("1000", &[], "small");
    serve.ab("3000", &["-k"], "small");
    serve.ab("20", &["-k"], "large");
    serve.ab("500", &["-k", "-i"], "small");
    serve.ab(
        "500",
        &["-k", "-u", "small", "-T", "application/octet-stream"],
        "put",
    );
    serve.assert_upload("put", SMALL);
    serve.ab(
        "200",
        &["-u", "small", "-T", "application/octet-stream"],
        "put",
    );
    serve.served.assert_no_temporaries();
}

#[test]
fn h2load_over_each_version() {
    let serve = ServedFolder::start(&[]);
    serve.h2load("3000", &["-m", "16"], "small");
    serve.h2load("24", &["-m", "3"], "large");
    serve.h2load(
        "400",
        &["-m", "8", "-d", "small", "-H", ":method: PUT"],
        "put",
    );
    serve.assert_upload("put", SMALL);
    serve.h2load(
        "40",
        &["-m", "2", "-d", "large", "-H", ":method: PUT"],
        "put",
    );
    serve.assert_upload("put", LARGE);
    serve.h2load("2000", &["--h1"], "small");
    serve.served.assert_no_temporaries();
}

#[test]
fn nghttp_with_windows_of_its_own_and_trailers() {
    let serve = ServedFolder::start(&[]);
    // From less than a frame to more than the file.
    for bits in ["10", "16", "30"] {
        let line = format!("nghttp -w {bits} -W {bits} {} > got", serve.url("large"));
        serve.run("sh", &["-c", &line]);
        serve.assert_download("got", LARGE);
    }
    let url = serve.url("put");
    let put = [
        "-nv",
        "-d",
        "large",
        "--trailer",
        "x-check: 1",
        "-H",
        ":method: PUT",
        &url,
    ];
    let output = serve.run("nghttp", &put).stdout;
    assert!(
        output.contains(":status: 201") && !output.contains("RST_STREAM"),
        "{output}"
    );
    serve.assert_upload("put", LARGE);
    let url = serve.url("small");
    let output = serve
        .run("nghttp", &["-nv", "-m", "60", "--hexdump", &url])
        .stdout;
    assert_eq!(output.matches(":status: 200").count(), 60);
}

/// HTTP/2's preface, and settings: none.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

#[test]
fn http2_works_when_its_preface_arrives_in_two_packets() {
    let serve = ServedFolder::start(&[]);
    let begun: Vec<_> = (1..PREFACE.len())
        .map(|at| {
            let mut stream = TcpStream::connect(serve.served.address).unwrap();
            stream.set_read_timeout(Some(LIMIT)).unwrap();
            stream.write_all(&PREFACE[..at]).unwrap();
            (stream, at)
        })
        .collect();
    // All first packets have been read before a second one is sent: a later request has got its response.
    serve.curl(&[&serve.url("text.txt")]);
    for (mut stream, at) in begun {
        stream.write_all(&PREFACE[at..]).unwrap();
        let mut frame = [0; 9];
        stream.read_exact(&mut frame).unwrap();
        assert_eq!(frame[3], 4, "no SETTINGS after {at} bytes: {frame:?}");
    }
    // What only begins like it is none.
    let mut stream = TcpStream::connect(serve.served.address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.write_all(b"P").unwrap();
    serve.curl(&[&serve.url("text.txt")]);
    stream
        .write_all(b"UT /p HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi")
        .unwrap();
    let mut response = [0; 12];
    stream.read_exact(&mut response).unwrap();
    assert_eq!(&response, b"HTTP/1.1 201");
}
