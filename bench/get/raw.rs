//! The limit: what sockets and a file can do with no HTTP library between. Threads, recv, pwrite, one range each.
//!
//! Built by `scripts/bench get` with `rustc -O`. Use: raw THREADS HOST:PORT PATH LENGTH FILE

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let [_, threads, peer, path, length, file] = &args[..] else {
        panic!("use: raw THREADS HOST:PORT PATH LENGTH FILE");
    };
    let (threads, length): (u64, u64) = (threads.parse().unwrap(), length.parse().unwrap());
    let file = File::create(file).unwrap();
    file.set_len(length).unwrap();
    std::thread::scope(|scope| {
        for n in 0..threads {
            let (start, end) = (length * n / threads, length * (n + 1) / threads);
            let file = &file;
            scope.spawn(move || fetch(peer, path, start..end, file));
        }
    });
}

fn fetch(peer: &str, path: &str, range: std::ops::Range<u64>, file: &File) {
    let mut stream = TcpStream::connect(peer).unwrap();
    let (first, last) = (range.start, range.end - 1);
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {peer}\r\nRange: bytes={first}-{last}\r\n\r\n").unwrap();
    let mut buffer = vec![0; 256 * 1024];
    let mut filled = 0;
    let body = loop {
        filled += stream.read(&mut buffer[filled..]).unwrap();
        if let Some(at) = buffer[..filled].windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
    };
    assert!(buffer.starts_with(b"HTTP/1.1 206"), "not a partial answer");
    file.write_all_at(&buffer[body..filled], range.start).unwrap();
    let mut at = range.start + (filled - body) as u64;
    while at < range.end {
        let count = stream.read(&mut buffer).unwrap();
        assert!(count > 0, "closed too early");
        file.write_all_at(&buffer[..count], at).unwrap();
        at += count as u64;
    }
}
