//! A store whose clock differs from this machine's (row F4): what is said, and how often.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Barrier};

use super::harness::HaulDirectory;

/// How many requests go out before any is answered.
const FIRST: usize = 3;

/// A store of the year 2200. It refuses requests that are signed by another clock, the first ones all at once.
fn store_of_2200() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let all_here = Arc::new(Barrier::new(FIRST));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, all_here) = (stream.unwrap(), Arc::clone(&all_here));
            std::thread::spawn(move || serve(stream, &all_here));
        }
    });
    url
}

fn serve(mut stream: TcpStream, all_here: &Barrier) {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while stream.read(&mut byte).is_ok_and(|read| read == 1) {
        head.extend(byte);
        if !head.ends_with(b"\r\n\r\n") {
            continue;
        }
        let is_right = String::from_utf8_lossy(&head).contains("x-amz-date: 2200");
        head.clear();
        let (status, body) = if is_right {
            ("200 OK", "object")
        } else {
            (
                "403 Forbidden",
                "<Error><Code>RequestTimeTooSkewed</Code></Error>",
            )
        };
        if !is_right {
            all_here.wait();
        }
        let length = body.len();
        let response = format!(
            "HTTP/1.1 {status}\r\nDate: Wed, 01 Jan 2200 00:00:00 GMT\r\nETag: \"1\"\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        if stream.write_all(response.as_bytes()).is_err() {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f4_a_wrong_clock_is_told_once_and_not_at_all_with_q() {
    for (flags, expected) in [(&[][..], 1), (&["-q"][..], 0)] {
        let dir = HaulDirectory::new()
            .with_variable("AWS_ACCESS_KEY_ID", "key")
            .with_variable("AWS_SECRET_ACCESS_KEY", "s3cret");
        let (url, names) = (store_of_2200(), ["s3://b/1", "s3://b/2", "s3://b/3"]);
        assert_eq!(names.len(), FIRST);
        let args = ["get", "--endpoint-url", &url, "--progress", "none"];
        let output = dir.run(&[&args[..], &names, flags].concat()).await;
        output.assert_code(0);
        let told = output
            .stderr
            .matches("haul signs by the store's clock")
            .count();
        assert_eq!(told, expected, "{output:#?}");
        assert_eq!(
            output.stderr.contains("minutes behind the store's"),
            expected == 1
        );
        assert_eq!(dir.listing(), ["1", "2", "3"]);
    }
}
