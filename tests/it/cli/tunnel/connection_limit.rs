//! The limit of connections (row E11): one connection too many is refused, and a low limit is a warning at the start.

use tokio::net::TcpStream;

use super::{
    EchoServer, HaulDirectory, TunnelProcess, assert_echo, proxy_to, shutdown_and_read,
    start_tunnel, wait_for_listeners,
};

/// Opens one connection too many, which is closed. The log has the text.
async fn assert_refused(tunnel: &mut TunnelProcess, text: &str) {
    // The reset may arrive before the connection is reported as open.
    if let Ok(more) = TcpStream::connect(&tunnel.addresses[0]).await {
        assert_eq!(shutdown_and_read(more).await, b"");
    }
    let line = tunnel.running.wait_for_line("refused: ").await;
    assert!(line.contains(text), "{line}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e11_one_connection_too_many_is_closed_and_the_others_stay() {
    let echo = EchoServer::start().await;
    let proxy = proxy_to(&echo).await;
    let at = proxy.address().to_string();
    let haul = HaulDirectory::new();
    let args = ["-p", &at, "--max-connections", "1", "0:echo.test:7"];
    let mut tunnel = start_tunnel(&haul, &args, 1).await;
    let mut first = tunnel.connect().await;
    assert_echo(&mut first, "first").await;
    let text = "refused: --max-connections allows no more than 1 at one time";
    assert_refused(&mut tunnel, text).await;
    assert_echo(&mut first, "still").await;
    drop(first);
    tunnel.stop().await.assert_code(0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e11_a_low_limit_of_open_files_is_warned_of_and_each_connection_within_it_is_served() {
    let echo = EchoServer::start().await;
    let proxy = proxy_to(&echo).await;
    let haul = HaulDirectory::new();
    let command = format!(
        "ulimit -n 64; exec {} tunnel -p {} --warm 3 0:echo.test:7",
        env!("CARGO_BIN_EXE_haul"),
        proxy.address()
    );
    let mut tunnel = wait_for_listeners(haul.start_shell(&command), 1).await;
    let warning = tunnel.running.wait_for_line("warning: only ").await;
    for words in ["64 open files", "ulimit -n N", "LimitNOFILE=N"] {
        assert!(warning.contains(words), "{warning}");
    }
    let limit: usize = warning
        .split(' ')
        .find_map(|word| word.parse().ok())
        .unwrap();
    assert!((2..16).contains(&limit), "{warning}");
    let mut clients = Vec::new();
    for _ in 0..limit {
        let mut client = tunnel.connect().await;
        assert_echo(&mut client, "hello").await;
        clients.push(client);
    }
    let text = format!("ulimit -n (64 open files) allows no more than {limit} at one time");
    assert_refused(&mut tunnel, &text).await;
    for client in &mut clients {
        assert_echo(client, "still").await;
    }
    drop(clients);
    tunnel.stop().await.assert_code(0);
}

/// A reload does not change the limit: the new settings may need more descriptors than are left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e11_reloaded_settings_that_need_more_descriptors_are_warned_of() {
    let haul = HaulDirectory::new();
    let file = "proxy = \"127.0.0.1:1\"\n[[tunnel]]\nlisten = \"0\"\ntarget = \"echo.test:7\"\n";
    haul.write("t.toml", file);
    let command = format!(
        "ulimit -n 64; exec {} tunnel --config t.toml",
        env!("CARGO_BIN_EXE_haul")
    );
    let mut tunnel = wait_for_listeners(haul.start_shell(&command), 1).await;
    let warning = tunnel.running.wait_for_line("warning: only ").await;
    let limit: usize = warning
        .split(' ')
        .find_map(|word| word.parse().ok())
        .unwrap();
    haul.write("t.toml", format!("{file}warm = 20\n"));
    let warning = format!("warning: {limit} connections at one time may need ");
    tunnel.reload(&warning).await;
    tunnel.stop().await.assert_code(0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e11_no_descriptors_for_any_connection_is_an_error() {
    let haul = HaulDirectory::new();
    let command = format!(
        "ulimit -n 20; {} tunnel -p '' 0:echo.test:7; echo ended with $? >&2",
        env!("CARGO_BIN_EXE_haul")
    );
    let mut running = haul.start_shell(&command);
    running
        .wait_for_line("no connection is possible: the system allows 20 open files")
        .await;
    running.wait_for_line("ended with 4").await;
}
