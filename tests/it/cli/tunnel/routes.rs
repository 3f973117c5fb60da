//! Routes: listeners of every kind, through one proxy, several, or none, and their log lines.

use haul_lab::{CertificateAuthority, HttpProxy, Origin, OriginResource, SocksProxy, within};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};

use super::{
    EchoServer, HaulDirectory, LIMIT, assert_echo, connect_to, proxy_to, shutdown_and_read,
    start_tunnel,
};
use crate::cli::harness::content;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_is_forwarded_to_its_target_through_the_proxy() {
    let echo = EchoServer::start().await;
    let proxy = proxy_to(&echo).await;
    let haul = HaulDirectory::new();
    let at = proxy.address().to_string();
    let tunnel = start_tunnel(&haul, &["-p", &at, "0:echo.test:7"], 1).await;
    let banner = format!(
        "haul: listening on {} -> echo.test:7 via {at}",
        tunnel.addresses[0]
    );
    assert_eq!(tunnel.stderr_lines, [banner]);
    assert!(!tunnel.addresses[0].ends_with(":0"));
    let mut client = tunnel.connect().await;
    assert_echo(&mut client, "hello").await;
    client.write_all(b"bye").await.unwrap();
    assert_eq!(shutdown_and_read(client).await, b"bye");
    let output = tunnel.stop().await;
    output
        .assert_code(0)
        .assert_stderr_has(&format!("> echo.test:7 via {at}: closed, 8 up, 8 down, "));
    assert_eq!(output.stdout, "");
    let requests = proxy.stop().await;
    // The client's, and the try at the start if that was faster.
    assert!((1..=2).contains(&requests.len()), "{requests:?}");
    assert!(
        requests
            .iter()
            .all(|request| request.target == "echo.test:7")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chains_alternatives_the_environment_and_none() {
    let echo = EchoServer::start().await;
    let proxy = proxy_to(&echo).await;
    let first = HttpProxy::builder()
        .route("second.test:3128", proxy.address())
        .start()
        .await;
    let (at, first_at) = (proxy.address().to_string(), first.address().to_string());
    let alternatives = format!("127.0.0.1:1,{at}");
    let own = echo.address.to_string();
    for (args, says) in [
        (
            vec!["-p", &first_at, "-p", "second.test:3128", "0:echo.test:7"],
            format!("via {first_at} > second.test:3128"),
        ),
        (
            vec!["-p", &alternatives, "0:echo.test:7"],
            format!("via 127.0.0.1:1 or {at}"),
        ),
        (vec!["0:echo.test:7"], format!("via {at}")),
        (vec!["-p", "", &format!("0:{own}")], "directly".to_owned()),
        (
            vec![
                "-p",
                "127.0.0.1:1",
                "--direct-fallback",
                &format!("0:{own}"),
            ],
            "via 127.0.0.1:1".to_owned(),
        ),
        (
            vec![
                "--no-proxy",
                "127.0.0.0/8",
                "-p",
                "127.0.0.1:1",
                &format!("0:{own}"),
            ],
            "directly".to_owned(),
        ),
    ] {
        let haul = HaulDirectory::new().with_variable("https_proxy", &format!("http://{at}"));
        let tunnel = start_tunnel(&haul, &args, 1).await;
        assert!(
            tunnel.stderr_lines[0].ends_with(&says),
            "{:?}: {says}",
            tunnel.stderr_lines
        );
        let mut client = tunnel.connect().await;
        assert_echo(&mut client, "hello").await;
        assert_eq!(shutdown_and_read(client).await, b"");
        tunnel.stop().await.assert_code(0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socks_proxy_and_two_listeners_one_of_them_a_socket_file() {
    let echo = EchoServer::start().await;
    let proxy = SocksProxy::builder()
        .route("echo.test:7", echo.address)
        .require_login("me", "pw")
        .start()
        .await;
    let haul = HaulDirectory::new();
    let url = proxy.url("socks5h");
    let args = [
        "-p",
        &url,
        "-U",
        "me:pw",
        "0:echo.test:7",
        "unix:s.sock?mode=600:echo.test:7",
    ];
    let tunnel = start_tunnel(&haul, &args, 2).await;
    assert_echo(&mut tunnel.connect().await, "by a port").await;
    let mut file = UnixStream::connect(haul.path("s.sock")).await.unwrap();
    file.write_all(b"by a file").await.unwrap();
    let mut received = [0; 9];
    within(LIMIT, file.read_exact(&mut received)).await.unwrap();
    assert_eq!(&received, b"by a file");
    drop(file);
    tunnel.stop().await.assert_code(0);
    assert!(!haul.path("s.sock").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_socks_and_http_listeners_name_their_targets() {
    let echo = EchoServer::start().await;
    let proxy = proxy_to(&echo).await;
    let at = proxy.address().to_string();
    let haul = HaulDirectory::new();
    let args = ["-p", &at, "--socks", "0", "--http", "127.0.0.1:0"];
    let tunnel = start_tunnel(&haul, &args, 2).await;
    assert!(
        tunnel.stderr_lines[0].contains(" (SOCKS5) via "),
        "{:?}",
        tunnel.stderr_lines
    );
    assert!(
        tunnel.stderr_lines[1].contains(" (HTTP proxy) via "),
        "{:?}",
        tunnel.stderr_lines
    );
    let mut client = connect_to(&tunnel.addresses[0]).await;
    client.write_all(b"\x05\x01\x00").await.unwrap();
    client
        .write_all(b"\x05\x01\x00\x03\x09echo.test\x00\x07")
        .await
        .unwrap();
    let mut answer = [0; 12];
    within(LIMIT, client.read_exact(&mut answer)).await.unwrap();
    assert_eq!(&answer[..4], b"\x05\x00\x05\x00");
    assert_echo(&mut client, "by SOCKS").await;
    let mut client = connect_to(&tunnel.addresses[1]).await;
    client
        .write_all(b"CONNECT echo.test:7 HTTP/1.1\r\nHost: echo.test:7\r\n\r\n")
        .await
        .unwrap();
    let head = response_head(&mut client).await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert_echo(&mut client, "by CONNECT").await;
    tunnel.stop().await.assert_code(0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_without_tls_reach_a_target_with_tls() {
    let authority = CertificateAuthority::new();
    let origin = Origin::builder()
        .tls(authority.issue(&["files.test"]).server_config(None))
        .resource("/f.bin", OriginResource::new(content()))
        .start()
        .await;
    let proxy = HttpProxy::builder()
        .route("files.test:443", origin.address())
        .route("other.test:443", origin.address())
        .start()
        .await;
    let at = proxy.address().to_string();
    let haul = HaulDirectory::new();
    let ca = haul.write("ca.pem", authority.certificate_pem());
    let other = ["--cacert", &ca, "--target-tls", "--stdio", "other.test:443"];
    let output = haul
        .run(&[&["tunnel", "-p", &at], &other[..]].concat())
        .await;
    output.assert_code(5).assert_stderr_has(
        "hint: use the name in the certificate; continue at your own risk with --insecure",
    );
    let args = [
        "-p",
        &at,
        "--target-tls",
        "--cacert",
        &ca,
        "0:files.test:443",
    ];
    let trusting = start_tunnel(&haul, &args, 1).await;
    let mut client = trusting.connect().await;
    let request = b"HEAD /f.bin HTTP/1.1\r\nHost: files.test\r\n\r\n";
    client.write_all(request).await.unwrap();
    assert!(response_head(&mut client).await.starts_with("HTTP/1.1 200"));
    drop(client);
    trusting.stop().await.assert_code(0);
    let args = ["-p", &at, "--target-tls", "0:files.test:443"];
    let mut wary = start_tunnel(&haul, &args, 1).await;
    let mut client = wary.connect().await;
    let mut nothing = Vec::new();
    let _ = within(LIMIT, client.read_to_end(&mut nothing)).await;
    assert!(nothing.is_empty());
    wary.running
        .wait_for_line("issuer of the certificate is not trusted")
        .await;
    wary.stop().await.assert_code(0);
}

async fn response_head(client: &mut TcpStream) -> String {
    let read = async {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(client.read_u8().await.unwrap());
        }
        String::from_utf8(head).unwrap()
    };
    within(LIMIT, read).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn warm_connections_are_opened_in_advance() {
    let echo = EchoServer::start().await;
    let proxy = proxy_to(&echo).await;
    let at = proxy.address().to_string();
    let haul = HaulDirectory::new();
    let tunnel = start_tunnel(&haul, &["-p", &at, "--warm", "2", "0:echo.test:7"], 1).await;
    let ready = async {
        while proxy.requests().len() < 2 {
            tokio::task::yield_now().await;
        }
    };
    within(LIMIT, ready).await;
    assert_echo(&mut tunnel.connect().await, "hello").await;
    tunnel.stop().await.assert_code(0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_that_is_down_is_warned_of_at_the_start_and_check_only_tries() {
    let echo = EchoServer::start().await;
    let proxy = proxy_to(&echo).await;
    let at = proxy.address().to_string();
    let haul = HaulDirectory::new();
    haul.run(&["tunnel", "--check", "-p", &at, "0:echo.test:7"])
        .await
        .assert_code(0)
        .assert_stderr_has(&format!("haul: echo.test:7 can be reached via {at}"));
    proxy.stop().await;
    haul.run(&["tunnel", "--check", "-p", &at, "-L", "0:echo.test:7"])
        .await
        .assert_code(5)
        .assert_stderr_has("error: cannot reach echo.test:7: cannot connect to the proxy");
    haul.run(&["tunnel", "--check", "-p", &at, "-D", "0"])
        .await
        .assert_code(2)
        .assert_stderr_has("--check has no target to connect to");
    let mut tunnel = start_tunnel(&haul, &["-p", &at, "0:echo.test:7"], 1).await;
    tunnel
        .running
        .wait_for_line(&format!("warning: via {at} will fail: "))
        .await;
    tunnel.stop().await.assert_code(0);
}
