//! Messages about proxies that refuse: is it a rule of the proxy, or is the target unreachable?

use crate::cli::harness::HaulDirectory;

/// A server that sends the same response to every client, and waits until the client closes.
fn proxy_responding(words: &'static [u8]) -> std::net::SocketAddr {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).unwrap();
            stream.write_all(words).unwrap();
            while stream.read(&mut request).is_ok_and(|read| read > 0) {}
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_about_proxies_that_refuse_say_why() {
    let haul = HaulDirectory::new();
    let mut outputs = Vec::new();
    for (scheme, words, url) in [
        ("http", &b"HTTP/1.1 503 x\r\nContent-Length: 0\r\n\r\n"[..], "https://h.test/f"),
        ("http", b"HTTP/1.1 403 x\r\nContent-Length: 0\r\n\r\n", "https://h.test/f"),
        ("http", b"HTTP/1.1 400 x\r\nContent-Length: 0\r\n\r\n", "https://h.test/f"),
        // As squid does it where requests are not tunnelled; and what it passes on from the origin.
        (
            "http",
            b"HTTP/1.1 403 x\r\nX-Squid-Error: ERR_ACCESS_DENIED 0\r\nContent-Length: 0\r\n\r\n",
            "http://h.test/f",
        ),
        (
            "http",
            b"HTTP/1.1 503 x\r\nX-Squid-Error: ERR_CONNECT_FAIL 111\r\nContent-Length: 0\r\n\r\n",
            "http://h.test/f",
        ),
        (
            "http",
            b"HTTP/1.1 403 x\r\nServer: nginx\r\nVia: 1.1 p (squid/5.7)\r\nContent-Length: 0\r\n\r\n",
            "http://h.test/f",
        ),
        // SOCKS5: no login, then the reply's code.
        ("socks5h", b"\x05\0\x05\x01\0\x01\0\0\0\0\0\0", "http://h.test/f"),
        ("socks5h", b"\x05\0\x05\x02\0\x01\0\0\0\0\0\0", "http://h.test/f"),
        ("socks5h", b"\x05\0\x05\x05\0\x01\0\0\0\0\0\0", "http://h.test/f"),
        ("socks5h", b"\x05\xff", "http://h.test/f"),
        ("socks5h", b"HTTP/1.1 400 x\r\n\r\n", "http://h.test/f"),
    ] {
        let proxy = proxy_responding(words);
        let given = format!("{scheme}://{proxy}");
        let output = haul.get(url, &["--retries", "0", "--proxy", &given]).await;
        output.assert_code(5);
        outputs.push(output.stderr.replace(&proxy.to_string(), "[PROXY]"));
    }
    insta::assert_snapshot!(outputs.join("\n"));
}
