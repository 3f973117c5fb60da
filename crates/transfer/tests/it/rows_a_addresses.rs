//! Row A28: a host name with several addresses, some of which refuse connections or do not answer.

use std::net::SocketAddr;
use std::time::Duration;

use haul_lab::{Origin, OriginResource};
use haul_net::ConnectorConfig;
use haul_net::PinnedAddress;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::harness::{JobCase, JobRun, content, serve};

/// Downloads from an origin on 127.0.0.1 whose host name has these addresses before that one.
async fn download_with_addresses_before(origin: &Origin, dead_addresses: &[&str]) -> JobRun {
    let port = origin.address().port();
    let mut case = JobCase::new();
    case.client.connector.pinned_addresses = vec![PinnedAddress {
        host: "twofold.test".into(),
        port,
        addresses: [dead_addresses, &["127.0.0.1"]]
            .concat()
            .iter()
            .map(|address| address.parse().unwrap())
            .collect(),
    }];
    let run = case.get(&format!("http://twofold.test:{port}/f.bin")).await;
    case.assert_file(&content());
    run
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a28_an_address_that_refuses_connections_causes_no_retry() {
    let origin = serve(OriginResource::new(content())).await;
    // Nothing listens on the first two addresses, one of each family.
    let run = download_with_addresses_before(&origin, &["::1", "127.0.0.77"]).await;
    assert_eq!(run.outcome().retries, 0);
}

/// Listens on an address with a full accept queue, so that connection attempts get neither an answer nor an error.
async fn listen_without_accepting(address: SocketAddr) -> (TcpListener, Vec<TcpStream>) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(address).unwrap();
    let listener = socket.listen(0).unwrap();
    let mut queued = Vec::new();
    while let Ok(stream) = timeout(Duration::from_millis(100), TcpStream::connect(address)).await {
        queued.push(stream.unwrap());
        assert!(queued.len() < 64, "the accept queue never fills");
    }
    (listener, queued)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a28_a_silent_address_does_not_delay_the_download() {
    let origin = serve(OriginResource::new(content())).await;
    let port = origin.address().port();
    let _listener = listen_without_accepting(([127, 0, 0, 78], port).into()).await;
    // Waiting for it would take the connect timeout and then a retry.
    let run = download_with_addresses_before(&origin, &["127.0.0.78"]).await;
    assert_eq!(run.outcome().retries, 0);
    assert!(run.outcome().elapsed < ConnectorConfig::default().connect_timeout);
}
