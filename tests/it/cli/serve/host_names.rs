//! Host names that a server accepts: a page of another site whose name was rebound to this machine gets nothing (DNS rebinding).

use super::{assert_status, start_server, test_folder};

/// One request of a server by a name.
async fn host_status(served: &super::ServeProcess, head: &str, name: &str) -> String {
    status_at(&served.address, head, name).await
}

/// One request at an address by a name.
async fn status_at(address: &str, head: &str, name: &str) -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let response = async {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let text = format!(
            "{head} HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        );
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    };
    haul_lab::within(super::LIMIT, response).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_host_names_are_refused_on_an_open_loopback_server() {
    let haul = test_folder();
    let served = start_server(&haul, &["-w", "--allow-host", "Files.Example"]).await;
    for name in ["evil.test", "evil.test:8080", "127.0.0.1.evil.test"] {
        for head in [
            "GET /a.txt",
            "PUT /b.txt",
            "DELETE /a.txt",
            "GET /",
            "OPTIONS /",
        ] {
            let answer = host_status(&served, head, name).await;
            assert_status(&answer, 421);
            assert!(
                answer.contains("the server's operator can allow it"),
                "{answer}"
            );
        }
    }
    assert!(!haul.path("d/b.txt").exists());
    for name in [
        "localhost:1",
        "127.0.0.1",
        "[::1]:8080",
        "files.example:80",
        "backend",
    ] {
        assert_status(&host_status(&served, "GET /a.txt", name).await, 200);
    }
    let system = rustix::system::uname();
    let host = system.nodename().to_str().unwrap();
    assert_status(&host_status(&served, "GET /a.txt", host).await, 200);
    assert_status(
        &host_status(&served, "GET /a.txt", &format!("{host}.local")).await,
        200,
    );
}

/// Logins protect only what needs a login. A foreign page could still reach what anonymous users may, so the host name is checked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_host_names_are_refused_where_some_need_no_login() {
    let haul = test_folder();
    for flags in [
        &["--anonymous", "ro"][..],
        &["-w", "--anonymous", "rw", "--auth", "me:pw:rw"],
    ] {
        let served = start_server(&haul, flags).await;
        assert_status(&host_status(&served, "GET /a.txt", "evil.test").await, 421);
        assert_status(&host_status(&served, "GET /a.txt", "localhost").await, 200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn host_names_do_not_matter_with_logins_tls_or_a_public_address() {
    let haul = test_folder();
    for (flags, status) in [
        (&["--allow-host", "*"][..], 200),
        (&["--auth", "me:pw:ro"], 401),
        (&["-l", "0.0.0.0:0"], 200),
    ] {
        let served = start_server(&haul, flags).await;
        assert_status(
            &host_status(&served, "GET /a.txt", "evil.test").await,
            status,
        );
    }
}

/// Neither logins nor `--allow-host` apply to the admin endpoint.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_admin_endpoint_on_loopback_accepts_addresses_and_localhost() {
    let haul = test_folder();
    let flags = ["--allow-host", "*", "--admin", "localhost:0"];
    let mut served = start_server(&haul, &flags).await;
    let line = served.running.wait_for_line("metrics at ").await;
    let admin = line.split('/').nth(2).unwrap();
    for target in ["/metrics", "/healthz", "/none"] {
        let answer = status_at(admin, &format!("GET {target}"), "evil.test:9090").await;
        assert_status(&answer, 403);
        assert!(!answer.contains("haul_"), "{answer}");
    }
    for name in [admin, "localhost:9090", "127.0.0.1", "[::1]"] {
        let answer = status_at(admin, "GET /metrics", name).await;
        assert_status(&answer, 200);
    }
}
