//! Row A28: a name with several addresses of which some are dead, by refusing and by silence.

use std::net::SocketAddr;
use std::time::Duration;

use haul_lab::{Origin, OriginResource};
use haul_net::ConnectorConfig;
use haul_net::PinnedAddress;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::harness::{JobCase, JobRun, content, serve};

/// Downloads from an origin on 127.0.0.1 whose name has these addresses before that one.
async fn with_addresses_before(origin: &Origin, before: &[&str]) -> JobRun {
    let port = origin.address().port();
    let mut case = JobCase::new();
    case.client.connector.pinned_addresses = vec![PinnedAddress {
        host: "twofold.test".into(),
        port,
        addresses: [before, &["127.0.0.1"]]
            .concat()
            .iter()
            .map(|address| address.parse().unwrap())
            .collect(),
    }];
    let ran = case.get(&format!("http://twofold.test:{port}/f.bin")).await;
    case.assert_file(&content());
    ran
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a28_a_refusing_address_causes_no_wait() {
    let origin = serve(OriginResource::new(content())).await;
    // Nothing listens on the first two: one of each family.
    let ran = with_addresses_before(&origin, &["::1", "127.0.0.77"]).await;
    assert_eq!(ran.outcome().retries, 0);
}

/// An address on which connecting brings neither an answer nor an error: nobody takes connections from a full queue.
async fn silent(address: SocketAddr) -> (TcpListener, Vec<TcpStream>) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(address).unwrap();
    let listener = socket.listen(0).unwrap();
    let mut waiting = Vec::new();
    while let Ok(stream) = timeout(Duration::from_millis(100), TcpStream::connect(address)).await {
        waiting.push(stream.unwrap());
        assert!(waiting.len() < 64, "its queue has no end");
    }
    (listener, waiting)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a28_a_silent_address_delays_nothing() {
    let origin = serve(OriginResource::new(content())).await;
    let port = origin.address().port();
    let _silent = silent(([127, 0, 0, 78], port).into()).await;
    // Waited for, it would cost the connect timeout, and then a retry.
    let ran = with_addresses_before(&origin, &["127.0.0.78"]).await;
    assert_eq!(ran.outcome().retries, 0);
    assert!(ran.outcome().elapsed < ConnectorConfig::default().connect_timeout);
}
