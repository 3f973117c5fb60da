//! Downloads a file with sockets and positioned writes alone: the limit for a program with an HTTP library.
//!
//! Each thread fetches one range with recv and pwrite. `scripts/bench get` builds it with `rustc -O`.
//! Use: raw_sockets THREADS HOST:PORT PATH LENGTH FILE

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::os::unix::fs::FileExt;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let [_, threads, address, path, length, file] = &args[..] else {
        panic!("use: raw_sockets THREADS HOST:PORT PATH LENGTH FILE");
    };
    let (threads, length): (u64, u64) = (threads.parse().unwrap(), length.parse().unwrap());
    let file = File::create(file).unwrap();
    file.set_len(length).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let range = length * thread / threads..length * (thread + 1) / threads;
            let file = &file;
            scope.spawn(move || fetch(address, path, range, file));
        }
    });
}

fn fetch(address: &str, path: &str, range: Range<u64>, file: &File) {
    let mut stream = TcpStream::connect(address).unwrap();
    let (first, last) = (range.start, range.end - 1);
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nRange: bytes={first}-{last}\r\n\r\n").unwrap();
    let mut buffer = vec![0; 256 * 1024];
    let mut filled = 0;
    let body = loop {
        filled += stream.read(&mut buffer[filled..]).unwrap();
        if let Some(head_end) = buffer[..filled].windows(4).position(|window| window == b"\r\n\r\n") {
            break head_end + 4;
        }
    };
    assert!(buffer.starts_with(b"HTTP/1.1 206"), "the response is not partial content");
    file.write_all_at(&buffer[body..filled], range.start).unwrap();
    let mut offset = range.start + (filled - body) as u64;
    while offset < range.end {
        let count = stream.read(&mut buffer).unwrap();
        assert!(count > 0, "the server closed the connection too early");
        file.write_all_at(&buffer[..count], offset).unwrap();
        offset += count as u64;
    }
}
